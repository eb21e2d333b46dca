"""Bounds of the integers that a term may evaluate to, and whether integers and decimals may overflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import TypeAlias

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import children
from mrql.algebra.functions import (
    COALESCE,
    DIVIDE,
    FUNCTIONS,
    GE,
    GT,
    HIGH,
    INT_RANGES,
    LE,
    LOW,
    LT,
    MINUS,
    MODULO,
    NEGATE,
    NONE_MISSING,
    PLUS,
    TIMES,
    Function,
)
from mrql.algebra.functions.decimals import LOW_DIGITS
from mrql.algebra.monoids import PRODUCT, SUM, Fold
from mrql.algebra.terms import Cast, Empty, If, Lit, Prim, Reduce, Single, Term, Tup, Union, element_type
from mrql.algebra.types import Type

Interval: TypeAlias = tuple[int, int]

Known: TypeAlias = Mapping[Term, Interval]
"""The bounds known of values where a term is evaluated."""
NOTHING_KNOWN: Known = {}

NARROW: Interval = (-(2**32), 2**32)
_COMPUTED = (PLUS, MINUS, TIMES, DIVIDE, MODULO)
_HALVES: dict[Function, Interval] = {HIGH: (-(2**31), 2**31 - 1), LOW: (0, 2**32 - 1)}
_ABS = FUNCTIONS["abs"]
_COMPARED = {LT: (-1, False), LE: (-1, True), GT: (1, False), GE: (1, True)}
"""For each comparison with a constant on its right: −1 if it holds below the constant, 1 if above it; and whether it
holds for the constant itself."""


def may_overflow(term: Term, known: Known = NOTHING_KNOWN) -> bool:
    """Whether an integer or a decimal that is computed anywhere in a term may leave the range of its type.

    >>> from mrql.algebra.notation.parser import parse
    >>> texts = ("x + 1L", "(y as long) * 8L", "x", "if x < 9L then x + 1L else 9L")
    >>> [may_overflow(parse(text, {}, {"x": ty.LONG, "y": ty.INT})) for text in texts]
    [True, False, False, False]
    """
    match term:
        case If(condition, then, otherwise):
            return (
                may_overflow(condition, known)
                or may_overflow(then, _where(condition, known, holds=True))
                or may_overflow(otherwise, _where(condition, known, holds=False))
            )
        case Prim() | Cast() | Single() | Tup():
            return leaves_its_range(term, known) or any(may_overflow(child, known) for child in children(term))
        case _:  # it may bind a name that `known` uses for another value
            return leaves_its_range(term) or any(map(may_overflow, children(term)))


def _where(condition: Term, known: Known, *, holds: bool) -> Known:
    """The bounds known of values where a comparison with a constant holds, or where it does not."""
    match condition:
        case Prim(function, (value, Lit(int() as bound))) if function in _COMPARED and value.type in INT_RANGES:
            beyond, including = _COMPARED[function]
            least, greatest = interval(value, known)
            if (beyond > 0) == holds:
                least = max(least, bound if including == holds else bound + 1)
            else:
                greatest = min(greatest, bound if including == holds else bound - 1)
            return {**known, value: (least, greatest)} if least <= greatest else known
        case _:
            return known


def leaves_its_range(term: Term, known: Known = NOTHING_KNOWN) -> bool:
    """Whether a term's own operation, or its sum, may leave the range of its type; its operands are not checked."""
    match term:
        case Prim(function, _) if function in (PLUS, MINUS, TIMES, NEGATE, _ABS) and term.type in INT_RANGES:
            return not _within(_computed(term, known), _of_type(term.type))
        case Prim(function, _) if function in _COMPUTED and isinstance(term.type, ty.DecimalType):
            return term.type.precision == ty.MAX_PRECISION  # any other result has all digits that it needs
        case Prim(function, _) if function == NONE_MISSING:
            return True
        case Reduce(monoid, bag) if monoid == SUM and (term.type == ty.LONG or isinstance(term.type, ty.DecimalType)):
            return not (has_one_at_most(bag) or is_narrow(term))
        case Reduce(monoid, _) if monoid == PRODUCT:
            return term.type == ty.LONG
        case Reduce(Fold(combine=combine)):
            return may_overflow(combine.body)
        case _:
            return False


def has_one_at_most(bag: Term) -> bool:
    """Whether a bag is known to have at most one element, so that its sum takes no addition."""
    match bag:
        case Single() | Empty():
            return True
        case If(_, then, otherwise):
            return has_one_at_most(then) and has_one_at_most(otherwise)
        case _:
            return False


