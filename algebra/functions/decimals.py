"""What functions of decimals give: how many digits a sum, a product or a quotient has.

The rules are those of Spark. Where a result may need more than 38 digits it has fewer behind the point, but 6 of those
that there would be, and is rounded half up; one that has more before the point is an error.

*Source*: SQL's rules for exact numerics, as of Hive and SQL Server (`DecimalType.adjustPrecisionScale` in Spark, with
`spark.sql.decimalOperations.allowPrecisionLoss`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from mrql.algebra import types as ty
from mrql.algebra.functions.function import Implementation, Sql, Version
from mrql.algebra.types import MAX_PRECISION, DecimalType, Type

MIN_SCALE = 6
"""So many digits behind the point stay, of those that there are."""

LOW_DIGITS = 20
"""So many of a decimal's last digits are added up apart from the others, and decimals of so few as they are."""

COUNT = ty.INTEGERS_AS_DECIMALS[ty.LONG]
Rule = Callable[..., DecimalType]
"""From the types of the arguments to that of the result."""


def adjusted(precision: int, scale: int) -> DecimalType:
    """The type of a result that needs so many digits.

    >>> print(adjusted(25, 4), adjusted(60, 30), adjusted(50, 2))
    decimal(25, 4) decimal(38, 8) decimal(38, 2)
    """
    if precision <= MAX_PRECISION:
        return DecimalType(precision, scale)
    return DecimalType(MAX_PRECISION, max(MAX_PRECISION - (precision - scale), min(scale, MIN_SCALE)))


def bounded(precision: int, scale: int) -> DecimalType:
    """The type with as many of the digits as there may be."""
    return DecimalType(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


NEGATED = 34
"""Spark rounds the opposite of a decimal of more digits to so many."""


def sum_of_two(a: DecimalType, b: DecimalType) -> DecimalType:
    """The type of `a + b` and `a - b`."""
    scale = max(a.scale, b.scale)
    return adjusted(max(a.whole, b.whole) + scale + 1, scale)


def product_of_two(a: DecimalType, b: DecimalType) -> DecimalType:
    """The type of `a * b`."""
    return adjusted(a.precision + b.precision + 1, a.scale + b.scale)


def quotient_of_two(a: DecimalType, b: DecimalType) -> DecimalType:
    """The type of `a / b`."""
    scale = max(MIN_SCALE, a.scale + b.precision + 1)
    return adjusted(a.whole + b.scale + scale, scale)


def remainder_of_two(a: DecimalType, b: DecimalType) -> DecimalType:
    """The type of `a mod b`."""
    scale = max(a.scale, b.scale)
    return adjusted(max(min(a.whole, b.whole) + scale, 1), scale)


def itself(a: DecimalType) -> DecimalType:
    """The type of what has the digits of the argument."""
    return a


def rounded_to_whole(a: DecimalType) -> DecimalType:
    """The type of a whole number beside one with a fraction."""
    return DecimalType(min(a.whole + 1, MAX_PRECISION))


def next_whole(a: DecimalType) -> DecimalType:
    """`floor(a)`, `ceil(a)`: what is whole is itself."""
    return a if a.scale == 0 else rounded_to_whole(a)


def sum_of_many(element: DecimalType) -> DecimalType:
    """The type of the sum of a collection."""
    return bounded(element.precision + 10, element.scale)


def last_digits(element: DecimalType) -> DecimalType:
    """The type of what the last digits of decimals add up to: integers, where there are more digits behind the point
    than a product keeps in any case."""
    return DecimalType(MAX_PRECISION, element.scale if element.scale <= MIN_SCALE else 0)


def first_digits(element: DecimalType) -> DecimalType:
    """The type of what the digits before those add up to."""
    return DecimalType(MAX_PRECISION)


def average_of_many(element: DecimalType) -> DecimalType:
    """The type of the average: four digits more behind the point, as far as the quotient of a sum and a count has them.

    >>> print(average_of_many(DecimalType(12, 2)), average_of_many(DecimalType(28, 10)))
    decimal(16, 6) decimal(32, 10)
    """
    quotient = quotient_of_two(sum_of_many(element), COUNT)
    return DecimalType(min(element.precision + 4, MAX_PRECISION), min(element.scale + 4, quotient.scale))


@attrs.frozen
class OfDecimals:
    """What functions of decimals take and give: integers widen to decimals, and one argument at least is one."""

    rule: Rule
    of: int
    most: int = MAX_PRECISION
    """How many digits the arguments have at most."""

    def __str__(self) -> str:
        return f"{', '.join(['decimal'] * self.of)} → decimal"

    def fitted(self, args: Sequence[Type]) -> tuple[tuple[Type, ...], Type] | None:
        """What the arguments are widened to, and the type of the result; None where they do not fit."""
        some = next((t for t in args if isinstance(t, DecimalType)), None)
        if some is None or len(args) != self.of:
            return None
        widened = [ty.as_decimal(some if t == ty.NOTHING else t) for t in args]
        taken = tuple(t for t in widened if t is not None)
        if len(taken) < len(widened) or any(t.precision > self.most for t in taken):
            return None
        return taken, self.rule(*taken)


@attrs.frozen
class ApartDecimals:
    """What compares two numbers that no type of decimals holds both of: each is taken as it is."""

    def __str__(self) -> str:
        return "decimal, decimal → bool"

    def fitted(self, args: Sequence[Type]) -> tuple[tuple[Type, ...], Type] | None:
        """The decimals that each is one of, and the type of the result; None where they do not fit."""
        taken = tuple(t for t in map(ty.as_decimal, args) if t is not None)
        return (taken, ty.BOOL) if len(taken) == len(args) == 2 else None


def of_decimals(rule: Rule, of: int, apply: Implementation, sql: str | Sql, most: int = MAX_PRECISION) -> Version:
    """A version of a function for decimals; what it gives is rounded to the type of the result."""
    form: Sql = (lambda *args: sql.format(*args[:-1], at=args[-1])) if isinstance(sql, str) else sql
    return Version(OfDecimals(rule, of, most), apply, form)


def opposite_of_many_digits(a: str, at: str) -> str:
    """The opposite in SQL, by its digits."""
    text = f"CAST({a} AS STRING)"
    return f"if(startswith({text}, '-'), substring({text}, 2), concat('-', {text}))"


def size_of_many_digits(a: str, at: str) -> str:
    """The size in SQL, by its digits."""
    return f"ltrim('-', CAST({a} AS STRING))"
