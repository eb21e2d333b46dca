"""Terms as a person would have written them: bound variables under the shortest names that tell them apart.

Rewrites take their names from a supply, and leave `x4`, `s2` and `D1` behind. For display only, each binder is named
again, from the outside inwards:

- the key and the group of a groupBy are `k` and `s`, those of a coGroup `j` and `(xs, ys)`, as in [MRQL] §5;
- a variable that ranges over a group has the name of what was put into the group: `A` where it was `x.A`;
- any other variable has its own name without the number behind it.

A name that is in scope already, that is free in the term or belongs to a stream gets a number.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from mrql.algebra.analysis.traversal import map_children
from mrql.algebra.analysis.variables import (
    Names,
    free_vars,
    pattern_vars,
    rename_pattern,
    source_names,
    step_of,
    with_step,
)
from mrql.algebra.notation.names import RESERVED
from mrql.algebra.terms import (
    CMap,
    CoGroup,
    Empty,
    Get,
    GroupBy,
    If,
    Lambda,
    Let,
    Pattern,
    PTuple,
    PVar,
    Repeat,
    Single,
    Term,
    Tup,
    Var,
)

_GENERIC = frozenset("xzvubpe")
"""The base names of variables for elements of which nothing was known."""
_KEYS, _GROUPS = frozenset("kj"), frozenset(("s", "xs", "ys"))

Groups = Mapping[str, Term]
"""For each group in scope, by its old name, the term of its elements: the value that was put into the group."""


def tidy(term: Term, keep: frozenset[str] = frozenset()) -> Term:
    """The same term, up to the names of bound variables; those in `keep`, the author's own, stay where they can.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> S = {"S": "{<A: long, B: long>}"}
    >>> text = "cMap(λ(k7, s2). {(k7, reduce(+, cMap(λx4. {x4 + 1L}, s2)))}, groupBy(cMap(λp. {(p.B, p.A)}, S)))"
    >>> print(show(tidy(parse(text, S))))
    cMap(λ(k, s). {(k, reduce(+, cMap(λA. {A + 1L}, s)))}, groupBy(cMap(λp. {(p.B, p.A)}, S)))
    """
    return _Tidier(keep, free_vars(term) | source_names(term) | RESERVED).visit(term, {}, {})


def base_name(name: str) -> str:
    """A name without the number that the supply of fresh names put behind it.

    >>> base_name("xs12"), base_name("θ"), base_name("1")
    ('xs', 'θ', '1')
    """
    return name.rstrip("0123456789") or name


def head(term: Term) -> Term | None:
    """The term of the elements of a comprehension, over its variables; None if it is not apparent.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> show(head(parse("cMap(λx. if x > 1L then {(x, 1L)} else {}:{(long, long)}, S)", {"S": "{long}"})))
    '(x, 1L)'
    """
    match term:
        case CMap(Lambda(_, body), _) | Let(_, _, body):
            return head(body)
        case If(_, then, Empty()):
            return head(then)
        case Single(item):
            return item
        case _:
            return None


def hint(term: Term | None) -> str | None:
    """A name for a value: that of the field or the variable that it is."""
    match term:
        case Get(_, name):
            return name if name.isidentifier() else None
        case Var(name, _):
            return name
        case _:
            return None


@attrs.frozen
class _Tidier:
    keep: frozenset[str]
    taken: frozenset[str]
    """The names that no binder takes; inside a binder, also the new ones of all binders around it."""

    def visit(self, term: Term, renaming: Mapping[str, str], groups: Groups) -> Term:
        match term:
            case Var(name, t):
                return Var(renaming.get(name, name), t, span=term.span)
            case Let(pattern, value, body):
                new_value = self.visit(value, renaming, groups)
                inner = self.bind(pattern, {}, renaming)
                new_body = self.inside(inner).visit(body, inner, _without(groups, pattern))
                return attrs.evolve(term, pattern=rename_pattern(pattern, inner), value=new_value, body=new_body)
            case CMap(Lambda(param, body), source):
                new_source = self.visit(source, renaming, groups)
                inner = self.bind(param, _hints(param, source, groups), renaming)
                known = {**_without(groups, param), **_grouped(param, new_source)}
                new_body = self.inside(inner).visit(body, inner, known)
                return attrs.evolve(term, function=Lambda(rename_pattern(param, inner), new_body), source=new_source)
            case Repeat(Lambda(param, _), source, limit):
                inner = self.bind(param, {}, renaming)
                step = self.inside(inner).visit(step_of(term), inner, _without(groups, param))
                return attrs.evolve(
                    with_step(term, rename_pattern(param, inner), step),
                    source=self.visit(source, renaming, groups),
                    limit=None if limit is None else self.visit(limit, renaming, groups),
                )
            case _:
                return map_children(term, lambda child: self.visit(child, renaming, groups))

    def bind(self, pattern: Pattern, hints: Mapping[str, str], renaming: Mapping[str, str]) -> dict[str, str]:
        """The renaming inside a binder."""
        names = Names(set(self.taken))
        inner = dict(renaming)
        for variable in pattern_vars(pattern):
            name = variable.name
            inner[name] = names.fresh(hints.get(name) or (name if name in self.keep else base_name(name)))
        return inner

    def inside(self, renaming: Mapping[str, str]) -> _Tidier:
        """The same inside a binder with this renaming."""
        return attrs.evolve(self, taken=self.taken | frozenset(renaming.values()))


def _without(groups: Groups, pattern: Pattern) -> dict[str, Term]:
    hidden = {v.name for v in pattern_vars(pattern)}
    return {name: element for name, element in groups.items() if name not in hidden}


def _grouped(param: Pattern, source: Term) -> dict[str, Term]:
    """The groups in the arguments of a function over a groupBy or coGroup, each with the term of its elements."""
    match param, source:
        case PTuple((_, PVar(group, _))), GroupBy(pairs):
            return _element(group, pairs)
        case PTuple((_, PTuple((left, right)))), CoGroup(a, b):
            found: dict[str, Term] = {}
            for side, pairs in ((left, a), (right, b)):
                if isinstance(side, PVar):
                    found |= _element(side.name, pairs)
            return found
        case _:
            return {}


def _element(group: str, pairs: Term) -> dict[str, Term]:
    match head(pairs):
        case Tup((_, value)):
            return {group: value}
        case _:
            return {}


def _hints(param: Pattern, source: Term, groups: Groups) -> dict[str, str]:
    """Names for the variables of a function's pattern, by the collection that it ranges over."""
    match param, source:
        case PTuple((key, group)), GroupBy():
            return _role(key, _KEYS, "k") | _role(group, _GROUPS, "s")
        case PTuple((key, PTuple((left, right)))), CoGroup():
            return _role(key, _KEYS, "j") | _role(left, _GROUPS, "xs") | _role(right, _GROUPS, "ys")
        case _, Var(name, _) if name in groups:
            return _by_element(param, groups[name])
        case _:
            return {}


def _role(pattern: Pattern, bases: frozenset[str], name: str) -> dict[str, str]:
    return {pattern.name: name} if isinstance(pattern, PVar) and base_name(pattern.name) in bases else {}


def _by_element(pattern: Pattern, element: Term) -> dict[str, str]:
    match pattern, element:
        case PVar(name, _), _:
            found = hint(element)
            return {name: found} if found is not None and base_name(name) in _GENERIC else {}
        case PTuple(items), Tup(terms) if len(items) == len(terms):
            hints: dict[str, str] = {}
            for item, term in zip(items, terms, strict=True):
                hints |= _by_element(item, term)
            return hints
        case _:
            return {}
