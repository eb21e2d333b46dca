"""The condition that a value lies in a window becomes an equality of bins.

*Equation*: where `l ≤ u` are terms over p with `u − l ≤ w`, and `bin(x) = x / w` of whole numbers,

    l(p) ≤ r(q) ≤ u(p)  ⇒  bin(r(q)) = bin(u(p))  or  bin(r(q)) = bin(l(p)),  and these are equal or next to each other

as an interval no longer than w overlaps two bins at most. So in a nested select over the rows of a window, each row is
put into its own bin and the next one, and looked up in one of them by an equality, which can be a join key:

    {h | q ∈ Y, c} = {h | q ∈ Y, k ∈ {bin(r(q)), bin(r(q)) + 1}, k = bin(u(p)), c}

In a join, a generator over the bins of the window comes first, which are one bin where both ends lie in it:

    {h | p ∈ X, q ∈ Y, c} = {h | p ∈ X, k ∈ {bin(u(p)), bin(l(p))}, q ∈ Y, bin(r(q)) = k, c}

A range is such a window too, where each of its numbers is looked up by an equality:

    {h | n ∈ l(p)..u(p), q ∈ Y, r(q) = n, c} = {h[n := r(q)] | q ∈ Y, l(p) ≤ r(q), r(q) ≤ u(p), c[n := r(q)]}

The conditions of a window may come after further generators, as all conditions of a select do.

*Requires*: both ends are the same term up to constants; the types are integers, dates with days, or timestamps with
seconds, minutes, hours or days; no equality links p and q, as they are joined by that otherwise. Missing values are in
no window, and in no bin. The terms without their constants cannot fail, as their bins are computed even where an
earlier condition excludes the row; for the same reason the constants are added to numbers of days and seconds, up to
the largest or least long.

*Source*: ours; the partitions of a band join (DeWitt, Naughton, Schneider: An Evaluation of Non-Equijoin Algorithms,
VLDB 1991).

*Does not fire* on windows of doubles, and on those with one end, which may contain any number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import children, with_children
from mrql.algebra.analysis.variables import (
    Names,
    all_names,
    alpha_equal,
    bound_names,
    free_vars,
    rename_apart,
    scopes,
    substitute,
    var_of,
)
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.functions import DIVIDE, EQ, FUNCTIONS, GE, GT, LE, LT, MINUS, NE, NEGATE, PLUS, RANGE
from mrql.algebra.functions.function import Function
from mrql.algebra.terms import Cast, CMap, Empty, If, Lambda, ListOf, Lit, Prim, PVar, Single, Term, Union, Var, cast_to
from mrql.algebra.values.atom_conversion import INT_RANGES
from mrql.rewrite.analysis.join_predicates import guard, link, reads_sources, unguarded

DAY, HOUR, MINUTE = 86_400, 3_600, 60
SECONDS = {"add_days": DAY, "add_hours": HOUR, "add_minutes": MINUTE, "add_seconds": 1}
"""The functions that move a timestamp, with the seconds of one unit."""
TIMES = (ty.DATE, ty.TIMESTAMP)
MIN_LONG, MAX_LONG = INT_RANGES[ty.LONG]
DAYS = {"add_days": 1, "date_sub": -1}
"""The functions that move a date, with the days of one unit."""


def bin_bands(term: Term) -> Term:
    """The term with the window conditions of its joins and nested selects as equalities of bins.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> S = {"X": "{long}", "Y": "{long}"}
    >>> q = parse("cMap(λx. cMap(λy. if y <= x and y > x - 3L then {(x, y)} else {}:{(long, long)}, Y), X)", S)
    >>> "y / 3L = k" in show(bin_bands(q))
    True
    """
    return _Bands(Names(set(all_names(term)))).visit(term, frozenset(), joined=False)


@attrs.frozen
class Band:
    """A window: `value`, of the inner row, lies between `middle + low` and `middle + high`, where `middle` is over the
    outer row. The constants are whole numbers, days or seconds."""

    value: Term
    middle: Term
    low: int
    high: int

    @property
    def bin(self) -> Term:
        """The number of the value's bin."""
        return self._bin(_number(self.value))

    @property
    def upper_bin(self) -> Term:
        return self._bin(_moved_by(self.middle, self.high))

    @property
    def bins_of_window(self) -> Term:
        """The numbers of the one or two bins that the window lies in."""
        upper, lower = self.upper_bin, self._bin(_moved_by(self.middle, self.low))
        more = If(Prim(NE, (lower, upper)), Single(lower), Empty(ty.BagType(ty.LONG)))
        return Union(Single(upper), more)

    @property
    def bins_of_row(self) -> Term:
        """The number of the value's bin, and that of the next one."""
        return ListOf((self.bin, Prim(PLUS, (self.bin, Lit(1, ty.LONG)), span=self.value.span)))

    def _bin(self, number: Term) -> Term:
        """The bin of a number. Bins have at least the width 2, so that the number of the next one is in the range of a
        long."""
        return Prim(DIVIDE, (number, Lit(max(self.high - self.low, 2), ty.LONG)))


