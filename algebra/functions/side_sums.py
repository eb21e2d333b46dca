"""The parts of numbers whose sums a join keeps for its sides (`rewrite/plan/joins/eager_aggregation.py`).

A long is `high · 2³² + low`, so that sums of both parts together are wider than a long. A double below 2⁹⁴ consists of
*limbs*, `2⁶⁴ p + 2³² w + o + 2⁻³² f + rest`; all but the rest are integers, and so added up exactly. A factor of a
product, and a *huge* double, of 2⁹⁴ or more, is a *magnitude* and a *mantissa*: numbers of the same magnitude have the
same sign and sizes within a factor of 2¹⁶, so that their sum absorbs none of them, and the magnitude of a product tells
whether it is infinite or NaN. The mantissa of a number of magnitude `±(1000 + k)` is the number times 2⁻¹⁶ᵏ; that of
zero, of an infinity and of NaN is 0. A decimal is its last 20 digits and those before them, both with its sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TypeVar

import attrs

from mrql.algebra import types as ty
from mrql.algebra.functions.decimals import LOW_DIGITS, OfDecimals, first_digits, last_digits
from mrql.algebra.functions.function import Function, Version, version
from mrql.algebra.values import decimals
from mrql.algebra.values.values import Value

V = TypeVar("V", int, float)

ZERO, ONE, INFINITE, NO_NUMBER = 0, 1000, 2000, 3000
"""Magnitudes: of zero, of numbers around 1, of an infinity, the latter two with a sign, and of NaN."""

MAGNITUDE_BITS = 16
"""The numbers of one magnitude are within a factor of 2 to this power."""

INFINITE_MIN_MAGNITUDE = 65
"""A product whose magnitude stands for 2^(MAGNITUDE_BITS · INFINITE_MIN_MAGNITUDE) or more is infinite, whatever the
mantissas."""

HALF_RADIX = 1 << 32
"""A long is its upper half times this, plus its lower half."""


def scale(number: float) -> int:
    """The k of a magnitude."""
    return (math.frexp(number)[1] - 1 + MAGNITUDE_BITS // 2) // MAGNITUDE_BITS


def magnitude(number: float) -> int:
    """The magnitude of a double.

    >>> [magnitude(x) for x in (0.0, 1.0, -200.0, 1e16, -1e-300, -math.inf, math.nan)]
    [0, 1000, -1000, 1003, -938, -2000, 3000]
    """
    if math.isnan(number):
        return NO_NUMBER
    if number == 0:
        return ZERO
    return (1 if number > 0 else -1) * (INFINITE if math.isinf(number) else ONE + scale(number))


def mantissa(number: float) -> float:
    """The mantissa of a double: the number scaled by its magnitude."""
    return 0.0 if number == 0 or not math.isfinite(number) else math.ldexp(number, -MAGNITUDE_BITS * scale(number))


def magnitudes(a: int, b: int) -> int:
    """The magnitude of a product of numbers with these magnitudes."""
    sizes = abs(a), abs(b)
    if NO_NUMBER in sizes or (ZERO in sizes and INFINITE in sizes):
        return NO_NUMBER
    if ZERO in sizes:
        return ZERO
    return (1 if (a < 0) == (b < 0) else -1) * (INFINITE if INFINITE in sizes else sum(sizes) - ONE)


HUGE_MIN_SIZE = 2.0**94
"""From this size on a double has no limbs: sums of longs have room for the limbs of 2³¹ smaller ones."""


@attrs.frozen
class Limbs:
    """The parts of a double that is not huge: `2⁶⁴ pairs + 2³² words + ones + 2⁻³² fractions + rest`."""

    rest: float
    pairs: int
    words: int
    ones: int
    fractions: int


def limbs(number: float) -> Limbs:
    """The limbs of a double, none of them rounded; zeros if it is huge, infinite or NaN.

    >>> limbs(3.0 * 2**40 - 1.5)
    Limbs(rest=0.0, pairs=0, words=768, ones=-2, fractions=2147483648)
    """
    if not abs(number) < HUGE_MIN_SIZE:
        return Limbs(0.0, 0, 0, 0, 0)
    pairs, words, ones, fractions = (round(math.ldexp(number, bits)) for bits in (-64, -32, 0, 32))
    rest = number - math.ldexp(fractions, -32)
    return Limbs(rest, pairs, words - pairs * HALF_RADIX, ones - words * HALF_RADIX, fractions - ones * HALF_RADIX)


def _unless_ordinary(part: Callable[[float], V]) -> Callable[[float], V]:
    """The part of a number that is huge, infinite or NaN; for others, which have limbs, the part of zero."""
    return lambda number: part(0.0 if abs(number) < HUGE_MIN_SIZE else number)


def _multiplied(a_high: int, a_low: int, b_high: int, b_low: int) -> int:
    return (a_high * HALF_RADIX + a_low) * (b_high * HALF_RADIX + b_low)


_SIGN = "if({0} < 0, -1L, 1L)"
_ORDINARY = f"abs({{0}}) >= {2.0 ** (-MAGNITUDE_BITS // 2)!r}D AND abs({{0}}) < {2.0 ** (MAGNITUDE_BITS // 2)!r}D"
_SCALE = f"CAST(floor((log2(abs({{0}})) + {MAGNITUDE_BITS // 2}D) / {MAGNITUDE_BITS}D) AS BIGINT)"
_NO_NUMBER = "{0} = DOUBLE('NaN')"
_INFINITE = "abs({0}) = DOUBLE('Infinity')"


def _half(scaled: str) -> str:
    # In two steps: 2^1088 is not a double.
    return f"power(2D, -{MAGNITUDE_BITS // 2}D * {scaled})"


_MAGNITUDE = (
    f"CASE WHEN {{0}} = 0D THEN {ZERO}L WHEN {_ORDINARY} THEN {_SIGN} * {ONE}L WHEN {_NO_NUMBER} THEN {NO_NUMBER}L"
    f" WHEN {_INFINITE} THEN {_SIGN} * {INFINITE}L ELSE {_SIGN} * ({ONE}L + {_SCALE}) END"
)
_MANTISSA = (
    f"CASE WHEN {{0}} = 0D OR {_ORDINARY} THEN {{0}} WHEN {_NO_NUMBER} OR {_INFINITE} THEN 0D"
    f" ELSE {{0}} * {_half(_SCALE)} * {_half(_SCALE)} END"
)
MAGNITUDE = Function(
    "magnitude", (version("double -> long", magnitude, _MAGNITUDE),), "a double", "its sign and its size, roughly"
)
MANTISSA = Function(
    "mantissa",
    (version("double -> double", mantissa, _MANTISSA),),
    "a double",
    "what its magnitude does not say of it",
)
_HAS_LIMBS = f"abs({{0}}) < {HUGE_MIN_SIZE!r}D"
HUGE_MAGNITUDE = Function(
    "huge_magnitude",
    (version("double -> long", _unless_ordinary(magnitude), f"if({_HAS_LIMBS}, {ZERO}L, {_MAGNITUDE})"),),
    "a double",
    "its magnitude, if it has no limbs",
)
HUGE_MANTISSA = Function(
    "huge_mantissa",
    (version("double -> double", _unless_ordinary(mantissa), f"if({_HAS_LIMBS}, 0D, {_MANTISSA})"),),
    "a double",
    "what its magnitude does not say of it, if it has no limbs",
)


def limbs_sql(number: str) -> tuple[str, str, str, str, str]:
    """The limbs of a double, in the order of `Limbs`, each a double, in SQL."""
    word, part = f"{2.0**32!r}D", f"{2.0**-32!r}D"
    pairs, words = f"rint({number} * {2.0**-64!r}D)", f"rint({number} * {part})"
    ones, fractions = f"rint({number})", f"rint({number} * {word})"
    return (
        f"{number} - {fractions} * {part}",
        pairs,
        f"{words} - {pairs} * {word}",
        f"{ones} - {words} * {word}",
        f"{fractions} - {ones} * {word}",
    )


_REST_LIMB, *_INTEGERS = limbs_sql(f"if(abs({{0}}) >= {HUGE_MIN_SIZE!r}D, 0D, {{0}})")
REST = Function(
    "rest_limb",
    (version("double -> double", lambda x: limbs(x).rest, f"({_REST_LIMB})"),),
    "a double",
    "what its limbs do not say of it",
)
PAIRS, WORDS, ONES, FRACTIONS = (
    Function(
        f"{name}_limb",
        (version("double -> long", lambda x, name=name: getattr(limbs(x), name), f"CAST({sql} AS BIGINT)"),),
        "a double",
        f"a limb of it, so many times {unit}",
    )
    for name, unit, sql in zip(
        ("pairs", "words", "ones", "fractions"), ("2⁶⁴", "2³²", "1", "2⁻³²"), _INTEGERS, strict=True
    )
)
LIMBS = REST, PAIRS, WORDS, ONES, FRACTIONS
"""The functions of the limbs, in the order of `Limbs`."""

MAGNITUDES = Function(
    "magnitudes",
    (
        version(
            "long, long -> long",
            magnitudes,
            "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL"
            f" WHEN {{0}} = {NO_NUMBER}L OR {{1}} = {NO_NUMBER}L THEN {NO_NUMBER}L"
            f" WHEN {{0}} = 0L OR {{1}} = 0L"
            f" THEN if(abs({{0}}) = {INFINITE}L OR abs({{1}}) = {INFINITE}L, {NO_NUMBER}L, {ZERO}L)"
            " ELSE if(({0} < 0L) = ({1} < 0L), 1L, -1L)"
            f" * if(abs({{0}}) = {INFINITE}L OR abs({{1}}) = {INFINITE}L,"
            f" {INFINITE}L, abs({{0}}) + abs({{1}}) - {ONE}L)"
            " END",
        ),
    ),
    "two magnitudes",
    "that of a product",
)
HIGH = Function(
    "high", (version("long -> long", lambda x: x >> 32, "shiftright({0}, 32)"),), "a long", "its upper half"
)
LOW = Function(
    "low",
    (version("long -> long", lambda x: x % HALF_RADIX, f"({{0}} & {HALF_RADIX - 1}L)"),),
    "a long",
    "its lower half",
)

_WHOLE = f"(CAST({{}} AS DECIMAL(38, 0)) * {HALF_RADIX}L + {{}})"
_FACTORS = _WHOLE.format("{0}", "{1}"), _WHOLE.format("{2}", "{3}")
# A product too large for a decimal is too large for a long: the overflow is reported as one of a long. Nothing here is
# constant, so that Spark does not compute it beforehand.
_TOO_LARGE = "(({0} + {2}) * 0L + 9223372036854775807L) * {at}2L"
_PRODUCT = f"coalesce(try_multiply({_FACTORS[0]}, {_FACTORS[1]}), {_TOO_LARGE})"
_REST = f"pmod({_PRODUCT}, {HALF_RADIX}L)"
_FOUR = "long, long, long, long -> long"

TIMES_HIGH = Function(
    "times_high",
    (version(_FOUR, lambda *parts: _multiplied(*parts) >> 32, f"(({_PRODUCT} - {_REST}) div {HALF_RADIX}L)"),),
    "the halves of two sums",
    "the upper half of their product",
)
TIMES_LOW = Function(
    "times_low",
    (version(_FOUR, lambda *parts: _multiplied(*parts) % HALF_RADIX, f"CAST({_REST} AS BIGINT)"),),
    "the halves of two sums",
    "the lower half of their product",
)


def _digits(value: Decimal, t: ty.DecimalType) -> int:
    return int(value.scaleb(t.scale, decimals.EXACT))


def _first(types: Sequence[ty.DecimalType], value: Decimal) -> Decimal:
    digits = _digits(value, types[0])
    return Decimal((1 if digits >= 0 else -1) * (abs(digits) // 10**LOW_DIGITS))


def _last(types: Sequence[ty.DecimalType], value: Decimal) -> Decimal:
    digits = _digits(value, types[0])
    rest = Decimal((1 if digits >= 0 else -1) * (abs(digits) % 10**LOW_DIGITS))
    return rest.scaleb(-last_digits(types[0]).scale, decimals.EXACT)


FIRST_DIGITS = Function(
    "first_digits",
    (Version(OfDecimals(first_digits, 1), _first, None, of_types=True),),
    "a decimal",
    f"how often 10 to the power of {LOW_DIGITS} is in the integer of its digits",
)
LAST_DIGITS = Function(
    "last_digits",
    (Version(OfDecimals(last_digits, 1), _last, None, of_types=True),),
    "a decimal",
    f"its last {LOW_DIGITS} digits; the integer of them where many are behind the point",
)
DIGITS: tuple[Function, ...] = (FIRST_DIGITS, LAST_DIGITS)
"""Functions whose form in SQL depends on the type (`runtime/spark/expressions/decimal_sums.py`)."""

SIDES: tuple[Function, ...] = (
    MAGNITUDE,
    MANTISSA,
    HUGE_MAGNITUDE,
    HUGE_MANTISSA,
    *LIMBS,
    MAGNITUDES,
    HIGH,
    LOW,
    TIMES_HIGH,
    TIMES_LOW,
    *DIGITS,
)


def whole(high: Value, low: Value) -> Value:
    """The integer with these halves."""
    return high * HALF_RADIX + low


def decimal_of(first: Decimal, last: Decimal, t: ty.DecimalType) -> Decimal:
    """The number with these first and last digits of a type; it may have more digits than the type.

    >>> decimal_of(Decimal(1), Decimal("0.05"), ty.DecimalType(38, 2))
    Decimal('1000000000000000000.05')
    """
    scale = last_digits(t).scale
    rest = last.scaleb(scale - t.scale, decimals.EXACT)
    return decimals.EXACT.add(first.scaleb(LOW_DIGITS - t.scale, decimals.EXACT), rest)
