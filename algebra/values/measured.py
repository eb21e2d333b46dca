"""Doubles that record the size of the numbers from which they were computed, which bounds their precision."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable


class Measured(float):
    """A double that is a sum, and its `scale`: the sum of the absolute values of its addends.

    Arithmetic on it gives measured doubles in turn, so that the rounding in all steps is at most a small part of the
    scale.

    >>> x = Measured(0.5, 8.0)
    >>> (x * 2).scale, (x + 1).scale, (1 - x).scale, (x / 4).scale, (1 / x).scale, (x + 1) == 1.5
    (16.0, 9.0, 9.0, 2.0, 34.0, True)
    """

    scale: float

    def __new__(cls, value: float, scale: float) -> Measured:
        self = super().__new__(cls, value)
        self.scale = min(scale, sys.float_info.max)
        return self

    def __add__(self, other: float) -> Measured:
        return Measured(float(self) + float(other), self.scale + scale(other))

    def __radd__(self, other: float) -> Measured:
        return self + other

    def __sub__(self, other: float) -> Measured:
        return Measured(float(self) - float(other), self.scale + scale(other))

    def __rsub__(self, other: float) -> Measured:
        return Measured(float(other) - float(self), self.scale + scale(other))

    def __mul__(self, other: float) -> Measured:
        return Measured(float(self) * float(other), self.scale * scale(other))

    def __rmul__(self, other: float) -> Measured:
        return self * other

    def __truediv__(self, other: float) -> Measured:
        return _quotient(self, other)

    def __rtruediv__(self, other: float) -> Measured:
        return _quotient(other, self)

    def __neg__(self) -> Measured:
        return Measured(-float(self), self.scale)

    def __abs__(self) -> Measured:
        return Measured(abs(float(self)), self.scale)


def scale(number: float) -> float:
    """The scale of a measured number, or the absolute value of any other; 0 if that is not finite."""
    if isinstance(number, Measured):
        return number.scale
    return abs(float(number)) if math.isfinite(number) else 0.0


def measured(whole: float, addends: Iterable[float | None]) -> Measured:
    """A sum, with the scale of its addends."""
    return Measured(whole, sum(scale(x) for x in addends if x is not None))


def _quotient(a: float, b: float) -> Measured:
    """The quotient, with the scale `(scale(a) + |a / b| · scale(b)) / |b|`; without the second addend if b is not
    measured."""
    quotient = float(a) / float(b)
    of_both = scale(a) + (scale(quotient) * scale(b) if isinstance(b, Measured) else 0.0)
    return Measured(quotient, of_both / abs(float(b)))
