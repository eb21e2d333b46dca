"""Products of longs in SQL, none of which is wrong, or too large, on its way to the one that is read.

A product may leave the range of a long and come back: by a factor 0, or by the sign of -2⁶³. So it is computed as a
decimal, and what is larger than any long stays at one of `LIMIT`, with its sign, until it is multiplied by 0. Of two of
these a decimal has all digits, and the merge is associative and commutes.
"""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.runtime.spark.expressions.canonical_order import Fresh, let

CARRIER = ty.DecimalType(ty.MAX_PRECISION)
"""What products are kept as."""

_DECIMAL = "DECIMAL(38, 0)"
LIMIT = "9223372036854775809BD"
"""2⁶³ + 1: more than the size of any long."""
REPEATED_MAX_TIMES = 64
"""So many times any factor of 2 and more has left the range; what is left to tell is the sign."""


def over_rows(value: str, weight: str | None) -> str:
    """The product of a `value` of each row, which counts as often as its `weight` says; missing ones are none."""
    if weight is None:
        return _multiplied(f"collect_list({value})")
    return _multiplied(f"flatten(collect_list({_repeated(value, weight)}))")


def power(value: str, weight: str | None) -> str:
    """One value multiplied with itself as often as a `weight` says."""
    return as_carrier(value) if weight is None else _multiplied(_repeated(value, weight))


def of_array(array: str, fresh: Fresh, at: str) -> str:
    """The product of an array of longs; `at` is its place in the query."""
    return let(fresh, _multiplied(array), lambda product: as_long(product, at))


def as_carrier(value: str) -> str:
    return f"CAST(coalesce({value}, 1L) AS {_DECIMAL})"


def as_long(product: str, at: str) -> str:
    """The value of a product; an overflow at its place in the query where it is no long."""
    nearest = f"CAST(least(9223372036854775807BD, greatest(-9223372036854775808BD, {product})) AS BIGINT)"
    return f"({nearest} * {at}if(CAST({nearest} AS DECIMAL(19, 0)) = {product}, 1L, 2L))"


def _repeated(value: str, weight: str) -> str:
    return f"array_repeat({value}, CAST(least({weight}, {REPEATED_MAX_TIMES}L + {weight} % 2L) AS INT))"


_A, _X = "product__v_0", "factor__v_0"
"""Variables of a lambda, whose body reads nothing else."""


def _multiplied(array: str) -> str:
    product = f"{_A} * {as_carrier(_X)}"
    step = f"CAST(least({LIMIT}, greatest(-{LIMIT}, {product})) AS {_DECIMAL})"
    return f"aggregate({array}, CAST(1 AS {_DECIMAL}), ({_A}, {_X}) -> {step})"
