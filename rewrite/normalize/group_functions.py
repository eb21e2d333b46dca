"""Functions over the groups of a groupBy or coGroup, in the one form that the passes read: `λ(key, groups)`."""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names
from mrql.algebra.errors import InternalError
from mrql.algebra.terms import (
    CMap,
    GroupBy,
    Lambda,
    Let,
    Pattern,
    PTuple,
    PVar,
    Single,
    Term,
    Tup,
    Var,
    element_type,
    pair_type,
)
from mrql.rewrite.normalize.normalize import normalize


def paired(term: CMap, names: Names) -> CMap:
    """The same term with the function's argument taken apart: `λ(k, s)` over a groupBy, `λ(k, (xs, ys))` over a
    coGroup."""
    key_type, group_type = pair_type(term.source)
    param = term.function.param
    grouped = isinstance(term.source, GroupBy)
    match param:
        case PTuple((_, PVar())) if grouped:
            return term
        case PTuple((_, PTuple((PVar(), PVar())))) if not grouped:
            return term
        case _:
            pass
    k = PVar(names.fresh("k"), key_type)
    groups: Pattern
    if grouped:
        groups = PVar(names.fresh("s"), group_type)
        whole: Term = Var(groups.name, groups.type)
    else:
        assert isinstance(group_type, ty.TupleType)
        xs, ys = (PVar(names.fresh(n), t) for n, t in zip(("xs", "ys"), group_type.items, strict=True))
        groups, whole = PTuple((xs, ys)), Tup((Var(xs.name, xs.type), Var(ys.name, ys.type)))
    body = normalize(Let(param, Tup((Var(k.name, key_type), whole)), term.function.body))
    return CMap(Lambda(PTuple((k, groups)), body), term.source, span=term.span)


def identity(term: Term, names: Names) -> CMap:
    """`cMap(λp. {p}, term)`."""
    x = PVar(names.fresh("p"), element_type(term))
    return CMap(Lambda(x, Single(Var(x.name, x.type))), term, span=term.span)


def function_parts(term: CMap) -> tuple[Pattern, Pattern, Term]:
    """The key pattern, the pattern of the groups and the body."""
    match term.function:
        case Lambda(PTuple((key, groups)), body):
            return key, groups, body
        case _:
            raise InternalError("grouped", "a function of a key and its groups was expected")
