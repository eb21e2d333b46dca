"""Equality predicates between generators become coGroups.

*Equation*: for generators `p ∈ X` and `q ∈ Y` of one comprehension, where Y does not depend on p:

    {e | p ∈ X, q ∈ Y, l(p) = r(q), c}
      = {e | (k, (xs, ys)) ∈ coGroup({(l(p), p) | p ∈ X}, {(r(q), q) | q ∈ Y}), p ∈ xs, q ∈ ys, c}

Generators are joined from left to right, those first that an equality links with what is joined already; conditions
move to the first place where all their variables are bound. Without an equality the key is `()`. A term that may fail
is no key, and does not move, where an earlier condition is on the same rows.

An equality may name the variable of a generator over a part of p: it links X flattened with that generator, wherever
this stands in the text.

    {e | p ∈ X, q ∈ Y, h ∈ f(p), l(h) = r(q), c} = {e | (p, h) ∈ {(p, h) | p ∈ X, h ∈ f(p)}, q ∈ Y, l(h) = r(q), c}

*Requires*: X and Y read streams or static tables. Rows whose key has a missing part are dropped on both sides: a
comparison with null is false. A generator that may fail does not move before one that it came after, which may be
empty.

*Source*: [MRQL] §5 (coGroup, and the exclusion of nested cMaps over streams in Def. 1), §6.

*Does not fire* on a generator that ranges over a part of an outer element (`i in x.items`): that is a cMap already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TypeAlias

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import map_children
from mrql.algebra.analysis.variables import Names, all_names, bound_names, free_vars, pattern_term, rename_apart, var_of
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.terms import CMap, Empty, If, Lambda, Let, Pattern, PTuple, PVar, Single, Term, Tup
from mrql.rewrite.analysis.join_predicates import apart, co_grouped, conjuncts, guard, keyed, link, reads_sources
from mrql.rewrite.normalize.normalize import normalize


def extract_joins(term: Term) -> Term:
    """The term with every comprehension over several sources turned into coGroups.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> S = {"S": "{(long, long)}", "T": "{(long, long)}"}
    >>> q = parse("cMap(λ(a, b). cMap(λ(c, d). if b = c then {(a, d)} else {}:{(long, long)}, T), S)", S)
    >>> "coGroup" in show(extract_joins(q))
    True
    """
    return normalize(_joins(term, Names(set(all_names(term)))))


def _joins(term: Term, names: Names) -> Term:
    if isinstance(term, CMap):
        # Generators bind no name that the comprehension uses from outside, as they are reordered.
        spine = comprehension(term, names, free_vars(term))
        if sum(map(_is_bulk, spine.generators)) > 1:
            inner = attrs.evolve(
                spine,
                generators=tuple(attrs.evolve(g, source=_joins(g.source, names)) for g in spine.generators),
                conditions=tuple(_joins(condition, names) for condition in spine.conditions),
                head=_joins(spine.head, names),
            )
            return _join_all(inner, names)
    return map_children(term, lambda child: _joins(child, names))


Conditions: TypeAlias = tuple[Term, ...]


@attrs.frozen
class JoinGenerator:
    pattern: Pattern
    source: Term

    @property
    def bound(self) -> frozenset[str]:
        return bound_names(self.pattern)


def bound_by(generators: Iterable[JoinGenerator]) -> frozenset[str]:
    """The names that some generators bind."""
    return frozenset[str]().union(*(generator.bound for generator in generators))


def over_generators(generators: Sequence[JoinGenerator], body: Term) -> Term:
    """`{z | p1 ∈ e1, p2 ∈ e2, …, z ∈ body}` as nested cMaps."""
    return reduce(lambda inner, g: CMap(Lambda(g.pattern, inner), g.source), reversed(generators), body)


@attrs.frozen
class Spine:
    """A comprehension: `{z | p1 ∈ e1, p2 ∈ e2, …, conditions, z ∈ head}`."""

    generators: tuple[JoinGenerator, ...]
    conditions: Conditions
    head: Term


def comprehension(term: Term, names: Names, bound: frozenset[str], under: bool = False) -> Spine:
    """Nested cMaps, ifs and lets read as one comprehension, in which no two generators bind the same name.

    A generator that may fail, and comes `under` a condition, stays in the head, as generators are reordered.
    """
    match term:
        case CMap(_, value) | Let(_, value, _) if under and may_fail(value) and not reads_sources(value):
            return Spine((), (), term)
        case CMap(Lambda(param, body), source):
            # Patterns without `_`: the joined element is rebuilt from its variables.
            pattern, _ = pattern_term(param, names)
            pattern, body = rename_apart(pattern, body, bound)
            names.taken |= bound_names(pattern)
            inner = comprehension(body, names, bound | bound_names(pattern), under)
            return attrs.evolve(inner, generators=(JoinGenerator(pattern, source), *inner.generators))
        case If(condition, then, Empty()):
            inner = comprehension(then, names, bound, True)
            return attrs.evolve(inner, conditions=(*conjuncts(condition), *inner.conditions))
        case Let(pattern, value, body) if not reads_sources(value):
            # A let is a generator over its one value.
            pattern, _ = pattern_term(pattern, names)
            pattern, body = rename_apart(pattern, body, bound)
            names.taken |= bound_names(pattern)
            inner = comprehension(body, names, bound | bound_names(pattern), under)
            return attrs.evolve(inner, generators=(JoinGenerator(pattern, Single(value)), *inner.generators))
        case _:
            return Spine((), (), term)


def _is_bulk(generator: JoinGenerator) -> bool:
    return reads_sources(generator.source)


def _join_all(spine: Spine, names: Names) -> Term:
    pending = list(spine.generators)
    bound_anywhere = bound_by(pending)
    # Where each source depends on a generator that is no source, the first generator comes first.
    sources = [g for g in pending if _is_bulk(g) and not free_vars(g.source) & bound_anywhere] or pending[:1]
    first = next((g for g in sources if _is_linked(g, sources, spine.conditions)), sources[0])
    pending.remove(first)
    joined, conditions = first, spine.conditions
    joined, conditions = _filtered(joined, conditions)
    while any(_is_bulk(g) for g in pending):
        joined, pending, conditions = _with_what_they_have(joined, pending, conditions)
        following = _next(joined, pending, conditions)
        pending.remove(following)
        if _is_bulk(following) and not free_vars(following.source) & joined.bound:
            following, conditions = _filtered(following, conditions)
            joined, conditions = _joined(joined, following, conditions, names)
        else:
            joined = _flattened(joined, following)
        joined, conditions = _filtered(joined, conditions)
    return over_generators((joined, *pending), guard(conditions, spine.head))


def _next(joined: JoinGenerator, pending: list[JoinGenerator], conditions: Conditions) -> JoinGenerator:
    """The first source that an equality links with what is joined already, or else the first generator that is
    ready."""
    ready = _ready(pending)
    linked = (g for g in ready if _is_bulk(g) and link(conditions, joined.bound, g.bound).on_keys)
    return next(linked, ready[0])


def _ready(pending: list[JoinGenerator]) -> list[JoinGenerator]:
    """The generators that depend on none of the pending ones."""
    later = bound_by(pending)
    return [g for g in pending if not free_vars(g.source) & later]


def _with_what_they_have(
    joined: JoinGenerator, pending: list[JoinGenerator], conditions: Conditions
) -> tuple[JoinGenerator, list[JoinGenerator], Conditions]:
    """Where no equality links a source with what is joined: finds the first source that one links through generators
    over collections in the elements of either, and flattens both with these generators. Otherwise changes nothing."""
    sources = [g for g in _ready(pending) if _is_bulk(g)]
    if any(link(conditions, joined.bound, g.bound).on_keys for g in sources):
        return joined, pending, conditions
    of_joined = _over_parts(joined, pending)
    for source in sources:
        of_source = _over_parts(source, pending)
        sides = (bound_by((joined, *of_joined)), bound_by((source, *of_source)))
        keys = link(conditions, *sides)
        if keys.on_keys:
            with_joined, with_source = _needed(keys.left, of_joined), _needed(keys.right, of_source)
            joined, conditions = _gone_through(joined, with_joined, conditions)
            beside, conditions = _gone_through(source, with_source, conditions)
            moved = (*with_joined, *with_source)
            return joined, [beside if g is source else g for g in pending if g not in moved], conditions
    return joined, pending, conditions


def _over_parts(generator: JoinGenerator, pending: list[JoinGenerator]) -> list[JoinGenerator]:
    """The generators over collections in the elements of one, also nested ones, that it can be flattened with."""
    others = bound_by(pending) - generator.bound
    found: list[JoinGenerator] = []
    for g in pending:
        used = free_vars(g.source)
        is_over_parts = used & bound_by((generator, *found)) and not used & (others - bound_by(found))
        if is_over_parts and not _is_bulk(g) and not may_fail(g.source):
            found.append(g)
    return found


def _needed(key: Term, generators: list[JoinGenerator]) -> list[JoinGenerator]:
    """The generators whose variables a key uses, and those that they depend on."""
    found, used = list[JoinGenerator](), free_vars(key)
    for g in reversed(generators):
        if g.bound & used:
            found.insert(0, g)
            used |= free_vars(g.source)
    return found


def _gone_through(
    generator: JoinGenerator, inner: list[JoinGenerator], conditions: Conditions
) -> tuple[JoinGenerator, Conditions]:
    """A generator flattened with others over collections in its elements, each filtered by its conditions."""
    for g in inner:
        generator, conditions = _filtered(generator, conditions)
        generator = _flattened(generator, g)
    return _filtered(generator, conditions) if inner else (generator, conditions)


def _is_linked(generator: JoinGenerator, others: list[JoinGenerator], conditions: Conditions) -> bool:
    """Whether an equality links a generator with another one; true if no condition may fail, as no key then has to
    wait."""
    if not any(map(may_fail, conditions)):
        return True
    return any(link(conditions, generator.bound, g.bound).on_keys for g in others if g is not generator)


def _filtered(generator: JoinGenerator, conditions: Conditions) -> tuple[JoinGenerator, Conditions]:
    """Moves the conditions that need only this generator's variables to its source."""
    own, others = apart(conditions, generator.bound)
    if not own:
        return generator, conditions
    _, element = pattern_term(generator.pattern, Names())
    source = CMap(Lambda(generator.pattern, guard(own, Single(element))), generator.source)
    return attrs.evolve(generator, source=source), others


