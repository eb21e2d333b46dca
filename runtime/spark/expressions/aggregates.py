"""Monoids whose elements are single values, in SQL: their zeros, units and merges, within a row and over rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from mrql.algebra import types as ty
from mrql.algebra.monoids import PRODUCT, SUM, Aggregate, Monoid
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions import decimal_sums, long_products
from mrql.runtime.spark.expressions.layout import Layout, atoms, sql_type, to_sql


@attrs.frozen
class Sql:
    """A row of the table: a monoid in SQL. `{zero}` is its zero in the carrier's type."""

    zero: str
    """The constant, which is cast to the carrier's type."""
    combine: str
    """`a ⊕ b` of `{a}` and `{b}`; `{at}` is the comment with the place in the query, where it can fail."""
    over_rows: str
    """The aggregate function that merges a `{value}` of each row."""
    weighted_rows: str | None = None
    """The same for values that each count `{weight}` times; None where once is enough."""
    repeated: str | None = None
    """One `{value}` merged `{weight}` times; None where that is the value itself."""


_PRODUCT_OF = "{zero}, (a, x) -> a * coalesce(x, {zero}))"

SQL: Mapping[str, Sql] = {
    "SUM": Sql(
        zero="0",
        combine="({a} + {at}{b})",
        over_rows="coalesce(sum({value}), {zero})",
        weighted_rows="coalesce(sum({value} * {weight}), {zero})",
        repeated="{value} * {weight}",
    ),
    "PRODUCT": Sql(
        zero="1",
        combine="({a} * {at}{b})",
        over_rows="aggregate(flatten(collect_list(array({value}))), " + _PRODUCT_OF,
        weighted_rows="aggregate(flatten(collect_list(array_repeat({value}, CAST({weight} AS INT)))), " + _PRODUCT_OF,
        repeated="aggregate(array_repeat({value}, CAST({weight} AS INT)), " + _PRODUCT_OF,
    ),
    # `least` and `greatest` skip nulls.
    "MIN": Sql(zero="NULL", combine="least({a}, {b})", over_rows="min({value})"),
    "MAX": Sql(zero="NULL", combine="greatest({a}, {b})", over_rows="max({value})"),
    "AND": Sql(zero="true", combine="({a} AND {b})", over_rows="coalesce(bool_and({value}), true)"),
    "OR": Sql(zero="false", combine="({a} OR {b})", over_rows="coalesce(bool_or({value}), false)"),
}
"""The monoids on basic values (`algebra/monoids.py`) by their names, in SQL."""


def zero_sql(monoid: Aggregate, t: Type) -> str:
    """The zero in the carrier's type."""
    return f"CAST({SQL[monoid.op.name].zero} AS {sql_type(t)})"


def unit_sql(monoid: Aggregate, t: Type, value: Layout) -> str:
    """The carrier's value of one element; a missing one counts as the zero."""
    sql = to_sql(value)
    missing = any(atom.missing for atom in atoms(value))
    if monoid.op.zero is None or not missing:
        return sql
    return f"coalesce({sql}, {zero_sql(monoid, t)})"


def combine_sql(monoid: Monoid, a: str, b: str, at: str) -> str:
    """`a ⊕ b`."""
    assert isinstance(monoid, Aggregate)
    return SQL[monoid.op.name].combine.format(a=a, b=b, at=at)


def repeated_sql(monoid: Aggregate, t: Type, value: str, weight: str | None) -> str:
    """The share of one row, counted as often as its weight says."""
    repeated = SQL[monoid.op.name].repeated
    if weight is None or repeated is None:
        return value
    return repeated.format(value=value, weight=weight, zero=zero_sql(monoid, t))


def aggregate_sql(monoid: Aggregate, t: Type, value: str, weight: str | None) -> str:
    """The aggregate function that merges the shares of many rows, each as often as its weight says."""
    sql = SQL[monoid.op.name]
    form = sql.over_rows if weight is None or sql.weighted_rows is None else sql.weighted_rows
    return form.format(value=value, weight=weight, zero=zero_sql(monoid, t))


HALF_RADIX = 1 << 32
"""The radix of the halves of a long, 2³²."""

HUGE = f"{2.0**62!r}D"
DOWN, UP = f"{2.0**-512!r}D", f"{2.0**512!r}D"
"""Doubles of the size `HUGE` and more are added up times 2⁻⁵¹², so that no intermediate sum becomes infinite."""


def total_sql(monoid: Aggregate, t: Type, value: str, weight: str | None, *, narrow: bool = False, at: str = "") -> str:
    """The merged shares of many rows, with no error if a sum or product leaves its range only in between. The addends
    of a `narrow` sum are so small that it cannot (`is_narrow`)."""
    if monoid == SUM and isinstance(t, ty.DecimalType):
        return decimal_sums.over_rows(value, t, weight, narrow, at)
    if monoid == PRODUCT and t == ty.LONG:
        return long_products.as_long(long_products.over_rows(value, weight), at)
    times = "" if weight is None else f" * {weight}"
    if monoid == SUM and t == ty.LONG and not narrow:
        high, low = (f"coalesce(sum({half}{times}), 0L)" for half in halves_sql(value))
        return long_sql(high, low, at)
    if monoid == SUM and t == ty.DOUBLE:
        near, far = (f"coalesce(sum({part}{times}), 0D)" for part in sizes_sql(value))
        return f"({near} + {far} * {UP})"
    return aggregate_sql(monoid, t, value, weight)


def added_sql(t: Type, array: str, fresh: Callable[[str], str], at: str) -> str:
    """The sum of an array of longs, doubles or decimals, with no error if it leaves its range only in between."""
    if isinstance(t, ty.DecimalType):
        return decimal_sums.of_array(array, t, at)
    acc, x, end = fresh("a"), fresh("x"), fresh("a")
    if t == ty.LONG:
        start, (high, low) = "named_struct('h', 0L, 'l', 0L)", halves_sql(x)
        step, value = f"named_struct('h', {acc}.h + {high}, 'l', {acc}.l + {low})", long_sql(f"{end}.h", f"{end}.l", at)
    else:
        start, (near, far) = "named_struct('n', 0D, 'f', 0D)", sizes_sql(x)
        step, value = f"named_struct('n', {acc}.n + {near}, 'f', {acc}.f + {far})", f"{end}.n + {end}.f * {UP}"
    return f"aggregate({array}, {start}, ({acc}, {x}) -> {step}, {end} -> {value})"


def halves_sql(value: str) -> tuple[str, str]:
    """The upper and the lower half of a long."""
    return f"shiftright({value}, 32)", f"({value} & {HALF_RADIX - 1}L)"


def long_sql(high: str, low: str, at: str) -> str:
    """The long with the given halves, or with sums of halves."""
    return f"(({high} + shiftright({low}, 32)) * {at}{HALF_RADIX}L + ({low} & {HALF_RADIX - 1}L))"


def sizes_sql(value: str) -> tuple[str, str]:
    """A double if it is below `HUGE`, else 0; and times 2⁻⁵¹² if it is not, else 0."""
    near = f"abs({value}) < {HUGE}"
    return f"if({near}, {value}, 0D)", f"if({near}, 0D, {value} * {DOWN})"
