"""Conditions on the elements of a group alone are evaluated before the elements are grouped.

*Equation*: where `e` is a comprehension over `xs`, so that it is `{}` if `xs` is empty, and uses `ys` only as
`cMap(λq. if c(q) then …, ys)`, with the same c each time:

    cMap(λ(k, (xs, ys)). e, coGroup(X, Y))
      = cMap(λ(k, (xs, ys)). e[cMap(λq. …, ys)], coGroup(X, {(k, q) | (k, q) ∈ Y, c(q)}))

and likewise for `xs` itself, for the other side, and for the group of a groupBy. A key whose rows of Y all fail `c`
meets the empty bag where it has a partner, as before, and gives `{}` where it has none.

So the state of a nested select has only rows that satisfy its condition, and a batch moves no others: for
`exists(select l from l in lineitem where l.order = o.order and l.late)` the state has only the late line items, and
only the orders that the query selects.

*Requires*: `c` names nothing but `q`, reads no source, and can neither fail nor leave the range of its type, as it is
evaluated for elements without a partner too.

*Source*: [CU] (selections go to the maps); the empty side is that of [MRQL] §6.

*Does not fire* on the test of a join that its keys are not missing, which tells that of its side; nor where only some
uses of the group have the condition, as where a part of a group is counted beside all of it: both are computed from the
same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import children, top_down, with_children
from mrql.algebra.analysis.variables import (
    Names,
    all_names,
    alpha_equal,
    bound_names,
    match_pattern,
    scopes,
    substitute,
    var_of,
)
from mrql.algebra.errors import InternalError
from mrql.algebra.terms import (
    CMap,
    CoGroup,
    GroupBy,
    Lambda,
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
from mrql.rewrite.analysis.join_predicates import guard, is_test_of_a_key, unguarded
from mrql.rewrite.normalize.nested_selects import for_all_of
from mrql.rewrite.normalize.normalize import FIXPOINT_MAX_ROUNDS, normalize
from mrql.rewrite.normalize.prune_columns import ROW, prune_columns


def push_selections(term: Term) -> Term:
    """The term with the conditions on the elements of groups moved to the sources of the groups; columns that are then
    unused are dropped.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import pretty
    >>> streams = {"X": "{(long, long)}", "Y": "{(long, long)}"}
    >>> late = "reduce(+, cMap(λy. if y > 3L then {1L} else {}:{long}, ys))"
    >>> q = parse(f"cMap(λ(k, (xs, ys)). cMap(λx. {{(x, {late})}}, xs), coGroup(X, Y))", streams)
    >>> print(pretty(push_selections(q), types=False))
    cMap(
      λ(k, (xs, ys)). cMap(λx. {(x, reduce(+, cMap(λ(). {1L}, ys)))}, xs),
      coGroup(X, cMap(λ(k, x1). if x1 > 3L then {(k, ())} else {}, Y))
    )
    """
    for _ in range(FIXPOINT_MAX_ROUNDS):
        pushed = top_down(term, _push)
        if pushed is term:
            return term
        term = prune_columns(normalize(pushed))
    raise InternalError("selections", f"no fixpoint after {FIXPOINT_MAX_ROUNDS} rounds")


def _push(term: Term) -> Term:
    match term:
        case CMap(Lambda(PTuple((_, PVar() as group)), body), GroupBy()):
            groups: tuple[PVar, ...] = (group,)
        case CMap(Lambda(PTuple((_, PTuple((PVar() as xs, PVar() as ys)))), body), CoGroup()):
            groups = (xs, ys)
        case _:
            return term
    if not _ranges_over(body, {group.name for group in groups}):
        return term
    sources = []
    for group, source in zip(groups, children(term.source), strict=True):
        body, source = _push_side(group, body, source)
        sources.append(source)
    return with_children(term, (body, with_children(term.source, tuple(sources))))


def _ranges_over(term: Term, groups: set[str]) -> bool:
    """Whether a term is a comprehension over one of the groups, and so `{}` where that group is empty."""
    while isinstance(term, CMap):
        term = term.source
    return isinstance(term, Var) and term.name in groups


def _push_side(group: PVar, body: Term, source: Term) -> tuple[Term, Term]:
    """The body without the conditions that all uses of a group have, and the group's source with these."""
    element = pair_type(source)[1]
    first, *others = list(_uses(body, group.name)) or [()]
    shared = [c for c in first if all(_is_among(c, conditions) for conditions in others)]
    if not shared:
        return body, source
    names = Names(set(all_names(body) | all_names(source)))
    key, row = PVar(names.fresh("k"), pair_type(source)[0]), PVar(names.fresh("x"), element)
    asked = [substitute(condition, {ROW: var_of(row)}) for condition in shared]
    pair = Single(Tup((var_of(key), var_of(row))))
    return _without(body, group.name, shared), CMap(Lambda(PTuple((key, row)), guard(asked, pair)), source)


def _is_among(condition: Term, conditions: Iterable[Term]) -> bool:
    return any(alpha_equal(condition, other) for other in conditions)


def _uses(term: Term, group: str) -> Iterator[tuple[Term, ...]]:
    """For each use of a group, the conditions that can be evaluated before grouping, over the variable `ROW`."""
    match term:
        case Var(name, _):
            if name == group:
                yield ()
        case CMap(Lambda(param, body), Var(name, _) as source) if name == group:
            conditions, _ = unguarded(body)
            own, _ = for_all_of(conditions, bound_names(param))
            yield tuple(_over_row(c, param, element_type(source)) for c in own if not is_test_of_a_key(c))
            if group not in bound_names(param):
                yield from _uses(body, group)
        case _:
            for child, bound in zip(children(term), scopes(term), strict=True):
                if group not in bound:
                    yield from _uses(child, group)


def _over_row(condition: Term, param: Pattern, element: ty.Type) -> Term:
    return substitute(condition, match_pattern(param, Var(ROW, element)))


def _without(term: Term, group: str, asked: list[Term]) -> Term:
    """The term without those conditions in the group's uses that its elements satisfy."""
    match term:
        case CMap(Lambda(param, body), Var(name, _) as source) if name == group:
            conditions, head = unguarded(body)
            element = element_type(source)
            rest = [c for c in conditions if not _is_among(_over_row(c, param, element), asked)]
            left = guard(rest, head)
            left = left if group in bound_names(param) else _without(left, group, asked)
            return CMap(Lambda(param, left), source, span=term.span)
        case _:
            parts = zip(children(term), scopes(term), strict=True)
            return with_children(
                term, tuple(part if group in bound else _without(part, group, asked) for part, bound in parts)
            )
