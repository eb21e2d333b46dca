"""Whether the step of a loop only adds, so that what it has found stays found: is the loop a fixpoint?

A step only adds if it is a group by over a union of what it had and of rows that are made of it, each linear in what it
had; if of a group it keeps what is equal, or the least or the greatest value; and if more, or a better value, never
leads to less or to a worse one.

*Requires*: the step reads what it had in no condition, no aggregation and no other loop; and where a value is kept by
key, whether there is a row and of which key does not depend on that value, and a better one leads to no worse ones:
sums of numbers do, products and strings do not. A sum that may be -∞ + ∞ is no number then, which is more than all, and
does so only where each value is followed that the step reads: where it reads one fact for a row, and of the values that
the loop begins with all of a key. The value is no tuple and no document: of two of them with missing parts the order
says which is less, and no comparison does.

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
    """Says why the step of a loop is not known to only add."""


@attrs.frozen
class Read:
    """A fact that is read: its time, and the value that it has beside its key, if any."""

    time: Term
    value: Term | None


class AddingStep:
    """The step of a loop, as `cMap(λ(k, s). {R(k, ⊕s)}, groupBy(rows))`.

    Raises: NotAdding when it is not of that form, or does not keep what it had.
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
        """What it carries a bag of."""
        assert isinstance(self.x.type, ty.BagType)
        return self.x.type.item

    def _kept(self) -> tuple[Monoid | None, Reduce | None]:
        """Which of the values of a group is kept, and the term for it; None where all of a group is equal."""
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
        """What a step gives for a key and the value that is kept."""
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
        """The value that an element of x has beside its key."""
        match self.carried:
            case CMap(Lambda(param, Single(Tup((_, element)))), _):
                return normalize(Let(param, item, self.value(element)))
            case _:
                raise NotAdding("its step does not keep what it had")

    def _is_carried(self, row: Term) -> bool:
        """Whether rows are the elements of x, so that a step that sees nothing else gives x back; and whether what a
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
        """What says whether there is a row, and of which key, depends on facts through their keys alone."""
        if self.x.name in free_vars(term):
            raise NotAdding("a condition, a nested select, a group or a loop in its step reads the bag that it carries")
        if any(fact.value is not None and _reads(term, fact.value) for fact in read or ()):
            raise NotAdding("whether there is a row, or its key, depends on the value that is to become better")


SCALAR = (*ty.BINARY, ty.BOOL, ty.STRING, ty.DATE, ty.TIMESTAMP, ty.BYTES)
"""The types whose values are there as a whole or not at all."""


def limit_of(loop: Repeat) -> int | None:
    """The number of steps that the query gives, if it gives one.

    Raises: NotAdding when the data say how many there are.
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
    """Whether a term reads a value, a part of it, or something that it is a part of."""
    ours, theirs = list(_paths(term)), list(_paths(value))
    return any(a[: len(b)] == b[: len(a)] for a in ours for b in theirs)


def _paths(term: Term) -> Iterator[tuple[str | int, ...]]:
    """What a term reads: variables, each with the way to the part of it that is read."""
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
    """Whether a term is no less where one of some values is no less."""
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
    """Whether a term, which grows with some values, may be -∞ + ∞ for one of them."""
    if term in values or not any(_reads(term, value) for value in values):
        return False
    match term:
        case Prim(_, (left, right)) if term.type in ty.FRACTIONS:
            finite = is_finite(left) or is_finite(right)
            return not finite or may_be_no_number(left, values) or may_be_no_number(right, values)
        case _:
            return any(may_be_no_number(child, values) for child in children(term))


def is_finite(term: Term) -> bool:
    """Whether a number is neither infinite nor none, whatever the data."""
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
