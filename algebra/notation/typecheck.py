"""The well-formedness of terms, on which every pass may rely, and which it must preserve.

- Every variable is bound, and carries the type of its binder.
- A pattern has the type of the value it meets. `nothing`, the type of the elements of `{}`, may flow into any type.
- Every node has a type; conditions are bools, a literal is a value of its type, a cast has a meaning.
- `reduce` over a bag is by a commutative monoid: a bag has no order.  Source: [MRQL] §5.
- The values that `⇑⊕` merges are in the carrier of `⊕`.
- `orderBy` has a direction for each part of its key.
- The initial value of a loop, and the result of each step, are of the type of its pattern.
- A data source has one type wherever it is named.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import assert_never

import attrs

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import children
from mrql.algebra.analysis.variables import Remembered, pattern_vars
from mrql.algebra.errors import InternalError
from mrql.algebra.monoids import (
    Aggregate,
    BagUnion,
    Fold,
    Invariant,
    Keyed,
    ListAppend,
    Monoid,
    ProductMonoid,
    is_commutative,
    result_type,
)
from mrql.algebra.notation.printer import show, show_pattern
from mrql.algebra.terms import (
    Cast,
    CMap,
    CoGroup,
    Empty,
    Get,
    GroupBy,
    If,
    IllTyped,
    Let,
    ListOf,
    Lit,
    Nth,
    OrderBy,
    Pattern,
    Prim,
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
    element_type,
    pair_type,
)
from mrql.algebra.types import Type
from mrql.algebra.values.decimals import is_held
from mrql.algebra.values.values import Bag, Document, Record

Scope = Mapping[str, Type]
SHOWN_MAX_CHARACTERS = 300


@attrs.frozen
class Fault:
    """A message, and the subterm that is at fault."""

    message: str
    term: Term


def check(term: Term, variables: Scope | None = None) -> None:
    """Does nothing for a well-formed term, whose free variables are `variables`.

    Raises: InternalError with the offending subterm.
    """
    fault = first_fault(term, variables)
    if fault is not None:
        raise InternalError("check", f"{fault.message}, in: {shorten(fault.term)}")


_RIGHT = Remembered[Scope]()
"""The well-formed terms, with the scopes in which they were checked: most terms are, and are checked repeatedly."""


def first_fault(term: Term, variables: Scope | None = None) -> Fault | None:
    """The innermost and leftmost fault, or None."""
    scope = variables or {}
    if _RIGHT.get(term) == scope:
        return None
    fault = next(_TermChecker().faults(term, scope), None)
    if fault is None:
        _RIGHT.put(term, dict(scope))
    return fault


def shorten(term: Term) -> str:
    """A term in at most 300 characters."""
    text = show(term)
    return text if len(text) <= SHOWN_MAX_CHARACTERS else text[: SHOWN_MAX_CHARACTERS - 1] + "…"


def flows_into(value: Type, place: Type) -> bool:
    """Whether a value of type `value` may stand in a place of type `place` as it is, without widening.

    >>> flows_into(ty.BagType(ty.NOTHING), ty.BagType(ty.LONG)), flows_into(ty.INT, ty.LONG)
    (True, False)
    """
    match value, place:
        case ty.Nothing(), _:
            return True
        case ty.TupleType(xs), ty.TupleType(ys):
            return len(xs) == len(ys) and all(map(flows_into, xs, ys))
        case ty.RecordType(xs), ty.RecordType(ys):
            same_names = value.names == place.names
            return same_names and all(flows_into(x, y) for (_, x), (_, y) in zip(xs, ys, strict=True))
        case (ty.BagType(x), ty.BagType(y)) | (ty.ListType(x), ty.ListType(y)):
            return flows_into(x, y)
        case _:
            return value == place


def casts_to(value: Type, target: Type) -> bool:
    """Whether `as` has a meaning: between basic types, and part by part. A list becomes a bag, but not the reverse."""
    match value, target:
        case ty.Nothing(), _:
            return True
        case (ty.Basic(ty.Kind.ANY), other) | (other, ty.Basic(ty.Kind.ANY)):
            return ty.is_json(other)
        case ty.Basic(), ty.Basic():
            return value == target or not any(t == ty.XML or ty.is_data(t) for t in (value, target))
        case ty.TupleType(xs), ty.TupleType(ys):
            return len(xs) == len(ys) and all(map(casts_to, xs, ys))
        case ty.RecordType(xs), ty.RecordType(ys):
            same_names = value.names == target.names
            return same_names and all(casts_to(x, y) for (_, x), (_, y) in zip(xs, ys, strict=True))
        case (ty.BagType(x) | ty.ListType(x), ty.BagType(y)) | (ty.ListType(x), ty.ListType(y)):
            return casts_to(x, y)
        case _:
            return False


def in_carrier(t: Type, m: Monoid) -> bool:
    """Whether values of type `t` can be combined by `⊕` as they are.

    >>> from mrql.algebra.monoids import BAG, SUM
    >>> in_carrier(ty.LONG, SUM), in_carrier(ty.INT, SUM), in_carrier(ty.BagType(ty.INT), BAG)
    (True, False, True)
    """
    if t == ty.NOTHING:
        return True
    match m:
        case Aggregate():
            return result_type(m, t) == t
        case BagUnion():
            return isinstance(t, ty.BagType)
        case ListAppend():
            return isinstance(t, ty.ListType)
        case ProductMonoid(items):
            return (
                isinstance(t, ty.TupleType)
                and len(t.items) == len(items)
                and all(in_carrier(part, item) for part, item in zip(t.items, items, strict=True))
            )
        case Keyed():
            return isinstance(t, ty.BagType) and _merges(t.item, m)
        case Invariant():
            return True
        case Fold():
            return flows_into(t, m.type)
        case _:
            assert_never(m)


def _merges(element: Type, m: Keyed) -> bool:
    """Whether `⇑⊕` merges a collection of such elements."""
    if element == ty.NOTHING:
        return True
    return isinstance(element, ty.TupleType) and len(element.items) == 2 and in_carrier(element.items[1], m.value)


def _reduces(element: Type, m: Monoid) -> bool:
    """Whether elements are in the carriers of a monoid's keyed parts and folds; `result_type` checks the others."""
    match m:
        case Keyed():
            return _merges(element, m)
        case Fold():
            return in_carrier(element, m)
        case ProductMonoid(items) if isinstance(element, ty.TupleType):
            return all(map(_reduces, element.items, items))
        case _:
            return True


