"""The columns of a state that merge, and the one that marks what a batch has touched."""

from __future__ import annotations

import attrs

TOUCHED = "touched"
"""The column that marks a row: 1 where the last batch touched it, else 0. The rows of a change bring `MARK`.

A mark and not the batch's number, so that the text of a plan is the same in each batch, and Spark compiles it once.
"""

MARK = 2
"""More than any mark of a state, so that `max(touched) = MARK` says whether the change has a row of the key."""


@attrs.frozen
class Measure:
    """A column that merges: its name and the aggregate function over it. One that is rounded is 0 unless there is
    something in it, which a condition says."""

    name: str
    merge: str
    held: str | None = None


def mark() -> Measure:
    """The measure that marks the rows that a merge touches, and clears the marks of the merge before."""
    return Measure(TOUCHED, f"CAST(max({TOUCHED}) = {MARK} AS INT)")


def mark_too() -> Measure:
    """The measure that marks the rows that a merge touches, besides those that are marked."""
    return Measure(TOUCHED, f"CAST(max({TOUCHED}) > 0 AS INT)")
