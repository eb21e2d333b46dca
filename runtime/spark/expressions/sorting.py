"""Ordered collections of one row, and the elements at their places, as Catalyst expressions.

An ordered collection is made from pairs `(key, element)`. Spark orders structs by their parts, what is missing first:
so pairs whose key ascends are ordered as they are, and the first of them is the least one, for which nothing is sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrql.algebra import types as ty
from mrql.algebra.functions.function import fails
from mrql.algebra.terms import Lit, OrderBy, Prim, element_type, pair_type
from mrql.runtime.spark.expressions.canonical_order import in_order
from mrql.runtime.spark.expressions.layout import labels, quote
from mrql.runtime.spark.expressions.literals import place

if TYPE_CHECKING:
    from mrql.runtime.spark.expressions.expressions import Environment, Expressions


def ordered_sql(expressions: Expressions, term: OrderBy, env: Environment) -> str:
    """The elements in their order; those with equal keys by themselves."""
    # Elements with equal keys are compared by themselves, and bags as bags.
    pairs = in_order(expressions.array(term.source, env), ty.ListType(element_type(term.source)), expressions.fresh)
    if any(term.descending):
        return _some_descending(expressions, term, pairs)
    p = expressions.fresh("p")
    return f"transform(sort_array({pairs}), {p} -> {p}._2)"


def _some_descending(expressions: Expressions, term: OrderBy, pairs: str) -> str:
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
