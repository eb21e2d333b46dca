"""The operators, and the functions that the translation inserts.

Integer overflow is an error, never a wrong number; so is integer division by zero.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection
from typing import Any

from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions.decimals import (
    NEGATED,
    ApartDecimals,
    itself,
    of_decimals,
    opposite_of_many_digits,
    product_of_two,
    quotient_of_two,
    remainder_of_two,
    sum_of_two,
)
from mrql.algebra.functions.function import Function, Version, fails, version
from mrql.algebra.values import decimals
from mrql.algebra.values.values import Value, canonical, has_null


def _divide(a: Value, b: Value) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            raise EvaluationError("division by zero")
        quotient = abs(a) // abs(b)
        return quotient if (a >= 0) == (b >= 0) else -quotient
    return a * math.inf if b == 0 else a / b


def modulo(a: Value, b: Value) -> Value:
    """The remainder of a truncating division, with the sign of `a`."""
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            raise EvaluationError("remainder of a division by zero")
        return (1 if a >= 0 else -1) * (abs(a) % abs(b))
    return math.nan if b == 0 or math.isinf(a) else math.fmod(a, b)


def _comparison(name: str, kind: str, test: Callable[[Any, Any], bool], takes: str, meaning: str) -> Function:
    def apply(a: Value, b: Value) -> Value:
        # A comparison with something missing in it is false ([] and {} hold no missing values to speak of).
        return not has_null(a) and not has_null(b) and test(canonical(a), canonical(b))

    apart = Version(ApartDecimals(), apply, None)
    return Function(name, (version(f"{kind}, {kind} -> bool", apply, None), apart), takes, meaning, null_safe=True)


def _and(a: Value, b: Value) -> Value:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _or(a: Value, b: Value) -> Value:
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


def _quotient(total: Value, count: Value) -> Value:
    return None if not count else total / count


def _decimal_quotient(total: Value, count: Value) -> Value:
    return None if not count else decimals.quotient(total, count)


def only(values: Collection[Value], key: str = "this key") -> Value:
    """The only value of a collection; `key` is the key it was looked up by, for the error."""
    if len(values) != 1:
        raise EvaluationError(f"there {f'are {len(values)} values' if values else 'is no value'} under {key}")
    (value,) = values
    return value


def _divided(a: str, b: str, at: str) -> str:
    # Spark's ANSI mode refuses x / 0.0; the language has infinities.
    return f"if({b} = 0, {a} * DOUBLE('Infinity'), {a} / {b})"


def _remainder(a: str, b: str, at: str) -> str:
    return f"if({b} = 0, {a} * DOUBLE('NaN'), {a} % {b})"


def _only(values: str, at: str) -> str:
    return only_sql(values, "'this key'", at)


def only_sql(values: str, key: str, at: str) -> str:
    """`only` of an array, in SQL; `key` is a string in SQL."""
    none = fails(at, "there is no value under {}", key)
    many = fails(at, "there are {} values under {}", f"size({values})", key)
    return f"CASE size({values}) WHEN 1 THEN {values}[0] WHEN 0 THEN {none} ELSE {many} END"


PLUS = Function(
    "+",
    (
        of_decimals(sum_of_two, 2, decimals.added, "({0} + {at}{1})"),
        version("n, n -> n", operator.add, "({0} + {at}{1})"),
        version("string, string -> string", operator.add, "concat({0}, {1})"),
    ),
    "two numbers or two strings",
    "the sum; of strings, one behind the other",
)
MINUS = Function(
    "-",
    (
        of_decimals(sum_of_two, 2, decimals.subtracted, "({0} - {at}{1})"),
        version("n, n -> n", operator.sub, "({0} - {at}{1})"),
    ),
    "two numbers",
    "the difference",
)
TIMES = Function(
    "*",
    (
        of_decimals(product_of_two, 2, decimals.product, "({0} * {at}{1})"),
        version("n, n -> n", operator.mul, "({0} * {at}{1})"),
    ),
    "two numbers",
    "the product",
)
DIVIDE = Function(
    "/",
    (
        of_decimals(quotient_of_two, 2, decimals.quotient, "({0} / {at}{1})"),
        version("int, int -> int", _divide, "if({1} = -1, (0 - {at}{0}), CAST(({0} div {at}{1}) AS INT))"),
        version("long, long -> long", _divide, "({0} div {at}{1})"),
        version("float, float -> float", _divide, lambda a, b, at: f"CAST({_divided(a, b, at)} AS FLOAT)"),
        version("double, double -> double", _divide, _divided),
    ),
    "two numbers",
    "the quotient; of integers, truncated towards zero; of decimals, rounded",
)
MODULO = Function(
    "mod",
    (
        of_decimals(remainder_of_two, 2, decimals.remainder, "({0} % {at}{1})"),
        version("i, i -> i", modulo, "({0} % {at}{1})"),
        version("float, float -> float", modulo, lambda a, b, at: f"CAST({_remainder(a, b, at)} AS FLOAT)"),
        version("double, double -> double", modulo, _remainder),
    ),
    "two numbers",
    "the remainder of that division: it has the sign of the first",
)
NEGATE = Function(
    "neg",
    (
        # Spark reports the place of an overflow of a subtraction, but not of a negation.
        version("i -> i", operator.neg, "(0 - {at}{0})"),
        of_decimals(itself, 1, decimals.opposite, "(- {0})", NEGATED),
        of_decimals(itself, 1, decimals.opposite, opposite_of_many_digits),
        version("n -> n", operator.neg, "(- {0})"),
    ),
    "a number",
    "the opposite",
)
_EITHER, _ORDERED = "two values of one type", "two values of one ordered type"
EQ = _comparison("=", "t", operator.eq, _EITHER, "whether they are equal; bags, whatever their order")
NE = _comparison("<>", "t", operator.ne, _EITHER, "whether they differ")
LT = _comparison("<", "o", operator.lt, _ORDERED, "whether the first is before the second")
LE = _comparison("<=", "o", operator.le, _ORDERED, "whether the first is not after the second")
GT = _comparison(">", "o", operator.gt, _ORDERED, "whether the first is after the second")
GE = _comparison(">=", "o", operator.ge, _ORDERED, "whether the first is not before the second")
AND = Function(
    "and", (version("bool, bool -> bool", _and, "({0} AND {1})"),), "two bools", "whether both hold", null_safe=True
)
OR = Function(
    "or",
    (version("bool, bool -> bool", _or, "({0} OR {1})"),),
    "two bools",
    "whether one of them holds",
    null_safe=True,
)
NOT = Function("not", (version("bool -> bool", operator.not_, "(NOT {0})"),), "a bool", "whether it does not hold")
HAS_NULL = Function(
    "has_null", (version("t -> bool", has_null, None),), "a value", "whether a part of it is missing", null_safe=True
)
QUOTIENT = Function(
    "÷",
    (
        of_decimals(quotient_of_two, 2, _decimal_quotient, "({0} / {at}nullif({1}, CAST(0 AS DECIMAL(20,0))))"),
        version("double, long -> double", _quotient, "({0} / nullif({1}, 0L))"),
    ),
    "a sum and a count",
    "the quotient; of nothing, missing",
)
ONLY = Function("only", (version("{t} -> t", only, _only),), "a bag", "the one value that is in it")

TRACE = Function(
    "trace",
    (version("t -> t", lambda a: a, None),),
    "a value",
    "the value; whoever evaluates it prints it",
    null_safe=True,
)

OPERATORS: tuple[Function, ...] = (
    PLUS, MINUS, TIMES, DIVIDE, MODULO, NEGATE, EQ, NE, LT, LE, GT, GE, AND, OR, NOT, HAS_NULL, QUOTIENT, ONLY,
    TRACE,
)  # fmt: skip
