"""The first elements of a large order, and some more, kept from batch to batch (`rewrite/plan/delta_rules.py`).

A prefix belongs to the state after a batch. It is made when the answer is requested: from the prefix after the previous
batch, or from all elements if there is none, as after a batch whose answer was not requested. So a batch that is rolled
back leaves nothing to undo, and a checkpoint has no prefixes.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from mrql.algebra import types as ty
from mrql.algebra.terms import Lit, Take, Term, Var
from mrql.rewrite.plan.delta_rules import FirstElements
from mrql.runtime.spark import jvm
from mrql.runtime.spark.compiler.order import order
from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.maintenance.deltas import Deltas
from mrql.runtime.spark.maintenance.snapshot import Snapshot, StatesBefore
from mrql.runtime.spark.maintenance.transaction import Transaction
from mrql.runtime.spark.relation.frame import ColumnNames, Frame, flat, netted, union
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.state.run import Run

STATE_MIN_ROWS = 300_000
"""From so many rows of a state on, reading all of them takes longer than looking up those that a batch has touched, in
a job of its own."""

MORE_ELEMENTS = 1_000
"""So many elements are kept besides those of the answer. When as many of the first are gone, all are read again."""

GROWN_MAX_RATIO = 4
"""A prefix is cut when it has more than so many times the elements that a new one has."""

PREFIX = "first__"
"""The name of a prefix in the term that takes its first elements."""

BOUND = "bound_"
"""How the columns of a bound are named: the sort columns of the element that all those of the prefix come before."""


@attrs.frozen
class Prefix:
    """The elements that come before a bound, after a batch."""

    transaction: Transaction
    """The batch."""
    elements: Frame
    """Pairs of a sort key and the element, beside the columns of the state's key that makes it, if each makes one."""
    run: Run
    """The rows of the elements."""
    bound: Run | None
    """The one row of the bound; None if the prefix has all elements."""
    is_followed: bool
    """Whether it was made from the previous prefix."""

    @property
    def runs(self) -> set[Run]:
        return {self.run} if self.bound is None else {self.run, self.bound}


