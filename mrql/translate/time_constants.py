"""String constants beside dates and timestamps, which are read as dates and timestamps.

    e.day > "2026-01-31"          e.day > date("2026-01-31")
    e.at in {"2026-01-31"}        e.at in {timestamp("2026-01-31")}
    case e.day { "2026-01-31": …  case e.day { date("2026-01-31"): …
    year("2026-01-31")            year(date("2026-01-31"))

Beside a date, a string with a time of day is a timestamp. A string that is no constant stays one: it takes a cast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError, InternalError, UserError
from mrql.algebra.functions import Function, convert
from mrql.algebra.span import Span
from mrql.algebra.terms import Cast, ListOf, Lit, Rec, Single, Term, Tup, Union
from mrql.algebra.types import Type

COMPARED = {
    syntax.BinaryOp.EQUAL,
    syntax.BinaryOp.NOT_EQUAL,
    syntax.BinaryOp.LESS,
    syntax.BinaryOp.LESS_EQUAL,
    syntax.BinaryOp.GREATER,
    syntax.BinaryOp.GREATER_EQUAL,
}
AS_WRITTEN = 'a date is written "2026-01-31", a timestamp "2026-01-31 10:20:30"'

DIGITS = 'a timestamp has six digits behind the point at most: "2026-01-31 10:20:30.123456"'


def met_by_times(op: syntax.BinaryOp, left: Term, right: Term) -> tuple[Term, Term]:
    """The two sides of a comparison or of `in`, with string constants as the dates or timestamps that they are compared
    with.

    Raises: UserError at a constant that is neither.
    """
    if op in COMPARED:
        return beside(left, right.type), beside(right, left.type)
    if op is syntax.BinaryOp.IN and isinstance(right.type, ty.BagType | ty.ListType):
        return beside(left, right.type.item), beside(right, attrs.evolve(right.type, item=left.type))
    return left, right


def taken_as_times(function: Function, args: Sequence[Term]) -> Sequence[Term]:
    """The arguments of a function, with string constants as dates and timestamps if it takes them only then; else the
    same ones."""
    if function.type_rule([arg.type for arg in args]) is not None:
        return args
    made = [_as_time(arg) for arg in args]
    return args if function.type_rule([arg.type for arg in made]) is None else made


def _as_time(term: Term) -> Term:
    """A string constant as a date or a timestamp, if it is one; else the same term."""
    match term:
        case Lit(str() as text, ty.STRING):
            with suppress(UserError):
                return _constant(text, ty.DATE, term.span)
    return term


def beside(term: Term, wanted: Type) -> Term:
    """A term with its string constants as dates and timestamps, where the type `wanted` has them; else the same one.

    Raises: UserError at a constant that is neither.
    """
    match term, wanted:
        case Lit(None, ty.STRING), ty.DATE | ty.TIMESTAMP:
            return attrs.evolve(term, type=wanted)
        case Lit(str() as text, ty.STRING), ty.DATE | ty.TIMESTAMP:
            return _constant(text, wanted, term.span)
        case Tup(items), ty.TupleType(types) if len(items) == len(types):
            made = tuple(map(beside, items, types))
            return term if made == items else attrs.evolve(term, items=made)
        case Rec(fields), ty.RecordType(types) if [name for name, _ in fields] == [name for name, _ in types]:
            named = tuple((name, beside(e, t)) for (name, e), (_, t) in zip(fields, types, strict=True))
            return term if named == fields else attrs.evolve(term, fields=named)
        case Single() | ListOf() | Union(), ty.BagType(item) | ty.ListType(item):
            return _collection(term, item)
        case _:
            return term


def _collection(term: Term, item: Type) -> Term:
    """A collection with its elements as dates and timestamps; unchanged, if they would have no common type."""
    elements = _elements(term)
    made = None if elements is None else [beside(element, item) for element in elements]
    if elements is None or made is None or made == elements:
        return term
    joined: Type = ty.NOTHING
    for element in made:
        wider = ty.join_types(joined, element.type)
        if wider is None:
            return term
        joined = wider
    return _rebuilt(term, iter([element if element.type == joined else Cast(element, joined) for element in made]))


def _elements(term: Term) -> list[Term] | None:
    """The elements of a collection that is written out, found without recursion; None if it has others."""
    found: list[Term] = []
    waiting = [term]
    while waiting:
        match waiting.pop():
            case Single(item):
                found.append(item)
            case ListOf(items):
                found += items
            case Union(left, right):
                waiting += [right, left]
            case _:
                return None
    return found


def _rebuilt(term: Term, elements: Iterator[Term]) -> Term:
    """The collection with other elements."""
    match term:
        case Single():
            return attrs.evolve(term, item=next(elements))
        case ListOf(items):
            return attrs.evolve(term, items=tuple(next(elements) for _ in items))
        case Union(left, right):
            return attrs.evolve(term, left=_rebuilt(left, elements), right=_rebuilt(right, elements))
        case _:
            raise InternalError("time constants", f"{type(term).__name__} is no collection that is written")


def _constant(text: str, wanted: Type, span: Span | None) -> Lit:
    for t in (wanted, ty.TIMESTAMP):
        with suppress(EvaluationError):
            return Lit(convert(text, t), t, span=span)
    hint = DIGITS if re.search(r"\.[0-9]{7,}", text) else AS_WRITTEN
    raise UserError(f'"{text}" is no {wanted}', span, hint)
