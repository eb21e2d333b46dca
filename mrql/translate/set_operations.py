"""`except` and `intersect`: coGroups by the whole element.

    x except y     {v | (v, (xs, ys)) ∈ coGroup({(v, ()) | v ∈ x}, {(v, ()) | v ∈ y}), _ ∈ xs, count(ys) = 0}
    x intersect y  {v | (v, (xs, ys)) ∈ coGroup({(v, ()) | v ∈ x}, {(v, ()) | v ∈ y}), _ ∈ xs, count(ys) > 0}

An element of x that is kept occurs as often as in x. The keys of a coGroup are compared as those of a group-by, so that
here a missing value is an element like any other. The state has a number for each element on either side, and a batch
looks at the elements that it inserts or deletes. The result is a bag, also for lists, as that of a select.

*Source*: [MRQL] §5 (coGroup).
"""

from __future__ import annotations

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import missing_parts
from mrql.algebra.analysis.variables import Names
from mrql.algebra.errors import UserError
from mrql.algebra.terms import (
    CMap,
    CoGroup,
    Empty,
    If,
    Lambda,
    Lit,
    PAny,
    Pattern,
    PTuple,
    PVar,
    Single,
    Term,
    Tup,
    Var,
    cast_to,
    element_type,
)
from mrql.algebra.types import Type
from mrql.translate.quantifiers import exists, none


def except_or_intersect(left: Term, right: Term, expr: syntax.Binary, names: Names) -> Term:
    """The elements of `left` that do not occur in `right`, or those that do, by the operator of `expr`.

    Raises: UserError where a side is no collection, or where no element of one side can be one of the other.
    """
    joined = ty.join_types(left.type, right.type) if ty.is_collection(left.type) else None
    if not isinstance(joined, ty.BagType | ty.ListType):
        message = f"`{expr.op.value}` of {left.type} and {right.type}"
        raise UserError(message, expr.span, "both sides must be bags, or lists, of values of one type")
    t = joined.item
    kept = element_type(left)
    k = PVar(names.fresh("k"), t)
    missing = PVar(names.fresh("m"), ty.BOOL)
    flags = len(missing_parts(Var(k.name, t)))
    # The element is that in the key, unless it had to be widened to be compared, or contains tuples or records.
    stored = ty.UNIT if kept == t and flags < 2 else kept
    xs, ys = PVar(names.fresh("xs"), ty.BagType(stored)), PVar(names.fresh("ys"), ty.BagType(ty.UNIT))
    x = PAny(stored) if stored == ty.UNIT else PVar(names.fresh("x"), stored)
    element: Term = Var(x.name, x.type) if isinstance(x, PVar) else Var(k.name, t)
    if flags == 1 and isinstance(x, PAny):
        element = If(Var(missing.name, ty.BOOL), Lit(None, t), element)
    wanted = none if expr.op is syntax.BinaryOp.EXCEPT else exists
    one = Single(element)
    found = wanted(Var(ys.name, ys.type), names, expr.span)
    body = CMap(Lambda(x, If(found, one, Empty(one.type))), Var(xs.name, xs.type))
    sides = CoGroup(_keyed(left, t, stored, names), _keyed(right, t, ty.UNIT, names))
    key: Pattern = k if not flags else PTuple((k, missing, *(PAny(ty.BOOL) for _ in range(flags - 1))))
    return CMap(Lambda(PTuple((key, PTuple((xs, ys)))), body), sides, span=expr.span)


def _keyed(collection: Term, t: Type, stored: Type, names: Names) -> Term:
    """`{(v, ()) | v ∈ X}`, or `{(v as t, v) | v ∈ X}`; the key says of each tuple and record in it if it is missing."""
    v = PVar(names.fresh("v"), element_type(collection))
    element: Term = Var(v.name, v.type)
    wide = cast_to(element, t)
    flags = missing_parts(wide)
    key = Tup((wide, *flags)) if flags else wide
    return CMap(Lambda(v, Single(Tup((key, Tup(()) if stored == ty.UNIT else element)))), collection)
