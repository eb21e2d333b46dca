"""Ordered collections within one row, and the elements at their places, as Catalyst expressions.

An ordered collection is made from pairs `(key, element)`. Spark orders structs by their parts, nulls first: so pairs
whose key ascends are sorted as they are, and the first of them is the minimum, for which nothing is sorted. For a part
that descends, its opposite is sorted ascending, behind a flag that puts nulls last. A text, a tuple or a list, say,
has no opposite; such pairs are sorted by an expression that compares them, which takes several times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import known
from mrql.algebra.functions.decimals import NEGATED
from mrql.algebra.functions.function import fails
from mrql.algebra.functions.lists import ARRAY_MAX_ELEMENTS
from mrql.algebra.functions.time_parsing import moment_sql
from mrql.algebra.terms import Lit, OrderBy, Prim, Term, element_type, pair_type
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions.canonical_order import in_order
from mrql.runtime.spark.expressions.layout import labels, quote, record_sql
from mrql.runtime.spark.expressions.literals import place

if TYPE_CHECKING:
    from mrql.runtime.spark.expressions.expressions import Environment, Expressions


def taken_sql(items: str, count: str) -> str:
    """The first `count` elements of an array: none where `count` is missing or negative, all where there are fewer."""
    return f"slice({items}, 1, CAST(least(greatest({count}, 0), {ARRAY_MAX_ELEMENTS}) AS INT))"


def ordered_sql(expressions: Expressions, term: OrderBy, env: Environment) -> str:
    """The elements sorted by key; those with equal keys by their own values."""
    pairs = _pairs(expressions, term.source, env)
    p, q = expressions.fresh("p"), expressions.fresh("q")
    if any(term.descending):
        parts = _ascending(term, p)
        if parts is None:
            return _compared(expressions, term, pairs)
        fields = ", ".join(f"'k{i}', {part}" for i, part in enumerate(parts))
        keyed = f"transform({pairs}, {p} -> named_struct({fields}, 'e', {p}._2))"
        return f"transform(sort_array({keyed}), {q} -> {q}.e)"
    return f"transform(sort_array({pairs}), {p} -> {p}._2)"


def _pairs(expressions: Expressions, source: Term, env: Environment) -> str:
    """The pairs of a key and an element as an array in which none is missing, nor its key: a missing key is ordered as
    one of missing parts. Elements with equal keys are compared by value, for which their bags are in canonical order.
    """
    pairs, pair = expressions.array(source, env), known(source).element
    if pair.missing or pair.part(0).missing:
        p, (key, _) = expressions.fresh("p"), pair_type(source)
        made = record_sql((name, f"{p}._1.{quote(name)}") for name, _ in labels(key))
        pairs = f"transform({pairs}, {p} -> {record_sql([('_1', made), ('_2', f'{p}._2')])})"
    return in_order(pairs, ty.ListType(element_type(source)), expressions.fresh)


def _ascending(term: OrderBy, pair: str) -> list[str] | None:
    """The parts of a pair's key, with opposites so that all of them ascend; None where one has no opposite."""
    parts: list[str] = []
    for (name, t), down in zip(labels(pair_type(term.source)[0]), term.descending, strict=True):
        x = f"{pair}._1.{quote(name)}"
        opposite = _opposite(x, t) if down else [x]
        if opposite is None:
            return None
        parts += opposite
    return parts


def _opposite(x: str, t: Type) -> list[str] | None:
    """Expressions that ascend where a value descends, with nulls last and NaN first; None where there are none."""
    match t:
        case ty.INT | ty.LONG:
            return [f"{x} IS NULL", f"~{x}"]
        case ty.FLOAT | ty.DOUBLE:
            return [f"{x} IS NULL", f"NOT isnan({x})", f"-{x}"]
        case ty.BOOL:
            return [f"{x} IS NULL", f"NOT {x}"]
        case ty.DATE:
            return [f"{x} IS NULL", f"-unix_date({x})"]
        case ty.TIMESTAMP:
            return [f"{x} IS NULL", f"-unix_micros({moment_sql(x)})"]
        case ty.DecimalType() if t.precision <= NEGATED:
            return [f"{x} IS NULL", f"-{x}"]
        case _:
            return None


def _compared(expressions: Expressions, term: OrderBy, pairs: str) -> str:
    """Sorts by an expression that compares keys, after sorting by the elements: `array_sort` is stable."""
    key, _ = pair_type(term.source)
    p, q, left, right = (expressions.fresh(name) for name in "pplr")
    comparison = "0"
    for (name, _), down in reversed(list(zip(labels(key), term.descending, strict=True))):
        a, b = (f"{side}._2.{quote(name)}" for side in (left, right))
        less, more = ("1", "-1") if down else ("-1", "1")
        comparison = (
            f"CASE WHEN {a} <=> {b} THEN {comparison} WHEN {a} IS NULL THEN {less} "
            f"WHEN {b} IS NULL THEN {more} WHEN {a} < {b} THEN {less} ELSE {more} END"
        )
    swapped = f"transform({pairs}, {p} -> named_struct('_1', {p}._2, '_2', {p}._1))"
    return f"transform(array_sort(sort_array({swapped}), ({left}, {right}) -> {comparison}), {q} -> {q}._1)"


def first_sql(expressions: Expressions, term: Prim, env: Environment) -> str | None:
    """The first element of an `OrderBy` with an ascending key, as a minimum; None for any other term.

    Raises on Spark, as the function itself does, where there is no element.
    """
    items, index = term.args
    if not isinstance(items, OrderBy) or any(items.descending) or index != Lit(0, index.type):
        return None
    pairs = _pairs(expressions, items.source, env)
    least = f"array_min({pairs})"
    return f"coalesce({least}, {fails(place(term.span), 'there is no element 0 in a list of 0')})._2"
