"""Aggregations that are computed for groups for which the query may not evaluate them, and must not fail there.

A part of a group is computed for all groups, even if the query evaluates it only under a condition, or only for the
elements of another group, which may be empty: `sum(select d + 1 from (c, d) in T where c = a)` is kept for each c,
whether or not there is such an a. An element that leaves its range is an error only where the query evaluates the
aggregation.

*Equation*: with `t(x)` the element, missing where it leaves its range, and `n(x)` 1 there and 0 elsewhere,

    ⊕ e(x)  =  none_missing(⊕ t(x), Σ n(x))

which is an overflow error if the second sum is not 0. An aggregation skips missing elements.

*Requires*: only sums, differences and products leave their range, over terms that do not; these are missing only where
an operand is. In a condition, such a number is compared, or tested for being missing; a condition that leaves its range
counts as an element that does. Any other aggregation whose elements may leave their range is not kept as a part: the
values of the group are.

*Source*: ours; [MRQL] §9 has the split.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import attrs

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.analysis.integer_ranges import leaves_its_range, may_overflow
from mrql.algebra.analysis.traversal import bottom_up, subterms
from mrql.algebra.monoids import SUM, Aggregate
from mrql.algebra.span import Span
from mrql.algebra.terms import Cast, CMap, Empty, If, Lambda, Lit, Prim, Reduce, Single, Term, Union, Var
from mrql.rewrite.analysis.join_predicates import guard


@attrs.frozen
class AttemptedAggregate:
    """`⊕ t(x)`, `Σ n(x)` (None where it is always 0), and the place in the query of a term that may leave its range."""

    total: Term
    missing: Term | None
    place: Span | None

    def where_asked(self, total: Term, missing: Term | None) -> Term:
        """The aggregation from both sums as they are kept; if an element left its range, evaluating it is an error."""
        return total if missing is None else Prim(fn.NONE_MISSING, (total, missing), span=self.place)


def computes_out_of_range(part: Term) -> bool:
    """Whether the elements that a part is computed from may leave their range. Aggregations of them do so too rarely to
    count: it is not worth keeping all of their values so that they do not fail for other groups."""
    return may_overflow(bottom_up(part.source if isinstance(part, Reduce) else part, _without_sum))


def _without_sum(term: Term) -> Term:
    return Var("sum", term.type) if isinstance(term, Reduce) else term


def attempted(term: Term) -> AttemptedAggregate | None:
    """An aggregation as `⊕ t(x)` and `Σ n(x)`; None for a term that is not of the required form.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> term = parse("reduce(+, cMap(λv. {v + 1L}, s))", {}, {"s": ty.BagType(ty.LONG)})
    >>> show(attempted(term).total)
    'reduce(+, cMap(λv. {try_add(v, 1L)}, s))'
    >>> show(attempted(term).missing)
    'reduce(+, cMap(λv. if is_null(try_add(v, 1L)) and not is_null(v) then {1L} else {}:{long}, s))'
    """
    if not isinstance(term, Reduce) or not isinstance(term.monoid, Aggregate):
        return None
    try:
        total = Reduce(term.monoid, _attempted_elements(term.source), span=term.span)
        missing = Reduce(SUM, _missing_elements(term.source), span=term.span)
    except _NoArithmetic:
        return None
    place = next((part.span for part in subterms(term.source) if leaves_its_range(part)), term.span)
    return AttemptedAggregate(total, None if _is_nothing(missing.source) else missing, place)


class _NoArithmetic(Exception):
    """A term may leave its range in a place, or by a function, that *Requires* does not allow."""


def _attempted_elements(bag: Term) -> Term:
    """The bag of the attempted elements `t(x)`.

    Raises: _NoArithmetic.
    """
    match bag:
        case Single(item):
            attempt = _attempted_condition if item.type == ty.BOOL else _attempted
            return Single(attempt(item), span=bag.span)
        case Empty():
            return bag
        case If(condition, then, otherwise):
            branches = _attempted_elements(then), _attempted_elements(otherwise)
            return If(_attempted_condition(condition), *branches, span=bag.span)
        case CMap(Lambda(param, body), source) if not may_overflow(source):
            return CMap(Lambda(param, _attempted_elements(body)), source, span=bag.span)
        case Union(left, right):
            return Union(_attempted_elements(left), _attempted_elements(right), span=bag.span)
        case _ if not may_overflow(bag):
            return bag
        case _:
            raise _NoArithmetic


def _missing_elements(bag: Term) -> Term:
    """The bag with a 1 for each element that leaves its range; `NOTHING` where none can."""
    match bag:
        case Single(item):
            leaves = _leaves(item)
            return NOTHING if leaves == FALSE else guard((leaves,), ONE)
        case If(condition, then, otherwise):
            branches = _missing_elements(then), _missing_elements(otherwise)
            inside = NOTHING if all(map(_is_nothing, branches)) else If(_attempted_condition(condition), *branches)
            leaves = _leaves(condition)
            return inside if leaves == FALSE else If(leaves, ONE, inside)
        case CMap(Lambda(param, body), source):
            inner = _missing_elements(body)
            return NOTHING if _is_nothing(inner) else CMap(Lambda(param, inner), source)
        case Union(left, right):
            return Union(_missing_elements(left), _missing_elements(right))
        case _:
            return NOTHING


NOTHING = Empty(ty.BagType(ty.LONG))
ONE = Single(Lit(1, ty.LONG))
FALSE = Lit(False, ty.BOOL)


def _is_nothing(bag: Term) -> bool:
    match bag:
        case Union(left, right):
            return _is_nothing(left) and _is_nothing(right)
        case _:
            return isinstance(bag, Empty)


# --- what is attempted ------------------------------------------------------------------------------------------------


def _attempted(number: Term) -> Term:
    """A number that is missing where it leaves its range.

    Raises: _NoArithmetic.
    """
    if not may_overflow(number):
        return number
    match number:
        case Prim(function, args) if function in fn.ATTEMPTS and number.type in fn.INT_RANGES:
            return Prim(fn.ATTEMPTS[function], tuple(map(_attempted, args)), span=number.span)
        case Prim(function, args) if function in fn.ATTEMPTS and not leaves_its_range(number):
            return Prim(function, tuple(map(_attempted, args)), span=number.span)
        case Cast(inner, t) if inner.type in fn.INT_RANGES and t in (ty.LONG, ty.DOUBLE, ty.FLOAT):
            return Cast(_attempted(inner), t, span=number.span)
        case _:
            raise _NoArithmetic


def _attempted_condition(condition: Term) -> Term:
    """A condition over numbers that are missing where they leave their range.

    Raises: _NoArithmetic.
    """
    if not may_overflow(condition):
        return condition
    match condition:
        case Prim(function, args) if function in (fn.AND, fn.OR, fn.NOT):
            return Prim(function, tuple(map(_attempted_condition, args)), span=condition.span)
        case Prim(function, args) if function in (*_COMPARISONS, fn.IS_NULL):
            return Prim(function, tuple(map(_attempted, args)), span=condition.span)
        case _:
            raise _NoArithmetic


_COMPARISONS = (fn.EQ, fn.NE, fn.LT, fn.LE, fn.GT, fn.GE)


def _leaves(term: Term) -> Term:
    """The condition that a number, or another condition, leaves its range where the query evaluates it."""
    if not may_overflow(term):
        return FALSE
    match term:
        case Prim(fn.AND, (left, right)):
            return _or(_leaves(left), _and(_is_not(_attempted_condition(left), False), _leaves(right)))
        case Prim(fn.OR, (left, right)):
            return _or(_leaves(left), _and(_is_not(_attempted_condition(left), True), _leaves(right)))
        case Prim(function, args) if function in (fn.NOT, fn.IS_NULL, *_COMPARISONS):
            return reduce(_or, map(_leaves, args))
        case _:
            leaves: Term = Prim(fn.IS_NULL, (_attempted(term),))
            given = (_not(Prim(fn.IS_NULL, (operand,))) for operand in dict.fromkeys(_operands(term)))
            return reduce(_and, given, leaves)


def _is_not(condition: Term, value: bool) -> Term:
    """The condition that `condition` is missing, or the opposite of `value`."""
    wanted = condition if value is False else _not(condition)
    return _or(Prim(fn.IS_NULL, (condition,)), wanted)


def _or(left: Term, right: Term) -> Term:
    if FALSE in (left, right):
        return right if left == FALSE else left
    return Prim(fn.OR, (left, right))


def _and(left: Term, right: Term) -> Term:
    return FALSE if FALSE in (left, right) else Prim(fn.AND, (left, right))


def _not(condition: Term) -> Term:
    return Prim(fn.NOT, (condition,))


def _operands(number: Term) -> Iterator[Term]:
    """The operands of nested arithmetic that may be missing."""
    match number:
        case Lit():
            return
        case Prim(_, args) if may_overflow(number):
            for arg in args:
                yield from _operands(arg)
        case Cast(inner, _) if may_overflow(number):
            yield from _operands(inner)
        case _:
            yield number