def _number(of: Term) -> Term:
    """A value as a long: an integer itself, a date in days, a timestamp in seconds."""
    match of.type:
        case ty.DATE:
            of = Prim(FUNCTIONS["date_diff"], (of, Lit(date(1970, 1, 1), ty.DATE)))
        case ty.TIMESTAMP:
            of = Prim(FUNCTIONS["to_unix"], (of,))
    return cast_to(of, ty.LONG)


def _moved_by(of: Term, amount: int) -> Term:
    """The number of a value plus a constant, but at most the largest and at least the least long: no value lies beyond
    these."""
    number = _number(of)
    if not amount:
        return number
    moved = Prim(PLUS if amount > 0 else MINUS, (number, Lit(abs(amount), ty.LONG)), span=number.span)
    if of.type != ty.LONG:
        return moved
    end, beyond = (MAX_LONG, GT) if amount > 0 else (MIN_LONG, LT)
    return If(Prim(beyond, (number, Lit(end - amount, ty.LONG))), Lit(end, ty.LONG), moved)


class _Bands:
    def __init__(self, names: Names) -> None:
        self.names = names

    def visit(self, term: Term, outer: frozenset[str], *, joined: bool) -> Term:
        """Rewrites a term; `outer` are the variables around it, `joined` says whether it continues a join."""
        match term:
            case CMap() if (band := self._band(term, outer)) is not None:
                return self._by_bins(term, band, outer, joined=joined)
            case CMap(Lambda(PVar() as n, CMap() as rows), Prim(function, (low, high))) if (
                function == RANGE
                and isinstance(rows.type, ty.BagType)
                and (window := _window_of_range(n, rows, low, high)) is not None
                and (band := self._band(window, outer)) is not None
            ):
                return self._by_bins(window, band, outer, joined=joined)
            case CMap(Lambda(param, body), source):
                bulk = joined or reads_sources(source)
                inner = self.visit(body, outer | bound_names(param), joined=bulk)
                return attrs.evolve(term, function=Lambda(param, inner), source=self.visit(source, outer, joined=False))
            case If(condition, then, Empty()) if joined:
                then = self.visit(then, outer, joined=True)
                return attrs.evolve(term, condition=self.visit(condition, outer, joined=False), then=then)
            case _:
                parts = zip(children(term), scopes(term), strict=True)
                return with_children(term, tuple(self.visit(c, outer | bound, joined=False) for c, bound in parts))

    def _by_bins(self, term: CMap, band: Band, outer: frozenset[str], *, joined: bool) -> Term:
        """A comprehension over the rows of a window, which are looked up by their bins."""
        k = PVar(self.names.fresh("k"), ty.LONG)
        param, body = rename_apart(term.function.param, term.function.body, frozenset({k.name}))
        conditions, head = unguarded(body)
        head = self.visit(head, outer | bound_names(param), joined=True)
        wanted = band.bin if joined else band.upper_bin
        is_there = guard((Prim(EQ, (wanted, var_of(k))), *conditions), head)
        if joined:
            rows = CMap(Lambda(param, is_there), term.source, span=term.span)
            return CMap(Lambda(k, rows), band.bins_of_window, span=term.span)
        of_row = CMap(Lambda(k, is_there), band.bins_of_row, span=term.span)
        return CMap(Lambda(param, of_row), term.source, span=term.span)

    def _band(self, term: CMap, outer: frozenset[str]) -> Band | None:
        """The window that the conditions of a comprehension over a source define, if any."""
        if not outer or not reads_sources(term.source) or free_vars(term.source):
            return None
        inner = bound_names(term.function.param)
        conditions, around = [*_asked(term.function.body)], outer - inner
        if link(conditions, around, inner).on_keys:
            return None
        ends = [end for condition in conditions for end in _ends(condition, around, inner)]
        for upper in ends:
            for lower in ends:
                if upper.is_upper and not lower.is_upper and lower.is_beside(upper) and lower.by <= upper.by:
                    return Band(upper.value, upper.middle, lower.by, upper.by)
        return None