class Prefixes:
    """The prefixes after the last two batches, of an answer that is the first elements of an order."""

    def __init__(self, first: FirstElements, deltas: Deltas) -> None:
        self.first = first
        self.deltas = deltas
        self.kept: list[Prefix] = []
        self.rests_until = 0
        """Before the batch of this number all elements are read, since prefixes would fail to suffice too often."""
        self._index = deltas.index(first.stage)
        self._whole = first.ordered.source

    # --- answers ------------------------------------------------------------------------------

    def answer(self, transaction: Transaction, states: list[Snapshot]) -> Relation | None:
        """The answer after a batch, over the states there are then; None where it is to be made of all elements."""
        prefix = self._after(transaction, states)
        return None if prefix is None else self.deltas.answer_over(self._term, {PREFIX: prefix.elements})

    def changes(self, transaction: Transaction, states: list[Snapshot]) -> Relation | None:
        """The change of the answer by a batch, likewise."""
        after, before = self._after(transaction, states), self._before(transaction)
        if after is None or before is None:
            return None
        return self.deltas.of_answer_over(self._term, {PREFIX: after.elements}, {PREFIX: before.elements})

    @property
    def _term(self) -> Term:
        """The term for the first elements of the order, over a prefix."""
        return Take(
            Lit(self.first.count, ty.LONG), attrs.evolve(self.first.ordered, source=Var(PREFIX, self._whole.type))
        )

    def free(self) -> None:
        """Frees all prefixes."""
        self._keep_only([])

    # --- the prefix after a batch -------------------------------------------------------------

    def _after(self, transaction: Transaction, states: list[Snapshot]) -> Prefix | None:
        """The prefix after a batch, made now if need be; None where all elements are to be read."""
        if transaction.is_rolled_back:
            return None
        known = next((prefix for prefix in self.kept if prefix.transaction is transaction), None)
        if known is not None:
            return known
        rows = self.deltas.rows_read(self._whole)
        if rows is None or rows < STATE_MIN_ROWS or transaction.number < self.rests_until:
            return None
        before = self._before(transaction)
        with self.deltas.columns.apart("p__"):
            made = self._made(before, transaction, states)
        if made is not None:
            self._keep_only([made] if before is None else [before, made])
        return made

    def _before(self, transaction: Transaction) -> Prefix | None:
        """The prefix after the batch before this one, if there is one."""
        number = transaction.number - 1
        found = (p for p in self.kept if p.transaction.is_committed and p.transaction.number == number)
        return next(found, None)

    def _keep_only(self, prefixes: Sequence[Prefix]) -> None:
        needed = set[Run]().union(*(prefix.runs for prefix in prefixes))
        for run in set[Run]().union(*(prefix.runs for prefix in self.kept)) - needed:
            run.free()
        self.kept = [*prefixes]

    # --- how it is made -----------------------------------------------------------------------

    def _made(self, before: Prefix | None, transaction: Transaction, states: list[Snapshot]) -> Prefix | None:
        """A prefix made from the one before the batch, or from all elements."""
        followed = None if before is None else self._followed(before, transaction, states)
        if followed is not None:
            return followed
        made = self._of_whole(transaction, states)
        if made is None or (before is not None and not before.is_followed):
            # Too many elements are equal, or one batch has taken more of the first ones than a new prefix can spare.
            self.rests_until = 2 * transaction.number
        return made

    def _followed(self, before: Prefix, transaction: Transaction, states: list[Snapshot]) -> Prefix | None:
        """The prefix before a batch with the changes of the batch; None where too few of its elements are left."""
        was = transaction.before
        if states[self._index].is_as(was[self._index]):
            return attrs.evolve(before, transaction=transaction)
        made = self._by_key(before, was, states) if self.first.is_by_key else self._of_change(before, was, states)
        run = self._computed(made.df)
        assert run.rows is not None
        if before.bound is not None and run.rows < self.first.count:
            run.free()
            return None
        # With the changes applied it is a bag again.
        elements = attrs.evolve(made, df=run.relation, retracts=False, mixed=False)
        prefix = Prefix(transaction, elements, run, before.bound, is_followed=True)
        if run.rows <= GROWN_MAX_RATIO * self._most:
            return prefix
        cut = self._cut(elements, transaction)
        if cut is None:
            return prefix
        run.free()
        return attrs.evolve(cut, is_followed=True)

    def _by_key(self, before: Prefix, was: list[Snapshot], states: list[Snapshot]) -> Frame:
        """The elements of the keys that the batch has not touched, and the new ones of those that it has."""
        found = self.deltas.of_keys(self.first.rules, StatesBefore(was), states)
        assert found is not None
        assert found.touched is not None
        touched = found.touched.select(*found.keys.names).moved((), in_one=True).hint("shuffle_hash")
        kept = before.elements.df.anti_join(touched, found.keys.names)
        come = _in_one(self._before_bound(found.elements, before.bound))
        left = attrs.evolve(before.elements, df=kept)
        return union([left, come], come.value.type, ColumnNames("f__"), self._key)

    def _of_change(self, before: Prefix, was: list[Snapshot], states: list[Snapshot]) -> Frame:
        """The elements of the prefix, with those of the change that come before the bound."""
        change, columns = states[self._index].change(was[self._index]), self.deltas.columns
        change = self.deltas.over_change(self._whole, self.first.stage, change, {}, columns)
        come = _in_one(self._before_bound(change, before.bound))
        return netted(union([before.elements, come], come.value.type, columns), columns)

    def _of_whole(self, transaction: Transaction, states: list[Snapshot]) -> Prefix | None:
        """A prefix taken from all elements; None where too many of them are equal."""
        return self._cut(self.deltas.all_of(self._whole, states), transaction)

    @property
    def _most(self) -> int:
        """How many elements are taken for a new prefix."""
        return self.first.count + MORE_ELEMENTS

    def _cut(self, elements: Frame, transaction: Transaction) -> Prefix | None:
        """A prefix of the first of some elements. The last one taken is the bound, and is left out with its equals, not
        all of which may have been taken. None where too few are left then."""
        sort = self._order(elements)
        taken = self._in_columns(attrs.evolve(elements, df=elements.df.order(*sort).limit(self._most)))
        run = self._computed(taken.df)
        taken = attrs.evolve(taken, df=run.relation)
        if run.rows is not None and run.rows < self._most:
            return Prefix(transaction, taken, run, None, is_followed=False)
        sort = self._order(taken)
        last = taken.df.order(*((sql, not descending) for sql, descending in sort)).limit(1)
        bound = self._computed(last.select(*(f"{sql} AS {BOUND}{i}" for i, (sql, _) in enumerate(sort))))
        kept = self._computed(self._in_columns(self._before_bound(taken, bound)).df)
        run.free()
        if kept.rows is not None and kept.rows < self.first.count:
            kept.free()
            bound.free()
            return None
        return Prefix(transaction, attrs.evolve(taken, df=kept.relation), kept, bound, is_followed=False)

    def _order(self, elements: Frame) -> list[tuple[str, bool]]:
        return order(self.deltas.compiler({}), elements, self.first.ordered)

    def _before_bound(self, elements: Frame, bound: Run | None) -> Frame:
        """The elements that come before a bound."""
        if bound is None:
            return elements
        beside = elements.df.cross(bound.relation.broadcast())
        return attrs.evolve(elements, df=beside.where(is_before(self._order(elements))))

    # --- rows ---------------------------------------------------------------------------------

    @property
    def _key(self) -> tuple[str, ...]:
        """The columns of the state's key that makes an element, if each key makes one; otherwise none."""
        keys = self.deltas.states[self._index].snapshot().keys
        return keys.names if self.first.is_by_key and keys is not None else ()

    def _in_columns(self, elements: Frame) -> Frame:
        """Elements in columns with the same names each time."""
        value = canonical(Expressions(), elements.value)
        return flat(attrs.evolve(elements, value=value), ColumnNames("f__"), self._key)

    def _computed(self, rows: Relation) -> Run:
        """A run of rows, computed at once."""
        run = Run.of(self.deltas.plans, rows)
        try:
            run.rows = jvm.compute(run.rdd, 1)
        except BaseException:
            run.free()
            raise
        return run


def _in_one(elements: Frame) -> Frame:
    """A few elements of several partitions, moved to one, as a prefix is."""
    return attrs.evolve(elements, df=elements.df.moved((), in_one=True))


def is_before(sort: Sequence[tuple[str, bool]]) -> str:
    """Whether a row, by its sort columns, comes before the bound beside it, in SQL.

    >>> is_before([("a", False)])
    '(coalesce(a < bound_0, a IS NULL AND bound_0 IS NOT NULL) OR (a <=> bound_0 AND false))'
    """
    condition = "false"
    for i, (sql, descending) in reversed([*enumerate(sort)]):
        bound = f"{BOUND}{i}"
        low, high = (bound, sql) if descending else (sql, bound)
        # Nulls come first in ascending order, and last in descending order.
        less = f"coalesce({low} < {high}, {low} IS NULL AND {high} IS NOT NULL)"
        condition = f"({less} OR ({sql} <=> {bound} AND {condition}))"
    return condition
