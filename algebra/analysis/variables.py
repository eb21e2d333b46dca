"""Variables: which are free, how to substitute for them, and when two terms differ only in bound names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import children, map_children
from mrql.algebra.terms import CMap, Lambda, Let, Nth, PAny, Pattern, PTuple, PVar, Repeat, Stream, Term, Tup, Var

T = TypeVar("T")


@attrs.define
class Names:
    """A supply of fresh names, passed as an argument, so that the same query always gets the same names."""

    taken: set[str] = attrs.Factory(set)
    _reached: dict[str, int] = attrs.Factory(dict)
    """The number up to which the names of a stem are taken."""

    def fresh(self, base: str) -> str:
        """A name like `base` that was not given out before."""
        stem = base.rstrip("0123456789") or "x"
        name, n = base, self._reached.get(stem, 0)
        while name in self.taken:
            n += 1
            name = f"{stem}{n}"
            self._reached[stem] = n
        self.taken.add(name)
        return name

    def only(self, taken: Iterable[str]) -> None:
        """Makes these the only names that are taken."""
        self.taken.clear()
        self._reached.clear()
        self.taken.update(taken)


def pattern_vars(pattern: Pattern) -> Iterator[PVar]:
    """The variables that a pattern binds, left to right."""
    match pattern:
        case PVar():
            yield pattern
        case PTuple(items):
            for item in items:
                yield from pattern_vars(item)
        case PAny():
            pass


def var_of(variable: PVar) -> Var:
    """The occurrence of a variable of a pattern."""
    return Var(variable.name, variable.type)


def bound_names(pattern: Pattern) -> frozenset[str]:
    match pattern:
        case PVar(name, _):
            return frozenset((name,))
        case PTuple(items):
            return frozenset().union(*map(bound_names, items))
        case PAny():
            return frozenset()


def scopes(term: Term) -> tuple[frozenset[str], ...]:
    """The variables that the term binds in each of its children, in order."""
    bound = binder(term)
    names = frozenset[str]() if bound is None else bound_names(bound)
    match term:
        case Let():
            return frozenset(), names
        case CMap():
            return names, frozenset()
        case Repeat(_, _, limit, condition):
            step = (names,) if condition is None else (names, names)
            return (*step, frozenset()) if limit is None else (*step, frozenset(), frozenset())
        case _:
            return (frozenset(),) * len(children(term))


def binder(term: Term) -> Pattern | None:
    """The pattern whose variables the term binds in some of its children."""
    match term:
        case Let(pattern, _, _) | CMap(Lambda(pattern, _), _) | Repeat(Lambda(pattern, _)):
            return pattern
        case _:
            return None


REMEMBERED_MAX_TERMS = 20_000
"""The maximal number of terms whose results are remembered."""


@attrs.define
class Remembered(Generic[T]):
    """Results for terms, by the identity of the term: passes ask for the same ones again and again."""

    _known: dict[int, tuple[Term, T]] = attrs.field(factory=dict, init=False)
    """By the identity of a term: the term, which is kept so that no other gets the same identity, and the result."""

    def get(self, term: Term) -> T | None:
        known = self._known.get(id(term))
        return None if known is None else known[1]

    def put(self, term: Term, found: T) -> T:
        if len(self._known) >= REMEMBERED_MAX_TERMS:
            self._known.clear()
        self._known[id(term)] = term, found
        return found


_FREE = Remembered[frozenset[str]]()
_ALL = Remembered[frozenset[str]]()
_SOURCES = Remembered[frozenset[str]]()
_STREAMS = Remembered[tuple[str, ...]]()


def free_vars(term: Term) -> frozenset[str]:
    """The names of the variables that the term uses and does not bind."""
    if isinstance(term, Var):
        return frozenset({term.name})
    inner = children(term)
    if not inner:
        return frozenset()
    known = _FREE.get(term)
    return _FREE.put(term, _free(term, inner)) if known is None else known


def _free(term: Term, inner: tuple[Term, ...]) -> frozenset[str]:
    if binder(term) is None:
        return frozenset().union(*map(free_vars, inner))
    return frozenset().union(*(free_vars(child) - bound for child, bound in zip(inner, scopes(term), strict=True)))


def all_names(term: Term) -> frozenset[str]:
    """Every variable name in the term, free or bound."""
    if isinstance(term, Var):
        return frozenset({term.name})
    inner = children(term)
    if not inner:
        return frozenset()
    known = _ALL.get(term)
    if known is None:
        bound = binder(term)
        own = frozenset[str]() if bound is None else bound_names(bound)
        known = _ALL.put(term, own.union(*map(all_names, inner)))
    return known


def source_names(term: Term) -> frozenset[str]:
    """The names of the streams and tables that the term reads."""
    if isinstance(term, Stream):
        return frozenset({term.name})
    inner = children(term)
    if not inner:
        return frozenset()
    known = _SOURCES.get(term)
    return _SOURCES.put(term, frozenset().union(*map(source_names, inner))) if known is None else known


def stream_names(term: Term) -> tuple[str, ...]:
    """The streams (not the static tables) that a term reads, each once, in the order of the text."""
    if isinstance(term, Stream):
        return () if term.static else (term.name,)
    inner = children(term)
    if not inner:
        return ()
    known = _STREAMS.get(term)
    if known is None:
        known = _STREAMS.put(term, tuple(dict.fromkeys([name for child in inner for name in stream_names(child)])))
    return known


def taken_names(term: Term) -> frozenset[str]:
    """The names of all variables and sources in the term, which new names must avoid."""
    return all_names(term) | source_names(term)


def occurrences(term: Term, name: str) -> int:
    """How often a variable occurs free. An occurrence under a `λ` counts twice: it may be evaluated many times."""
    match term:
        case Var(other, _):
            return int(other == name)
        case Let(pattern, value, body):
            return occurrences(value, name) + (0 if name in bound_names(pattern) else occurrences(body, name))
        case CMap(Lambda(param, body), source):
            inner = 0 if name in bound_names(param) else 2 * occurrences(body, name)
            return occurrences(source, name) + inner
        case Repeat():
            parts = zip(children(term), scopes(term), strict=True)
            return sum((2 if bound else 1) * occurrences(child, name) for child, bound in parts if name not in bound)
        case _:
            return sum(occurrences(child, name) for child in children(term))


def rename_pattern(pattern: Pattern, renaming: Mapping[str, str]) -> Pattern:
    match pattern:
        case PVar(name, t):
            return PVar(renaming.get(name, name), t)
        case PTuple(items):
            return PTuple(tuple(rename_pattern(item, renaming) for item in items))
        case PAny():
            return pattern


def substitute(term: Term, mapping: Mapping[str, Term]) -> Term:
    """`term[e/x, …]`, renaming bound variables that would capture a free one of the `e`s."""
    if not mapping:
        return term
    match term:
        case Var(name, _):
            return mapping.get(name, term)
        case Let(pattern, value, body):
            new_pattern, new_body = _under(pattern, body, mapping)
            new_value = substitute(value, mapping)
            if new_pattern is pattern and new_body is body and new_value is value:
                return term
            return attrs.evolve(term, pattern=new_pattern, value=new_value, body=new_body)
        case CMap(Lambda(param, body), source):
            new_param, new_body = _under(param, body, mapping)
            new_source = substitute(source, mapping)
            if new_param is param and new_body is body and new_source is source:
                return term
            return attrs.evolve(term, function=Lambda(new_param, new_body), source=new_source)
        case Repeat(Lambda(param, _), source, limit):
            step = step_of(term)
            new_param, new_step = _under(param, step, mapping)
            new_source = substitute(source, mapping)
            new_limit = None if limit is None else substitute(limit, mapping)
            if new_param is param and new_step is step and new_source is source and new_limit is limit:
                return term
            return attrs.evolve(with_step(term, new_param, new_step), source=new_source, limit=new_limit)
        case _:
            return map_children(term, lambda child: substitute(child, mapping))


def substitute_streams(term: Term, mapping: Mapping[str, Term]) -> Term:
    """The term with some of its streams replaced by terms, by name.

    No variable that is free in those terms may be bound in this one.
    """
    if isinstance(term, Stream) and term.name in mapping:
        return mapping[term.name]
    return map_children(term, lambda child: substitute_streams(child, mapping))


def step_of(term: Repeat) -> Term:
    """The scope of a loop's variables as one term: the body of its function, or the pair of that and its condition."""
    body = term.function.body
    return body if term.condition is None else Tup((body, term.condition))


