"""A loop whose step only adds, as a fixpoint: each fact that it finds is kept with the step at which it is first known.

*Equation*: a loop  repeat(λx. g(x ⊎ f(x)), none, e)  ends with the least x that is g(e ⊎ f(x)), where g keeps one of
equal elements, or the least or the greatest of the values of a key, and f is linear in each occurrence of x. We replace
x by a stream F of facts with times, which is defined recursively:

    F = facts(e @ 0 ⊎ f'(F)),     f'(F) = {(r, 1 + max(i1, …, in)) | (r, (i1, …, in)) ∈ f(F)}

where a fact is kept at a time if no earlier fact is as good. Then x = {e | (e, i) ∈ F}, and with the limit n, the same
over the facts with i ≤ n.

A change goes from F to f'(F) and back, the earliest times first. The facts of a time depend only on those of earlier
times: so a fact that was derived from itself is retracted with the fact that it came from, before anything is derived
from it, and deletions are exact.

*Requires*: the step of the loop only adds (`monotone.py`).

*Source*: [DBSP] §5 (recursion), §6 (its changes as streams of streams); [RZ] 2.9.11 (distinct, by epoch and iteration).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import (
    Names,
    all_names,
    match_pattern,
    pattern_term,
    pattern_vars,
    substitute,
    var_of,
)
from mrql.algebra.functions import AND, EQ, GE, GT, IS_NULL, LE, LT, NOT, PLUS
from mrql.algebra.monoids import AND as ALL
from mrql.algebra.monoids import MIN
from mrql.algebra.terms import (
    CMap,
    Empty,
    Get,
    GroupBy,
    If,
    Lambda,
    Let,
    Lit,
    Nth,
    PAny,
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
from mrql.rewrite.loops.monotone import AddingStep, NotAdding, Read, grows_with, limit_of, may_be_no_number
from mrql.rewrite.normalize.normalize import normalize

ZERO, ONE = Lit(0, ty.LONG), Lit(1, ty.LONG)
TRUE, FALSE = Lit(True, ty.BOOL), Lit(False, ty.BOOL)


@attrs.frozen
class Fixpoint:
    """A loop as a stream defined recursively: `facts` is a term over the stream, and so is the `value` of the loop."""

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
        """The same fixpoint with `run` applied to its facts."""
        return attrs.evolve(self, facts=run(self.facts))


def fixpoint(loop: Repeat, names: Names) -> Fixpoint:
    """The loop as a fixpoint.

    Raises: NotAdding when the loop is not known to be one.
    """
    names.taken |= all_names(loop)
    limit = limit_of(loop)
    if loop.condition is not None:
        raise NotAdding("the data say when it ends")
    x = loop.function.param
    if not isinstance(x, PVar) or not isinstance(x.type, ty.BagType):
        raise NotAdding("it carries more than one bag" if isinstance(x.type, ty.TupleType) else "it carries no bag")
    return _Facts(loop, AddingStep(loop, x, names), limit).fixpoint()


class _Facts:
    """The facts that a loop finds, each with the step at which it is first known."""

    def __init__(self, loop: Repeat, step: AddingStep, limit: int | None) -> None:
        self.loop, self.step, self.limit = loop, step, limit
        self.x, self.names = step.x, step.names
        self.stream = Stream(self.names.fresh("F"), ty.BagType(ty.TupleType((step.item, ty.LONG))))
        self.follows_all = False
        """Whether all values of a key that the loop begins with are followed, and not only the best one."""

    def fixpoint(self) -> Fixpoint:
        rows = self._timed(substitute(self.step.carried, {self.x.name: self.loop.source}), None)
        for row in self.step.others:
            rows = Union(rows, self._timed(row, ()))
        facts = self._facts(normalize(rows))
        return Fixpoint(self.stream.name, facts, self._result(), self.loop)

    # --- rows with times ----------------------------------------------------------------------

    def _timed(self, row: Term, read: tuple[Read, ...] | None) -> Term:
        """Rows with their time, which is one more than that of the latest fact that they are derived from; `read` has
        the facts whose variables are in scope, and is None for the rows that the loop begins with."""
        match row:
            case CMap(Lambda(param, body), Var(name, _)) if name == self.x.name and read is not None:
                fact, pattern, body = self._fact(param, body)
                inner = self._timed(body, (*read, fact))
                if self.limit is not None:  # no step reads the result of the last one
                    goes_on = Prim(LT, (fact.time, Lit(self.limit, ty.LONG)))
                    inner = _distributed(If(goes_on, inner, Empty(inner.type)))
                return _distributed(CMap(Lambda(pattern, inner), self.stream, span=row.span))
            case CMap(function, Union(left, right)):
                return Union(self._timed(CMap(function, left), read), self._timed(CMap(function, right), read))
            case CMap(Lambda(param, body), source):
                self.step.independent(source, read)
                return _distributed(CMap(Lambda(param, self._timed(body, read)), source, span=row.span))
            case If(condition, then, Empty()):
                self.step.independent(condition, read)
                inner = self._timed(then, read)
                return _distributed(If(condition, inner, Empty(inner.type), span=row.span))
            case Let(pattern, Tup() | Rec() as value, body):
                return self._timed(normalize(substitute(body, match_pattern(pattern, value))), read)
            case Let(pattern, value, body):
                self.step.independent(value, read)
                return _distributed(Let(pattern, value, self._timed(body, read), span=row.span))
            case Union(left, right):
                return Union(self._timed(left, read), self._timed(right, read))
            case Single(Tup((key, element))):
                return Single(Tup((key, self._stamped(key, element, read))))
            case _:
                raise NotAdding("its step is no union of selects")

    def _fact(self, param: Pattern, body: Term) -> tuple[Read, Pattern, Term]:
        """A fact that is read as an element of x, the pattern that binds it, and the body over it."""
        parts = {v.name: _apart(v) for v in pattern_vars(param)}
        pattern, whole = pattern_term(param, self.names)
        t = PVar(self.names.fresh("t"), ty.LONG)
        value = None if self.step.best is None else self.step.value_of(normalize(substitute(whole, parts)))
        return Read(var_of(t), value), PTuple((pattern, t)), normalize(substitute(body, parts))

    def _stamped(self, key: Term, element: Term, read: tuple[Read, ...] | None) -> Term:
        """The time of a row, beside the value of its element if the loop keeps one by key."""
        time = ZERO if read is None else Prim(PLUS, (ONE, _latest([fact.time for fact in read])))
        self.step.independent(key, read)
        if self.step.best is None:
            self.step.independent(element, ())
            return time
        value = self.step.value(element)
        carried = [fact.value for fact in read or () if fact.value is not None]
        if not grows_with(value, carried):
            raise NotAdding("a better value does not always lead to better ones")
        if may_be_no_number(value, carried):
            if read is not None and len(read) > 1:
                raise NotAdding("a sum of doubles is made of two of its facts, and -∞ + ∞ is no number")
            self.follows_all = True
        return Tup((value, time))

    # --- facts --------------------------------------------------------------------------------

    def _facts(self, rows: Term) -> Term:
        key_type, value_type = pair_type(rows)
        k = PVar(self.names.fresh("k"), key_type)
        s = PVar(self.names.fresh("s"), ty.BagType(value_type))
        key, group = Var(k.name, k.type), Var(s.name, s.type)
        body = self._first(key, group) if self.step.monoid is None else self._improvements(key, group, value_type)
        return CMap(Lambda(PTuple((k, s)), body), GroupBy(rows))

    def _first(self, key: Term, times: Term) -> Term:
        """The fact of a key, at its first time."""
        first = Reduce(MIN, times)
        fact: Term = Single(Tup((self.step.made(key, None), first)))
        if self.limit is None:
            return fact
        return If(Prim(LE, (first, Lit(self.limit, ty.LONG))), fact, Empty(fact.type))

    def _improvements(self, key: Term, values: Term, value_type: ty.Type) -> Term:
        """The facts of a key: its best value at each time at which it is better than all earlier ones."""
        assert isinstance(value_type, ty.TupleType)
        assert self.step.monoid is not None
        kept, time = value_type.items
        fresh = self.names.fresh
        v, t = PVar(fresh("v"), kept), PVar(fresh("t"), time)
        by_time = CMap(Lambda(PTuple((v, t)), Single(Tup((var_of(t), var_of(v))))), values)
        at, vs, m = PVar(fresh("t"), time), PVar(fresh("vs"), ty.BagType(kept)), PVar(fresh("m"), kept)
        u, j = PVar(fresh("u"), kept), PVar(fresh("j"), time)
        as_good = Prim(LE if self.step.monoid == MIN else GE, (var_of(u), var_of(m)))
        # The least of nulls alone is null; beside other values, nulls do not count.
        says_as_much = If(Prim(IS_NULL, (var_of(m),)), TRUE, If(Prim(IS_NULL, (var_of(u),)), FALSE, as_good))
        better = Prim(NOT, (Prim(AND, (Prim(LT, (var_of(j), var_of(at))), says_as_much)),))
        is_fact: Term = Reduce(ALL, CMap(Lambda(PTuple((u, j)), Single(better)), values))
        if self.limit is not None:
            is_fact = Prim(AND, (Prim(LE, (var_of(at), Lit(self.limit, ty.LONG))), is_fact))
        fact: Term = Single(Tup((self.step.made(key, var_of(m)), var_of(at))))
        body: Term = Let(m, Reduce(self.step.monoid, var_of(vs)), If(is_fact, fact, Empty(fact.type)))
        if self.follows_all:
            different = GroupBy(CMap(Lambda(u, Single(Tup((var_of(u), Tup(()))))), var_of(vs)))
            each = Lambda(PTuple((m, PAny(ty.BagType(ty.TupleType(()))))), fact)
            body = If(Prim(EQ, (var_of(at), ZERO)), CMap(each, different), body)
        return CMap(Lambda(PTuple((at, vs)), body), GroupBy(by_time))

    # --- the value ----------------------------------------------------------------------------

    def _result(self) -> Term:
        """The value of the loop over its facts: their elements, or, where values are kept by key, the step over these
        alone."""
        t = PVar(self.names.fresh("t"), ty.LONG)
        e = PVar(self.names.fresh("e"), self.step.item)
        elements = CMap(Lambda(PTuple((e, t)), Single(var_of(e))), self.stream)
        if self.step.monoid is None:
            return elements
        rows = substitute(self.step.carried, {self.x.name: elements})
        return CMap(Lambda(PTuple((self.step.key, self.step.group)), Single(self.step.result)), GroupBy(rows))


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
    """Moves a union below a cMap, a condition or a let above it, so that each of its parts becomes a join of its
    own."""
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


def _latest(times: Sequence[Term]) -> Term:
    if not times:
        return ZERO
    latest = times[0]
    for time in times[1:]:
        latest = If(Prim(GT, (latest, time)), latest, time)
    return latest
