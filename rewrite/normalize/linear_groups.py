"""A function that is linear in a group is applied to each element by itself, and one that is linear in both groups to
each part of a union.

*Equations*:

    groupBy(e).cMap(λ(k, s). e')  →  cMap(λ(k, x). e'[{x}/s], e), where e' is linear in s     ([MRQL] (3), generalised)
    coGroup likewise, where e' is linear in one side and does not use the other
    coGroup(c, d).cMap(λ(k, (xs, _)). cMap(f, xs))  →  groupBy(c).cMap(λ(k, xs). cMap(f, xs)), likewise on the right

    cMap(f, coGroup(A ⊎ B, C))  →  cMap(f, coGroup(A, C)) ⊎ cMap(f, coGroup(B, C)), likewise on the right,
    where f is linear in each group, and uses both

After the second one, the term is linear in each stream, also where a stream occurs in several parts: with A unchanged,
`A ⊎ B` does not grow as B does, but has A, too.
"""

from __future__ import annotations

from itertools import product

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names, all_names, bound_names, free_vars, pattern_vars, substitute, var_of
from mrql.algebra.terms import (
    Cast,
    CMap,
    CoGroup,
    GroupBy,
    Lambda,
    PAny,
    Pattern,
    PTuple,
    PVar,
    Single,
    Term,
    Var,
    pair_type,
)
from mrql.rewrite.analysis.infer_merge import is_linear, joins_elements
from mrql.rewrite.analysis.multilinear import summands


def over_elements(term: CMap) -> CMap:
    """The term with the function applied to each element by itself, where it is linear in its group.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> types = {"S": ty.BagType(ty.TupleType((ty.LONG, ty.LONG)))}
    >>> print(show(over_elements(parse("cMap(λ(k, s). cMap(λv. {(k, v)}, s), groupBy(S))", types))))
    cMap(λ(k, x). cMap(λv. {(k, v)}, {x}), S)
    """
    match term:
        case CMap(Lambda(PTuple((key, PVar(group, _))), body), GroupBy(source)) if _linear_in(body, group):
            return _by_element(key, group, body, source)
        case CMap(Lambda(PTuple((key, PTuple((xs, ys)))), body), CoGroup(left, right)):
            for used, other, side in ((xs, ys, left), (ys, xs, right)):
                if bound_names(other) & free_vars(body) or not isinstance(used, PVar):
                    continue
                if _linear_in(body, used.name):
                    return _by_element(key, used.name, body, side)
                if _ranges_over(body, used.name) and pair_type(GroupBy(side)) == (key.type, used.type):
                    return CMap(Lambda(PTuple((key, used)), body), GroupBy(side), span=term.span)
            return term
        case _:
            return term


def over_summands(term: CMap) -> tuple[CMap, ...]:
    """The terms of which the term is the union, where its function joins the elements of two groups, of which one is a
    union of parts of one type; otherwise the term itself.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> types = {name: ty.BagType(ty.TupleType((ty.LONG, ty.LONG))) for name in "STU"}
    >>> join = "cMap(λ(k, (xs, ys)). cMap(λx. cMap(λy. {(x, y)}, ys), xs), coGroup(S ⊎ T, U))"
    >>> [show(part.source) for part in over_summands(parse(join, types))]
    ['coGroup(S, U)', 'coGroup(T, U)']
    """
    match term:
        case CMap(Lambda(PTuple((_, groups)), body), CoGroup(left, right)) if joins_elements(body, groups):
            pairs = product(summands(left), summands(right))
            return tuple(CMap(term.function, CoGroup(a, b), span=term.span) for a, b in pairs)
        case _:
            return (term,)


def _ranges_over(body: Term, group: str) -> bool:
    """Whether a function is a cMap over the group: a key without elements in it has no result."""
    return isinstance(body, CMap) and isinstance(body.source, Var) and body.source.name == group


def _linear_in(body: Term, group: str) -> bool:
    return group in free_vars(body) and is_linear(body, group)


def _by_element(key: Pattern, group: str, body: Term, source: Term) -> CMap:
    item_type = source.type
    assert isinstance(item_type, ty.BagType)
    assert isinstance(item_type.item, ty.TupleType)
    names = Names(set(all_names(body) | bound_names(key)))
    own, element = _retype(key, item_type.item.items[0]), PVar(names.fresh("x"), item_type.item.items[1])
    widened = {
        wide.name: Cast(var_of(narrow), wide.type)
        for narrow, wide in zip(pattern_vars(own), pattern_vars(key), strict=True)
        if narrow.type != wide.type
    }
    by_element = substitute(body, {**widened, group: Single(Var(element.name, element.type))})
    return CMap(Lambda(PTuple((own, element)), by_element), source)


def _retype(pattern: Pattern, t: ty.Type) -> Pattern:
    """The pattern for the source's own key type: the key of a coGroup may be wider than that of one side."""
    match pattern, t:
        case PVar(name, _), _:
            return PVar(name, t)
        case PAny(_), _:
            return PAny(t)
        case PTuple(items), ty.TupleType(types):
            return PTuple(tuple(map(_retype, items, types)))
        case _:
            return pattern
