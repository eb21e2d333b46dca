"""Iteration of changes: in a stage that reads a stream derived from itself, and in a loop that is carried over.

[DBSP] §6: the output of a step is a change that is its input again, until there is none; `rewrite/loops/semi_naive.py`
and `rewrite/loops/diffuse.py` say for which loops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

import attrs

from mrql.algebra.evaluation.errors import endless
from mrql.rewrite.plan.plan import DerivedStream, Feedbacks, Plan
from mrql.runtime.spark.maintenance.background_jobs import BackgroundJobs
from mrql.runtime.spark.maintenance.deltas import Deltas
from mrql.runtime.spark.maintenance.loops.feedback import FeedbackState
from mrql.runtime.spark.maintenance.loops.semi_naive import SemiNaiveRun
from mrql.runtime.spark.maintenance.snapshot import StatesBefore
from mrql.runtime.spark.maintenance.stage_state import StageState
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.state.run import Run


@attrs.frozen
class Rounds:
    """Iterates the changes of a view."""

    plan: Plan
    changes: Deltas
    merge: Callable[[Collection[str], dict[str, Frame], StatesBefore, set[str]], None]
    """Merges a batch of changes into some stages, and notes those that have changed."""
    computing: BackgroundJobs
    """Computes the changes that are kept, and the states."""
    savepoint: Callable[[Sequence[object]], Callable[[], None]]
    """Notes how far planning has come, in some more objects too; returns a function that undoes all planning from then
    on."""

    # --- stages that read a stream derived from themselves ------------------------------------

    def run_to_fixpoint(self, state: StageState, recursive: DerivedStream, before: StatesBefore) -> Frame | None:
        """Feeds the changes of the stream derived from a state back to it, those with the earliest time first, until
        there are none. Returns all of them; None if there are none.

        Raises: UserError when that takes more steps than it may.
        """
        going = SemiNaiveRun(self.changes, state, recursive, before)
        while True:
            pending, following = going.pending, going.following if going.is_foreseen else None
            goes_on = partial(_is_any, [] if following is None else [following.run])
            speculative = following is not None and not before.is_start
            if not self._stepped(goes_on, going.take_back_following, speculative=speculative, changed=[going]):
                if not pending.run.rows:
                    return going.all_found()
                going.take_back_earliest()

    # --- loops that are carried over ----------------------------------------------------------

    def carry_over(
        self,
        loop: Feedbacks,
        carried: Sequence[FeedbackState],
        merged: Collection[str],
        changes: dict[str, Frame],
        before: StatesBefore,
        merge: Callable[[Collection[str], dict[str, Frame]], None],
        stepped: Collection[str],
    ) -> frozenset[str]:
        """Merges a batch into the stages of a loop that were not `merged` yet, and feeds back the changes that result.

        New rows that the loop begins with are fed with the batch. `stepped` are the stages that the batch has changed.
        Returns the stages of the loop, and those below them.
        """
        starts, below, inside = self.plan.below(loop.starts), self.plan.below(loop.reads), self.plan.inside(loop)
        merge(starts - {*merged}, changes)
        for each in carried:
            each.start()
            if each.is_empty:
                changes[each.name] = each.begin(self.changes.whole(each.feedback.start))
            elif each.feedback.start_reads & {*stepped}:
                changes[each.name] = each.add_new(
                    self.changes.sides_since(self.changes.circuit.starts[each.name], before)
                )
        merge(below - starts - {*merged}, changes)
        self._feed_back(loop, carried, inside, before)
        # Streams derived from the loop's stages have changed with each of its steps.
        for derived in self.plan.derived:
            if derived.reads & inside:
                changes.pop(derived.name, None)
        return below

    def _feed_back(
        self,
        loop: Feedbacks,
        carried: Sequence[FeedbackState],
        inside: Collection[str],
        before: StatesBefore,
    ) -> None:
        """Feeds back the changes of a loop's bags by a batch, step by step, as far as they matter.

        Raises: UserError when a loop without a limit does not come to rest.
        """
        with self.changes.columns.apart("r__"):
            for each in carried:
                each.compare(before)
        taken, likely = 1, 0 if before.is_start else max(len(each.expected) for each in carried)
        step = partial(self._step, carried, inside)
        while taken < loop.steps:
            goes_on = partial(_is_any, [each.offered for each in carried if each.offered is not None])
            if not self._stepped(goes_on, step, speculative=taken < likely):
                break
            taken += 1
        else:
            self._compute()
        if loop.loop.limit is None and any(each.is_due for each in carried):
            raise endless(loop.loop)
        for each in carried:
            each.end()

    def _step(self, carried: Sequence[FeedbackState], inside: Collection[str]) -> None:
        """Feeds back the changes of a loop's bags that matter, and compares the resulting values with what was fed."""
        with self.changes.columns.apart("r__"):
            earlier = StatesBefore([state.snapshot() for state in self.changes.states])
            self.merge(inside, {each.name: each.feed_back() for each in carried}, earlier, set())
            for each in carried:
                each.compare(earlier)

    # --- steps --------------------------------------------------------------------------------

    def _stepped(
        self,
        goes_on: Callable[[], bool],
        step: Callable[[], None],
        *,
        speculative: bool,
        changed: Sequence[object] = (),
    ) -> bool:
        """Computes all that is planned, and plans a step if it then `goes_on`; returns whether it does.

        A `speculative` step is planned while all else is computed; if it is not taken, its planning is undone, in the
        objects `changed` too.
        """
        self.computing.start()
        take_back = None
        if speculative:
            take_back = self.savepoint(changed)
            step()
        self.computing.finish()
        if goes_on():
            if not speculative:
                step()
            return True
        if take_back is not None:
            take_back()
        return False

    def _compute(self) -> None:
        self.computing.start()
        self.computing.finish()


def _is_any(runs: Sequence[Run]) -> bool:
    """Whether any of some computed runs has rows."""
    return any(run.rows for run in runs)
