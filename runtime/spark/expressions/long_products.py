"""Exact products of longs in SQL: only the product that is read may be out of range, not one in between.

A product may leave the range of a long and come back: by a factor 0, or by the sign of -2⁶³. So it is computed as a
decimal, and one larger than any long is clamped to `LIMIT`, with its sign, until it is multiplied by 0. The product of
two of these fits in a decimal, and the merge is associative and commutative.
"""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.runtime.spark.expressions.canonical_order import Fresh, let

CARRIER = ty.DecimalType(ty.MAX_PRECISION)
"""The type in which products are kept."""

_DECIMAL = "DECIMAL(38, 0)"
LIMIT = "9223372036854775809BD"
"""2⁶³ + 1: more than the size of any long."""
REPEATED_MAX_TIMES = 64
"""After so many times, any factor of size 2 or more has left the range; beyond, only the sign may change."""


def over_rows(value: str, weight: str | None) -> str:
    """The product of a `value` of each row, which counts as often as its `weight` says; missing values are skipped."""
    if weight is None:
        return _multiplied(f"collect_list({value})")
    return _multiplied(f"flatten(collect_list({_repeated(value, weight)}))")


def power(value: str, weight: str | None) -> str:
    """One value to the power of a `weight`, if there is one."""
    return as_carrier(value) if weight is None else _multiplied(_repeated(value, weight))


def of_array(array: str, fresh: Fresh, at: str) -> str:
    """The product of an array of longs; `at` is its place in the query."""
    return let(fresh, _multiplied(array), lambda product: as_long(product, at))


def as_carrier(value: str) -> str:
    return f"CAST(coalesce({value}, 1L) AS {_DECIMAL})"


def as_long(product: str, at: str) -> str:
    """The value of a product; an overflow error, at its place in the query, where it does not fit in a long."""
    nearest = f"CAST(least(9223372036854775807BD, greatest(-9223372036854775808BD, {product})) AS BIGINT)"
    return f"({nearest} * {at}if(CAST({nearest} AS DECIMAL(19, 0)) = {product}, 1L, 2L))"


def _repeated(value: str, weight: str) -> str:
    return f"array_repeat({value}, CAST(least({weight}, {REPEATED_MAX_TIMES}L + {weight} % 2L) AS INT))"


_A, _X = "product__v_0", "factor__v_0"
"""Variables of a lambda, whose body reads no other variables."""


def _multiplied(array: str) -> str:
    product = f"{_A} * {as_carrier(_X)}"
    step = f"CAST(least({LIMIT}, greatest(-{LIMIT}, {product})) AS {_DECIMAL})"
    return f"aggregate({array}, CAST(1 AS {_DECIMAL}), ({_A}, {_X}) -> {step})"