def _joined(
    left: JoinGenerator, right: JoinGenerator, conditions: Conditions, names: Names
) -> tuple[JoinGenerator, Conditions]:
    keys = link(conditions, left.bound, right.bound)
    _, x = pattern_term(left.pattern, Names())
    _, y = pattern_term(right.pattern, Names())
    a = keyed(keys.left, left.pattern, x, left.source, drop_null_keys=True)
    b = keyed(keys.right, right.pattern, y, right.source, drop_null_keys=True)
    xs, ys = (PVar(names.fresh(base), _bag_of(e)) for base, e in (("xs", x), ("ys", y)))
    pairs: Term = Single(Tup((x, y)))
    pairs = CMap(Lambda(right.pattern, pairs), var_of(ys))
    pairs = CMap(Lambda(left.pattern, pairs), var_of(xs))
    key = PVar(names.fresh("j"), keys.left.type)
    source = co_grouped(a, b, xs, ys, key, pairs)
    return JoinGenerator(PTuple((left.pattern, right.pattern)), source), keys.rest


def _flattened(outer: JoinGenerator, inner: JoinGenerator) -> JoinGenerator:
    """`{(p, q) | p ∈ X, q ∈ e(p)}` as one generator."""
    _, x = pattern_term(outer.pattern, Names())
    _, y = pattern_term(inner.pattern, Names())
    source = CMap(Lambda(outer.pattern, CMap(Lambda(inner.pattern, Single(Tup((x, y)))), inner.source)), outer.source)
    return JoinGenerator(PTuple((outer.pattern, inner.pattern)), source)


def _bag_of(term: Term) -> ty.Type:
    return ty.BagType(term.type)
