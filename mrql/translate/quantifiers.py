"""Conditions on the elements of a collection, as counts of witnesses.

    some p in e: c      count({1 | p ∈ e, c}) > 0
    all p in e: c       count({1 | p ∈ e, not c}) = 0
    x in e              count({1 | y ∈ e, y = x}) > 0
    exists(e)           count({1 | y ∈ e}) > 0
    some(e), all(e)     some y in e: y, and all y in e: y

Counts have an inverse, so that a deleted witness is subtracted, and an equality in `c` is a join key like one in a
`where`. A missing condition is neither a witness nor a violation: aggregations skip missing values. A comparison with
null is false, so that null is in no collection.

*Source*: [MRQL] §6, which nests such conditions as aggregations.
"""

from __future__ import annotations

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names, var_of
from mrql.algebra.errors import UserError
from mrql.algebra.functions import EQ, GT, NOT
from mrql.algebra.monoids import SUM
from mrql.algebra.span import Span
from mrql.algebra.terms import CMap, Empty, If, Lambda, Lit, Prim, PVar, Reduce, Single, Term, element_type
from mrql.translate.coercion import coerce
from mrql.translate.data_types import compared
from mrql.translate.generators import guard, nest, translate_generators
from mrql.translate.scope import Globals, Scope

ONE = Single(Lit(1, ty.LONG))
NO_WITNESS = Empty(ty.BagType(ty.LONG))


def is_some(witnesses: Term, span: Span) -> Term:
    """Whether there is a witness, given a bag with a 1 for each."""
    return Prim(GT, (Reduce(SUM, witnesses), Lit(0, ty.LONG)), span=span)


def is_none(violations: Term, span: Span) -> Term:
    """Whether there is no violation, given a bag with a 1 for each."""
    return Prim(EQ, (Reduce(SUM, violations), Lit(0, ty.LONG)), span=span)


def some_true(collection: Term, names: Names, span: Span) -> Term:
    """`some(e)`: whether any element is true."""
    v = _element(collection, names)
    return is_some(CMap(Lambda(v, If(var_of(v), ONE, NO_WITNESS)), collection), span)


def all_true(collection: Term, names: Names, span: Span) -> Term:
    """`all(e)`: whether no element is false."""
    v = _element(collection, names)
    return is_none(CMap(Lambda(v, If(Prim(NOT, (var_of(v),)), ONE, NO_WITNESS)), collection), span)


def exists(collection: Term, names: Names, span: Span) -> Term:
    """`exists(e)`: whether there is an element, missing or not."""
    return is_some(CMap(Lambda(_element(collection, names), ONE), collection), span)


def none(collection: Term, names: Names, span: Span) -> Term:
    """Whether there is no element."""
    return is_none(CMap(Lambda(_element(collection, names), ONE), collection), span)


def member(item: Term, collection: Term, known: Globals, span: Span, hint: str | None = None) -> Term:
    """`x in e`; the hint is for an `e` that cannot contain `x`.

    Raises: UserError where `e` is no collection, or one whose elements cannot be equal to `x`.
    """
    if not ty.is_collection(collection.type):
        raise UserError(f"`in` takes a collection on its right, not {collection.type}", span, hint)
    v = _element(collection, known.names)
    if ty.join_types(item.type, v.type) is None:
        raise UserError(f"`in` looks for a value of type {item.type} among values of type {v.type}", span, hint)
    equal = Prim(EQ, (compared(var_of(v), known), compared(item, known)), span=span)
    return is_some(CMap(Lambda(v, If(equal, ONE, NO_WITNESS)), collection), span)


def quantified(expr: syntax.Quantified, scope: Scope) -> Term:
    """`some p in e, …: c` and `all p in e, …: c`.

    Raises: UserError where the condition is no bool, and for errors in the generators.
    """
    word = expr.kind.value
    origin = translate_generators(expr.generators, scope, word)
    condition = coerce(origin.scope.translate(expr.body), ty.BOOL, expr.body.span, f"the condition of `{word}`")
    if expr.kind is syntax.QuantifierKind.SOME:
        return is_some(nest(origin.generators, guard([*origin.match.conditions, condition], ONE)), expr.span)
    violated = Prim(NOT, (condition,), span=condition.span)
    return is_none(nest(origin.generators, guard([*origin.match.conditions, violated], ONE)), expr.span)


def _element(collection: Term, names: Names) -> PVar:
    return PVar(names.fresh("v"), element_type(collection))
