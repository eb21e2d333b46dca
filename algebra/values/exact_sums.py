"""Sums of doubles as a group: exact while they are kept, and rounded once where they are read.

A sum in floating point is none: `∞ − ∞` and `1e308 + 1e308 − 1e308` do not come back. A *total* is, in which an
infinity, or what is no number, is counted and not added. NaN counts as an infinity of either sign: their sum is NaN,
too. What was added is taken back by adding it minus once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import attrs

POINT = 1074
"""Every double is a multiple of 2 to minus this."""


@attrs.frozen
class Total:
    """A sum of doubles: the finite ones as a multiple of 2⁻¹⁰⁷⁴, and how many infinities of each sign there are."""

    exact: int = 0
    plus: int = 0
    minus: int = 0

    def added(self, number: float, times: int = 1) -> Total:
        """The sum with a number that is added some times."""
        if math.isfinite(number):
            return attrs.evolve(self, exact=self.exact + times * _multiple(number))
        return attrs.evolve(
            self, plus=self.plus + times * (not number < 0), minus=self.minus + times * (not number > 0)
        )

    def scaled(self, mantissa: float, exponent: int) -> Total:
        """The sum with `mantissa · 2^exponent`, whatever its size."""
        number = _multiple(mantissa)
        return attrs.evolve(self, exact=self.exact + (number << exponent if exponent >= 0 else number >> -exponent))

    def with_integer(self, number: int) -> Total:
        """The sum with an integer of any size."""
        return attrs.evolve(self, exact=self.exact + (number << POINT))

    def with_part(self, number: int, exponent: int) -> Total:
        """The sum with `number · 2^exponent`, where that is a multiple of 2⁻¹⁰⁷⁴."""
        return attrs.evolve(self, exact=self.exact + (number << POINT + exponent))

    @property
    def value(self) -> float:
        """The double that is nearest.

        >>> Total().added(1e308, 3).added(1e308, -2).value, Total().added(math.nan).added(math.nan, -1).value
        (1e+308, 0.0)
        >>> Total().added(1e308, 3).value, Total().added(1e308, -3).value
        (inf, -inf)
        """
        if self.plus or self.minus:
            return math.nan if self.plus and self.minus else math.copysign(math.inf, self.plus - self.minus)
        try:
            return self.exact / (1 << POINT)
        except OverflowError:
            return math.inf if self.exact > 0 else -math.inf


def _multiple(number: float) -> int:
    numerator, denominator = number.as_integer_ratio()
    return numerator << (POINT + 1 - denominator.bit_length())


def total(numbers: Iterable[float]) -> float:
    """The sum of some doubles as the nearest one, in whatever order they are.

    >>> total([0.1, 1e16, -1e16, 1e308, 1e308, -1e308]), total([math.inf, 1.0]), total([math.inf, -math.inf])
    (1e+308, inf, nan)
    """
    added = list(numbers)
    special = [number for number in added if not math.isfinite(number)]
    if special:
        return special[0] if len(set(map(repr, special))) == 1 else math.nan
    try:
        return math.fsum(added)
    except OverflowError:
        whole = Total()
        for number in added:
            whole = whole.added(number)
        return whole.value
