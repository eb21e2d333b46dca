"""Reductions of a collection within one row as Catalyst expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrql.algebra import types as ty
from mrql.algebra.analysis.integer_ranges import has_one_at_most, is_narrow
from mrql.algebra.monoids import PRODUCT, SUM, Aggregate, Fold
from mrql.algebra.terms import CMap, Empty, If, Lambda, Reduce, Single, Term, Union, Var, element_type
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions import long_products
from mrql.runtime.spark.expressions.aggregates import added_sql, combine_sql, unit_sql, zero_sql
from mrql.runtime.spark.expressions.canonical_order import in_order
from mrql.runtime.spark.expressions.casts import cast
from mrql.runtime.spark.expressions.conditions import condition_sql
from mrql.runtime.spark.expressions.layout import Atom, Struct, bind, label, sql_type, to_sql
from mrql.runtime.spark.expressions.literals import place

if TYPE_CHECKING:
    from mrql.runtime.spark.expressions.expressions import Environment, Expressions


def reduced_sql(
    expressions: Expressions, monoid: Aggregate, t: Type, source: Term, env: Environment, at: str = ""
) -> str:
    """`reduce(⊕, e)` of a nested collection: by the structure of e where that is known, else by `aggregate`."""
    match source:
        case Empty():
            return zero_sql(monoid, t)
        case Single(item):
            return unit_sql(monoid, t, cast(expressions.value(item, env), item.type, t, ""))
        case If(condition, then, otherwise):
            parts = [reduced_sql(expressions, monoid, t, part, env) for part in (then, otherwise)]
            return f"if({condition_sql(expressions, condition, env)}, {parts[0]}, {parts[1]})"
        case _ if monoid == SUM and (not ty.is_integral(t) or not is_narrow(Reduce(monoid, source))):
            return added_sql(t, _shares(expressions, SUM, t, source, env), expressions.fresh, at)
        case _ if monoid == PRODUCT and t == ty.LONG:
            return long_products.of_array(_shares(expressions, PRODUCT, t, source, env), expressions.fresh, at)
        case Union(left, right):
            parts = [reduced_sql(expressions, monoid, t, part, env) for part in (left, right)]
            return combine_sql(monoid, parts[0], parts[1], place(source.span))
        case CMap(Lambda(_, body)):
            array, param, element = expressions.elements(source, env)
            x, acc = expressions.fresh(), expressions.fresh("a")
            scope = {**env, **bind(param, Atom(x, element))}
            step = combine_sql(monoid, acc, reduced_sql(expressions, monoid, t, body, scope), "")
            return f"aggregate({array}, {zero_sql(monoid, t)}, ({acc}, {x}) -> {step})"
        case _:
            x, acc = expressions.fresh(), expressions.fresh("a")
            share = unit_sql(monoid, t, cast(Atom(x, element_type(source)), element_type(source), t, ""))
            step = combine_sql(monoid, acc, share, "")
            return f"aggregate({expressions.array(source, env)}, {zero_sql(monoid, t)}, ({acc}, {x}) -> {step})"


def _shares(expressions: Expressions, monoid: Aggregate, t: Type, source: Term, env: Environment) -> str:
    """The addends of a sum, or the factors of a product, as an array of numbers of its type."""
    match source:
        case CMap(Lambda(_, body)) if has_one_at_most(body):
            array, param, item = expressions.elements(source, env)
            x = expressions.fresh()
            scope = {**env, **bind(param, Atom(x, item))}
            return f"transform({array}, {x} -> {reduced_sql(expressions, monoid, t, body, scope)})"
        case _:
            x, item = expressions.fresh(), element_type(source)
            share = unit_sql(monoid, t, cast(Atom(x, item), item, t, ""))
            return f"transform({expressions.array(source, env)}, {x} -> {share})"


def folded_sql(expressions: Expressions, fold: Fold, array: str) -> str:
    """`reduce(⊕, e)` with a `⊕` that the query defines, over an array in canonical order; missing elements count as its
    zero."""
    elements = Var(expressions.fresh(), ty.BagType(fold.type))
    if expressions.in_python(reduced := Reduce(fold, elements)):
        return to_sql(expressions.python(reduced, {elements.name: Atom(array, elements.type)}))
    x, acc = expressions.fresh(), expressions.fresh("a")
    zero = f"CAST({expressions.sql(fold.zero, {})} AS {sql_type(fold.type)})"
    share = Atom(f"coalesce({x}, {zero})", fold.type)
    pair = Struct(((label(0), Atom(acc, fold.type)), (label(1), share)), ty.TupleType((fold.type, fold.type)))
    step = expressions.sql(fold.combine.body, bind(fold.combine.param, pair))
    ordered = in_order(array, elements.type, expressions.fresh)
    return f"aggregate({ordered}, {zero}, ({acc}, {x}) -> CAST({step} AS {sql_type(fold.type)}))"
