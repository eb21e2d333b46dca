"""A loop whose step only adds: what it has found is kept, each fact with the step at which it is first known.

*Equation*: a loop  repeat(λx. g(x ⊎ f(x)), none, e)  ends with the least x that is g(e ⊎ f(x)), where g keeps of equal
elements one, or of the values of a key the least or the greatest, and f is linear in each of its x. In the place of x
stands a stream F of facts with times, which is defined by itself:

    F = facts(e @ 0 ⊎ f'(F)),     f'(F) = {(r, 1 + max(i1, …, in)) | (r, (i1, …, in)) ∈ f(F)}

where a fact is kept at a time if none of the facts before it says as much. Then x = {e | (e, i) ∈ F}, and with the
limit n, the same of the facts with i ≤ n.

A change goes from F to f'(F) and back, the earliest times first. What the facts of a time are depends on those of
earlier times alone: so a fact that was found through itself is withdrawn with the one that it was found from before
anything is made of it, and deletions are exact.

*Requires*: f reads x in no condition, no aggregation and no other loop; and where a value is kept by key, whether there
is a row and of which key does not depend on that value, and a better one leads to no worse ones: sums of numbers do
(but for ∞ - ∞), products and strings do not. The value is no tuple and no document: of two of them with missing parts
the order says which is less, and no comparison does.

*Source*: [DBSP] §5 (recursion), §6 (its changes as streams of streams); [RZ] 2.9.11 (distinct, by epoch and iteration).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import children, map_children, subterms
from mrql.algebra.analysis.variables import (
    Names,
    all_names,
    alpha_equal,
    bound_names,
    free_vars,
    match_pattern,
    pattern_term,
    pattern_vars,
    substitute,
    var_of,
)
from mrql.algebra.functions import AND, GE, GT, IS_NULL, LE, LT, MINUS, NOT, PLUS
from mrql.algebra.monoids import AND as ALL
from mrql.algebra.monoids import MAX, MIN, Monoid
from mrql.algebra.terms import (
    Cast,
    CMap,
    Empty,
    Get,
    GroupBy,
    If,
    Lambda,
    Let,
    Lit,
    Nth,
    Pattern,
    Prim,
    PTuple,
    PVar,
    Rec,
    Reduce,
    Repeat,
    Single,
    Stream,
    Term,
    Tup,
    Union,
    Var,
    pair_type,
)
from mrql.rewrite.analysis.multilinear import summands
from mrql.rewrite.normalize.normalize import normalize

ZERO, ONE = Lit(0, ty.LONG), Lit(1, ty.LONG)


class NotAdding(Exception):
    """Says why the step of a loop is not known to only add."""


@attrs.frozen
class Read:
    """A fact that is read: its time, and the value that it has beside its key, if any."""

    time: Term
    value: Term | None


@attrs.frozen
class Fixpoint:
    """A loop as a stream that is defined by itself: `facts` is a term over it, and so is the `value` of the loop."""

    name: str
    facts: Term
    value: Term
    loop: Repeat

    @property
    def stream(self) -> Stream:
        return Stream(self.name, self.facts.type)

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self.facts,)

    def with_terms(self, run: Callable[[Term], Term]) -> Fixpoint:
        """The same with its facts rewritten."""
        return attrs.evolve(self, facts=run(self.facts))


def fixpoint(loop: Repeat, names: Names) -> Fixpoint:
    """The loop as a fixpoint.

    Raises: NotAdding when its step is not known to only add.
    """
    names.taken |= all_names(loop)
    limit = _limit(loop)
    if loop.condition is not None:
        raise NotAdding("the data say when it ends")
    x = loop.function.param
    if not isinstance(x, PVar) or not isinstance(x.type, ty.BagType):
        raise NotAdding("it carries more than one bag")
    return _Step(loop, x, names, limit).fixpoint()


def _limit(loop: Repeat) -> int | None:
    match loop.limit:
        case None:
            return None
        case Lit(int() as steps) if steps > 0:
            return steps
        case _:
            raise NotAdding("its limit is not a number that the query gives")


class _Step:
    """The step of a loop, as `cMap(λ(k, s). {R(k, ⊕s)}, groupBy(rows))`."""

    def __init__(self, loop: Repeat, x: PVar, names: Names, limit: int | None) -> None:
        self.loop, self.x, self.names, self.limit = loop, x, names, limit
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
        element = ty.TupleType((self._item, ty.LONG))
        self.stream = Stream(names.fresh("F"), ty.BagType(element))

    @property
    def _item(self) -> ty.Type:
        assert isinstance(self.x.type, ty.BagType)
        return self.x.type.item

    # --- what the step keeps of a group -------------------------------------------------------

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

    def _made(self, key: Term, value: Term | None) -> Term:
        """What a step gives for a key and the value that is kept."""
        result = self.result if self.best is None or value is None else _replaced(self.result, self.best, value)
        return normalize(Let(self.key, key, result))

    def _value(self, element: Term) -> Term:
        """The value of one element of a group."""
        assert self.best is not None
        match self.best.source:
            case CMap(Lambda(param, Single(value)), _):
                return normalize(Let(param, element, value))
            case _:
                return element

    # --- the rows that it groups --------------------------------------------------------------

    def fixpoint(self) -> Fixpoint:
        rows = self._timed(substitute(self.carried, {self.x.name: self.loop.source}), None)
        for row in self.others:
            rows = Union(rows, self._timed(row, ()))
        facts = self._facts(normalize(rows))
        return Fixpoint(self.stream.name, facts, self._result(), self.loop)

    def _is_carried(self, row: Term) -> bool:
        """Whether rows are the elements of x, so that a step that sees nothing else gives x back; and whether what a
        step makes of a key has that key, so that no two of its elements are equal."""
        match row:
            case CMap(Lambda(param, Single(Tup((key, element)))), Var(name)) if name == self.x.name:
                pattern, whole = pattern_term(param, self.names)
                value = None if self.best is None else self._value(element)
                if not _same(self._made(key, value), whole):
                    return False
                k = PVar(self.names.fresh("k"), key.type)
                m = None if value is None else Var(self.names.fresh("m"), value.type)
                return _same(normalize(Let(pattern, self._made(var_of(k), m), key)), var_of(k))
            case _:
                return False

    def _timed(self, row: Term, read: tuple[Read, ...] | None) -> Term:
        """Rows with their time, which is one more than that of the latest fact that they are made of; `read` has the
        facts whose variables are in scope, None for the rows that the loop begins with."""
        match row:
            case CMap(Lambda(param, body), Var(name, _)) if name == self.x.name and read is not None:
                fact, pattern, body = self._fact(param, body)
                inner = self._timed(body, (*read, fact))
                if self.limit is not None:  # what the last step gives is read by no step
                    goes_on = Prim(LT, (fact.time, Lit(self.limit, ty.LONG)))
                    inner = _distributed(If(goes_on, inner, Empty(inner.type)))
                return _distributed(CMap(Lambda(pattern, inner), self.stream, span=row.span))
            case CMap(function, Union(left, right)):
                return Union(self._timed(CMap(function, left), read), self._timed(CMap(function, right), read))
            case CMap(Lambda(param, body), source):
                self._independent(source, read)
                return _distributed(CMap(Lambda(param, self._timed(body, read)), source, span=row.span))
            case If(condition, then, Empty()):
                self._independent(condition, read)
                inner = self._timed(then, read)
                return _distributed(If(condition, inner, Empty(inner.type), span=row.span))
            case Let(pattern, Tup() | Rec() as value, body):
                return self._timed(normalize(substitute(body, match_pattern(pattern, value))), read)
            case Let(pattern, value, body):
                self._independent(value, read)
                return _distributed(Let(pattern, value, self._timed(body, read), span=row.span))
            case Union(left, right):
                return Union(self._timed(left, read), self._timed(right, read))
            case Single(Tup((key, element))):
                return Single(Tup((key, self._stamped(key, element, read))))
            case _:
                raise NotAdding("its step is no union of selects")

    def _fact(self, param: Pattern, body: Term) -> tuple[Read, Pattern, Term]:
        """A fact that is read as an element of x was, its pattern, and what is made of it."""
        parts = {v.name: _apart(v) for v in pattern_vars(param)}
        pattern, whole = pattern_term(param, self.names)
        t = PVar(self.names.fresh("t"), ty.LONG)
        value = None if self.best is None else self._value_of(normalize(substitute(whole, parts)))
        return Read(var_of(t), value), PTuple((pattern, t)), normalize(substitute(body, parts))

    def _value_of(self, item: Term) -> Term:
        """The value that an element of x has beside its key."""
        match self.carried:
            case CMap(Lambda(param, Single(Tup((_, element)))), _):
                return normalize(Let(param, item, self._value(element)))
            case _:
                raise NotAdding("its step does not keep what it had")

    def _stamped(self, key: Term, element: Term, read: tuple[Read, ...] | None) -> Term:
        """The time of a row of a key, beside the value of its element, if it has one."""
        time = ZERO if read is None else Prim(PLUS, (ONE, _latest([fact.time for fact in read])))
        self._independent(key, read)
        if self.best is None:
            self._independent(element, ())
            return time
        value = self._value(element)
        if not _grows_with(value, [fact.value for fact in read or () if fact.value is not None]):
            raise NotAdding("a better value does not always lead to better ones")
        return Tup((value, time))

    def _independent(self, term: Term, read: tuple[Read, ...] | None) -> None:
        """What says whether there is a row, and of which key, depends on facts through their keys alone."""
        if self.x.name in free_vars(term):
            raise NotAdding("a condition, a nested select, a group or a loop in its step reads the bag that it carries")
        if any(fact.value is not None and _reads(term, fact.value) for fact in read or ()):
            raise NotAdding("whether there is a row, or its key, depends on the value that is to become better")

    # --- facts --------------------------------------------------------------------------------

    def _facts(self, rows: Term) -> Term:
        key_type, value_type = pair_type(rows)
        k = PVar(self.names.fresh("k"), key_type)
        s = PVar(self.names.fresh("s"), ty.BagType(value_type))
        key, group = Var(k.name, k.type), Var(s.name, s.type)
        body = self._first(key, group) if self.monoid is None else self._improvements(key, group, value_type)
        return CMap(Lambda(PTuple((k, s)), body), GroupBy(rows))

    def _first(self, key: Term, times: Term) -> Term:
        """The first time of a key."""
        first = Reduce(MIN, times)
        fact: Term = Single(Tup((self._made(key, None), first)))
        if self.limit is None:
            return fact
        return If(Prim(LE, (first, Lit(self.limit, ty.LONG))), fact, Empty(fact.type))

    def _improvements(self, key: Term, values: Term, value_type: ty.Type) -> Term:
        """The best value at each time at which it is better than all before it."""
        assert isinstance(value_type, ty.TupleType)
        assert self.monoid is not None
        kept, time = value_type.items
        fresh = self.names.fresh
        v, t = PVar(fresh("v"), kept), PVar(fresh("t"), time)
        by_time = CMap(Lambda(PTuple((v, t)), Single(Tup((var_of(t), var_of(v))))), values)
        at, vs, m = PVar(fresh("t"), time), PVar(fresh("vs"), ty.BagType(kept)), PVar(fresh("m"), kept)
        u, j = PVar(fresh("u"), kept), PVar(fresh("j"), time)
        as_good = Prim(LE if self.monoid == MIN else GE, (var_of(u), var_of(m)))
        # Of nulls alone the least is null; beside anything else they do not count.
        says_as_much = If(Prim(IS_NULL, (var_of(m),)), TRUE, If(Prim(IS_NULL, (var_of(u),)), FALSE, as_good))
        better = Prim(NOT, (Prim(AND, (Prim(LT, (var_of(j), var_of(at))), says_as_much)),))
        is_fact: Term = Reduce(ALL, CMap(Lambda(PTuple((u, j)), Single(better)), values))
        if self.limit is not None:
            is_fact = Prim(AND, (Prim(LE, (var_of(at), Lit(self.limit, ty.LONG))), is_fact))
        fact: Term = Single(Tup((self._made(key, var_of(m)), var_of(at))))
        body = Let(m, Reduce(self.monoid, var_of(vs)), If(is_fact, fact, Empty(fact.type)))
        return CMap(Lambda(PTuple((at, vs)), body), GroupBy(by_time))

    def _result(self) -> Term:
        """The value of the loop over its facts: the step, of which every fact is carried on."""
        t = PVar(self.names.fresh("t"), ty.LONG)
        e = PVar(self.names.fresh("e"), self._item)
        elements = CMap(Lambda(PTuple((e, t)), Single(var_of(e))), self.stream)
        if self.monoid is None:
            return elements
        rows = substitute(self.carried, {self.x.name: elements})
        return CMap(Lambda(PTuple((self.key, self.group)), Single(self.result)), GroupBy(rows))


TRUE, FALSE = Lit(True, ty.BOOL), Lit(False, ty.BOOL)

SCALAR = (*ty.NUMERIC, ty.BOOL, ty.STRING, ty.DATE, ty.TIMESTAMP)
"""The types whose values are there as a whole or not at all."""


def _is_map(source: Term, groups: frozenset[str]) -> bool:
    match source:
        case Var(name, _) | CMap(Lambda(_, Single()), Var(name, _)):
            return name in groups
        case _:
            return False


def _replaced(term: Term, part: Term, by: Term) -> Term:
    return by if term is part else map_children(term, lambda child: _replaced(child, part, by))


def _apart(v: PVar) -> Term:
    """A variable as a tuple or a record of its parts."""
    whole = var_of(v)
    match v.type:
        case ty.TupleType(items):
            return Tup(tuple(Nth(whole, i) for i, _ in enumerate(items)))
        case ty.RecordType(fields):
            return Rec(tuple((name, Get(whole, name)) for name, _ in fields))
        case _:
            return whole


def _distributed(row: Term) -> Term:
    """A union below a cMap, a condition or a let, above it: each part of a join is to be a join of its own."""
    sides: tuple[Term, Term]
    match row:
        case CMap(Lambda(param, Union(left, right)), source):
            sides = CMap(Lambda(param, left), source, span=row.span), CMap(Lambda(param, right), source, span=row.span)
        case If(condition, Union(left, right), none):
            sides = If(condition, left, none, span=row.span), If(condition, right, none, span=row.span)
        case Let(pattern, value, Union(left, right)):
            sides = Let(pattern, value, left, span=row.span), Let(pattern, value, right, span=row.span)
        case _:
            return row
    return Union(_distributed(sides[0]), _distributed(sides[1]))


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


def _grows_with(term: Term, values: Sequence[Term]) -> bool:
    """Whether a term is no less where one of some values is no less."""
    if term in values or not any(_reads(term, value) for value in values):
        return True
    match term:
        case Prim(function, (left, right)) if function == PLUS and ty.is_numeric(term.type):
            return _grows_with(left, values) and _grows_with(right, values)
        case Prim(function, (left, right)) if function == MINUS:
            return _grows_with(left, values) and not any(_reads(right, value) for value in values)
        case Cast(inner, t):
            return ty.is_numeric(t) and ty.is_numeric(inner.type) and _grows_with(inner, values)
        case _:
            return False


def _latest(times: Sequence[Term]) -> Term:
    if not times:
        return ZERO
    latest = times[0]
    for time in times[1:]:
        latest = If(Prim(GT, (latest, time)), latest, time)
    return latest


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
