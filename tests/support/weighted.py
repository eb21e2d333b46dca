"""Choices between strategies with weights."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


def weighted(*choices: tuple[int, st.SearchStrategy[T]]) -> st.SearchStrategy[T]:
    """One of some strategies, each given with its weight. It shrinks to the first.

    `st.one_of` counts a strategy once, however often it is given.
    """
    repeated = [strategy for times, strategy in choices for _ in range(times)]
    return st.sampled_from(repeated).flatmap(lambda strategy: strategy)
