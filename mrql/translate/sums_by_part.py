"""User-defined aggregations that are sums, part by part, and are kept as sums.

*Equation*: where `T` is a number, or a tuple or record of such, and

    (x1, …, xn) ⊕ (y1, …, yn) = (x1 + y1, …, xn + yn),   zero = (0, …, 0),   -(x1, …, xn) = (-x1, …, -xn)

an aggregation is the tuple of the sums of its parts:

    reduce(⊕, X) = (reduce(+, {x1 | x ∈ X}), …, reduce(+, {xn | x ∈ X}))

Each of these sums is a group of its own: exact under deletions, kept as one number, and over a join as sums of its
sides.

*Requires*: the parts are longs and doubles, whose sums are of these types again. A value that is missing as a whole is
skipped. A missing part makes this part of the result missing, as `x + null` does: these are counted beside the sum.

*Source*: [MRQL] §5 (monoids), §11 (diminishers); rings of counts, sums and products as in factorised learning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import match_pattern, substitute, var_of
from mrql.algebra.functions import EQ, IS_NULL, MINUS, NEGATE, NOT, PLUS, TIMES
from mrql.algebra.monoids import SUM
from mrql.algebra.span import Span
from mrql.algebra.terms import (
    Cast,
    CMap,
    Empty,
    Get,
    If,
    Lambda,
    Let,
    Lit,
    Nth,
    Prim,
    PVar,
    Rec,
    Reduce,
    Single,
    Term,
    Tup,
    Var,
)
from mrql.algebra.types import Type
from mrql.translate.quantifiers import NO_WITNESS, ONE

Path = tuple[int | str, ...]
"""The path to a part of a value: the indices and field names that lead to it."""


def are_sums(x: PVar, y: PVar, combined: Term, zero: Term, negated: Term) -> bool:
    """Whether `combined` adds the parts of x and y, `zero` is 0 in each, and `negated` negates each part of x."""
    paths = list(_paths(x.type))
    if not all(t in (ty.LONG, ty.DOUBLE) for _, t in paths):
        return False
    values = [_unfolded(term, {}) for term in (combined, zero, negated)]
    for path, t in paths:
        a, b = _at(var_of(x), path), _at(var_of(y), path)
        added, nothing, taken = (_at(value, path) for value in values)
        sums = (Prim(PLUS, (a, b)), Prim(PLUS, (b, a)))
        inverses = (Prim(NEGATE, (a,)), *(Prim(MINUS, (Lit(0, z), a)) for z in (ty.INT, t)))
        is_zero = isinstance(nothing, Lit) and nothing.value == 0
        if not (added in sums and is_zero and taken in inverses):
            return False
    return True


def summed(collection: Term, v: PVar, element: Term, span: Span) -> Term:
    """The sums of the parts of `element` over the v of a collection that are not missing, in the same form."""
    parts = _unfolded(element, {})

    def over(counted: Term) -> Term:
        # A missing value is skipped as a whole.
        for whole in (parts, var_of(v)):
            if not isinstance(whole, Tup | Rec):
                counted = If(Prim(NOT, (Prim(IS_NULL, (whole,)),)), counted, Empty(counted.type))
        return Reduce(SUM, CMap(Lambda(v, counted), collection), span=span)

    def part(path: Path, t: Type) -> Term:
        addend = _at(parts, path)
        total = over(Single(addend))
        if not path:
            return total
        for uncertain in _may_be_missing(addend, v):
            missing = over(If(Prim(IS_NULL, (uncertain,)), ONE, NO_WITNESS))
            total = If(Prim(EQ, (missing, Lit(0, ty.LONG))), total, Lit(None, t))
        return total

    return _made(element.type, (), part)


def _may_be_missing(term: Term, v: PVar) -> tuple[Term, ...]:
    """The operands of an arithmetic term: if it is missing, and v is not, then one of these is."""
    match term:
        case Lit(value) if value is not None:
            return ()
        case Cast(inner, ty.Basic(ty.Kind.LONG | ty.Kind.DOUBLE)):
            return _may_be_missing(inner, v)
        case Prim(function, args) if function in (PLUS, MINUS, TIMES, NEGATE):
            return tuple(dict.fromkeys(part for arg in args for part in _may_be_missing(arg, v)))
        case _:
            return () if term == var_of(v) else (term,)


def _paths(t: Type, path: Path = ()) -> Iterator[tuple[Path, Type]]:
    """The parts of a type that have no parts themselves, with the paths to them."""
    match t:
        case ty.TupleType(items):
            for i, item in enumerate(items):
                yield from _paths(item, (*path, i))
        case ty.RecordType(fields):
            for name, item in fields:
                yield from _paths(item, (*path, name))
        case _:
            yield path, t


def _made(t: Type, path: Path, part: Callable[[Path, Type], Term]) -> Term:
    """A value of a type, each part of which is made from its path."""
    match t:
        case ty.TupleType(items):
            return Tup(tuple(_made(item, (*path, i), part) for i, item in enumerate(items)))
        case ty.RecordType(fields):
            return Rec(tuple((name, _made(item, (*path, name), part)) for name, item in fields))
        case _:
            return part(path, t)


def _at(term: Term, path: Path) -> Term:
    for step in path:
        term = _nth(term, step) if isinstance(step, int) else _get(term, step)
    return term


def _nth(term: Term, place: int) -> Term:
    return term.items[place] if isinstance(term, Tup) else Nth(term, place)


def _get(term: Term, name: str) -> Term:
    return dict(term.fields)[name] if isinstance(term, Rec) else Get(term, name)


def _unfolded(term: Term, known: Mapping[str, Term]) -> Term:
    """A term with its variables replaced by their values, as far as it is made of tuples, records and numbers."""
    match term:
        case Var(name):
            return known.get(name, term)
        case Let(pattern, value, body):
            return _unfolded(body, {**known, **match_pattern(pattern, _unfolded(value, known))})
        case Tup(items):
            return Tup(tuple(_unfolded(item, known) for item in items))
        case Rec(fields):
            return Rec(tuple((name, _unfolded(item, known)) for name, item in fields))
        case Nth(inner, place):
            return _nth(_unfolded(inner, known), place)
        case Get(inner, name):
            return _get(_unfolded(inner, known), name)
        case Prim(function, args):
            return Prim(function, tuple(_unfolded(arg, known) for arg in args), span=term.span)
        case Cast(inner, t):
            return _cast(_unfolded(inner, known), t, term.span)
        case _:
            return substitute(term, known)


def _cast(term: Term, t: Type, span: Span | None) -> Term:
    """A cast, which is done part by part for a tuple or record, and right away for an integer constant."""
    match term, t:
        case Lit(int() as number), ty.LONG | ty.DOUBLE:
            return Lit(number, t)
        case Tup(items), ty.TupleType(types):
            return Tup(tuple(_cast(item, wanted, span) for item, wanted in zip(items, types, strict=True)))
        case Rec(fields), ty.RecordType():
            types_by_name = dict(t.fields)
            return Rec(tuple((name, _cast(item, types_by_name[name], span)) for name, item in fields))
        case _:
            return term if term.type == t else Cast(term, t, span=span)
