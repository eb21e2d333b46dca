"""How far a sum may be from the expected one (docs/incremental.md, "Sums")."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeGuard

import attrs

from mrql.algebra.errors import TooFewDigits
from mrql.algebra.values.values import Value, close
from mrql.rewrite.plan.plan import Plan

HUGE_MIN_SIZE = 2.0**80
"""Sums of smaller numbers always have enough digits left."""

PARTS = 2.0**-66
"""The most that the parts below 2⁻³² of a thousand deleted numbers may leave behind."""

OF_PARTS = 2.0**-43
"""The same in relation to the sizes of these numbers, which is the smaller bound where they are small."""


@attrs.define
class Rounding:
    """How rounding may affect the answers to a query, batch after batch.

    The error of a sum is a small part of the sizes of its addends. Deleted numbers may have left something behind;
    nothing is left of them where all sums are empty.
    """

    by_sides: bool
    """Whether sums are kept by sides of joins: a sum then has a value even where an addend alone overflows."""
    largest: float = 0.0
    """The largest sum of the sizes of addends so far."""
    gone: float = 0.0
    """The same since all sums were last empty."""

    @classmethod
    def of(cls, plan: Plan) -> Rounding:
        return cls(any(feed.totals for stage in plan.stages for feed in stage.feeds))

    def seen(self, scale: float) -> None:
        """Notes a further batch, after which `scale` is the largest sum of the sizes of addends."""
        self.largest = max(self.largest, scale)
        self.gone = max(self.gone, scale) if scale else 0.0

    @property
    def left(self) -> float:
        """The most that deleted numbers may have left behind."""
        return min(PARTS, OF_PARTS * self.gone)

    def excuses(self, error: Exception) -> TypeGuard[TooFewDigits]:
        """Whether an error is right although the query has a value: huge numbers have taken too many digits."""
        return self.gone >= HUGE_MIN_SIZE and isinstance(error, TooFewDigits)

    @property
    def close(self) -> Callable[[Value, Value], bool]:
        """Whether two values are the same up to the rounding that is possible so far."""
        return partial(close, largest=self.largest, left=self.left)