def with_step(term: Repeat, param: Pattern, step: Term) -> Repeat:
    """The loop with another pattern and another step, of the form of `step_of`."""
    if term.condition is None:
        return attrs.evolve(term, function=Lambda(param, step))
    assert isinstance(step, Tup)
    return attrs.evolve(term, function=Lambda(param, step.items[0]), condition=step.items[1])


def _under(pattern: Pattern, body: Term, mapping: Mapping[str, Term]) -> tuple[Pattern, Term]:
    """Substitutes within the scope of a binder."""
    bound = bound_names(pattern)
    inside = free_vars(body)
    relevant = {name: e for name, e in mapping.items() if name not in bound and name in inside}
    if not relevant:
        return pattern, body
    incoming = frozenset().union(*map(free_vars, relevant.values()))
    captured = bound & incoming
    if not captured:
        return pattern, substitute(body, relevant)
    supply = Names(set(incoming | all_names(body) | bound))
    renaming = {name: supply.fresh(name) for name in sorted(captured)}
    types = {v.name: v.type for v in pattern_vars(pattern)}
    renamed = substitute(body, {old: Var(new, types[old]) for old, new in renaming.items()})
    return rename_pattern(pattern, renaming), substitute(renamed, relevant)


def rename_apart(pattern: Pattern, body: Term, taken: frozenset[str]) -> tuple[Pattern, Term]:
    """The binder with its variables renamed away from the names in `taken`."""
    clash = bound_names(pattern) & taken
    if not clash:
        return pattern, body
    names = Names(set(taken | all_names(body) | bound_names(pattern)))
    renaming = {name: names.fresh(name) for name in sorted(clash)}
    types = {v.name: v.type for v in pattern_vars(pattern)}
    renamed = substitute(body, {old: Var(new, types[old]) for old, new in renaming.items()})
    return rename_pattern(pattern, renaming), renamed


