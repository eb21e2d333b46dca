"""Resuming a view: states loaded from a checkpoint are kept, and the others are built from the rows so far."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

import attrs

from mrql.rewrite.analysis.multilinear import Input
from mrql.rewrite.plan.plan import DerivedStream
from mrql.runtime.spark.batch_merge import BatchMerge
from mrql.runtime.spark.maintenance.input_rows import without_passing
from mrql.runtime.spark.maintenance.join_inputs import InputState
from mrql.runtime.spark.maintenance.snapshot import StatesBefore
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.view_states import ViewStates


@attrs.frozen
class Rebuild:
    """Builds the states of a view that are not `kept`."""

    states: ViewStates
    merge: BatchMerge
    kept: Collection[str]

    def of(self, arrived: Mapping[str, Frame]) -> None:
        """Builds these states from the rows that have arrived so far."""
        plan, transaction = self.states.plan, self.states.transaction
        changes = self._all_rows(arrived)
        transaction.before = self.states.snapshots()
        before = StatesBefore(transaction.before, is_start=True)
        self._record(changes)
        built: frozenset[str] = frozenset()
        for loop, carried in zip(plan.feedbacks, self.states.carried, strict=True):
            if plan.inside(loop) <= {*self.kept}:
                below = plan.below(loop.reads)
                self._build(below - built, changes, before)
                for each in carried:
                    each.restore()
            else:
                build = partial(self._build, before=before)
                below = self.merge.rounds.carry_over(loop, carried, built, changes, before, build, transaction.changed)
            built |= below
        self._build({state.stage.name for state in self.states.stages} - built, changes, before)
        self._share_inputs()

    def _all_rows(self, arrived: Mapping[str, Frame]) -> dict[str, Frame]:
        """All rows of the streams as one batch; of a keyed stream that was restored, its current rows."""
        changes = {
            # In a keyed stream, where rows replace each other, an insertion and a deletion do not cancel.
            name: attrs.evolve(
                frame if name in self.states.plan.keyed else without_passing(frame, self.states.columns), changes=True
            )
            for name, frame in arrived.items()
        }
        return changes | {each.stream: each.current() for each in self.states.upserts if each.table is not None}

    def _record(self, changes: dict[str, Frame]) -> None:
        """Records the rows of the streams with ledgers, where no checkpoint has them."""
        for ledger in self.states.ledgers:
            if ledger.table is None and ledger.stream in changes:
                left = self.states.recorded(ledger, changes[ledger.stream])
                if ledger.stream in self.states.plan.keyed:
                    changes[ledger.stream] = left

    def _build(self, names: Collection[str], changes: dict[str, Frame], before: StatesBefore) -> None:
        """Builds those of the named states that are not kept, from all rows of the streams that they read."""
        for state in self.states.stages:
            if state.stage.name in names and state.stage.name not in self.kept:
                for derived in self.states.plan.derived_for(state.stage):
                    if derived.name not in changes:
                        changes[derived.name] = self.merge.for_readers(derived, self._passed_on_so_far(derived))
                self.merge.step(state, changes, before)

    def _passed_on_so_far(self, derived: DerivedStream) -> Frame:
        """All rows of a derived stream that were passed on to stages."""
        if derived.name in self.states.residual_changes:
            return self.states.residual_changes[derived.name].so_far()
        return self.states.deltas.whole(derived.term)

    def _share_inputs(self) -> None:
        """Lets stages keep one copy of an input, if all states were restored: their copies are the same then, whereas a
        state that is built has other runs."""
        if all(state.stage.name in self.kept for state in self.states.stages):
            inputs: dict[Input, InputState] = {}
            for state in self.states.stages:
                state.share_inputs(inputs)
