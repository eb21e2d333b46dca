"""Values of type `any`, which are JSON: their members and elements, and equality with values of other types.

    e.A                 member(e, "A"): missing where there is none
    from x in e         x in e as [any]
    e = 3, "a" in e.T   e = (3 as any), ("a" as any) in (e.T as [any])

JSON values have no order: a comparison needs a cast, as in `e as long < 3`.
"""

from __future__ import annotations

import attrs

from mrql import syntax
from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.terms import Cast, Lit, Prim, Term
from mrql.algebra.types import Type

CAST_HINT = "`e as t` takes a value of type any as one of type t"
EQUALITIES = {syntax.BinaryOp.EQUAL, syntax.BinaryOp.NOT_EQUAL}


def member(value: Term, name: str) -> Term:
    """`e.A` of a JSON value."""
    return Prim(fn.MEMBER, (value, Lit(name, ty.STRING)))


def as_collection(term: Term) -> Term:
    """A JSON value as the list of its elements, where a collection is required; any other term as it is."""
    return Cast(term, ty.ListType(ty.ANY), span=term.span) if term.type == ty.ANY else term


def met(op: syntax.BinaryOp, left: Term, right: Term) -> tuple[Term, Term]:
    """The two sides of an equality or of `in`; if one is JSON, the other one as JSON, too."""
    if op in EQUALITIES:
        return _as_json(left, right.type), _as_json(right, left.type)
    if op is syntax.BinaryOp.IN:
        right = as_collection(right)
        if isinstance(right.type, ty.BagType | ty.ListType):
            item = right.type.item
            if left.type == ty.ANY and item != ty.ANY and ty.is_json(item):
                return left, Cast(right, attrs.evolve(right.type, item=ty.ANY), span=right.span)
            return _as_json(left, item), right
    return left, right


def _as_json(term: Term, beside: Type) -> Term:
    if beside != ty.ANY or term.type in (ty.ANY, ty.NOTHING) or not ty.is_json(term.type):
        return term
    return Cast(term, ty.ANY, span=term.span)
