"""Monoids whose elements are single values, in SQL: their zeros, units and merges, in a row and over rows."""

from __future__ import annotations

from mrql.algebra.monoids import Aggregate, Monoid, Op
from mrql.algebra.types import Type
from mrql.runtime.layout import Layout, atoms, sql_type, to_sql


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
