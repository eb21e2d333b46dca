"""The columns of a state that merge, and the column that marks the rows touched by the last batch."""

from __future__ import annotations

import attrs

TOUCHED = "touched"
"""The column that marks a row: 1 if the last batch touched it, else 0. The rows of a change contain `MARK` in it.

It is a mark rather than the batch's number, so that the text of a plan is the same in each batch, and Spark compiles it
once.
"""

MARK = 2
"""A value greater than any mark in a state, so that `max(touched) = MARK` tells whether the change has a row of the
key."""


@attrs.frozen
class Measure:
    """A column that merges: its name and the aggregate function over it. `held`, for a column that is rounded, is the
    condition under which it has a value; otherwise it is set to 0."""

    name: str
    merge: str
    held: str | None = None


def mark() -> Measure:
    """The measure that marks the rows touched by a merge, and clears the marks of the previous merge."""
    return Measure(TOUCHED, f"CAST(max({TOUCHED}) = {MARK} AS INT)")


def mark_too() -> Measure:
    """The measure that marks the rows touched by a merge, and keeps the marks that are set."""
    return Measure(TOUCHED, f"CAST(max({TOUCHED}) > 0 AS INT)")