def _asked(body: Term) -> Iterator[Term]:
    """The conditions without which a term gives nothing, over variables bound outside its generators; also those after
    further generators, as all conditions of a select come after the last one."""
    conditions, head = unguarded(body)
    yield from conditions
    if isinstance(head, CMap):
        bound = bound_names(head.function.param)
        yield from (condition for condition in _asked(head.function.body) if free_vars(condition).isdisjoint(bound))


def _without(body: Term, condition: Term) -> Term:
    """The term without one of its conditions."""
    conditions, head = unguarded(body)
    if isinstance(head, CMap):
        head = attrs.evolve(head, function=attrs.evolve(head.function, body=_without(head.function.body, condition)))
    return guard((other for other in conditions if other is not condition), head)


def _window_of_range(n: PVar, rows: CMap, low: Term, high: Term) -> CMap | None:
    """The rows for each number of a range, as the rows of a window, each of which meets at most one number; None if no
    equality looks up the numbers."""
    param, body = rename_apart(rows.function.param, rows.function.body, free_vars(low) | free_vars(high) | {n.name})
    inner = bound_names(param)
    for condition in _asked(body):
        match condition:
            case Prim(function, (Var(name), value) | (value, Var(name))) if function == EQ and name == n.name:
                if free_vars(value) and free_vars(value) <= inner:
                    ends = Prim(GE, (value, low), span=condition.span), Prim(LE, (value, high), span=condition.span)
                    rest = substitute(_without(body, condition), {n.name: cast_to(value, n.type)})
                    return attrs.evolve(rows, function=Lambda(param, guard(ends, rest)))
    return None


@attrs.frozen
class End:
    """An end of a window: the value of the inner row is at most, or at least, `middle + by`."""

    value: Term
    is_upper: bool
    middle: Term
    by: int

    def is_beside(self, other: End) -> bool:
        """Whether both are ends of one window, with constants and width in the range of a long."""
        is_one = alpha_equal(self.value, other.value) and alpha_equal(self.middle, other.middle)
        return is_one and max(abs(self.by), abs(other.by), abs(other.by - self.by)) <= MAX_LONG


LESS, GREATER = (LT, LE), (GT, GE)


def _ends(condition: Term, outer: frozenset[str], inner: frozenset[str]) -> Iterator[End]:
    """The end of a window that a condition defines, where its terms are over one side each."""
    if not isinstance(condition, Prim) or reads_sources(condition):
        return
    is_less = condition.function in LESS
    if not is_less and condition.function not in GREATER:
        return
    a, b = condition.args
    if not (ty.is_integral(a.type) and ty.is_integral(b.type)) and not (a.type == b.type and a.type in TIMES):
        return
    (left, on_left), (right, on_right) = _moved(a), _moved(b)
    if may_fail(left) or may_fail(right):
        return
    if free_vars(a) and free_vars(a) <= inner and free_vars(b) and free_vars(b) <= outer:
        yield End(left, is_less, right, on_right - on_left)
    elif free_vars(b) and free_vars(b) <= inner and free_vars(a) and free_vars(a) <= outer:
        yield End(right, not is_less, left, on_left - on_right)


def _moved(term: Term) -> tuple[Term, int]:
    """A term without the constants that are added to it, and their sum in whole numbers, days or seconds."""
    match term:
        case Prim(function, (base, amount)) if (step := _step(function, term.type)) is not None:
            by = _constant(amount)
            if by is None and function == PLUS:
                base, by = amount, _constant(base)
            if by is not None:
                inner, moved = _moved(base)
                return inner, moved + step * by
        case Cast(inner, t) if t == ty.LONG and inner.type == ty.INT:
            inner, moved = _moved(inner)
            return Cast(inner, t), moved
    return term, 0


def _step(function: Function, t: ty.Type) -> int | None:
    """By how much a function moves a value of a type per unit of its constant; None for other functions."""
    match t:
        case ty.TIMESTAMP:
            return SECONDS.get(function.name)
        case ty.DATE:
            return DAYS.get(function.name)
        case ty.LONG | ty.INT:
            return 1 if function == PLUS else -1 if function == MINUS else None
        case _:
            return None


def _constant(term: Term) -> int | None:
    match term:
        case Lit(int() as number, _) if not isinstance(number, bool):
            return number
        case Cast(inner, t) if ty.is_integral(t):
            return _constant(inner)
        case Prim(function, (inner,)) if function == NEGATE:
            positive = _constant(inner)
            return None if positive is None else -positive
        case _:
            return None