def conforms(value: object, t: Type) -> bool:
    """Whether a value, with all its parts, is of a type; a missing one is of every type."""
    match t:
        case _ if value is None:
            return True
        case ty.TupleType(items):
            same_length = isinstance(value, tuple) and len(value) == len(items)
            return same_length and all(map(conforms, value, items))  # type: ignore[call-overload]
        case ty.RecordType(fields):
            same_names = isinstance(value, Record) and tuple(value.fields) == t.names
            return same_names and all(conforms(value[name], item) for name, item in fields)  # type: ignore[index]
        case ty.BagType(item):
            return isinstance(value, Bag) and all(conforms(v, item) for v in value)
        case ty.ListType(item):
            return isinstance(value, list) and all(conforms(v, item) for v in value)
        case _:
            return is_value_of(value, t)


def is_value_of(value: object, t: Type) -> bool:
    """Whether a constant is a value of a basic type; null is a value of every type."""
    match t:
        case _ if value is None:
            return True
        case ty.BOOL:
            return isinstance(value, bool)
        case ty.STRING:
            return isinstance(value, str)
        case ty.DATE:
            return isinstance(value, date) and not isinstance(value, datetime)
        case ty.TIMESTAMP:
            return isinstance(value, datetime) and value.tzinfo is None
        case ty.BYTES:
            return isinstance(value, bytes)
        case ty.INT | ty.LONG:
            low, high = fn.INT_RANGES[t]
            return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        case ty.DOUBLE:
            return isinstance(value, float)
        case ty.DecimalType():
            return isinstance(value, Decimal) and is_held(value, t)
        case _ if ty.is_document(t):
            return isinstance(value, Document)
        case ty.FLOAT:
            return isinstance(value, float) and (math.isnan(value) or fn.to_single(value) == value)
        case _:
            return False


class _TermChecker:
    """Finds the faults of terms; it remembers the data sources that it has met."""

    def __init__(self) -> None:
        self.sources: dict[str, Stream] = {}

    def faults(self, term: Term, scope: Scope) -> Iterator[Fault]:
        """The faults of a term, those of its subterms first: the check of a node needs well-formed subterms."""
        match term:
            case Let(pattern, value, body):
                yield from self.faults(value, scope)
                yield from _binding_faults(pattern, value.type, term)
                yield from self.faults(body, _extend(scope, pattern))
            case CMap(function, source):
                yield from self.faults(source, scope)
                yield from _typing_faults(source, term)
                yield from _binding_faults(function.param, element_type(source), term)
                yield from self.faults(function.body, _extend(scope, function.param))
            case Repeat(function, source, limit, condition):
                yield from self.faults(source, scope)
                yield from _binding_faults(function.param, source.type, term)
                yield from self.faults(function.body, _extend(scope, function.param))
                for inner, known in ((condition, _extend(scope, function.param)), (limit, scope)):
                    yield from () if inner is None else self.faults(inner, known)
            case _:
                for child in children(term):
                    yield from self.faults(child, scope)
        own = _variable(term, scope) if isinstance(term, Var) else complaints(term)
        yield from (Fault(message, term) for message in own)
        if isinstance(term, Stream):
            yield from self.source_faults(term)

    def source_faults(self, term: Stream) -> Iterator[Fault]:
        other = self.sources.setdefault(term.name, term)
        if other != term:
            kinds = f"{_describe(other)} in one place and {_describe(term)} in another"
            yield Fault(f"the source {term.name} is {kinds}", term)


