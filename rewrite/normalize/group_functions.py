"""Functions over the groups of a groupBy or coGroup, in the one form that the passes read: `λ(key, groups)`."""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import map_children
from mrql.algebra.analysis.variables import Names, all_names, match_pattern, substitute, var_of
from mrql.algebra.errors import InternalError
from mrql.algebra.terms import (
    CMap,
    GroupBy,
    Lambda,
    Nth,
    Pattern,
    PTuple,
    PVar,
    Single,
    Term,
    Tup,
    element_type,
    pair_type,
)


def paired(term: CMap, names: Names | None = None) -> CMap:
    """The same term with the function's argument taken apart: `λ(k, s)` over a groupBy, `λ(k, (xs, ys))` over a
    coGroup. Without `names`, the new variables have names that are not in the term.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> S = {"S": "{(long, long)}"}
    >>> print(show(paired(parse("cMap(λp. p#1, groupBy(S))", S))))
    cMap(λ(k, s). s, groupBy(S))
    """
    key_type, group_type = pair_type(term.source)
    param = term.function.param
    grouped = isinstance(term.source, GroupBy)
    match param:
        case PTuple((_, PVar())) if grouped:
            return term
        case PTuple((_, PTuple((PVar(), PVar())))) if not grouped:
            return term
        case _:
            names = names or Names(set(all_names(term)))
    k = PVar(names.fresh("k"), key_type)
    groups: Pattern
    if grouped:
        groups = PVar(names.fresh("s"), group_type)
        whole: Term = var_of(groups)
    else:
        assert isinstance(group_type, ty.TupleType)
        xs, ys = (PVar(names.fresh(n), t) for n, t in zip(("xs", "ys"), group_type.items, strict=True))
        groups, whole = PTuple((xs, ys)), Tup((var_of(xs), var_of(ys)))
    body = substitute(term.function.body, match_pattern(param, Tup((var_of(k), whole))))
    return CMap(Lambda(PTuple((k, groups)), _projected(body)), term.source, span=term.span)


def _projected(term: Term) -> Term:
    """The term with the items of tuples in the place of `(e, …)#i`."""
    match map_children(term, _projected):
        case Nth(Tup(items), index):
            return items[index]
        case new:
            return new


def identity(term: Term, names: Names) -> CMap:
    """`cMap(λp. {p}, term)`."""
    x = PVar(names.fresh("p"), element_type(term))
    return CMap(Lambda(x, Single(var_of(x))), term, span=term.span)


def function_parts(term: CMap) -> tuple[Pattern, Pattern, Term]:
    """The key pattern, the pattern of the groups and the body."""
    match term.function:
        case Lambda(PTuple((key, groups)), body):
            return key, groups, body
        case _:
            raise InternalError("grouped", "a function of a key and its groups was expected")
