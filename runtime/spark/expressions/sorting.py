"""Ordered collections of one row, and the elements at their places, as Catalyst expressions.

An ordered collection is made from pairs `(key, element)`. Spark orders structs by their parts, what is missing first:
so pairs whose key ascends are ordered as they are, and the first of them is the least one, for which nothing is sorted.
Where a part descends, its opposite ascends, behind a flag for what is missing and so last. A text, a tuple or a list
has no opposite; such pairs are compared by an expression, which takes several times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrql.algebra import types as ty
from mrql.algebra.functions.decimals import NEGATED
from mrql.algebra.functions.function import fails
from mrql.algebra.functions.lists import ARRAY_MAX_ELEMENTS
from mrql.algebra.functions.time_parsing import moment_sql
from mrql.algebra.terms import Lit, OrderBy, Prim, element_type, pair_type
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions.canonical_order import in_order
from mrql.runtime.spark.expressions.layout import labels, quote
from mrql.runtime.spark.expressions.literals import place

if TYPE_CHECKING:
    from mrql.runtime.spark.expressions.expressions import Environment, Expressions


def taken_sql(items: str, count: str) -> str:
    """The first elements of an array: none where it is missing how many, and all where there are not as many."""
    return f"slice({items}, 1, CAST(least(greatest({count}, 0), {ARRAY_MAX_ELEMENTS}) AS INT))"


def ordered_sql(expressions: Expressions, term: OrderBy, env: Environment) -> str:
    """The elements in their order; those with equal keys by themselves."""
    # Elements with equal keys are compared by themselves, and bags as bags.
    pairs = in_order(expressions.array(term.source, env), ty.ListType(element_type(term.source)), expressions.fresh)
    p, q = expressions.fresh("p"), expressions.fresh("q")
    if any(term.descending):
        parts = _ascending(term, p)
        if parts is None:
            return _compared(expressions, term, pairs)
        fields = ", ".join(f"'k{i}', {part}" for i, part in enumerate(parts))
        keyed = f"transform({pairs}, {p} -> named_struct({fields}, 'e', {p}._2))"
        return f"transform(sort_array({keyed}), {q} -> {q}.e)"
    return f"transform(sort_array({pairs}), {p} -> {p}._2)"


def _ascending(term: OrderBy, pair: str) -> list[str] | None:
    """The parts of the key of a pair such that all of them ascend; None where one has no opposite."""
    parts: list[str] = []
    for (name, t), down in zip(labels(pair_type(term.source)[0]), term.descending, strict=True):
        x = f"{pair}._1.{quote(name)}"
        opposite = _opposite(x, t) if down else [x]
        if opposite is None:
            return None
        parts += opposite
    return parts


def _opposite(x: str, t: Type) -> list[str] | None:
    """What ascends where a value descends, what is missing last and NaN first; None where there is no such thing."""
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
    """Sorted by the elements first: `array_sort` is stable, and so equal keys keep that order."""
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
    """The first element of what is ordered for that; None where something else is asked for.

    Raises on Spark, as the function itself does, where there is none.
    """
    items, index = term.args
    if not isinstance(items, OrderBy) or any(items.descending) or index != Lit(0, index.type):
        return None
    pairs = in_order(expressions.array(items.source, env), ty.ListType(element_type(items.source)), expressions.fresh)
    least = f"array_min({pairs})"
    return f"coalesce({least}, {fails(place(term.span), 'there is no element 0 in a list of 0')})._2"
