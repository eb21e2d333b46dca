"""How far a sum may be from the one that is expected (docs/incremental.md, "Sums")."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeGuard

import attrs

from mrql.algebra.errors import TooFewDigits
from mrql.algebra.values.values import Value, close
from mrql.rewrite.plan.plan import Plan

HUGE_MIN_SIZE = 2.0**80
"""Of sums of smaller numbers there are always enough digits left."""

PARTS = 2.0**-66
"""What may stay at most of the parts below 2⁻³² of a thousand numbers that are gone."""

OF_PARTS = 2.0**-43
"""The same as a part of the sizes of these numbers, which counts where they are small themselves."""


@attrs.define
class Rounding:
    """What rounding may make of the answers to a query, batch after batch.

    A sum is within a small part of the sizes of its own addends. Numbers that are gone may have left something;
    nothing is left of them where all sums are empty.
    """

    by_sides: bool
    """Whether sums are kept by sides of joins: one has a value where an addend overflows, and the sum does not."""
    largest: float = 0.0
    """The largest sum of the sizes of addends so far."""
    gone: float = 0.0
    """The same since all sums were empty."""

    @classmethod
    def of(cls, plan: Plan) -> Rounding:
        return cls(any(feed.totals for stage in plan.stages for feed in stage.feeds))

    def seen(self, scale: float) -> None:
        """The data are those after one batch more: their largest sum has addends of such sizes."""
        self.largest = max(self.largest, scale)
        self.gone = max(self.gone, scale) if scale else 0.0

    @property
    def left(self) -> float:
        """What may be left of numbers that are gone."""
        return min(PARTS, OF_PARTS * self.gone)

    def excuses(self, error: Exception) -> TypeGuard[TooFewDigits]:
        """Whether an error is right where the query has a value: of huge numbers too much is gone."""
        return self.gone >= HUGE_MIN_SIZE and isinstance(error, TooFewDigits)

    @property
    def close(self) -> Callable[[Value, Value], bool]:
        """Whether two values are the same up to the rounding that there may be by now."""
        return partial(close, largest=self.largest, left=self.left)
