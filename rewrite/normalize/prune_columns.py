"""Only the columns that are used above a groupBy or coGroup go into it.

*Equation*: where `s` is used in `e` only as `cMap(λx. …, s)`, and of each x only the parts π1(x), …, πn(x):

    cMap(λ(k, s). e, groupBy(X))
      = cMap(λ(k, s). e[cMap(λ(z1, …, zn). …[zi/πi(x)], s)], groupBy({(k, (π1(x), …, πn(x))) | (k, x) ∈ X}))

and likewise for either side of a coGroup. With one part the element is the part itself, with none it is `()`.

*Requires*: nothing; duplicates are kept, since groups are bags.

*Source*: [CU] (the maps keep only what the query uses); for us it decides what a state stores.

*Does not fire* where the whole element is used, as in a bag-valued result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import children, map_children, top_down
from mrql.algebra.analysis.variables import (
    Names,
    all_names,
    bound_names,
    match_pattern,
    pattern_vars,
    scopes,
    substitute,
)
from mrql.algebra.errors import InternalError
from mrql.algebra.terms import (
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
    Repeat,
    Single,
    Term,
    Tup,
    Var,
    pair_type,
)
from mrql.rewrite.normalize.normalize import MAX_ROUNDS, normalize

Path = tuple[int | str, ...]
"""A chain of projections: `(0, "A")` is `#0.A`."""


def prune_columns(term: Term) -> Term:
    """The term with every groupBy and coGroup over the columns that are used.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> q = parse("cMap(λ(k, s). {(k, reduce(+, cMap(λx. {x#1}, s)))}, groupBy(S))", {"S": "{(long, (string, long))}"})
    >>> print(show(prune_columns(q)))
    cMap(λ(k, s). {(k, reduce(+, s))}, groupBy(cMap(λ(k1, x1). {(k1, x1#1)}, S)))
    """
    for _ in range(MAX_ROUNDS):
        new = normalize(top_down(term, _prune))
        if new == term:
            return new
        term = new
    raise InternalError("columns", f"no fixpoint after {MAX_ROUNDS} rounds")


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
    used = _minimal(set(_used(body, group.name)))
    if () in used or element == ty.UNIT:
        return None
    paths = tuple(sorted(used, key=_place))
    names = Names(set(all_names(body) | all_names(source)))
    row = Var(names.fresh("x"), element)
    parts = tuple(_project(row, path) for path in paths)
    value = parts[0] if len(parts) == 1 else Tup(parts)
    if value.type == element:
        return None
    key = PVar(names.fresh("k"), key_type)
    pairs = Single(Tup((Var(key.name, key_type), value)))
    narrowed = CMap(Lambda(PTuple((key, PVar(row.name, element))), pairs), source)
    new_group = PVar(group.name, ty.BagType(value.type))
    return new_group, _reuse(body, new_group, element, paths, names), narrowed


def _project(term: Term, path: Path) -> Term:
    for step in path:
        term = Nth(term, step) if isinstance(step, int) else Get(term, step)
    return term


def _place(path: Path) -> tuple[tuple[int, str], ...]:
    """The order of paths: that of the parts, so that parts which stay are not put in another order again."""
    return tuple((step, "") if isinstance(step, int) else (-1, step) for step in path)


def _minimal(paths: set[Path]) -> set[Path]:
    """Without the paths that lead into a part which is used whole."""
    return {path for path in paths if not any(path[:n] in paths for n in range(len(path)))}


def _used(term: Term, group: str) -> Iterator[Path]:
    """The parts of the group's elements that a term uses; `()` is the whole element."""
    match term:
        case Var(name, _):
            if name == group:
                yield ()
        case CMap(Lambda(param, body), Var(name, _)) if name == group:
            yield from _paths(body, dict(_positions(param, ())))
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
    """Each variable of a pattern with the place that it matches."""
    match pattern:
        case PVar(name, _):
            yield name, path
        case PTuple(items):
            for i, item in enumerate(items):
                yield from _positions(item, (*path, i))
        case _:
            return


def _paths(term: Term, positions: Mapping[str, Path]) -> Iterator[Path]:
    """The chains of projections from the given variables that occur in a term."""
    chain = _chain(term)
    if chain is not None and chain[0] in positions:
        yield positions[chain[0]] + chain[1]
        return
    match term:
        case CMap(Lambda(pattern, body), source):
            yield from _paths(source, positions)
            yield from _paths(body, _without(positions, bound_names(pattern)))
        case Let(pattern, value, body):
            yield from _paths(value, positions)
            yield from _paths(body, _without(positions, bound_names(pattern)))
        case _:
            for child, bound in zip(children(term), scopes(term), strict=True):
                yield from _paths(child, _without(positions, bound))


def _without(positions: Mapping[str, Path], hidden: frozenset[str]) -> dict[str, Path]:
    return {name: path for name, path in positions.items() if name not in hidden}


def _chain(term: Term) -> tuple[str, Path] | None:
    """A variable under projections, as its name and path."""
    path: list[int | str] = []
    while isinstance(term, Nth | Get):
        path.append(term.index if isinstance(term, Nth) else term.name)
        term = term.term
    return (term.name, tuple(reversed(path))) if isinstance(term, Var) else None


def _reuse(term: Term, group: PVar, element: ty.Type, paths: tuple[Path, ...], names: Names) -> Term:
    """The uses of the group rewritten to its narrower elements."""
    match term:
        case CMap(Lambda(param, body), Var(name, _)) if name == group.name:
            row = Var(names.fresh("x"), element)
            whole = substitute(body, match_pattern(param, row))
            parts = tuple(PVar(names.fresh(_base_name(param, path)), _project(row, path).type) for path in paths)
            by_path = {path: Var(part.name, part.type) for path, part in zip(paths, parts, strict=True)}
            inner = _reuse(_replace(whole, row.name, by_path), group, element, paths, names)
            pattern: Pattern = parts[0] if len(parts) == 1 else PTuple(parts)
            return CMap(Lambda(pattern, inner), Var(group.name, group.type), span=term.span)
        case CMap(Lambda(param, _), _) if group.name in bound_names(param):
            source = _reuse(term.source, group, element, paths, names)
            return CMap(term.function, source, span=term.span)
        case Let(pattern, value, body) if group.name in {v.name for v in pattern_vars(pattern)}:
            return Let(pattern, _reuse(value, group, element, paths, names), body, span=term.span)
        case Repeat(Lambda(param, _)) if group.name in bound_names(param):
            return attrs.evolve(term, source=_reuse(term.source, group, element, paths, names))
        case _:
            return map_children(term, lambda child: _reuse(child, group, element, paths, names))


def _base_name(pattern: Pattern, path: Path) -> str:
    """A name for a part: the variable that stood there, or the field's own name."""
    for name, position in _positions(pattern, ()):
        if position == path:
            return name
    last = next((step for step in reversed(path) if isinstance(step, str)), "z")
    return last if last.isidentifier() else "z"


def _replace(term: Term, row: str, parts: Mapping[Path, Term]) -> Term:
    chain = _chain(term)
    if chain is not None and chain[0] == row:
        for n in range(len(chain[1]) + 1):
            if chain[1][:n] in parts:
                return _project(parts[chain[1][:n]], chain[1][n:])
    return map_children(term, lambda child: _replace(child, row, parts))