def complaints(term: Term) -> Iterator[str]:
    """The faults of a node with well-formed subterms, whatever its context."""
    try:
        _ = term.type
    except IllTyped as error:
        yield f"ill-typed: {error}"
        return
    match term:
        case Lit(value, t):
            if not is_value_of(value, t):
                yield f"the literal {value!r} is not a value of type {t}"
        case Rec(fields):
            yield from (f"two fields {name}" for name in _repeated(name for name, _ in fields))
        case Cast(inner, t):
            if not casts_to(inner.type, t):
                yield f"{inner.type} cannot be cast to {t}"
        case If(condition):
            if not flows_into(condition.type, ty.BOOL):
                yield f"the condition has type {condition.type}"
        case Stream(name, t):
            if not ty.is_collection(t):
                yield f"the source {name} has type {t}, not that of a collection"
        case Var() | Tup() | Nth() | Get() | Prim() | Let() | Single() | Union() | CMap() | GroupBy() | CoGroup():
            pass
        case Empty() | ListOf() | Reduce() | OrderBy() | Take() | Repeat():
            yield from _bulk_complaints(term)
        case _:
            assert_never(term)


def _bulk_complaints(term: Empty | ListOf | Reduce | OrderBy | Take | Repeat) -> Iterator[str]:
    match term:
        case Empty(t):
            if not ty.is_collection(t):
                yield f"an empty collection of type {t}"
        case ListOf(items):
            if not items:
                yield "a list of no elements that is not written as an empty one"
        case Reduce(monoid, source):
            yield from _reduction(monoid, source)
        case OrderBy(source, descending):
            key, _ = pair_type(source)
            if not isinstance(key, ty.TupleType) or len(key.items) != len(descending):
                yield f"{len(descending)} directions for a key of type {key}"
        case Take(count, source):
            if not (ty.is_integral(count.type) or count.type == ty.NOTHING):
                yield f"the count has type {count.type}"
            if not flows_into(source.type, ty.ListType(ty.NOTHING)) and not isinstance(source.type, ty.ListType):
                yield f"the first elements of a {source.type}, which has no order"
        case Repeat(function, _, limit, condition):
            if not flows_into(function.body.type, term.type):
                yield f"a step from {term.type} to {function.body.type}"
            if limit is not None and not (ty.is_integral(limit.type) or limit.type == ty.NOTHING):
                yield f"the limit has type {limit.type}"
            if condition is not None and not flows_into(condition.type, ty.BOOL):
                yield f"the condition has type {condition.type}"
        case _:
            assert_never(term)


def _reduction(monoid: Monoid, source: Term) -> Iterator[str]:
    if isinstance(source.type, ty.BagType) and not is_commutative(monoid):
        yield f"{monoid} does not commute, and a bag has no order"
    if not _reduces(element_type(source), monoid):
        yield f"the values of {element_type(source)} are not in the carrier of {monoid}"


def _variable(term: Var, scope: Scope) -> Iterator[str]:
    if term.name not in scope:
        yield f"{term.name} is not bound"
    elif scope[term.name] != term.type:
        yield f"{term.name} has type {term.type}, and its binder {scope[term.name]}"


def _binding_faults(pattern: Pattern, met: Type, term: Term) -> Iterator[Fault]:
    for name in _repeated(variable.name for variable in pattern_vars(pattern)):
        yield Fault(f"{show_pattern(pattern, pattern.type)} binds {name} twice", term)
    if not flows_into(met, pattern.type):
        shown = show_pattern(pattern, pattern.type)
        yield Fault(f"the pattern {shown} of type {pattern.type} meets a value of type {met}", term)


def _typing_faults(source: Term, term: Term) -> Iterator[Fault]:
    if not ty.is_collection(source.type):
        yield Fault(f"cMap over {source.type}, which is not a collection", term)


def _extend(scope: Scope, pattern: Pattern) -> Scope:
    return {**scope, **{variable.name: variable.type for variable in pattern_vars(pattern)}}


def _repeated(names: Iterator[str]) -> Iterator[str]:
    return (name for name, count in Counter(names).items() if count > 1)


def _describe(stream: Stream) -> str:
    return f"{'static ' if stream.static else ''}{stream.type}"
