"""Nested selects that are correlated by an equality become coGroups.

*Equation*: where a nested comprehension over Y stands anywhere in `e(p)` (a head, a condition, under an aggregation):

    {z | p ∈ X, z ∈ e(p)[{h | q ∈ Y, l(p) = r(q), c}]}
      = {z | (k, (xs, ys)) ∈ coGroup({(l(p), p) | p ∈ X}, {(r(q), q) | q ∈ Y}), p ∈ xs, z ∈ e(p)[{h | q ∈ ys, c}]}

An element p without a partner meets the empty bag, as in a left outer join, but without missing values.

Nested comprehensions with the same Y and the same keys, such as the sum and the count of an average, share one coGroup.

Where `e(p)` has further generators, and the equality names one of their variables, these are first combined with p's:

    {z | p ∈ X, q ∈ f(p), z ∈ e(p, q)} = {z | (p, q) ∈ {(p, q) | p ∈ X, q ∈ f(p)}, z ∈ e(p, q)}

So nested selects may also depend on the elements of a join or of a nested bag; and a nested select over a join is one
over the pairs of the join. A nested select that ranges over a collection in the outer element first, and joins its
elements, comes before the others (`dependent_selects.py`).

*Requires*: Y reads streams or static tables and depends on none of the variables; X reads a stream or a table. The
equality names no variable that is bound between the two selects; `c` and `h` may. Rows of Y whose key has a missing
part are dropped, as they equal nothing; those of X stay.

*Source*: [MRQL] §6 (the left outer join by coGroup).

*Does not fire* on a nested select that names no outer variable (it is the same for all p, and kept as a value of its
own), nor on one without an equality to an outer variable (the whole of Y meets each p), nor where each element of a
join would have to contain a group that it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.integer_ranges import may_overflow
from mrql.algebra.analysis.traversal import children, map_children, with_children
from mrql.algebra.analysis.variables import (
    Names,
    all_names,
    bound_names,
    free_vars,
    pattern_term,
    pattern_vars,
    rename_apart,
)
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.terms import CMap, Empty, If, Lambda, Let, Pattern, PTuple, PVar, Single, Term, Tup, Var
from mrql.rewrite.analysis.join_predicates import apart, co_grouped, guard, keyed, link, reads_sources, unguarded
from mrql.rewrite.normalize.dependent_selects import dependent_selects
from mrql.rewrite.normalize.nested_selects import Correlated, Nested, nested_selects
from mrql.rewrite.normalize.normalize import normalize


def unnest_subqueries(term: Term) -> Term:
    """The term with its correlated nested selects turned into coGroups.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> S = {"X": "{(long, long)}", "Y": "{(long, long)}"}
    >>> nested = "cMap(λ(b, c). if a = b then {c} else {}:{long}, Y)"
    >>> q = parse(f"cMap(λ(a, d). if d > reduce(+, {nested}) then {{a}} else {{}}:{{long}}, X)", S)
    >>> "coGroup" in show(unnest_subqueries(q))
    True
    """
    return normalize(_unnest(term, Names(set(all_names(term)))))


def _unnest(term: Term, names: Names) -> Term:
    term = map_children(term, lambda child: _unnest(child, names))
    while isinstance(term, CMap) and reads_sources(term.source):
        attempts = (_unnest_one(candidate, names) for candidate in chain([term], _generators_together(term)))
        rewritten = next((attempt for attempt in attempts if attempt is not None), None)
        if rewritten is None:
            break
        term = rewritten
    return term


def _unnest_one(term: CMap, names: Names) -> Term | None:
    """Moves the first nested select that can be moved, and those with the same matches, into a coGroup with the
    source."""
    # The supply does not know the names of variables that were renamed apart.
    names.taken |= all_names(term)
    pattern, element = pattern_term(term.function.param, names)
    correlated = [*dependent_selects(term, pattern, names), *_selects_over_sources(term, bound_names(pattern), names)]
    if not correlated:
        return None
    first = correlated[0]
    ys = PVar(names.fresh("ys"), ty.BagType(first.element.type))
    body, replaced = term.function.body, set[tuple[int, ...]]()
    for nested in correlated:
        within = any(nested.path[: len(path)] == path for path in replaced)
        if not within and nested.shares_join(first):
            body = _replace(body, nested.path, nested.matches(ys))
            replaced.add(nested.path)
    left = keyed(first.left, pattern, element, term.source, drop_null_keys=False)
    xs = PVar(names.fresh("xs"), ty.BagType(element.type))
    # Each p beside its matches, so that the next nested select can be correlated with p too.
    beside = CMap(Lambda(pattern, Single(Tup((element, Var(ys.name, ys.type))))), Var(xs.name, xs.type))
    key = PVar(names.fresh("k"), first.left.type)
    source = co_grouped(left, first.right, xs, ys, key, beside)
    return CMap(Lambda(PTuple((pattern, ys)), body), source, span=term.span)


def _selects_over_sources(term: CMap, outer: frozenset[str], names: Names) -> Iterator[Correlated]:
    """The correlated nested selects whose first generator is over a source that is the same for all outer elements."""
    for nested in nested_selects(term.function.body, lambda t: reads_sources(t.source) and not free_vars(t.source)):
        correlated = _correlated(nested, outer, names)
        if correlated is not None:
            yield correlated


def _correlated(nested: Nested, outer: frozenset[str], names: Names) -> Correlated | None:
    """The link of a nested comprehension with the outer variables: as it is, or with its first generators combined."""
    together = (term for term in _generators_together(nested.term) if _is_closed(term.source))
    attempts = (_linked(attrs.evolve(nested, term=term), outer, names) for term in chain([nested.term], together))
    return next((attempt for attempt in attempts if attempt is not None), None)


def _links(condition: Term, outer: frozenset[str], inner: frozenset[str]) -> bool:
    """Whether a condition is an equality between the two sides."""
    return link((condition,), outer, inner).on_keys


def _is_closed(source: Term) -> bool:
    """Whether a source may be computed for all outer elements at once."""
    return not free_vars(source) and not may_fail(source)


def _linked(nested: Nested, outer: frozenset[str], names: Names) -> Correlated | None:
    # A name in the nested select may shadow an outer variable.
    param, function = rename_apart(nested.term.function.param, nested.term.function.body, outer | nested.local)
    names.taken |= bound_names(param)
    conditions, head = unguarded(function)
    inner, source = bound_names(param), nested.term.source
    pattern, element = pattern_term(param, names)
    own: tuple[Term, ...] = ()
    if any(may_fail(c) or (may_overflow(c) and _links(c, outer - nested.local, inner)) for c in conditions):
        # A term that may fail is evaluated after the conditions on its side that come before it.
        inside, conditions = apart(conditions, inner)
        own, conditions = apart(conditions, outer - nested.local)
        source = CMap(Lambda(pattern, guard(inside, Single(element))), source) if inside else source
    keys = link(conditions, outer - nested.local, inner)
    left, right_key = nested.outside(keys.left, own), nested.inside(keys.right)
    if not keys.on_keys or left is None or right_key is None:
        return None
    right = keyed(right_key, pattern, element, source, drop_null_keys=True)
    return Correlated(nested.path, left, (*own, *keys.rest), element, right, pattern, head)


def _generators_together(term: CMap) -> Iterator[CMap]:
    """The same comprehension with its first two, three, … generators as one, over the variables that the rest uses."""
    avoided = free_vars(term) | bound_names(term.function.param)
    variables = list(pattern_vars(term.function.param))
    source: Callable[[Term], Term] = partial(_generator, term.function.param, term.source)
    bags = {v.name for v in variables if ty.is_collection(v.type)}
    body = term.function.body
    while True:
        match body:
            case CMap(Lambda(param, then), inner):
                param, body = rename_apart(param, then, avoided)
                source = _inside(source, partial(_generator, param, inner))
            case Let(param, value, then):
                param, body = rename_apart(param, then, avoided)
                source = _inside(source, partial(Let, param, value))
            case If(condition, then, Empty()):
                body = then
                source = _inside(source, partial(_if, condition))
                continue
            case _:
                return
        avoided |= bound_names(param)
        variables += pattern_vars(param)
        used = [v for v in variables if v.name in free_vars(body)]
        if bags & {v.name for v in used}:
            continue  # each element would contain a group of the source
        element = [Var(v.name, v.type) for v in used]
        if len(used) == 1:
            yield CMap(Lambda(used[0], body), source(Single(element[0])), span=term.span)
        else:
            yield CMap(Lambda(PTuple(tuple(used)), body), source(Single(Tup(tuple(element)))), span=term.span)


def _inside(outer: Callable[[Term], Term], inner: Callable[[Term], Term]) -> Callable[[Term], Term]:
    return lambda term: outer(inner(term))


def _generator(param: Pattern, source: Term, body: Term) -> Term:
    return CMap(Lambda(param, body), source)


def _if(condition: Term, then: Term) -> Term:
    return If(condition, then, Empty(then.type))


def _replace(term: Term, path: tuple[int, ...], new: Term) -> Term:
    if not path:
        return new
    parts = list(children(term))
    parts[path[0]] = _replace(parts[path[0]], path[1:], new)
    return with_children(term, tuple(parts))
