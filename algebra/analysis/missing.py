"""Which terms may have a missing value where a collection, a tuple or a record is expected.

A missing collection is a value of its own, distinct from the empty one: as a key, in a comparison, in the output.
Operators that iterate over it see no elements, and return a collection that is not missing. So

    cMap(λx. {x}, e) = e,    e ⊎ {} = e,    reduce(⊎, e) = e

hold where e cannot be missing, or where the context only iterates over the value. A missing tuple has missing parts,
but is not a tuple of missing parts: `cMap(λ(x, y). {(x, y)}, e) = e` also needs elements that cannot be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cached_property, reduce
from operator import or_

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import children
from mrql.algebra.analysis.variables import bound_names, pattern_vars
from mrql.algebra.analysis.variables import scopes as bound_scopes
from mrql.algebra.functions import COALESCE, IS_NULL, RANGE, TRACE, TWO_VALUED
from mrql.algebra.monoids import BagUnion, Keyed, ListAppend
from mrql.algebra.terms import (
    Cast,
    CMap,
    CoGroup,
    Empty,
    Get,
    GroupBy,
    If,
    Lambda,
    Let,
    ListOf,
    Lit,
    Nth,
    OrderBy,
    PAny,
    Pattern,
    Prim,
    PTuple,
    PVar,
    Rec,
    Reduce,
    Repeat,
    Single,
    Stream,
    Take,
    Term,
    Tup,
    Union,
    Var,
)


@attrs.frozen
class Known:
    """What is known of a value: whether it may be missing, and the same for its parts and elements."""

    missing: bool = True
    parts: Mapping[int | str, Known] = attrs.field(factory=dict)
    """The parts of a tuple or record, if it is not missing, by place or name; nothing is known of absent ones."""
    elements: Known | None = None
    """What holds for all elements; None if nothing is known."""
    empty: bool = False
    """Whether there are no elements."""

    def part(self, step: int | str) -> Known:
        """What is known of a part; the parts of a missing value are missing."""
        found = self.parts.get(step, UNKNOWN)
        return attrs.evolve(found, missing=True) if self.missing else found

    @property
    def element(self) -> Known:
        """What is known of each element."""
        return UNKNOWN if self.elements is None else self.elements

    def __or__(self, other: Known) -> Known:
        """What is known of a value that is either of two."""
        parts = {step: known | other.parts[step] for step, known in self.parts.items() if step in other.parts}
        missing = self.missing or other.missing
        if self.empty or other.empty:
            filled = other if self.empty else self
            return Known(missing, parts, filled.elements, filled.empty)
        both = self.elements is not None and other.elements is not None
        return Known(missing, parts, self.element | other.element if both else None)


UNKNOWN = Known()
PRESENT = Known(missing=False)
NOTHING_IN_IT = Known(missing=False, empty=True)
PAIRS = Known(missing=False, elements=PRESENT)
"""A bag of elements that are not missing, such as a state with keys."""


class MissingScope:
    """What is known of the variables in scope, and of streams and tables; nothing is known of absent variables, and of
    absent streams that they are there."""

    def __init__(self, bound: Mapping[str, _Bound] | None = None, streams: Mapping[str, Known] | None = None) -> None:
        self.bound = bound or {}
        self.streams = streams or {}

    @staticmethod
    def given(values: Mapping[str, Known], streams: Mapping[str, Known] | None = None) -> MissingScope:
        """The scope of variables and streams of which these things are known."""
        bound = _Bound(lambda: dict(values))
        return MissingScope(dict.fromkeys(values, bound), streams)

    def of(self, name: str) -> Known:
        """What is known of a variable."""
        return self.bound[name].known[name] if name in self.bound else UNKNOWN

    def inside(self, pattern: Pattern, bound: _Bound) -> MissingScope:
        """The scope inside a binder with this pattern."""
        return MissingScope({**self.bound, **dict.fromkeys(bound_names(pattern), bound)}, self.streams)


class _Bound:
    """What is known of the variables of a pattern, computed when it is first needed."""

    def __init__(self, look: Callable[[], dict[str, Known]]) -> None:
        self.look = look

    @cached_property
    def known(self) -> dict[str, Known]:
        return self.look()


NOWHERE = MissingScope()


def may_be_missing(term: Term, scope: MissingScope = NOWHERE) -> bool:
    """Whether the value of a term may be missing.

    >>> from mrql.algebra.notation.parser import parse
    >>> sources = {"P": "{<K: long, V: {long}>}"}
    >>> texts = ("cMap(λp. p.V, P)", "groupBy(cMap(λp. {(p.K, p.V)}, P))", "reduce(max, cMap(λp. {p.V}, P))")
    >>> [may_be_missing(parse(text, sources)) for text in texts]
    [False, False, True]
    """
    return known(term, scope).missing


def known(term: Term, scope: MissingScope = NOWHERE) -> Known:
    """What is known of a term's value."""
    match term:
        case Var(name, _):
            return scope.of(name)
        case Lit(value, _):
            return UNKNOWN if value is None else PRESENT
        case Tup(items):
            return Known(False, {i: known(item, scope) for i, item in enumerate(items)})
        case Rec(fields):
            return Known(False, {name: known(item, scope) for name, item in fields})
        case Nth(inner, step) | Get(inner, step):
            return known(inner, scope).part(step)
        case Cast(inner, _):
            # Widened or converted part by part; of a JSON value nothing is known.
            return UNKNOWN if ty.is_document(inner.type) else known(inner, scope)
        case If(_, then, otherwise):
            return known(then, scope) | known(otherwise, scope)
        case Let(_, _, body):
            return known(body, scopes(term, scope)[1])
        case Prim(function, args) if function in (COALESCE, TRACE):
            return _first_present([known(arg, scope) for arg in args])
        case Prim(function, args) if function == RANGE:
            return Known(any(known(arg, scope).missing for arg in args))
        case Prim(function, _):
            return PRESENT if function in TWO_VALUED else UNKNOWN
        case _:
            return _known_collection(term, scope)


