"""A stage that reads a stream derived from itself: the changes of that stream are fed back to it, the earliest first.

[DBSP] §6, [RZ] 2.9.11: the time of a fact is the step at which it was found first, and a change at a time changes only
what is later.
"""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.evaluation.errors import endless
from mrql.algebra.terms import Repeat, element_type
from mrql.algebra.types import Type
from mrql.rewrite.plan.plan import DerivedStream
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.layout import part, to_sql
from mrql.runtime.spark.maintenance.deltas import Deltas
from mrql.runtime.spark.maintenance.snapshot import StatesBefore
from mrql.runtime.spark.maintenance.stage_state import StageState
from mrql.runtime.spark.relation.frame import Frame, signed
from mrql.runtime.spark.state import compaction
from mrql.runtime.spark.state.run import Run


@attrs.frozen
class TimedFacts:
    """Facts with times, kept until the next batch is committed."""

    frame: Frame
    run: Run


@attrs.define(eq=False)
class SemiNaiveRun:
    """The iteration of one batch: which changes were fed back, and which are pending."""

    changes: Deltas
    state: StageState
    recursive: DerivedStream
    earlier: StatesBefore
    """The states before the last facts were fed back."""
    time: int | None = None
    """The time of the facts that were fed back last."""
    found: list[Frame] = attrs.Factory(list)
    """The facts that were fed back so far."""
    left: list[Frame] = attrs.Factory(list)
    """The changes that were pending before, minus those that were fed back."""
    pending: TimedFacts = attrs.field(init=False)
    """The changes that were not fed back yet."""
    following: TimedFacts | None = None
    """Those of them with the time after `time`: all pending ones are later, and most often some are of the next."""

    def __attrs_post_init__(self) -> None:
        with self.changes.columns.apart("r__"):
            self._look()

    @property
    def is_foreseen(self) -> bool:
        """Whether there may be facts of the next time to feed back."""
        return self.following is not None and not self._is_too_late(self._next)

    def take_back_following(self) -> None:
        """Feeds the facts of the next time back to the stage."""
        assert self.following is not None
        self._take_back(self.following, self._next)

    def take_back_earliest(self) -> None:
        """Feeds those of the earliest time back, whichever that is.

        Raises: UserError when that is later than it may be.
        """
        pending = self.pending.frame
        earliest = f"min({_time_of(pending)}) AS first"
        row = self.changes.plans.dataframe(pending.df.aggregate([], [earliest])).head()
        assert row is not None
        if self._is_too_late(row[0]):
            raise endless(self._loop)
        self._take_back(self._at(row[0]), row[0])

    def all_found(self) -> Frame | None:
        """All facts that were fed back; None if there were none."""
        return self.changes.added(self.found, self._item) if len(self.found) > 1 else next(iter(self.found), None)

    def _take_back(self, facts: TimedFacts, time: int) -> None:
        # Each step uses the column names of the one before it, and so its plans.
        with self.changes.columns.apart("r__"):
            self.time = time
            self.found = [*self.found, facts.frame]
            if len(self.found) > compaction.ADDED_MAX_RUNS:
                self.found = [self._kept(self.changes.added(self.found, self._item)).frame]
            self.left = [self.pending.frame, signed(facts.frame, -1, Expressions())]
            self.earlier = self.earlier.but_for(self.changes.states.index(self.state), self.state.snapshot())
            self.state.step({self.recursive.name: facts.frame})
            self._look()

    def _look(self) -> None:
        """Finds the pending changes."""
        rules = self.changes.circuit.derived[self.recursive.name]
        if self.left:
            change = self.changes.added([*self.left, self.changes.rows_since(rules, self.earlier)], self._item)
        else:
            change = self.changes.since(rules, self.earlier)
        self.pending = self._kept(change)
        self.following = None if self.time is None else self._at(self._next)

    def _at(self, time: int) -> TimedFacts:
        """The pending changes of one time."""
        pending = self.pending.frame
        return self._kept(pending.where(f"{_time_of(pending)} = {time}L"))

    def _kept(self, change: Frame) -> TimedFacts:
        return TimedFacts(self.changes.aside(change, counted=True), self.changes.temporaries.counted[-1])

    @property
    def _next(self) -> int:
        assert self.time is not None
        return self.time + 1

    @property
    def _item(self) -> Type:
        return element_type(self.recursive.term)

    @property
    def _loop(self) -> Repeat:
        assert self.recursive.loop is not None
        return self.recursive.loop

    def _is_too_late(self, time: int) -> bool:
        return self._loop.limit is None and time > self._loop.most


def _time_of(facts: Frame) -> str:
    """The step at which facts were found first, in SQL."""
    return to_sql(part(facts.value, "_2", ty.LONG))