def match_pattern(pattern: Pattern, value: Term) -> dict[str, Term]:
    """The bindings of a pattern to (the parts of) a term: `(x, y)` against `e` binds `x` to `e#0`, `y` to `e#1`."""
    match pattern:
        case PVar(name, _):
            return {name: value}
        case PAny():
            return {}
        case PTuple(items):
            parts = value.items if isinstance(value, Tup) else tuple(Nth(value, i) for i in range(len(items)))
            bindings: dict[str, Term] = {}
            for item, part in zip(items, parts, strict=True):
                bindings |= match_pattern(item, part)
            return bindings


def pattern_term(pattern: Pattern, names: Names) -> tuple[Pattern, Term]:
    """The pattern with a variable for each `_` (except of the unit type), and the term of the value that it matches."""
    match pattern:
        case PVar(name, t):
            return pattern, Var(name, t)
        case PAny(t):
            if t == ty.UNIT:
                return pattern, Tup(())
            name = names.fresh("u")
            return PVar(name, t), Var(name, t)
        case PTuple(items):
            parts = [pattern_term(item, names) for item in items]
            return PTuple(tuple(p for p, _ in parts)), Tup(tuple(e for _, e in parts))


def alpha_equal(a: Term, b: Term) -> bool:
    """Whether two terms differ in the names of bound variables at most."""
    return normal_names(a) == normal_names(b)


def normal_names(term: Term) -> Term:
    """The term with its bound variables named by the order in which they are bound."""
    return _rename(term, {}, [0])


def _rename(term: Term, renaming: Mapping[str, str], counter: list[int]) -> Term:
    match term:
        case Var(name, t):
            return Var(renaming.get(name, name), t)
        case Let(pattern, value, body):
            new_value = _rename(value, renaming, counter)
            inner = _extend(pattern, renaming, counter)
            return attrs.evolve(
                term, pattern=rename_pattern(pattern, inner), value=new_value, body=_rename(body, inner, counter)
            )
        case CMap(Lambda(param, body), source):
            new_source = _rename(source, renaming, counter)
            inner = _extend(param, renaming, counter)
            function = Lambda(rename_pattern(param, inner), _rename(body, inner, counter))
            return attrs.evolve(term, function=function, source=new_source)
        case Repeat(Lambda(param, _)):
            outside = attrs.evolve(
                term,
                source=_rename(term.source, renaming, counter),
                limit=None if term.limit is None else _rename(term.limit, renaming, counter),
            )
            inner = _extend(param, renaming, counter)
            return with_step(outside, rename_pattern(param, inner), _rename(step_of(term), inner, counter))
        case _:
            return map_children(term, lambda child: _rename(child, renaming, counter))


def _extend(pattern: Pattern, renaming: Mapping[str, str], counter: list[int]) -> dict[str, str]:
    inner = dict(renaming)
    for variable in pattern_vars(pattern):
        counter[0] += 1
        inner[variable.name] = f"·{counter[0]}"  # no name in a query can look like this
    return inner
