"""Functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions.decimals import (
    NEGATED,
    itself,
    next_whole,
    of_decimals,
    rounded_to_whole,
    size_of_many_digits,
)
from mrql.algebra.functions.function import Function, Implementation, Sql, fails, version
from mrql.algebra.functions.operators import modulo
from mrql.algebra.values import decimals
from mrql.algebra.values.atom_conversion import check_range
from mrql.algebra.values.values import Value

DIGITS = 30
"""The maximal number of digits before or behind the point to which a number may be rounded."""


def _round(x: float) -> int:
    """The nearest integer, halves upwards as in Java; without adding 0.5, since that sum may not be a double."""
    whole = math.floor(x)
    return whole + 1 if x - whole >= 0.5 else whole


def _to_long(rounding: Callable[[float], int]) -> Implementation:
    def apply(x: Value) -> Value:
        if math.isnan(x) or math.isinf(x):
            raise EvaluationError("not a number that a long can hold")
        try:
            return check_range(rounding(x), ty.LONG)
        except EvaluationError:
            raise EvaluationError("not a number that a long can hold") from None

    return apply


def _rounded(rounding: str) -> Sql:
    def template(a: str, at: str) -> str:
        fits = f"({a} >= -9.223372036854775808E18D AND {a} < 9.223372036854775808E18D)"
        message = fails(at, "not a number that a long can hold")
        return f"CASE WHEN {a} IS NULL THEN NULL WHEN {fits} THEN {rounding.format(a)} ELSE {message} END"

    return template


def _round_to(x: float, digits: int) -> float:
    if math.isnan(x) or math.isinf(x):
        return x
    with localcontext(prec=400):
        return float(Decimal(repr(x)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)) + 0.0


def _digits(args: Sequence[Any]) -> str | None:
    return None if abs(args[0]) <= DIGITS else f"the digits must be from -{DIGITS} to {DIGITS}"


def _floating(function: Callable[[float], float]) -> Implementation:
    def apply(x: Value) -> Value:
        try:
            return function(x)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return apply


def _signed(function: Callable[[float], float]) -> Implementation:
    """An odd function that grows to infinity on both sides."""
    return lambda x: math.copysign(_floating(function)(abs(x)), x)


def _log(function: Callable[[float], float]) -> Implementation:
    return lambda x: None if x <= 0 else function(x)


def _power(x: Value, y: Value) -> Value:
    x += 0.0  # there is no −0.0
    if abs(x) == 1 and (math.isinf(y) or math.isnan(y)):
        return math.nan  # as in Java
    try:
        return math.pow(x, y)
    except OverflowError:
        negative = x < 0 and float(y).is_integer() and int(y) % 2 == 1
        return -math.inf if negative else math.inf
    except ValueError:
        return math.nan if x else math.inf


def _cube_root(x: float) -> float:
    root = math.cbrt(x)  # may be off in the last digit, even if there is an exact root
    nearest = round(root) if math.isfinite(root) else 0
    return float(nearest) if nearest**3 == x else root


def _sign(x: float) -> float:
    return x if math.isnan(x) or x == 0 else math.copysign(1.0, x)


def _positive_modulo(a: Value, b: Value) -> Value:
    remainder = modulo(a, b)
    return modulo(remainder + b, b) if remainder < 0 < b else remainder


def _of_double(
    name: str, apply: Implementation, meaning: str, example: tuple[str, str], sql: str = "", also: tuple[str, ...] = ()
) -> Function:
    catalyst = f"{sql or name}({{0}})"
    return Function(name, (version("double -> double", apply, catalyst),), "a number", meaning, (example,), also)


def _to_integer(
    name: str, rounding: Callable[[float], int], sql: str, meaning: str, *examples: tuple[str, str]
) -> Function:
    if name == "round":  # of a decimal, converting to the result type rounds, halves away from zero
        whole = of_decimals(rounded_to_whole, 1, lambda x: x, "{0}")
    else:
        whole = of_decimals(next_whole, 1, lambda x: Decimal(rounding(x)), f"{name}({{0}})")
    versions = [
        whole,
        version("i -> long", lambda x: x, "CAST({0} AS BIGINT)"),
        version("double -> long", _to_long(rounding), _rounded(sql)),
    ]
    if name == "round":
        versions.append(version("double, long -> double", _round_to, None))
        return Function(
            name,
            tuple(versions),
            "a number, and the number of digits",
            meaning,
            examples,
            constant=_digits,
            constants=(1,),
        )
    return Function(name, tuple(versions), "a number", meaning, examples)


NUMBERS: tuple[Function, ...] = (
    Function(
        "abs",
        (
            version("i -> i", abs, "CASE WHEN {0} < 0 THEN (0 - {at}{0}) ELSE {0} END"),
            of_decimals(itself, 1, decimals.abs_of, "abs({0})", NEGATED),
            of_decimals(itself, 1, decimals.abs_of, size_of_many_digits),
            version("n -> n", abs, "abs({0})"),
        ),
        "a number",
        "the size",
        (("abs(-3)", "3"),),
    ),
    _to_integer(
        "round",
        _round,
        "(CAST(floor({0}) AS BIGINT) + if({0} - floor({0}) >= 0.5D, 1L, 0L))",
        "the nearest integer, halves upwards; or with so many digits behind the point, halves away from zero; of a"
        " decimal a decimal, halves away from zero",
        ("round(2.5)", "3"),
        ("round(2.345, 2)", "2.35"),
        ("round(1234.0, -2)", "1200.0"),
    ),
    _to_integer(
        "floor", math.floor, "CAST(floor({0}) AS BIGINT)", "the greatest integer up to it", ("floor(-2.5)", "-3")
    ),
    _to_integer("ceil", math.ceil, "CAST(ceil({0}) AS BIGINT)", "the least integer from it on", ("ceil(2.1)", "3")),
    _of_double("sign", _sign, "1.0, -1.0 or 0.0, as it is greater, less or neither", ("sign(-3)", "-1.0"), "signum"),
    _of_double("sqrt", _floating(math.sqrt), "the square root; of a negative number, NaN", ("sqrt(9)", "3.0")),
    _of_double("cbrt", _cube_root, "the cube root", ("cbrt(-27)", "-3.0")),
    _of_double("exp", _floating(math.exp), "e to this power", ("exp(0)", "1.0")),
    _of_double(
        "log", _log(math.log), "the natural logarithm; of nothing positive, missing", ("log(1)", "0.0"), "ln", ("ln",)
    ),
    _of_double("log2", _log(math.log2), "the logarithm to the base 2", ("log2(8)", "3.0")),
    _of_double("log10", _log(math.log10), "the logarithm to the base 10", ("log10(1000)", "3.0")),
    Function(
        "pow",
        (version("double, double -> double", _power, "power({0} + 0.0D, {1})"),),
        "two numbers",
        "the first to the power of the second",
        (("pow(2, 10)", "1024.0"),),
        ("power",),
    ),
    _of_double("sin", _floating(math.sin), "the sine of an angle in radians", ("sin(0)", "0.0")),
    _of_double("cos", _floating(math.cos), "the cosine", ("cos(0)", "1.0")),
    _of_double("tan", _floating(math.tan), "the tangent", ("tan(0)", "0.0")),
    _of_double("asin", _floating(math.asin), "the angle of a sine", ("asin(0)", "0.0")),
    _of_double("acos", _floating(math.acos), "the angle of a cosine; outside of -1 to 1, NaN", ("acos(1)", "0.0")),
    _of_double("atan", math.atan, "the angle of a tangent", ("atan(0)", "0.0")),
    Function(
        "atan2",
        (version("double, double -> double", lambda y, x: math.atan2(y + 0.0, x + 0.0), "atan2({0}, {1})"),),
        "two numbers",
        "the angle of the point with this y and this x",
        (("degrees(atan2(1, 1))", "45.0"),),
    ),
    _of_double("sinh", _signed(math.sinh), "the hyperbolic sine", ("sinh(0)", "0.0")),
    _of_double("cosh", _floating(math.cosh), "the hyperbolic cosine", ("cosh(0)", "1.0")),
    _of_double("tanh", math.tanh, "the hyperbolic tangent", ("tanh(0)", "0.0")),
    _of_double("degrees", math.degrees, "radians in degrees", ("degrees(pi())", "180.0")),
    _of_double("radians", math.radians, "degrees in radians", ("radians(180) = pi()", "true")),
    Function("pi", (version("-> double", lambda: math.pi, "pi()"),), "nothing", "π", (("pi() > 3.14", "true"),)),
    Function(
        "pmod",
        (
            version("i, i -> i", _positive_modulo, "CASE WHEN {1} < 0 THEN {0} % {1} ELSE pmod({0}, {at}{1}) END"),
            version(
                "double, double -> double",
                _positive_modulo,
                "CASE WHEN {1} = 0 THEN {0} * DOUBLE('NaN') WHEN {1} < 0 THEN {0} % {1} ELSE pmod({0}, {1}) END",
            ),
        ),
        "two numbers",
        "the remainder that is not negative, by a positive number; by a negative one, that of `mod`",
        (("pmod(-7, 3)", "2"), ("-7 mod 3", "-1")),
    ),
    Function(
        "is_nan",
        (version("double -> bool", math.isnan, "({0} = DOUBLE('NaN'))"),),
        "a number",
        "whether it is NaN",
        (("is_nan(sqrt(-1))", "true"),),
    ),
)
