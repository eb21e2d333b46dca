"""Nested selects that range over a collection in the outer element, and join its elements with a source.

*Equation*: where a nested comprehension has generators over collections in an outer element p, such as the hours of a
window or the items of an order, and an equality names one of their variables:

    {z | p ∈ X, z ∈ e(p)[{w | h ∈ f(p), q ∈ Y, l(p, h) = r(q), c, w ∈ g}]}
      = {z | (u, (xs, ys)) ∈ coGroup({(u(p), p) | p ∈ X}, M), p ∈ xs, z ∈ e(p)[{w | (h, q) ∈ ys, c, w ∈ g}]}
    M = {(u, (h, q)) | u ∈ distinct {u(p) | p ∈ X}, h ∈ f'(u), q ∈ Y, l'(u, h) = r(q)}

u(p) are the parts of p that f and l are computed from; f' and l' compute the same from these. M is an equi-join. Its
left side has each u once, however often it occurs among the outer elements, so that each p meets the matches of its own
f(p), each as often as it occurs; a p without a partner, or whose f(p) is empty or missing, meets the empty bag.

The elements p of a groupBy or coGroup are distinguished by their keys: u(p) is then the key, and M is over p itself.

*Requires*: Y is a source, or a join of sources, and depends on no variable; f and l name no variable that is bound
between the two selects; c and g may. Where f and l may end in an error, the conditions under which they are evaluated
are tested first, for all p, if they are known for all p; if not, neither f nor l may fail. No generator that may fail
moves before one that it came after. Rows whose key has a missing part are dropped on both sides of M, as they equal
nothing; in u, which is the key of a group, missing parts are equal.

*Source*: [NK] §3: a join that depends on its left side is a join with the distinct values that it depends on.

*Does not fire* where the equalities name no variable of these generators (the rows of Y are then looked up by p
itself); where the nested select is all that the outer comprehension returns (the generators of both are then one join);
nor where X has a loop in it, which would be run twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.distinct import distinct
from mrql.algebra.analysis.missing import Known, known, missing_parts
from mrql.algebra.analysis.traversal import children, subterms, with_children
from mrql.algebra.analysis.variables import Names, bound_names, free_vars, pattern_term, pattern_vars, scopes, var_of
from mrql.algebra.evaluation.may_fail import Guard, guarded, may_fail
from mrql.algebra.functions import RANGE
from mrql.algebra.terms import (
    CMap,
    CoGroup,
    Empty,
    Get,
    GroupBy,
    Lambda,
    Nth,
    Pattern,
    Prim,
    PTuple,
    PVar,
    Repeat,
    Single,
    Term,
    Tup,
    Var,
    one_or_pattern,
    one_or_tuple,
)
from mrql.rewrite.analysis.join_predicates import (
    co_grouped,
    guard,
    keyed,
    link,
    reads_sources,
    unguarded,
    with_key,
)
from mrql.rewrite.normalize.extract_joins import Conditions, JoinGenerator, bound_by, comprehension, over_generators
from mrql.rewrite.normalize.nested_selects import (
    Correlated,
    Nested,
    for_all_of,
    may_end_in_an_error,
    nested_selects,
)
from mrql.rewrite.normalize.normalize import normalize


def dependent_selects(outer: CMap, pattern: Pattern, names: Names) -> Iterator[Correlated]:
    """The nested selects of `{… | p ∈ X}` that join collections in p; `pattern` is that of p, without `_`."""
    if free_vars(outer.source) or any(isinstance(part, Repeat) for part in subterms(outer.source)):
        return
    _, all_that_it_gives = unguarded(outer.function.body)
    for nested in nested_selects(outer.function.body, reads_sources):
        known = bound_names(pattern) - nested.local
        parts = None if nested.term is all_that_it_gives else _taken_apart(nested, bound_names(pattern), names)
        first = None if parts is None else _asked_first(nested, parts)
        if parts is None or first is None:
            continue
        in_groups = isinstance(outer.source, GroupBy | CoGroup)
        if in_groups and isinstance(pattern, PTuple) and _has_whole_key(pattern, outer.source):
            left: LeftSide | None = _of_groups(pattern, outer.source, parts, first)
        else:
            left = _of_distinct(pattern, outer.source, parts, first, known, names)
        if left is not None:
            yield _correlated(nested.path, left, parts, names)


# --- the nested select, taken apart --------------------------------------------------------------


@attrs.frozen
class DependentSelect:
    """`{w | h ∈ f(p), q ∈ Y, left(p, h) = right(q), rest, w ∈ head}`.

    `given` are the generators over collections in p, and `of_given` the conditions on these alone; `found` are those
    over Y and collections in its elements, and `of_found` likewise. `own` are the conditions on p alone, which are in
    `rest` too.
    """

    given: tuple[JoinGenerator, ...]
    of_given: Conditions
    left: Term
    found: tuple[JoinGenerator, ...]
    of_found: Conditions
    right: Term
    own: Conditions
    rest: Conditions
    head: Term


def _taken_apart(nested: Nested, around: frozenset[str], names: Names) -> DependentSelect | None:
    known = around - nested.local
    select = comprehension(nested.term, names, free_vars(nested.term) | around | nested.local)
    sides = _two_sides(select.generators, known)
    if sides is None:
        return None
    given, found = sides
    of_found, conditions = for_all_of(select.conditions, bound_by(found))
    of_given, conditions = for_all_of(conditions, bound_by(given))
    own, conditions = for_all_of(conditions, known)
    keys = link(conditions, known | bound_by(given), bound_by(found))
    right = nested.inside(keys.right)
    if right is None or not free_vars(keys.left) & bound_by(given):
        return None
    return DependentSelect(given, of_given, keys.left, found, of_found, right, own, (*own, *keys.rest), select.head)


Generators = tuple[JoinGenerator, ...]


def _two_sides(generators: Iterable[JoinGenerator], known: frozenset[str]) -> tuple[Generators, Generators] | None:
    """The generators over collections in p, and those over one source and collections in its elements; None if there
    are others, or if one after the source may fail."""
    given, found = list[JoinGenerator](), list[JoinGenerator]()
    for generator in generators:
        used, is_source = free_vars(generator.source), reads_sources(generator.source)
        if is_source and (used or found):
            return None
        if is_source or (used and used <= bound_by(found)):
            side = found
        elif used <= known | bound_by(given):
            side = given
        else:
            return None
        if found and not is_source and may_fail(generator.source):
            return None
        side.append(generator)
    return (tuple(given), tuple(found)) if given and found else None


def _asked_first(nested: Nested, parts: DependentSelect) -> tuple[Guard, ...] | None:
    """The conditions tested on p before its collections are joined; None if they are not known, and an error may
    result.

    Where no error can result, they only reduce the rows, and those on collections, which would make it another join,
    are left out.
    """
    own = tuple(Guard(condition, True) for condition in parts.own)
    early = (*(generator.source for generator in parts.given), parts.left)
    if not nested.is_known_outside:
        return None if any(map(may_fail, early)) else own
    if any(may_end_in_an_error(term) or _has_a_range(term) for term in early):
        return (*nested.under, *own)
    return (*(g for g in nested.under if not may_fail(g.condition) and not _is_of_collections(g.condition)), *own)


def _has_a_range(term: Term) -> bool:
    return any(isinstance(part, Prim) and part.function == RANGE for part in subterms(term))


def _is_of_collections(condition: Term) -> bool:
    return any(isinstance(part, Var) and ty.is_collection(part.type) for part in subterms(condition))


# --- the join ------------------------------------------------------------------------------------


@attrs.frozen
class LeftSide:
    """`key`, the u(p) of an outer element, and `pairs`: `{(left, (u, h))}`."""

    key: Term
    pairs: Term


def _has_whole_key(pattern: PTuple, source: Term) -> bool:
    """Whether the key of a group can be told from the variables of its pattern: a missing tuple that is taken apart
    looks like one of missing parts."""

    def is_told(pattern: Pattern, known: Known) -> bool:
        match pattern:
            case PTuple(items):
                return not known.missing and all(is_told(item, known.part(i)) for i, item in enumerate(items))
            case _:
                return True

    return is_told(pattern.items[0], known(source).element.part(0))


def _of_groups(pattern: PTuple, source: Term, parts: DependentSelect, first: Sequence[Guard]) -> LeftSide:
    """The left side for the elements of a groupBy or coGroup, in which each key occurs once."""
    _, key = pattern_term(pattern.items[0], Names())
    return LeftSide(key, CMap(Lambda(pattern, _under(first, _pairs(parts, key))), source))


def _of_distinct(
    pattern: Pattern,
    source: Term,
    parts: DependentSelect,
    first: Sequence[Guard],
    known: frozenset[str],
    names: Names,
) -> LeftSide | None:
    """The left side over the distinct u(p); None if no part of p is used."""
    used = _UsedParts(known, names)
    given = tuple(attrs.evolve(g, source=used.instead(g.source)) for g in parts.given)
    parts = attrs.evolve(parts, given=given, left=used.instead(parts.left))
    if not used.found:
        return None
    flags = tuple(flag for part in used.found for flag in missing_parts(part))
    variables = (*used.found.values(), *(PVar(names.fresh("m"), ty.BOOL) for _ in flags))
    key, u = one_or_tuple((*used.found, *flags)), one_or_tuple(tuple(map(var_of, variables)))
    keys = normalize(CMap(Lambda(pattern, _under(first, Single(key))), source))
    return LeftSide(key, CMap(Lambda(one_or_pattern(variables), _pairs(parts, u)), distinct(keys, names)))


def _pairs(parts: DependentSelect, u: Term) -> Term:
    """`{(left, (u, h)) | h ∈ f(u)}`."""
    pair = with_key(parts.left, Tup((u, _elements(parts.given)[1])), drop_null_keys=True)
    return over_generators(parts.given, guard(parts.of_given, pair))


def _correlated(path: tuple[int, ...], left: LeftSide, parts: DependentSelect, names: Names) -> Correlated:
    given, h = _elements(parts.given)
    found, q = _elements(parts.found)
    rows = over_generators(parts.found, guard(parts.of_found, Single(q)))
    k, j = PVar(names.fresh("k"), left.key.type), PVar(names.fresh("j"), parts.left.type)
    xs = PVar(names.fresh("xs"), ty.BagType(ty.TupleType((k.type, h.type))))
    ys = PVar(names.fresh("ys"), ty.BagType(q.type))
    each = CMap(Lambda(found, Single(Tup((var_of(k), Tup((h, q)))))), var_of(ys))
    joined = CMap(Lambda(PTuple((k, given)), each), var_of(xs))
    right = co_grouped(left.pairs, keyed(parts.right, found, q, rows, drop_null_keys=True), xs, ys, j, joined)
    return Correlated(path, left.key, parts.rest, Tup((h, q)), right, PTuple((given, found)), parts.head)


def _elements(generators: Sequence[JoinGenerator]) -> tuple[Pattern, Term]:
    """What generators bind, as a pattern and as a term over it."""
    return pattern_term(one_or_pattern(tuple(v for g in generators for v in pattern_vars(g.pattern))), Names())


def _under(first: Sequence[Guard], term: Term) -> Term:
    return guarded(term, first, Empty(term.type))


class _UsedParts:
    """The parts of the outer element that terms are computed from, and a variable for each."""

    def __init__(self, outer: frozenset[str], names: Names) -> None:
        self.outer = outer
        self.names = names
        self.found: dict[Term, PVar] = {}

    def instead(self, term: Term, hidden: frozenset[str] = frozenset()) -> Term:
        """The term with the variables in the place of the parts; the names in `hidden` are bound around it."""
        if _of_variable(term) in self.outer - hidden:
            if term not in self.found:
                self.found[term] = PVar(self.names.fresh("u"), term.type)
            return var_of(self.found[term])
        inner = zip(children(term), scopes(term), strict=True)
        return with_children(term, tuple(self.instead(child, hidden | bound) for child, bound in inner))


def _of_variable(term: Term) -> str | None:
    """The name of the variable that a term is, or is a projection of."""
    while isinstance(term, Nth | Get):
        term = term.term
    return term.name if isinstance(term, Var) else None
