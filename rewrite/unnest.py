"""Nested selects that are correlated by an equality become coGroups.

*Equation*: where a nested comprehension over Y stands anywhere in `e(p)` (a head, a condition, under an aggregation):

    {z | p ∈ X, z ∈ e(p)[{h | q ∈ Y, l(p) = r(q), c}]}
      = {z | (k, (xs, ys)) ∈ coGroup({(l(p), p) | p ∈ X}, {(r(q), q) | q ∈ Y}), p ∈ xs, z ∈ e(p)[{h | q ∈ ys, c}]}

An element p without a partner meets the empty bag, as in a left outer join, but without missing values.

*Requires*: Y reads streams or static tables and depends on none of the variables; X reads a stream or a table. Rows of
Y whose key has a missing part are dropped, as they equal nothing; those of X stay.

*Source*: [MRQL] §6 (the left outer join by coGroup).

*Does not fire* on a nested select that names no outer variable (it is the same for all p, and kept as a value of its
own), nor on one without an equality to an outer variable (the whole of Y meets each p).
"""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.binders import Names, all_names, bound_names, free_vars, pattern_term, rename_apart
from mrql.algebra.terms import CMap, Empty, If, Lambda, Let, PTuple, PVar, Single, Term, Tup, Var
from mrql.algebra.traversal import children, map_children, with_children
from mrql.rewrite.equate import co_grouped, conjuncts, guard, keyed, link, reads_sources
from mrql.rewrite.normalize import normalize


def unnest(term: Term) -> Term:
    """The term with its correlated nested selects turned into coGroups.

    >>> from mrql.algebra.reader import parse
    >>> from mrql.algebra.show import show
    >>> S = {"X": "{(long, long)}", "Y": "{(long, long)}"}
    >>> nested = "cMap(λ(b, c). if a = b then {c} else {}:{long}, Y)"
    >>> q = parse(f"cMap(λ(a, d). if d > reduce(+, {nested}) then {{a}} else {{}}:{{long}}, X)", S)
    >>> "coGroup" in show(unnest(q))
    True
    """
    return normalize(_unnest(term, Names(set(all_names(term)))))


def _unnest(term: Term, names: Names) -> Term:
    term = map_children(term, lambda child: _unnest(child, names))
    while isinstance(term, CMap) and reads_sources(term.source):
        rewritten = _unnest_one(term, names)
        if rewritten is None:
            break
        term = rewritten
    return term


@attrs.frozen
class Nested:
    """A nested comprehension `{h | q ∈ Y, conditions}` and where it stands: the path of child positions."""

    path: tuple[int, ...]
    term: CMap


def _unnest_one(term: CMap, names: Names) -> Term | None:
    """Moves the first nested select that can be into a coGroup with the source."""
    pattern, element = pattern_term(term.function.param, names)
    outer = bound_names(pattern)
    for nested in _nested(term.function.body, (), frozenset()):
        # A name of the nested select may cover one of the outer variables.
        param, function = rename_apart(nested.term.function.param, nested.term.function.body, outer)
        conditions, head = _conditions(function)
        keys = link(conditions, outer, bound_names(param))
        if not keys.on_keys:
            continue
        inner_pattern, inner_element = pattern_term(param, names)
        left = keyed(keys.left, pattern, element, term.source, drop_null_keys=False)
        right = keyed(keys.right, inner_pattern, inner_element, nested.term.source, drop_null_keys=True)
        xs = PVar(names.fresh("xs"), ty.BagType(element.type))
        ys = PVar(names.fresh("ys"), ty.BagType(inner_element.type))
        matches = CMap(Lambda(inner_pattern, guard(keys.rest, head)), Var(ys.name, ys.type))
        body = _replace(term.function.body, nested.path, matches)
        # Each p beside its matches: the next nested select is correlated with p again.
        beside = CMap(Lambda(pattern, Single(Tup((element, Var(ys.name, ys.type))))), Var(xs.name, xs.type))
        key = PVar(names.fresh("k"), keys.left.type)
        source = co_grouped(left, right, xs, ys, key, beside)
        return CMap(Lambda(PTuple((pattern, ys)), body), source, span=term.span)
    return None


def _nested(term: Term, path: tuple[int, ...], local: frozenset[str]) -> list[Nested]:
    """The nested comprehensions over sources that do not depend on local variables, outermost first."""
    found = []
    over_sources = isinstance(term, CMap) and reads_sources(term.source) and not free_vars(term.source)
    if isinstance(term, CMap) and over_sources and not free_vars(term) & local:
        found.append(Nested(path, term))
    for i, child in enumerate(children(term)):
        found += _nested(child, (*path, i), local | _binds(term, i))
    return found


def _binds(term: Term, position: int) -> frozenset[str]:
    """The variables that the child at a position sees and the term itself does not."""
    match term:
        case CMap(Lambda(param, _), _) if position == 0:
            return bound_names(param)
        case Let(pattern, _, _) if position == 1:
            return bound_names(pattern)
        case _:
            return frozenset()


def _conditions(body: Term) -> tuple[tuple[Term, ...], Term]:
    match body:
        case If(condition, then, Empty()):
            conditions, head = _conditions(then)
            return (*conjuncts(condition), *conditions), head
        case _:
            return (), body


def _replace(term: Term, path: tuple[int, ...], new: Term) -> Term:
    if not path:
        return new
    parts = list(children(term))
    parts[path[0]] = _replace(parts[path[0]], path[1:], new)
    return with_children(term, tuple(parts))
