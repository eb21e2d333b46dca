"""The result types of functions of decimals: the number of digits of a sum, a product or a quotient.

The rules are those of Spark. A result that may need more than 38 digits has fewer behind the point, but at least 6 if
it would have that many, and is rounded half up; one with too many digits before the point is an error.

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
"""The number of digits behind the point that are kept in any case, if there are that many."""

LOW_DIGITS = 20
"""The number of last digits of a decimal that are added up apart from the others; decimals with no more digits are
added up as they are."""

COUNT = ty.INTEGERS_AS_DECIMALS[ty.LONG]
Rule = Callable[..., DecimalType]
"""From the types of the arguments to that of the result."""


def adjusted(precision: int, scale: int) -> DecimalType:
    """The type of a result that needs `precision` digits, `scale` of them behind the point.

    >>> print(adjusted(25, 4), adjusted(60, 30), adjusted(50, 2))
    decimal(25, 4) decimal(38, 8) decimal(38, 2)
    """
    if precision <= MAX_PRECISION:
        return DecimalType(precision, scale)
    return DecimalType(MAX_PRECISION, max(MAX_PRECISION - (precision - scale), min(scale, MIN_SCALE)))


def bounded(precision: int, scale: int) -> DecimalType:
    """The type with these numbers of digits, each limited to the maximum."""
    return DecimalType(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


NEGATED = 34
"""The number of digits to which Spark rounds the negation of a decimal with more digits."""


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
    """The type of a result with the digits of the argument."""
    return a


def rounded_to_whole(a: DecimalType) -> DecimalType:
    """The type of a decimal rounded to a whole number."""
    return DecimalType(min(a.whole + 1, MAX_PRECISION))


def next_whole(a: DecimalType) -> DecimalType:
    """The type of `floor(a)` and `ceil(a)`; that of `a` if it has no digits behind the point."""
    return a if a.scale == 0 else rounded_to_whole(a)


def sum_of_many(element: DecimalType) -> DecimalType:
    """The type of the sum of a collection."""
    return bounded(element.precision + 10, element.scale)


def last_digits(element: DecimalType) -> DecimalType:
    """The type of the sum of decimals' last digits, which count as integers if there are more digits behind the point
    than a product keeps in any case."""
    return DecimalType(MAX_PRECISION, element.scale if element.scale <= MIN_SCALE else 0)


def first_digits(element: DecimalType) -> DecimalType:
    """The type of the sum of the digits before those."""
    return DecimalType(MAX_PRECISION)


def average_of_many(element: DecimalType) -> DecimalType:
    """The type of the average: four more digits behind the point, but no more than the quotient of a sum and a count.

    >>> print(average_of_many(DecimalType(12, 2)), average_of_many(DecimalType(28, 10)))
    decimal(16, 6) decimal(32, 10)
    """
    quotient = quotient_of_two(sum_of_many(element), COUNT)
    return DecimalType(min(element.precision + 4, MAX_PRECISION), min(element.scale + 4, quotient.scale))


@attrs.frozen
class OfDecimals:
    """The signature of functions of decimals: integers widen to decimals, and at least one argument is a decimal."""

    rule: Rule
    of: int
    most: int = MAX_PRECISION
    """The maximal number of digits of the arguments."""

    def __str__(self) -> str:
        return f"{', '.join(['decimal'] * self.of)} → decimal"

    def fitted(self, args: Sequence[Type]) -> tuple[tuple[Type, ...], Type] | None:
        """The types to which the arguments are widened, and that of the result; None if the arguments do not fit."""
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
    """The signature of comparisons of two numbers without a common decimal type: each is taken as it is."""

    def __str__(self) -> str:
        return "decimal, decimal → bool"

    def fitted(self, args: Sequence[Type]) -> tuple[tuple[Type, ...], Type] | None:
        """The decimal type of each argument, and the type of the result; None if the arguments do not fit."""
        taken = tuple(t for t in map(ty.as_decimal, args) if t is not None)
        return (taken, ty.BOOL) if len(taken) == len(args) == 2 else None


def of_decimals(rule: Rule, of: int, apply: Implementation, sql: str | Sql, most: int = MAX_PRECISION) -> Version:
    """A version of a function for decimals; its value is rounded to the type of the result."""
    form: Sql = (lambda *args: sql.format(*args[:-1], at=args[-1])) if isinstance(sql, str) else sql
    return Version(OfDecimals(rule, of, most), apply, form)


def opposite_of_many_digits(a: str, at: str) -> str:
    """The negation in SQL, computed on the text of the number."""
    text = f"CAST({a} AS STRING)"
    return f"if(startswith({text}, '-'), substring({text}, 2), concat('-', {text}))"


def size_of_many_digits(a: str, at: str) -> str:
    """The absolute value in SQL, computed on the text of the number."""
    return f"ltrim('-', CAST({a} AS STRING))"
