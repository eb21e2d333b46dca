"""Sums of doubles as a group: kept exactly, and rounded once when they are read.

Floating-point sums are not a group: `∞ − ∞` and `1e308 + 1e308 − 1e308` do not restore the value. A *total* is one:
infinities and NaN are counted in it, not added. NaN counts as an infinity of each sign, whose sum is NaN, too. An
addend is removed by adding it −1 times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import attrs

POINT = 1074
"""Every finite double is a multiple of 2 to the power of minus this."""


@attrs.frozen
class Total:
    """A sum of doubles: the finite ones as a multiple of 2⁻¹⁰⁷⁴, and the number of infinities of each sign."""

    exact: int = 0
    plus: int = 0
    minus: int = 0

    def added(self, number: float, times: int = 1) -> Total:
        """The sum with a number added `times` times."""
        if math.isfinite(number):
            return attrs.evolve(self, exact=self.exact + times * _multiple(number))
        return attrs.evolve(
            self, plus=self.plus + times * (not number < 0), minus=self.minus + times * (not number > 0)
        )

    def scaled(self, mantissa: float, exponent: int) -> Total:
        """The sum with `mantissa · 2^exponent` added, whatever its size."""
        number = _multiple(mantissa)
        return attrs.evolve(self, exact=self.exact + (number << exponent if exponent >= 0 else number >> -exponent))

    def with_integer(self, number: int) -> Total:
        """The sum with an integer of any size added."""
        return attrs.evolve(self, exact=self.exact + (number << POINT))

    def with_part(self, number: int, exponent: int) -> Total:
        """The sum with `number · 2^exponent` added, which must be a multiple of 2⁻¹⁰⁷⁴."""
        return attrs.evolve(self, exact=self.exact + (number << POINT + exponent))

    @property
    def value(self) -> float:
        """The sum as the nearest double.

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
    """The sum of doubles as the nearest double, whatever their order.

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