def is_narrow(term: Term) -> bool:
    """Whether a reduction adds up integers, or decimals, of about half the width of their sum, so that no number of
    rows makes it too large."""
    if isinstance(term, Reduce) and isinstance(term.type, ty.DecimalType):
        return all(digits <= LOW_DIGITS for digits in _digits_of_addends(term.source))
    return isinstance(term, Reduce) and all(_within(addend, NARROW) for addend in _addends(term.source))


def digits_of(number: Term) -> int:
    """The maximal number of digits of a decimal, with as many behind the point as its type has.

    >>> from mrql.algebra.notation.parser import parse
    >>> texts = ("x", "x as decimal(38, 2)", "x as decimal(38, 9)")
    >>> [digits_of(parse(text, {}, {"x": ty.DecimalType(5, 2)})) for text in texts]
    [5, 5, 12]
    """
    assert isinstance(number.type, ty.DecimalType)
    match number:
        case Cast(inner, ty.DecimalType() as t) if (source := ty.as_decimal(inner.type)) is not None:
            carried = source.scale > t.scale
            return min(t.precision, source.whole + t.scale + carried)
        case _:
            return number.type.precision


def _digits_of_addends(bag: Term) -> Iterator[int]:
    match bag:
        case Single(item) if isinstance(item.type, ty.DecimalType):
            yield digits_of(item)
        case If(_, then, otherwise):
            yield from _digits_of_addends(then)
            yield from _digits_of_addends(otherwise)
        case Union(left, right):
            yield from _digits_of_addends(left)
            yield from _digits_of_addends(right)
        case _ if (t := ty.as_decimal(element_type(bag))) is not None:
            yield t.precision


def _addends(bag: Term) -> list[Interval]:
    match bag:
        case Empty():
            return []
        case Single(item) if item.type in INT_RANGES or isinstance(item, Lit):
            return [interval(item)]
        case If(_, then, otherwise):
            return [*_addends(then), *_addends(otherwise)]
        case Union(left, right):
            return [*_addends(left), *_addends(right)]
        case _:
            return [_of_type(ty.LONG)]


def has_halves(term: Term) -> bool:
    """Whether the upper half of an operation's result fits a long, even if the result does not.

    >>> from mrql.algebra.notation.parser import parse
    >>> [has_halves(parse(text, {}, {"x": ty.LONG, "y": ty.INT})) for text in ("x * y", "x * x")]
    [True, False]
    """
    return _within(_computed(term), (-(2**95), 2**95 - 1))


def interval(term: Term, known: Known = NOTHING_KNOWN) -> Interval:
    """The least and the greatest value that an integer may have, unless it is missing."""
    if known and term in known:
        return known[term]
    found = _computed(term, known)
    return found if _within(found, _of_type(term.type)) else _of_type(term.type)


def _computed(term: Term, known: Known = NOTHING_KNOWN) -> Interval:
    match term:
        case Lit(int() as value):
            return value, value
        case Cast(inner, _) if inner.type in INT_RANGES:
            return interval(inner, known)
        case Prim(function, (a,)) if function in (NEGATE, _ABS):
            low, high = interval(a, known)
            return (-high, -low) if function == NEGATE else (0, max(abs(low), abs(high)))
        case Prim(function, (a, b)) if function in (PLUS, MINUS, TIMES):
            (a_low, a_high), (b_low, b_high) = interval(a, known), interval(b, known)
            if function == PLUS:
                return a_low + b_low, a_high + b_high
            if function == MINUS:
                return a_low - b_high, a_high - b_low
            corners = [x * y for x in (a_low, a_high) for y in (b_low, b_high)]
            return min(corners), max(corners)
        case If(_, then, otherwise):
            return _around([then, otherwise])
        case Prim(function, _) if function in _HALVES:
            return _HALVES[function]
        case Prim(function, args) if function == COALESCE:
            return _around(args)
        case _:
            return _of_type(term.type)


def _around(terms: list[Term] | tuple[Term, ...]) -> Interval:
    return reduce(lambda a, b: (min(a[0], b[0]), max(a[1], b[1])), map(interval, terms))


def _of_type(t: Type) -> Interval:
    return INT_RANGES[ty.INT] if t == ty.INT else INT_RANGES[ty.LONG]


def _within(inner: Interval, outer: Interval) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
