"""How Hypothesis generates cases that take seconds each."""

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
    """Decorates a test whose cases are all drawn independently.

    Hypothesis follows each case with up to five more, in which parts of it are repeated. If a query is drawn and then
    its history, most of those have the same query again, though planning a query is most of the cost of a case.
    """
    with patch.object(ConjectureRunner, "generate_mutations_from", lambda runner, data: None):
        yield


def short(texts: st.SearchStrategy[str], longest: int = LONGEST) -> st.SearchStrategy[str]:
    """The texts that are short enough for a case on Spark."""
    return texts.filter(lambda text: len(text) <= longest)
