"""Changes that go round, step by step: of a stage that reads what is made from it, and of a loop that is carried over.

[DBSP] §6: what comes out of a step is a change that goes in again, until there is none; `rewrite/fixpoint.py` and
`rewrite/diffuse.py` say of which loops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import attrs

from mrql.algebra import types as ty
from mrql.algebra.evaluate import endless
from mrql.algebra.terms import element_type
from mrql.rewrite.stages import Derived, Feedbacks, Plan
from mrql.runtime import upkeep
from mrql.runtime.changes import Changes
from mrql.runtime.expressions import Expressions
from mrql.runtime.feedback import Carried
from mrql.runtime.frames import Frame, signed
from mrql.runtime.layout import part, to_sql
from mrql.runtime.snapshot import Snapshot
from mrql.runtime.step import StageState


@attrs.frozen
class Rounds:
    """How the changes of a view go round."""

    plan: Plan
    changes: Changes
    merge: Callable[[Collection[str], dict[str, Frame], list[Snapshot], set[str]], None]
    """Merges a batch of changes into some stages, since some snapshots, and notes those that have changed."""
    compute: Callable[[], None]
    """Computes what is kept of the changes, and the states."""

    # --- stages that read what is made from them ----------------------------------------------

    def settled(self, state: StageState, recursive: Derived, before: list[Snapshot], *, starting: bool) -> Frame | None:
        """Takes the changes of what is made from a state back to it, those with the earliest time first, until there
        are none. Returns all of them; None where there are none.

        Raises: UserError when that takes more steps than it may.
        """
        index, earlier, item = self.changes.states.index(state), list(before), element_type(recursive.term)
        found: list[Frame] = []
        left: list[Frame] = []
        time: int | None = None
        while True:
            # Each step has the names of the one before it, and so its plans.
            with self.changes.columns.apart("r__"):
                change = self.changes.since(recursive.term, earlier, starting=starting and not found)
                pending = self.changes.aside(self.changes.added([*left, change], item) if left else change)
                first = self._first(pending, recursive, time)
                if first is None:
                    break
                time, now = first
                found = [*found, now]
                if len(found) > upkeep.YOUNG:
                    found = [self.changes.aside(self.changes.added(found, item))]
                left = [pending, signed(now, -1, Expressions())]
                earlier[index] = state.snapshot()
                state.step({recursive.name: now}, again=True)
        return self.changes.added(found, item) if len(found) > 1 else next(iter(found), None)

    def _first(self, pending: Frame, recursive: Derived, last: int | None) -> tuple[int, Frame] | None:
        """Of facts that have changed the earliest time, and those that have it; None where there are none.

        All are later than the `last` time that was taken back, if any was; most often they are of the next one, and so
        those are computed with all of them.

        Raises: UserError when that is later than it may be.
        """
        all_of_them = self.changes.asides[-1]
        first = None if last is None else (last + 1, self._at(pending, last + 1))
        those = self.changes.asides[-1]
        self.compute()
        if not all_of_them.rows:
            return None
        if first is None or not those.rows:
            earliest = f"min({_time_of(pending)}) AS first"
            row = self.changes.plans.dataframe(pending.df.aggregate([], [earliest])).head()
            assert row is not None
            first = row[0], self._at(pending, row[0])
        assert recursive.loop is not None
        if recursive.loop.limit is None and first[0] > recursive.loop.most:
            raise endless(recursive.loop)
        return first

    def _at(self, facts: Frame, time: int) -> Frame:
        """The facts of one time."""
        return self.changes.aside(facts.where(f"{_time_of(facts)} = {time}L"))

    # --- loops that are carried over ----------------------------------------------------------

    def carry_over(
        self,
        loop: Feedbacks,
        carried: Sequence[Carried],
        merged: Collection[str],
        changes: dict[str, Frame],
        before: list[Snapshot],
        merge: Callable[[Collection[str], dict[str, Frame]], None],
        stepped: Collection[str],
        *,
        starting: bool,
    ) -> frozenset[str]:
        """Merges a batch into the stages of a loop that were not `merged` yet, and feeds back what that changes.

        What is new of what the loop begins with comes with the batch. Those that the batch has changed are `stepped`.
        Returns the stages.
        """
        starts, below, inside = self.plan.below(loop.starts), self.plan.below(loop.reads), self.plan.inside(loop)
        merge(starts - {*merged}, changes)
        for each in carried:
            each.start()
            if each.is_empty:
                changes[each.name] = each.begin(self.changes.whole(each.feedback.start))
            elif each.feedback.start_reads & {*stepped}:
                changes[each.name] = each.add_new(self.changes.since(each.feedback.start, before))
        merge(below - starts - {*merged}, changes)
        self._feed_back(loop, carried, inside, before, starting=starting)
        # What is derived from the loop's stages has changed with each of its steps.
        for derived in self.plan.derived:
            if derived.reads & inside:
                changes.pop(derived.name, None)
        return below

    def _feed_back(
        self,
        loop: Feedbacks,
        carried: Sequence[Carried],
        inside: Collection[str],
        before: list[Snapshot],
        *,
        starting: bool,
    ) -> None:
        """Feeds back what a batch has changed of a loop's bags, step by step, as far as it matters.

        Raises: UserError when a loop without a limit does not come to rest.
        """
        earlier = before
        for taken in range(1, loop.steps + 1):
            with self.changes.columns.apart("r__"):
                for each in carried:
                    value, is_first = each.feedback.value, starting and taken == 1
                    each.compare(self.changes.whole(value) if is_first else self.changes.since(value, earlier))
                self.compute()
                due = [each for each in carried if each.is_due]
                if taken == loop.steps or not due:
                    break
                earlier = [state.snapshot() for state in self.changes.states]
                self.merge(inside, {each.name: each.feed_back() for each in due}, earlier, set())
        if loop.loop.limit is None and due:
            raise endless(loop.loop)
        for each in carried:
            each.end()


def _time_of(facts: Frame) -> str:
    """The step at which facts were found first."""
    return to_sql(part(facts.value, "_2", ty.LONG))
