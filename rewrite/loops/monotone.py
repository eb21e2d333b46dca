"""Whether the step of a loop only adds, so that what it has found stays found, and the loop is a fixpoint.

A step only adds if it is a group by over a union of its input and of rows derived from it, each linear in the input; if
it keeps only the key of a group, or its least or greatest value; and if more elements, or a better value, never lead to
fewer elements or a worse value.

*Requires*: the step reads its input in no condition, no aggregation and no other loop. Where a value is kept by key,
neither the existence nor the key of a row depends on that value, and a better value leads to no worse one: this holds
for sums of numbers, not for products and strings. A sum -∞ + ∞ is NaN, which is greater than all numbers; where a sum
may be that, this holds only if every value that the step reads is followed: if it reads one fact for a row, and all
values of a key that the loop begins with. The value is no tuple and no document: of two of them with missing parts the
order says which is less, and no comparison does.

*Source*: [DBSP] §5 (recursion is monotone where it is to be exact).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import children, map_children, subterms
from mrql.algebra.analysis.variables import (
    Names,
    alpha_equal,
    bound_names,
    free_vars,
    pattern_term,
    var_of,
)
from mrql.algebra.functions import MINUS, PLUS
from mrql.algebra.monoids import MAX, MIN, Monoid
from mrql.algebra.terms import (
    Cast,
    CMap,
    Empty,
    Get,
    GroupBy,
    Lambda,
    Let,
    Lit,
    Nth,
    Prim,
    PTuple,
    PVar,
    Rec,
    Reduce,
    Repeat,
    Single,
    Term,
    Tup,
    Var,
)
from mrql.rewrite.analysis.multilinear import summands
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.plan.loop_strategy import Unfit


class NotAdding(Unfit):
    """The step of a loop is not known to only add; the message says why."""


@attrs.frozen
class Read:
    """A fact that is read: its time, and its value beside the key, if any."""

    time: Term
    value: Term | None


class AddingStep:
    """The step of a loop, as `cMap(λ(k, s). {R(k, ⊕s)}, groupBy(rows))`.

    Raises: NotAdding when it is not of that form, or does not keep its input.
    """

    def __init__(self, loop: Repeat, x: PVar, names: Names) -> None:
        self.x, self.names = x, names
        match normalize(loop.function.body):
            case CMap(Lambda(PTuple((k, s)), Single(result)), GroupBy(rows)):
                self.key, self.group, self.result, self.rows = k, s, result, rows
            case _:
                raise NotAdding("its step is no group by, nor a select distinct")
        if self.x.name in free_vars(self.result):
            raise NotAdding("what its step makes of a group reads the bag that it carries")
        self.monoid, self.best = self._kept()
        parts = summands(self.rows)
        carried = next((part for part in parts if self._is_carried(part)), None)
        if carried is None:
            raise NotAdding("its step does not keep what it had")
        self.carried, self.others = carried, [part for part in parts if part is not carried]

    @property
    def item(self) -> ty.Type:
        """The type of the elements of the bag that the loop carries."""
        assert isinstance(self.x.type, ty.BagType)
        return self.x.type.item

    def _kept(self) -> tuple[Monoid | None, Reduce | None]:
        """The monoid that says which value of a group is kept, and the term for that value; None where only the key is
        used."""
        groups = bound_names(self.group) & free_vars(self.result)
        if not groups:
            return None, None
        match [part for part in subterms(self.result) if free_vars(part) & groups and isinstance(part, Reduce)]:
            case [Reduce(monoid, source) as best] if (
                monoid in (MIN, MAX)
                and _is_map(source, groups)
                and not free_vars(_replaced(self.result, best, Empty(best.type))) & groups
            ):
                if best.type not in SCALAR:
                    raise NotAdding("the value that is to become better is no number, string, bool or time")
                return monoid, best
            case _:
                raise NotAdding("its step makes more of a group than its least or its greatest value")

    def made(self, key: Term, value: Term | None) -> Term:
        """The element that a step makes of a key and the value that is kept."""
        result = self.result if self.best is None or value is None else _replaced(self.result, self.best, value)
        return normalize(Let(self.key, key, result))

    def value(self, element: Term) -> Term:
        """The value of one element of a group."""
        assert self.best is not None
        match self.best.source:
            case CMap(Lambda(param, Single(value)), _):
                return normalize(Let(param, element, value))
            case _:
                return element

    def value_of(self, item: Term) -> Term:
        """The value of an element of x beside its key."""
        match self.carried:
            case CMap(Lambda(param, Single(Tup((_, element)))), _):
                return normalize(Let(param, item, self.value(element)))
            case _:
                raise NotAdding("its step does not keep what it had")

    def _is_carried(self, row: Term) -> bool:
        """Whether rows are the elements of x, so that a step over these alone returns x; and whether the element that a
        step makes of a key has that key, so that no two of its elements are equal."""
        match row:
            case CMap(Lambda(param, Single(Tup((key, element)))), Var(name)) if name == self.x.name:
                pattern, whole = pattern_term(param, self.names)
                value = None if self.best is None else self.value(element)
                if not _same(self.made(key, value), whole):
                    return False
                k = PVar(self.names.fresh("k"), key.type)
                m = None if value is None else Var(self.names.fresh("m"), value.type)
                return _same(normalize(Let(pattern, self.made(var_of(k), m), key)), var_of(k))
            case _:
                return False

    def independent(self, term: Term, read: tuple[Read, ...] | None) -> None:
        """Checks a term that decides whether there is a row, or its key: it may depend only on the keys of facts.

        Raises: NotAdding when it depends on more.
        """
        if self.x.name in free_vars(term):
            raise NotAdding("a condition, a nested select, a group or a loop in its step reads the bag that it carries")
        if any(fact.value is not None and _reads(term, fact.value) for fact in read or ()):
            raise NotAdding("whether there is a row, or its key, depends on the value that is to become better")


SCALAR = (*ty.BINARY, ty.BOOL, ty.STRING, ty.DATE, ty.TIMESTAMP, ty.BYTES)
"""The types whose values are present or missing as a whole."""


def limit_of(loop: Repeat) -> int | None:
    """The largest number of steps, if the query gives one.

    Raises: NotAdding when it is not a positive number in the query.
    """
    match loop.limit:
        case None:
            return None
        case Lit(int() as steps) if steps > 0:
            return steps
        case _:
            raise NotAdding("its limit is not a number that the query gives")


def _is_map(source: Term, groups: frozenset[str]) -> bool:
    match source:
        case Var(name, _) | CMap(Lambda(_, Single()), Var(name, _)):
            return name in groups
        case _:
            return False


def _replaced(term: Term, part: Term, by: Term) -> Term:
    return by if term is part else map_children(term, lambda child: _replaced(child, part, by))


def _reads(term: Term, value: Term) -> bool:
    """Whether a term reads a value, a part of it, or something that contains it."""
    ours, theirs = list(_paths(term)), list(_paths(value))
    return any(a[: len(b)] == b[: len(a)] for a in ours for b in theirs)


def _paths(term: Term) -> Iterator[tuple[str | int, ...]]:
    """The variables that a term reads, each with the path to the part that is read."""
    steps: list[str | int] = []
    part = term
    while isinstance(part, Nth | Get):
        steps.append(part.index if isinstance(part, Nth) else part.name)
        part = part.term
    if isinstance(part, Var):
        yield (part.name, *reversed(steps))
    else:
        for child in children(part):
            yield from _paths(child)


def grows_with(term: Term, values: Sequence[Term]) -> bool:
    """Whether a term does not decrease where one of the values increases."""
    if term in values or not any(_reads(term, value) for value in values):
        return True
    match term:
        case Prim(function, (left, right)) if function == PLUS and ty.is_numeric(term.type):
            return grows_with(left, values) and grows_with(right, values)
        case Prim(function, (left, right)) if function == MINUS:
            return grows_with(left, values) and not any(_reads(right, value) for value in values)
        case Cast(inner, t):
            return ty.is_numeric(t) and ty.is_numeric(inner.type) and grows_with(inner, values)
        case _:
            return False


def may_be_no_number(term: Term, values: Sequence[Term]) -> bool:
    """Whether a term that grows with the values may be -∞ + ∞ for some of them."""
    if term in values or not any(_reads(term, value) for value in values):
        return False
    match term:
        case Prim(_, (left, right)) if term.type in ty.FRACTIONS:
            finite = is_finite(left) or is_finite(right)
            return not finite or may_be_no_number(left, values) or may_be_no_number(right, values)
        case _:
            return any(may_be_no_number(child, values) for child in children(term))


def is_finite(term: Term) -> bool:
    """Whether a number is neither infinite nor NaN, whatever the data."""
    match term:
        case Lit(float() as value):
            return math.isfinite(value)
        case Cast(inner, t) if t in ty.FRACTIONS:
            return is_finite(inner)
        case _:
            return ty.is_numeric(term.type) and term.type not in ty.FRACTIONS


def _same(made: Term, whole: Term) -> bool:
    """Whether two terms are equal, where a tuple or a record may stand for its parts."""
    if alpha_equal(made, whole):
        return True
    match made:
        case Tup(items) if isinstance(whole.type, ty.TupleType):
            return all(_same(item, _nth(whole, i)) for i, item in enumerate(items))
        case Rec(fields):
            return all(_same(value, Get(whole, name)) for name, value in fields)
        case _:
            return False


def _nth(term: Term, index: int) -> Term:
    return term.items[index] if isinstance(term, Tup) else Nth(term, index)
