"""Strategies of which some are taken more often than others."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


def weighted(*choices: tuple[int, st.SearchStrategy[T]]) -> st.SearchStrategy[T]:
    """One of some strategies, each with how often it is taken. It shrinks to the first.

    `st.one_of` takes a strategy once, however often it is named.
    """
    repeated = [strategy for times, strategy in choices for _ in range(times)]
    return st.sampled_from(repeated).flatmap(lambda strategy: strategy)
