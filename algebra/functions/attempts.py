"""Sums, differences, products and negations that are missing, instead of an error, on overflow.

They compute the elements of aggregations that are kept also for groups that the query may not use; the number of
elements that are missing for that reason is kept as well (`rewrite/analysis/guarded_aggregates.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from mrql.algebra.errors import IntegerOverflow
from mrql.algebra.functions.function import Function, Version, version
from mrql.algebra.functions.operators import MINUS, NEGATE, PLUS, TIMES
from mrql.algebra.functions.signatures import signature
from mrql.algebra.types import Type
from mrql.algebra.values.atom_conversion import check_range
from mrql.algebra.values.values import Value


def _attempted(name: str, function: Function, compute: Callable[..., int], sql: str, kinds: str) -> Function:
    def apply(types: Sequence[Type], *args: Value) -> Value:
        try:
            return check_range(compute(*args), types[0])
        except IntegerOverflow:
            return None

    versions = (Version(signature(kinds), apply, lambda *args: sql.format(*args[:-1]), of_types=True),)
    return Function(name, versions, function.takes, f"{function.meaning}; missing where that leaves its range")


TRY_ADD = _attempted("try_add", PLUS, operator.add, "try_add({0}, {1})", "i, i -> i")
TRY_SUBTRACT = _attempted("try_subtract", MINUS, operator.sub, "try_subtract({0}, {1})", "i, i -> i")
TRY_MULTIPLY = _attempted("try_multiply", TIMES, operator.mul, "try_multiply({0}, {1})", "i, i -> i")
TRY_NEGATE = _attempted("try_negate", NEGATE, operator.neg, "try_subtract(0, {0})", "i -> i")

ATTEMPTS: Mapping[Function, Function] = {
    PLUS: TRY_ADD,
    MINUS: TRY_SUBTRACT,
    TIMES: TRY_MULTIPLY,
    NEGATE: TRY_NEGATE,
}
"""The functions of this file, by the functions that raise an error on overflow."""


def _none_missing(total: Value, missing: int) -> Value:
    if missing:
        raise IntegerOverflow
    return total


NONE_MISSING = Function(
    "none_missing",
    (version("t, long -> t", _none_missing, "if({at}9223372036854775807L + {1} < 0L, NULL, {0})"),),
    "an aggregation, and how many of its elements left their range",
    "the aggregation, which is an overflow if any did",
    null_safe=True,
)