def _first_present(values: list[Known]) -> Known:
    found = reduce(or_, values)
    return attrs.evolve(found, missing=all(value.missing for value in values))


def there(term: Term) -> Term:
    """The collection, with the empty one in place of a missing one."""
    if not may_be_missing(term):
        return term
    match term.type:
        case ty.BagType(item):
            x = PVar("x", item)
            return CMap(Lambda(x, Single(Var(x.name, item))), term, span=term.span)
        case t:
            return Union(term, Empty(t), span=term.span)


def missing_parts(value: Term) -> list[Term]:
    """Tests whether a tuple or record, and each one in it, is missing: as a key it then differs from one of missing
    parts."""
    match value.type:
        case ty.TupleType(items) if items:
            parts: list[Term] = [Nth(value, i) for i in range(len(items))]
        case ty.RecordType(fields) if fields:
            parts = [Get(value, name) for name, _ in fields]
        case _:
            return []
    return [Prim(IS_NULL, (value,)), *(flag for part in parts for flag in missing_parts(part))]


def _known_collection(term: Term, scope: MissingScope) -> Known:
    match term:
        case Empty():
            return NOTHING_IN_IT
        case Single(item):
            return Known(False, elements=known(item, scope))
        case ListOf(items):
            return Known(False, elements=reduce(or_, (known(item, scope) for item in items)))
        case Union(left, right):
            sides = [known(side, scope) for side in (left, right)]
            return attrs.evolve(sides[0] | sides[1], missing=False)
        case CMap(Lambda(_, body), _):
            return attrs.evolve(known(body, scopes(term, scope)[0]), missing=False)
        case GroupBy(source):
            pair = known(source, scope).element
            return _groups(pair, Known(False, elements=pair.part(1)))
        case CoGroup(left, right):
            pairs = [known(side, scope).element for side in (left, right)]
            sides = [Known(False, elements=pair.part(1)) for pair in pairs]
            return _groups(pairs[0] | pairs[1], Known(False, dict(enumerate(sides))))
        case Reduce(BagUnion() | ListAppend(), source) | Take(_, source):
            return attrs.evolve(known(source, scope), missing=False)
        case OrderBy(source, _):
            return Known(False, elements=known(source, scope).element.part(1))
        case Stream(name):
            return scope.streams.get(name, PRESENT)
        case Reduce(Keyed(), _):
            return PRESENT
        case Repeat():
            return Known(missing=not ty.is_collection(term.type))
        case _:
            return UNKNOWN


def _groups(pair: Known, groups: Known) -> Known:
    return Known(False, elements=Known(False, {0: pair.part(0), 1: groups}))


def scopes(term: Term, scope: MissingScope) -> tuple[MissingScope, ...]:
    """The scopes of a term's children, in order, given the scope of the term."""
    match term:
        case Let(pattern, value, _):
            return scope, scope.inside(pattern, _Bound(lambda: bind(pattern, known(value, scope))))
        case CMap(Lambda(pattern, _), source):
            return scope.inside(pattern, _Bound(lambda: bind(pattern, known(source, scope).element))), scope
        case Repeat(Lambda(pattern, _)):
            inside = scope.inside(pattern, _Bound(lambda: _carried(pattern)))
            return tuple(inside if bound else scope for bound in bound_scopes(term))
        case _:
            return (scope,) * len(children(term))


def bind(pattern: Pattern, value: Known) -> dict[str, Known]:
    """What is known of the variables of a pattern that is matched with a value."""
    match pattern:
        case PVar(name, _):
            return {name: value}
        case PTuple(items):
            parts = [bind(item, value.part(i)) for i, item in enumerate(items)]
            return {name: found for part in parts for name, found in part.items()}
        case PAny():
            return {}


def _carried(pattern: Pattern) -> dict[str, Known]:
    """What is known of the variables of a loop, which carries the empty collection in place of a missing one."""
    return {v.name: Known(missing=not ty.is_collection(v.type)) for v in pattern_vars(pattern)}


class Use(IntEnum):
    """How the context of a term uses its value."""

    WHOLE = 0
    """As a whole: it matters whether it is missing."""
    ELEMENTS = 1
    """It is iterated over: a missing collection is equivalent to the empty one."""
    PARTS = 2
    """Its elements are taken apart, too: a missing tuple is equivalent to one of missing parts."""


def uses(term: Term, use: Use) -> tuple[Use, ...]:
    """How a term uses the values of its children, given the use of its own value."""
    match term:
        case CMap(Lambda(PTuple()), _):
            return max(use, Use.ELEMENTS), Use.PARTS
        case CMap() | Union():
            of_elements = max(use, Use.ELEMENTS)
            return of_elements, Use.ELEMENTS if isinstance(term, CMap) else of_elements
        case GroupBy() | CoGroup():
            return (Use.PARTS,) * len(children(term))
        case Reduce() | OrderBy():
            return (Use.ELEMENTS,)
        case Take():
            return Use.WHOLE, max(use, Use.ELEMENTS)
        case Repeat():
            carried = Use.ELEMENTS if ty.is_collection(term.type) else Use.WHOLE
            values = (term.function.body, term.source)
            return tuple(carried if child in values else Use.WHOLE for child in children(term))
        case If():
            return Use.WHOLE, use, use
        case Let():
            return Use.WHOLE, use
        case Cast(inner, t):
            return (use if ty.is_collection(inner.type) and ty.is_collection(t) else Use.WHOLE,)
        case _:
            return (Use.WHOLE,) * len(children(term))
