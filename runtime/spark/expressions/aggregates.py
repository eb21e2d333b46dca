"""Monoids whose elements are single values, in SQL: their zeros, units and merges, in a row and over rows."""

from __future__ import annotations

from collections.abc import Callable

from mrql.algebra import types as ty
from mrql.algebra.monoids import Aggregate, Monoid, Op
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions.layout import Layout, atoms, sql_type, to_sql


def zero_sql(monoid: Aggregate, t: Type) -> str:
    """The zero in the carrier's type."""
    constant = {Op.SUM: "0", Op.PRODUCT: "1", Op.AND: "true", Op.OR: "false"}.get(monoid.op, "NULL")
    return f"CAST({constant} AS {sql_type(t)})"


def unit_sql(monoid: Aggregate, t: Type, value: Layout) -> str:
    """The carrier's value of one element: missing elements are skipped."""
    sql = to_sql(value)
    missing = any(atom.missing for atom in atoms(value))
    if monoid.op in (Op.MIN, Op.MAX) or not missing:
        return sql
    return f"coalesce({sql}, {zero_sql(monoid, t)})"


def combine_sql(monoid: Monoid, a: str, b: str, at: str) -> str:
    """`a ⊕ b`; `least` and `greatest` skip what is missing."""
    assert isinstance(monoid, Aggregate)
    match monoid.op:
        case Op.SUM:
            return f"({a} + {at}{b})"
        case Op.PRODUCT:
            return f"({a} * {at}{b})"
        case Op.AND:
            return f"({a} AND {b})"
        case Op.OR:
            return f"({a} OR {b})"
        case Op.MIN:
            return f"least({a}, {b})"
        case Op.MAX:
            return f"greatest({a}, {b})"


def repeated_sql(monoid: Aggregate, t: Type, value: str, weight: str | None) -> str:
    """The share of one row that counts as often as its weight says."""
    if weight is None or monoid.op not in (Op.SUM, Op.PRODUCT):
        return value
    if monoid.op is Op.SUM:
        return f"{value} * {weight}"
    one = zero_sql(monoid, t)
    return f"aggregate(array_repeat({value}, CAST({weight} AS INT)), {one}, (a, x) -> a * coalesce(x, {one}))"


WORD = 1 << 32
"""What the halves of a long are told apart by."""

HUGE = f"{2.0**62!r}D"
DOWN, UP = f"{2.0**-512!r}D", f"{2.0**512!r}D"
"""A double of this size and more is added up times 2⁻⁵¹²: no sum becomes infinite on the way to one that is not."""


def total_sql(monoid: Aggregate, t: Type, value: str, weight: str | None, *, narrow: bool = False, at: str = "") -> str:
    """The value of the shares of many rows: a sum that is too large on the way to it is none. A `narrow` one is of
    numbers that are no larger than an int."""
    times = "" if weight is None else f" * {weight}"
    if monoid.op is Op.SUM and t == ty.LONG and not narrow:
        high, low = (f"coalesce(sum({half}{times}), 0L)" for half in halves_sql(value))
        return long_sql(high, low, at)
    if monoid.op is Op.SUM and t == ty.DOUBLE:
        near, far = (f"coalesce(sum({part}{times}), 0D)" for part in sizes_sql(value))
        return f"({near} + {far} * {UP})"
    return aggregate_sql(monoid, t, value, weight)


def added_sql(t: Type, array: str, fresh: Callable[[str], str], at: str) -> str:
    """The sum of an array of longs or doubles, in the same way."""
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
    return f"shiftright({value}, 32)", f"({value} & {WORD - 1}L)"


def long_sql(high: str, low: str, at: str) -> str:
    """The long of which there are halves, or sums of them."""
    return f"(({high} + shiftright({low}, 32)) * {at}{WORD}L + ({low} & {WORD - 1}L))"


def sizes_sql(value: str) -> tuple[str, str]:
    """A double if it is of ordinary size, else 0; and if it is not."""
    near = f"abs({value}) < {HUGE}"
    return f"if({near}, {value}, 0D)", f"if({near}, 0D, {value} * {DOWN})"


def aggregate_sql(monoid: Aggregate, t: Type, value: str, weight: str | None) -> str:
    """The aggregate function that merges the shares of many rows, each as often as its weight says."""
    match monoid.op:
        case Op.SUM:
            weighted = value if weight is None else f"{value} * {weight}"
            return f"coalesce(sum({weighted}), {zero_sql(monoid, t)})"
        case Op.MIN:
            return f"min({value})"
        case Op.MAX:
            return f"max({value})"
        case Op.AND:
            return f"coalesce(bool_and({value}), true)"
        case Op.OR:
            return f"coalesce(bool_or({value}), false)"
        case Op.PRODUCT:
            repeated = f"array({value})" if weight is None else f"array_repeat({value}, CAST({weight} AS INT))"
            one = zero_sql(monoid, t)
            return f"aggregate(flatten(collect_list({repeated})), {one}, (a, x) -> a * coalesce(x, {one}))"
