"""Only the columns that are used above a groupBy or coGroup go into it.

*Equation*: where `s` is used in `e` only as `cMap(λx. …, s)`, and of each x only the parts π1(x), …, πn(x):

    cMap(λ(k, s). e, groupBy(X))
      = cMap(λ(k, s). e[cMap(λ(z1, …, zn). …[zi/πi(x)], s)], groupBy({(k, (π1(x), …, πn(x))) | (k, x) ∈ X}))

and likewise for either side of a coGroup. With one part the element is the part itself, with none it is `()`.

A part is a projection, or an aggregation `reduce(⊕, a(x))` of x alone: where x contains a group, as a row of a joined
`group by` does, that group is aggregated before the join, and need not be stored beside each partner. A sum of decimals
is a part together with its cast to the digits of a sum, which cannot fail there: by itself, the cast would be that of
an arbitrary number, which may fail, and a comparison with the sum could not be evaluated early.

*Requires*: an aggregation that becomes a part cannot fail, as it is computed for the elements without a partner too;
the group that it reads is not used otherwise. Duplicates are kept, since groups are bags.

*Source*: [CU] (the maps keep only what the query uses); here it decides what a state stores.

*Does not fire* where the whole element is used, as in a bag-valued result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TypeAlias

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import children, map_children
from mrql.algebra.analysis.variables import (
    Names,
    Remembered,
    all_names,
    bound_names,
    free_vars,
    match_pattern,
    normal_names,
    pattern_vars,
    scopes,
    substitute,
    var_of,
)
from mrql.algebra.errors import InternalError
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.notation.printer import show
from mrql.algebra.terms import (
    Cast,
    CMap,
    CoGroup,
    Get,
    GroupBy,
    Lambda,
    Let,
    Nth,
    Pattern,
    PTuple,
    PVar,
    Reduce,
    Repeat,
    Single,
    Term,
    Tup,
    Var,
    element_type,
    one_or_pattern,
    one_or_tuple,
    pair_type,
)
from mrql.rewrite.normalize.normalize import FIXPOINT_MAX_ROUNDS, normalize

Path: TypeAlias = tuple[int | str, ...]
"""A chain of projections: `(0, "A")` is `#0.A`."""

ROW = "<row>"
"""The variable that stands for an element; no query can use this name."""


@attrs.frozen
class Aggregated:
    """An aggregation of a group that an element contains, over the variable `ROW`.

    `normal` is the same with its bound variables named by their order, `group` the path of the group in the element,
    and `reads` has all paths that the aggregation uses.
    """

    term: Term = attrs.field(eq=False)
    normal: Term
    group: Path
    reads: frozenset[Path]


Part: TypeAlias = Path | Aggregated


def prune_columns(term: Term) -> Term:
    """The term with every groupBy and coGroup over the columns that are used.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> q = parse("cMap(λ(k, s). {(k, reduce(+, cMap(λx. {x#1}, s)))}, groupBy(S))", {"S": "{(long, (string, long))}"})
    >>> print(show(prune_columns(q)))
    cMap(λ(k, s). {(k, reduce(+, s))}, groupBy(cMap(λ(k1, x1). {(k1, x1#1)}, S)))
    """
    for _ in range(FIXPOINT_MAX_ROUNDS):
        new = normalize(_pruned(term))
        if new is term or new == term:
            return new
        term = new
    raise InternalError("columns", f"no fixpoint after {FIXPOINT_MAX_ROUNDS} rounds")


_PRUNED = Remembered[bool]()
"""The terms in which all columns are used; most subterms stay the same in the next round."""


def _pruned(term: Term) -> Term:
    """The term with every groupBy and coGroup over the columns that are used, the outer ones first."""
    if not children(term) or _PRUNED.get(term):
        return term
    new = map_children(_prune(term), _pruned)
    if new is term:
        _PRUNED.put(term, True)
    return new


def _prune(term: Term) -> Term:
    match term:
        case CMap(Lambda(PTuple((key, PVar() as group)), body), GroupBy(source)):
            pruned = _prune_side(group, body, source)
            if pruned is None:
                return term
            group, body, source = pruned
            return CMap(Lambda(PTuple((key, group)), body), GroupBy(source))
        case CMap(Lambda(PTuple((key, PTuple((xs, ys)))), body), CoGroup(left, right)):
            changed = False
            if isinstance(xs, PVar) and (pruned := _prune_side(xs, body, left)) is not None:
                xs, body, left = pruned
                changed = True
            if isinstance(ys, PVar) and (pruned := _prune_side(ys, body, right)) is not None:
                ys, body, right = pruned
                changed = True
            return CMap(Lambda(PTuple((key, PTuple((xs, ys)))), body), CoGroup(left, right)) if changed else term
        case _:
            return term


def _prune_side(group: PVar, body: Term, source: Term) -> tuple[PVar, Term, Term] | None:
    """The group, its uses and its source over the used parts only; None when all of it is used."""
    key_type, element = pair_type(source)
    if element == ty.UNIT:
        return None
    used = _minimal(frozenset(_used(body, group.name)))
    if () in used:
        return None
    parts_used = tuple(sorted(used, key=_place))
    names = Names(set(all_names(body) | all_names(source)))
    row = Var(names.fresh("x"), element)
    parts = tuple(_part_of(row, part) for part in parts_used)
    value = one_or_tuple(parts)
    if value.type == element and not any(isinstance(part, Aggregated) for part in parts_used):
        return None
    key = PVar(names.fresh("k"), key_type)
    pairs = Single(Tup((Var(key.name, key_type), value)))
    narrowed = CMap(Lambda(PTuple((key, PVar(row.name, element))), pairs), source)
    new_group = PVar(group.name, ty.BagType(value.type))
    return new_group, _reuse(body, new_group, element, parts_used, names), narrowed


def _project(term: Term, path: Path) -> Term:
    for step in path:
        term = Nth(term, step) if isinstance(step, int) else Get(term, step)
    return term


def _part_of(row: Var, part: Part) -> Term:
    return substitute(part.term, {ROW: row}) if isinstance(part, Aggregated) else _project(row, part)


def _place(part: Part) -> tuple[tuple[int, str], ...]:
    """The sort key of a part: its path, so that parts that stay keep their order."""
    if isinstance(part, Aggregated):
        return (*_place(part.group), (-2, show(part.normal)))
    return tuple((step, "") if isinstance(step, int) else (-1, step) for step in part)


def _minimal(parts: frozenset[Part]) -> frozenset[Part]:
    """The parts without those inside another one. An aggregation of a group that is used otherwise is replaced by the
    paths that it reads."""
    used = {part for part in parts if not isinstance(part, Aggregated)}
    aggregated = {part for part in parts if isinstance(part, Aggregated)}
    while above := {part for part in aggregated if _within(part.group, used)}:
        aggregated -= above
        used |= {path for part in above for path in part.reads}
    return frozenset(aggregated) | {path for path in used if not _within(path, used - {path})}


def _within(path: Path, used: set[Path]) -> bool:
    """Whether a path, or a prefix of it, is used."""
    return any(path[:n] in used for n in range(len(path) + 1))


def _used(term: Term, group: str) -> Iterator[Part]:
    """The parts of the group's elements that a term uses; `()` is the whole element."""
    match term:
        case Var(name, _):
            if name == group:
                yield ()
        case CMap(Lambda(param, body), Var(name, _)) if name == group:
            element = element_type(term.source)
            yield from _parts(body, dict(_positions(param, ())), match_pattern(param, Var(ROW, element)))
            if group not in bound_names(param):
                yield from _used(body, group)
        case CMap(Lambda(param, body), source):
            yield from _used(source, group)
            if group not in bound_names(param):
                yield from _used(body, group)
        case Let(pattern, value, body):
            yield from _used(value, group)
            if group not in bound_names(pattern):
                yield from _used(body, group)
        case _:
            for child, bound in zip(children(term), scopes(term), strict=True):
                if group not in bound:
                    yield from _used(child, group)


def _positions(pattern: Pattern, path: Path) -> Iterator[tuple[str, Path]]:
    """Each variable of a pattern with the path of what it matches."""
    match pattern:
        case PVar(name, _):
            yield name, path
        case PTuple(items):
            for i, item in enumerate(items):
                yield from _positions(item, (*path, i))
        case _:
            return


def _parts(term: Term, positions: Mapping[str, Path], row: Mapping[str, Term]) -> Iterator[Part]:
    """The parts that a term uses: aggregations over the given variables alone, and chains of projections of these.

    `positions` are the paths of the variables in an element, and `row` their terms over `ROW`.
    """
    projected = _chain(term)
    if projected is not None and projected[0] in positions:
        yield positions[projected[0]] + projected[1]
        return
    inner = chain.from_iterable(
        _parts(child, _without(positions, bound), row)
        for child, bound in zip(children(term), scopes(term), strict=True)
    )
    total = _aggregation(term)
    group = None if total is None else _aggregated_group(term, total, positions)
    if group is None:
        yield from inner
    else:
        over_row = substitute(term, row)
        reads = frozenset(p for part in inner for p in (part.reads if isinstance(part, Aggregated) else (part,)))
        yield Aggregated(over_row, normal_names(over_row), group, reads)


def _aggregation(term: Term) -> Reduce | None:
    """The aggregation that a term is, by itself or under the cast of a sum of decimals."""
    match term:
        case (Reduce() as total) | Cast(Reduce() as total, ty.DecimalType()):
            return total
        case _:
            return None


def _aggregated_group(term: Term, total: Reduce, positions: Mapping[str, Path]) -> Path | None:
    """The path of the group that is aggregated; None if the term may fail, is a collection, or uses more than the
    row."""
    source = total.source
    while isinstance(source, CMap):
        source = source.source
    found = _chain(source)
    if found is None or not free_vars(term) <= positions.keys() or ty.has_collection(term.type) or may_fail(term):
        return None
    return positions[found[0]] + found[1]


def _without(positions: Mapping[str, Path], hidden: frozenset[str]) -> dict[str, Path]:
    return {name: path for name, path in positions.items() if name not in hidden}


def _chain(term: Term) -> tuple[str, Path] | None:
    """A variable under projections, as its name and path."""
    path: list[int | str] = []
    while isinstance(term, Nth | Get):
        path.append(term.index if isinstance(term, Nth) else term.name)
        term = term.term
    return (term.name, tuple(reversed(path))) if isinstance(term, Var) else None


def _reuse(term: Term, group: PVar, element: ty.Type, parts: tuple[Part, ...], names: Names) -> Term:
    """The uses of the group rewritten to its narrower elements."""
    match term:
        case CMap(Lambda(param, body), Var(name, _)) if name == group.name:
            row = Var(names.fresh("x"), element)
            whole = substitute(body, match_pattern(param, row))
            new = tuple(PVar(names.fresh(_base_name(param, part)), _part_of(row, part).type) for part in parts)
            by_part = {part: var_of(variable) for part, variable in zip(parts, new, strict=True)}
            inner = _reuse(_replace(whole, row, by_part), group, element, parts, names)
            pattern = one_or_pattern(new)
            return CMap(Lambda(pattern, inner), Var(group.name, group.type), span=term.span)
        case CMap(Lambda(param, _), _) if group.name in bound_names(param):
            source = _reuse(term.source, group, element, parts, names)
            return CMap(term.function, source, span=term.span)
        case Let(pattern, value, body) if group.name in {v.name for v in pattern_vars(pattern)}:
            return Let(pattern, _reuse(value, group, element, parts, names), body, span=term.span)
        case Repeat(Lambda(param, _)) if group.name in bound_names(param):
            return attrs.evolve(term, source=_reuse(term.source, group, element, parts, names))
        case _:
            return map_children(term, lambda child: _reuse(child, group, element, parts, names))


def _base_name(pattern: Pattern, part: Part) -> str:
    """A name for a part: the variable that stood there, or the field's own name."""
    if isinstance(part, Aggregated):
        return "v"
    for name, position in _positions(pattern, ()):
        if position == part:
            return name
    last = next((step for step in reversed(part) if isinstance(step, str)), "z")
    return last if last.isidentifier() else "z"


def _replace(term: Term, row: Var, parts: Mapping[Part, Term]) -> Term:
    if _aggregation(term) is not None and row.name in free_vars(term):
        normal = normal_names(substitute(term, {row.name: Var(ROW, row.type)}))
        for part, new in parts.items():
            if isinstance(part, Aggregated) and part.normal == normal:
                return new
    projected = _chain(term)
    if projected is not None and projected[0] == row.name:
        path = projected[1]
        for n in range(len(path) + 1):
            if path[:n] in parts:
                return _project(parts[path[:n]], path[n:])
    return map_children(term, lambda child: _replace(child, row, parts))
