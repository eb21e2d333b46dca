"""Queries with the rarer constructs: however the data arrives, the answer is that over the current rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.rewrite.incremental.test_theorems import assert_incremental, cases
from tests.support.construct_queries import construct_queries
from tests.support.queries import histories


@cases(40)
@given(construct_queries(), st.data())
def test_any_split_into_batches(text: str, data: st.DataObject) -> None:
    """However the data is split into batches, the answer after each is that over all data so far."""
    assert_incremental(text, data.draw(histories(text)))


@cases(40)
@given(construct_queries(), st.data())
def test_deletions(text: str, data: st.DataObject) -> None:
    """A deletion undoes the insertion of the row."""
    assert_incremental(text, data.draw(histories(text, deletions=True)), deletions=True)
