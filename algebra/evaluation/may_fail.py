"""Which terms may fail when they are evaluated.

A condition may guard an expression, as the first one does in `z <> 0 and 100 / z = x`. So a term that may fail must not
be evaluated for more rows than in the query: passes that compute keys, parts and totals in another place check that
here.

A sum, a difference or a product that leaves the range of its type is an error too, and so is a range that is too long,
but these are so rare that they do not count: otherwise no join could have the key `a + 1`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import cache

import attrs

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import children, subterms, with_children
from mrql.algebra.analysis.variables import free_vars, scopes
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.functions import (
    AND,
    COALESCE,
    DIGITS,
    DIVIDE,
    EQ,
    FUNCTIONS,
    GE,
    GT,
    IS_NULL,
    LE,
    LT,
    MINUS,
    MODULO,
    NE,
    NEGATE,
    NOT,
    OR,
    PLUS,
    QUOTIENT,
    RANGE,
    RUNNING,
    TIMES,
    TIMES_HIGH,
    TIMES_LOW,
    TRACE,
    TWO_VALUED,
)
from mrql.algebra.functions.function import Function, resolved
from mrql.algebra.functions.recursive_data import Folding
from mrql.algebra.functions.xml import DOCUMENTS, ELEMENTS
from mrql.algebra.monoids import Aggregate, Fold
from mrql.algebra.terms import Cast, If, ListOf, Lit, Prim, Reduce, Repeat, Term, Tup
from mrql.algebra.types import Type

_ARITHMETIC = (PLUS, MINUS, TIMES, TIMES_HIGH, TIMES_LOW, NEGATE, FUNCTIONS["abs"], RANGE)
_TOTAL = (*_ARITHMETIC, *RUNNING, QUOTIENT, *TWO_VALUED, *DIGITS, *DOCUMENTS, *ELEMENTS, TRACE)
_DIVISIONS = (DIVIDE, MODULO, FUNCTIONS["pmod"])
_PLACE = "/* place */"


def may_fail(term: Term) -> bool:
    """Whether a term may fail for some rows.

    >>> from mrql.algebra.notation.parser import parse
    >>> types = {"x": ty.LONG, "y": ty.DOUBLE, "s": ty.STRING, "d": ty.DATE}
    >>> [may_fail(parse(text, {}, types)) for text in ("100L / x", "s as long", 'date(s) < d')]
    [True, True, True]
    >>> [may_fail(parse(text, {}, types)) for text in ("100L * x", "100.0 / y", "x / 100L", 'd < date("2026-11-24")')]
    [False, False, False, False]
    """
    fails = _fails(term) or any(map(may_fail, children(term)))
    return fails and not (_is_constant(term) and _has_value(term))


def fails_in_spite_of_guards(term: Term, apart_from_zero: frozenset[Term] = frozenset()) -> bool:
    """Whether a term as a whole may fail: a division does not if a condition in the term excludes a zero divisor. The
    division by itself may still fail, if a pass moves it out of the condition.

    >>> from mrql.algebra.notation.parser import parse
    >>> types = {"x": ty.LONG}
    >>> texts = ("x <> 0L and 6L / x = 1L", "x <> 1L and 6L / x = 1L")
    >>> [fails_in_spite_of_guards(parse(text, {}, types)) for text in texts]
    [False, True]
    """
    if not may_fail(term):
        return False
    match term:
        case Prim(function, (_, divisor)) if function in _DIVISIONS and divisor in apart_from_zero:
            fails = False
        case _:
            fails = _fails(term)
    if fails:
        return True
    for child, own, bound in zip(children(term), guards(term), scopes(term), strict=True):
        known = frozenset(t for t in apart_from_zero if not free_vars(t) & bound)
        known |= {t for guard in own for t in _apart_from_zero(guard.condition, guard.holds)}
        if fails_in_spite_of_guards(child, known):
            return True
    return False


_SIGNS = {NE: (), GT: (0, 1), LT: (0, -1), GE: (1,), LE: (-1,)}
"""The signs of a constant, on the right of a comparison, for which the comparison excludes zero on its left; `≠` does
so only for the constant 0."""


def _apart_from_zero(condition: Term, holds: bool) -> Iterator[Term]:
    """The terms that are nonzero or missing where a condition holds, or where it does not."""
    match condition:
        case Prim(function, (inner,)) if function == NOT:
            yield from _apart_from_zero(inner, not holds)
        case Prim(function, (left, right)) if function == (AND if holds else OR):
            yield from _apart_from_zero(left, holds)
            yield from _apart_from_zero(right, holds)
        case Prim(function, (term, Lit(int() | Decimal() as number))) if not holds:
            if function == EQ and number == 0:
                yield term
        case Prim(function, (term, Lit(int() | Decimal() as number))):
            sign = (number > 0) - (number < 0)
            if (function == NE and sign == 0) or sign in _SIGNS.get(function, ()):
                yield term


def _fails(part: Term) -> bool:
    match part:
        case Prim(function, (_, Lit(divisor, _))) if function in _DIVISIONS and divisor:
            return False
        case Prim(Folding()):
            return False
        case Prim(function, args):
            return _function_fails(function, tuple(arg.type for arg in args))
        case Cast(Reduce(Aggregate()) | Prim(fn.QUOTIENT) as total, ty.DecimalType()) if _is_decimal(total):
            return False  # a sum has ten digits more than its addends
        case Cast(inner, t):
            return _cast_fails(inner.type, t)
        case Reduce(Fold(combine=combine, zero=zero)):
            return may_fail(combine.body) or may_fail(zero)
        case Repeat(limit=None):
            return True  # it may not end
        case _:
            return False


def _is_constant(term: Term) -> bool:
    """Whether a term is the same for all rows, and cheap to compute."""
    return all(map(_is_part_of_a_constant, subterms(term)))


def _is_part_of_a_constant(part: Term) -> bool:
    match part:
        case Prim(function):
            return function not in (RANGE, TRACE) and FUNCTIONS.get(function.name) is function
        case _:
            return isinstance(part, Lit | Cast | Tup | ListOf)


def _has_value(term: Term) -> bool:
    try:
        evaluate(term)
    except UserError:
        return False
    return True


@cache
def _function_fails(function: Function, args: tuple[Type, ...]) -> bool:
    """Whether a function may fail, as one whose form in SQL has the place for an error message."""
    if function in _TOTAL:
        return False
    found = resolved(function, args)
    if FUNCTIONS.get(function.name) is not function or found is None or found[0].sql is None:
        return True
    return _PLACE in found[0].sql(*(f"a{i}" for i, _ in enumerate(args)), _PLACE)


def _cast_fails(source: Type, t: Type) -> bool:
    rounds = ty.is_numeric(source) and (t in ty.FRACTIONS or _has_room(ty.as_decimal(source), t))
    if rounds or ty.fits(source, t) or (source, t) == (ty.STRING, ty.BYTES):
        return False
    return source == ty.ANY or t not in (ty.STRING, ty.ANY) or (source, t) == (ty.BYTES, ty.STRING)


def _has_room(source: ty.DecimalType | None, t: Type) -> bool:
    """Whether each decimal of a type has a counterpart in another one, apart from digits lost behind the point."""
    if source is None or not isinstance(t, ty.DecimalType):
        return False
    return t.whole > source.whole or (t.whole == source.whole and t.scale >= source.scale)


def _is_decimal(term: Term) -> bool:
    return isinstance(term.type, ty.DecimalType)


# --- where a term is evaluated ----------------------------------------------------------------------------------------


@attrs.frozen
class Guard:
    """A condition under which a term is evaluated: if it holds, or if it does not."""

    condition: Term
    holds: bool


def guards(term: Term) -> tuple[tuple[Guard, ...], ...]:
    """For each child of a term, the conditions under which the term evaluates it.

    >>> from mrql.algebra.notation.parser import parse
    >>> [len(of_child) for of_child in guards(parse("x <> 0L and 100L / x = 2L", {}, {"x": ty.LONG}))]
    [0, 1]
    """
    match term:
        case If(condition):
            return (), (Guard(condition, True),), (Guard(condition, False),)
        case Prim(function, (left, _)) if function == OR:
            return (), (Guard(left, False),)
        case Prim(function, (left, _)) if function == AND:
            # The right side is also evaluated if the left one is missing.
            return (), (Guard(Prim(NOT, (left,)), False),)
        case Prim(function, args) if function == COALESCE:
            missing = tuple(Guard(Prim(IS_NULL, (arg,)), True) for arg in args)
            return tuple(missing[:i] for i, _ in enumerate(args))
        case _:
            return ((),) * len(children(term))


def map_guarded(term: Term, visit: Callable[[Term, bool], Term], is_guarded: bool) -> Term:
    """The term with its children visited; `visit` is told whether a child is evaluated under a condition only, as it is
    where the term `is_guarded`."""
    places = zip(children(term), guards(term), strict=True)
    return with_children(term, tuple(visit(child, is_guarded or bool(own)) for child, own in places))


def guarded(term: Term, under: Sequence[Guard], elsewhere: Term) -> Term:
    """The term where all its guards admit it, and another one elsewhere."""
    for guard in reversed(under):
        then, otherwise = (term, elsewhere) if guard.holds else (elsewhere, term)
        term = If(guard.condition, then, otherwise)
    return term
