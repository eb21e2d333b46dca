"""Decimals: exact numbers with a limited number of digits, and the arithmetic on them.

Python's operators on decimals, even negation, round to the precision of the current context. So decimals are never
computed with operators, here or elsewhere, but by a context that does not round (`EXACT`); a value is rounded when it
is converted to a type, half up, as in Spark.
"""

from __future__ import annotations

import re
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from typing import Any

from mrql.algebra.errors import EvaluationError
from mrql.algebra.types import DecimalType

EXACT = Context(prec=1500, rounding=ROUND_HALF_UP, Emin=-(10**6), Emax=10**6)
EXACT.traps = dict.fromkeys(EXACT.traps, False) | dict.fromkeys(
    (Inexact, InvalidOperation, Overflow, DivisionByZero), True
)
SPARK_DIGITS = 39
"""The maximal number of digits of a quotient for which Spark computes the remainder."""
_CUT_OFF = Context(prec=SPARK_DIGITS, rounding=ROUND_DOWN, Emin=-(10**6), Emax=10**6)
TOO_MANY_DIGITS = "the quotient has too many digits for a remainder"
_ROUNDING = Context(prec=1500, rounding=ROUND_HALF_UP, Emin=-(10**6), Emax=10**6)
_QUOTIENTS = Context(prec=200, rounding=ROUND_HALF_UP, Emin=-(10**6), Emax=10**6)
"""Its digits suffice to tell on which side of a half a quotient lies: no two quotients of decimals are closer."""


def of_type(value: Decimal | int, t: DecimalType) -> Decimal:
    """A number as a value of a type, rounded to its digits behind the point.

    >>> of_type(Decimal("2.345"), DecimalType(5, 2)), of_type(Decimal("-0.001"), DecimalType(5, 2))
    (Decimal('2.35'), Decimal('0.00'))

    Raises: EvaluationError if it has too many digits before the point.
    """
    number = Decimal(value)
    if number and number.adjusted() > t.whole:  # first, lest it be rounded to that many digits
        raise EvaluationError(out_of_range(t))
    rounded = _rounded(number, t.scale)
    if abs_of(rounded) >= Decimal(1).scaleb(t.whole, EXACT):
        raise EvaluationError(out_of_range(t))
    return rounded


def out_of_range(t: DecimalType) -> str:
    """The error message for a number that is not a value of a type."""
    return f"a number is out of the range of {t}"


def _rounded(value: Decimal, scale: int) -> Decimal:
    rounded = value.quantize(Decimal(1).scaleb(-scale, EXACT), context=_ROUNDING)
    return rounded if rounded else rounded.copy_abs()  # there is no negative zero


def from_text(text: str, t: DecimalType) -> Decimal | None:
    """The value of a text, without rounding; None if it is not a value of the type.

    >>> from_text("1.500", DecimalType(3, 2)), from_text("1.005", DecimalType(3, 2))
    (Decimal('1.50'), None)
    """
    return of_type(Decimal(text), t) if re.fullmatch(decimal_text(t), text) else None


def decimal_text(t: DecimalType) -> str:
    """The texts of the values of a type, as a regular expression for Java and Python: no exponent, but optional leading
    and trailing zeros."""
    return rf"[+-]?(?=[.]?[0-9])0*[0-9]{{0,{t.whole}}}([.][0-9]{{0,{t.scale}}}0*)?"


def exactly(value: Decimal | int, t: DecimalType) -> Decimal | None:
    """A number as a value of a type, without rounding; None if it is not one."""
    try:
        found = of_type(value, t) if isinstance(value, int) or value.is_finite() else None
    except EvaluationError:
        return None
    return found if found == value else None


def is_held(value: Decimal, t: DecimalType) -> bool:
    """Whether a number is a value of a type, and written with the type's number of digits behind the point."""
    return exactly(value, t) == value and -int(value.as_tuple().exponent) == t.scale


def literal_type(value: Decimal) -> DecimalType | None:
    """The type of a constant, with the digits that are written less leading zeros; None if there are too many.

    >>> print(literal_type(Decimal("0.05")), literal_type(Decimal("12.50")), literal_type(Decimal("0")))
    decimal(2, 2) decimal(4, 2) decimal(1, 0)
    """
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    precision = max(len(digits) + max(int(exponent), 0), scale)
    return DecimalType(precision, scale) if precision <= 38 else None


def show_decimal(value: Decimal) -> str:
    """The digits, without an exponent."""
    return format(value, "f")


# --- arithmetic, on numbers of any kind -------------------------------------------------------------------------------


def added(a: Any, b: Any) -> Any:
    """The sum of two numbers."""
    return EXACT.add(a, b) if isinstance(a, Decimal) or isinstance(b, Decimal) else a + b


def subtracted(a: Any, b: Any) -> Any:
    """The difference."""
    return EXACT.subtract(a, b) if isinstance(a, Decimal) or isinstance(b, Decimal) else a - b


def opposite(a: Any) -> Any:
    """The negated number; a decimal zero stays unsigned."""
    return EXACT.subtract(Decimal(0), a) if isinstance(a, Decimal) else -a


def abs_of(a: Decimal) -> Decimal:
    """The absolute value."""
    return a.copy_abs()


def times(a: Any, n: Any) -> Any:
    """A number multiplied by a weight."""
    return EXACT.multiply(a, n) if isinstance(a, Decimal) else n * a


def product(a: Decimal, b: Decimal) -> Decimal:
    """The product, with all its digits."""
    return EXACT.multiply(a, b)


def quotient(a: Decimal, b: Decimal) -> Decimal:
    """The quotient, with more digits than any type has.

    Raises: EvaluationError for a division by zero.
    """
    if not b:
        raise EvaluationError("division by zero")
    return _QUOTIENTS.divide(a, b)


def remainder(a: Decimal, b: Decimal) -> Decimal:
    """The remainder of a truncating division, with the sign of the dividend.

    Raises: EvaluationError for a division by zero, and if the quotient has more digits than Spark computes.
    """
    if not b:
        raise EvaluationError("remainder of a division by zero")
    whole = _CUT_OFF.divide(a, b).to_integral_value(ROUND_DOWN)
    if abs_of(EXACT.subtract(a, EXACT.multiply(whole, b))) >= abs_of(b):
        raise EvaluationError(TOO_MANY_DIGITS)
    return EXACT.remainder(a, b)
