"""How a batch is merged into a view: stage by stage, iterating its loops, and passing on changes of derived streams."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from mrql.rewrite.plan.delta_rules import Rule
from mrql.rewrite.plan.plan import DerivedStream
from mrql.runtime.engine.stopwatch import timed
from mrql.runtime.spark.maintenance.background_jobs import BackgroundJobs
from mrql.runtime.spark.maintenance.loops.iteration import Rounds
from mrql.runtime.spark.maintenance.snapshot import StatesBefore
from mrql.runtime.spark.maintenance.stage_state import StageState
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.view_states import ViewStates


class BatchMerge:
    """Merges batches into the states of a view; finished plans are computed while the rest of a batch is planned."""

    def __init__(self, states: ViewStates, computing: BackgroundJobs) -> None:
        self.states = states
        self.plan = states.plan
        self.computing = computing
        self.rounds = Rounds(self.plan, states.deltas, self._merge, computing, states.savepoint)

    def go_through(self, changes: dict[str, Frame], *, is_start: bool = False) -> None:
        """Merges a batch stage by stage; the change of a stream derived from a stage is a batch for those after it.

        At its start a view has states of static tables, and values over no rows, such as totals: the streams derived
        from these are new.
        """
        before = StatesBefore(self.states.transaction.before, is_start)
        changed = self.states.transaction.changed
        merge = partial(self._merge, before=before, moved=changed)
        merged: frozenset[str] = frozenset()
        for loop, carried in zip(self.plan.feedbacks, self.states.carried, strict=True):
            merged |= self.rounds.carry_over(loop, carried, merged, changes, before, merge, changed)
        merge({state.stage.name for state in self.states.stages} - merged, changes)

    def _merge(
        self,
        names: Collection[str],
        changes: dict[str, Frame],
        before: StatesBefore,
        moved: set[str],
    ) -> None:
        """Merges a batch into some stages, and adds the changes of the derived streams that they read to `changes`.

        `moved` are the stages that have changed since `before`; those that change here are added.
        """
        # A step of a loop, which has a set of its own, is computed once all of it is planned.
        at_once = moved is self.states.transaction.changed and not before.is_start
        for state in self.states.stages:
            if state.stage.name not in names:
                continue
            for derived in self.plan.derived_for(state.stage):
                if self._is_changed(derived, changes, moved, is_start=before.is_start):
                    changes[derived.name] = self._change_of(derived, before)
                    if at_once:
                        self.computing.go_on()
            if self.step(state, changes, before):
                moved.add(state.stage.name)
                if at_once:
                    self.computing.go_on()

    def _is_changed(
        self, derived: DerivedStream, changes: Collection[str], moved: Collection[str], *, is_start: bool
    ) -> bool:
        """Whether a derived stream changes, and its change is still unknown; that of a recursive one, `step` finds."""
        of_nothing = is_start and self.states.circuit.derived[derived.name].of_all.rule is not Rule.KEYS
        is_new = derived.name not in changes and derived.loop is None
        return is_new and (of_nothing or not derived.reads.isdisjoint(moved))

    def _change_of(self, derived: DerivedStream, before: StatesBefore) -> Frame:
        """The change of a derived stream, without what is withheld."""
        with timed(self.states.transaction.milliseconds, derived.name):
            if derived.name in self.states.residual_changes:
                return self.states.residual_changes[derived.name].passed_on(before)
            change = self.states.deltas.since(self.states.circuit.derived[derived.name], before)
        return self.for_readers(derived, change)

    def for_readers(self, derived: DerivedStream, change: Frame) -> Frame:
        """A change of a derived stream as its readers get it: computed once and kept, if there are several."""
        if not self.plan.is_shared(derived):
            return change
        shared = self.states.deltas.aside(change)
        kept = self.states.transaction.temporaries
        kept.passed_on.append((derived.name, kept.changes[-1]))
        return shared

    def step(self, state: StageState, changes: dict[str, Frame], before: StatesBefore) -> bool:
        """Merges a batch into a state, to a fixpoint if the state reads a stream derived from itself; returns whether
        there was anything to merge."""
        transaction = self.states.transaction
        is_first = state.stage.name not in transaction.changed
        with timed(transaction.milliseconds, state.stage.name):
            stepped = state.step(changes, is_start=before.is_start and is_first)
        if not stepped:
            return False
        transaction.changed.add(state.stage.name)
        recursive = self.plan.recursion_of(state.stage)
        found = None if recursive is None else self.rounds.run_to_fixpoint(state, recursive, before)
        if recursive is not None and found is not None:
            changes[recursive.name] = found
        return True
