"""A stage that reads what is made from it: the changes of that are taken back to it, the earliest first.

[DBSP] §6, [RZ] 2.9.11: facts have the step at which they were found first as their time, and a change of a time changes
nothing but what is later.
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
    """Facts that are kept until the next batch."""

    frame: Frame
    run: Run


@attrs.define(eq=False)
class SemiNaiveRun:
    """How far the changes of one batch have been taken back."""

    changes: Deltas
    state: StageState
    recursive: DerivedStream
    earlier: StatesBefore
    """The states before what was taken back last."""
    time: int | None = None
    """The time of what was taken back last."""
    found: list[Frame] = attrs.Factory(list)
    """What was taken back so far."""
    left: list[Frame] = attrs.Factory(list)
    """What is left of the changes before."""
    pending: TimedFacts = attrs.field(init=False)
    """What has changed and was not taken back."""
    following: TimedFacts | None = None
    """What of it has the time after the last one: all of it is later than that, and most often there is some of it."""

    def __attrs_post_init__(self) -> None:
        with self.changes.columns.apart("r__"):
            self._look()

    @property
    def is_foreseen(self) -> bool:
        """Whether there may be facts of the next time."""
        return self.following is not None and not self._is_too_late(self._next)

    def take_back_following(self) -> None:
        """Takes the facts of the next time back to the stage."""
        assert self.following is not None
        self._take_back(self.following, self._next)

    def take_back_earliest(self) -> None:
        """Takes those of the earliest time back, whichever that is.

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
        """All that was taken back."""
        return self.changes.added(self.found, self._item) if len(self.found) > 1 else next(iter(self.found), None)

    def _take_back(self, facts: TimedFacts, time: int) -> None:
        # Each step has the names of the one before it, and so its plans.
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
        """Finds what is pending."""
        rules = self.changes.circuit.derived[self.recursive.name]
        if self.left:
            change = self.changes.added([*self.left, self.changes.rows_since(rules, self.earlier)], self._item)
        else:
            change = self.changes.since(rules, self.earlier)
        self.pending = self._kept(change)
        self.following = None if self.time is None else self._at(self._next)

    def _at(self, time: int) -> TimedFacts:
        """What is pending of one time."""
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
    """The step at which facts were found first."""
    return to_sql(part(facts.value, "_2", ty.LONG))
