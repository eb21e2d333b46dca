"""Generated cases that take seconds each: how Hypothesis spends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.internal.conjecture.engine import ConjectureRunner

LONGEST = 250
"""Queries of more characters than this are drawn for Spark by `make soak` alone: one takes as long as ten others."""


@contextmanager
def each_another() -> Iterator[None]:
    """Decorates a test whose cases are all drawn anew.

    Hypothesis follows each case with up to five more, in which parts of it are repeated. Where a query is drawn and
    then its history, most of those have the query that was just there, whose plan is most of what a case costs.
    """
    with patch.object(ConjectureRunner, "generate_mutations_from", lambda runner, data: None):
        yield


def short(texts: st.SearchStrategy[str], longest: int = LONGEST) -> st.SearchStrategy[str]:
    """Those of the texts that are not too long for one of the cases on Spark."""
    return texts.filter(lambda text: len(text) <= longest)
