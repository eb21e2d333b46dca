"""What a loop that is carried over has, on Spark, and what of its changes is fed back to it.

Of a bag that the loop carries what its stream was *fed* is kept, and the groups of it that differ from the value of the
step are *pending* (`element_groups.py`). Where a step has one element for each key, its value is compared with what was
fed (`key_comparison.py`); else what is pending is kept too, in a table that each change is added to.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from mrql.rewrite.plan.delta_rules import DeltaRules
from mrql.rewrite.plan.plan import Feedback
from mrql.rewrite.plan.threshold import Threshold
from mrql.runtime.engine.residual import Residual
from mrql.runtime.spark.maintenance.deltas import Deltas, OfKeys
from mrql.runtime.spark.maintenance.input_rows import Ledger
from mrql.runtime.spark.maintenance.loops.element_groups import (
    RESIDUAL,
    ElementGroups,
    element_groups_of,
    matter,
    table_of,
)
from mrql.runtime.spark.maintenance.loops.key_comparison import against, elements_of_keys
from mrql.runtime.spark.maintenance.snapshot import StatesBefore
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.relation.relation import Relation, union_all
from mrql.runtime.spark.state import compaction
from mrql.runtime.spark.state.run import Run
from mrql.runtime.spark.state.table import Table

FED_BACK_MAX_RATIO = 20
"""What is fed back is little if there are so many times more rows to compare: each row that is fed changes several."""


@attrs.define(eq=False)
class FeedbackState:
    """One bag of a loop."""

    feedback: Feedback
    ledger: Ledger
    """What the stream was fed; it is kept in a checkpoint."""
    changes: Deltas
    threshold: Threshold
    pending: Table | None = None
    """By how much the value of the step differs from what was fed, where that is kept: elements that are new, and
    elements that are gone. Those that are alike lie together."""
    offered: Run | None = None
    """What of that matters; it is computed with it."""
    rests: bool = False
    """Whether nothing matters of what is pending, but for what is offered."""
    fed: list[Run] = attrs.Factory(list)
    """What the batch has fed so far."""
    fed_before: list[Run] = attrs.Factory(list)
    """What the last batch has fed, once that has ended."""
    steps: list[Run] = attrs.Factory(list)
    """What was offered in each step of the batch."""
    expected: list[int] = attrs.Factory(list)
    """How many rows that was in the batch before."""
    size: int = 0
    """How many rows are pending, where that is kept, as far as it is known."""
    measured: Residual | None = None
    """How far what is pending goes since the last batch, once that was asked."""
    repeats: bool = True
    """Whether more than one element of a key may have been fed: the loop may begin with that."""
    begun: Relation | None = None
    """What of it the loop begins with, which was not compared yet."""

    @property
    def name(self) -> str:
        return self.feedback.fed.name

    @property
    def is_empty(self) -> bool:
        """Whether the loop has nothing, and so begins anew."""
        table = self.ledger.table
        return table is None or not any(run.rows is None or run.rows for run in table.runs)

    # --- what is fed --------------------------------------------------------------------------

    def start(self) -> None:
        """Forgets what a batch that failed has left."""
        self.fed, self.fed_before, self.steps, self.begun, self.offered = [], [], [], None, None
        self.measured = None

    def begin(self, start: Frame) -> Frame:
        """Feeds what the loop begins with."""
        element_groups = element_groups_of(self.ledger, start.value)
        return self._begin(element_groups, element_groups.rows([start], self.ledger.plans))

    def add_new(self, sides: Sequence[Frame]) -> Frame:
        """Feeds what is new of what the loop begins with, where it has nothing alike."""
        element_groups = element_groups_of(self.ledger, sides[0].value)
        table = table_of(self.ledger, element_groups)
        rows = self._kept(
            table.merged([element_groups.rows(sides, self.ledger.plans)], whole=False).where("w <> 0")
        ).relation
        known = table.lookup(rows)
        columns = [*element_groups.keys.names, "w"]
        both = rows.select(*columns, "w < 0 AS known")
        if known is not None:
            here = table.merged([known], whole=False).where("w > 0")
            both = both.union(here.select(*columns, "true AS known"))
        entry = f"IF(known, NULL, struct({', '.join([*element_groups.numbers, 'w'])}))"
        groups = both.aggregate(list(element_groups.by), [f"collect_list({entry}) AS rows", "bool_or(known) AS known"])
        return self._begin(
            element_groups, groups.where("NOT known").select(*element_groups.by, "inline(rows)").select(*columns)
        )

    def _begin(self, element_groups: ElementGroups, rows: Relation) -> Frame:
        fed = self._feed(element_groups, self._kept(rows))
        self.begun = fed.df
        self.repeats = elements_of_keys(self.changes, self.ledger, self.changes.circuit.starts[self.name]) is None
        return fed

    @property
    def is_due(self) -> bool:
        """Whether anything that is pending matters, once that is computed."""
        return self.offered is not None and bool(self.offered.rows)

    def feed_back(self) -> Frame:
        """Feeds what is pending of the groups that matter."""
        assert self.ledger.keys is not None
        assert self.offered is not None
        self.repeats = False
        return self._feed(ElementGroups(self.ledger.keys), self.offered)

    def _kept(self, rows: Relation) -> Run:
        return self.changes.kept(rows, counted=True)

    def _feed(self, element_groups: ElementGroups, run: Run) -> Frame:
        self.fed.append(run)
        return Frame(run.relation, element_groups.keys.value, "w", changes=True)

    def end(self) -> None:
        """Adds what the batch has fed to what was fed before."""
        self.fed_before = self.fed
        if self.fed and self.ledger.keys is not None:
            table_of(self.ledger, ElementGroups(self.ledger.keys)).update(union_all([run.relation for run in self.fed]))
            self.fed = []
        self.rests = not self.is_due
        self.repeats = self.repeats and not self.rests
        self.expected, self.steps = [run.rows or 0 for run in self.steps], []

    def forget(self) -> None:
        """Forgets how a batch has ended that is taken back."""
        self.rests, self.repeats, self.measured = False, True, None

    # --- what is pending ----------------------------------------------------------------------

    def compare(self, before: StatesBefore) -> None:
        """Compares what the step makes now with what was fed.

        All that matters is fed back, as long as there are steps. So what did not change since `before` does not matter
        then, and only what did is looked at, unless that is most of it.
        """
        little = self.rests and self._changes_little(sum(run.rows or 0 for run in self._fed_before()))
        now = self._of_keys(before if little else None)
        if now is not None:
            # What the loop begins with may be nothing that the step makes anything of.
            groups = self._groups(against(self._fed_so_far(), now, self.ledger, self.begun))
        elif before.is_start:
            groups = self._pending_since([self.changes.whole(self.feedback.value)])
        else:
            groups = self._pending_since(self.changes.sides_since(self._value, before))
        assert self.ledger.keys is not None
        self.offered = self._kept(ElementGroups(self.ledger.keys).of_groups(groups, matter(self.threshold)))
        self.steps.append(self.offered)
        self.begun, self.rests = None, True

    @property
    def _value(self) -> DeltaRules:
        """How what a step makes of the bag follows the states."""
        return self.changes.circuit.values[self.name]

    def _of_keys(self, before: StatesBefore | None = None) -> OfKeys | None:
        return elements_of_keys(self.changes, self.ledger, self._value, before)

    def _groups(self, different: Relation) -> Relation:
        """What some keys have now and what was fed of them, as groups."""
        assert self.ledger.keys is not None
        element_groups = ElementGroups(self.ledger.keys)
        return element_groups.groups(different) if self.repeats else element_groups.pairs(different)

    def _fed_before(self) -> list[Run]:
        """What was fed before the batch."""
        return [] if self.ledger.table is None else self.ledger.table.runs

    def _fed_so_far(self) -> list[Relation]:
        return [run.relation for run in (*self._fed_before(), *self.fed)]

    def _pending_since(self, sides: Sequence[Frame]) -> Relation:
        """Adds a change of the step's value to what is pending; what of that is to be compared, group by group. What is
        fed back of it is pending no more."""
        element_groups = element_groups_of(self.ledger, sides[0].value)
        rows = [element_groups.rows(sides, self.ledger.plans)]
        if self.offered is not None and self.offered in self.fed:
            rows.append(element_groups.taken_away(self.offered.relation))
        if self.begun is not None:
            rows.append(element_groups.taken_away(self.begun))
        pending = self._pending_in(element_groups)
        pending.is_passing = not (self.rests and self._changes_little(self._size_of(pending)))
        if pending.is_passing:
            pending.merge(union_all(rows))
            return element_groups.groups(self._all(pending))
        pending.append(union_all(rows), as_it_is=True)
        return element_groups.groups(self._changed(pending))

    def _changes_little(self, size: int) -> bool:
        """Whether a step is likely to change few of so many rows, as the first of a batch is, or one that little was
        fed to."""
        return size > compaction.STEPS_MERGED_WHOLE_MAX_ROWS and self._offered_rows() * FED_BACK_MAX_RATIO < size

    def _size_of(self, pending: Table) -> int:
        """How many rows are pending, or were when that was known last."""
        known = [run.rows for run in pending.runs if run.rows is not None]
        if len(known) == len(pending.runs):
            self.size = sum(known)
        return self.size

    def _offered_rows(self) -> int:
        """The rows that were offered last; while they are computed, as many as in that step of the batch before."""
        if self.offered is None:
            return 0
        if self.offered.rows is not None or len(self.steps) > len(self.expected):
            return self.offered.rows or 0
        return self.expected[len(self.steps) - 1]

    def restore(self) -> None:
        """Finds what is pending, if that is kept, from the value of the step and what was fed, as a checkpoint has
        them."""
        if self._of_keys() is not None:
            return
        value = self.changes.whole(self.feedback.value)
        element_groups = element_groups_of(self.ledger, value.value)
        fed = [element_groups.taken_away(run) for run in table_of(self.ledger, element_groups).relations]
        pending = self._pending_in(element_groups)
        pending.replace(pending.merged([element_groups.rows([value], self.ledger.plans), *fed]))

    def _pending_in(self, element_groups: ElementGroups) -> Table:
        if self.pending is None:
            self.pending = element_groups.table(self.changes.plans, self.ledger.access)
            self.pending.shrinks = True
        return self.pending

    @staticmethod
    def _all(pending: Table) -> Relation:
        rows = pending.scan()
        assert rows is not None
        return rows

    @staticmethod
    def _changed(pending: Table) -> Relation:
        """What is pending in the groups that the last step has changed."""
        assert pending.appended is not None
        change = pending.appended.relation
        found = pending.schema.lookup([run.relation for run in pending.runs if run is not pending.appended], change)
        return pending.merged([change] if found is None else [found, change])

    @property
    def residual(self) -> Residual:
        """How far what is pending goes, after the last batch: a job, when it is first asked."""
        if self.measured is None:
            groups = self._different()
            self.measured = Residual() if groups is None else self._measured(groups)
        return self.measured

    def _different(self) -> Relation | None:
        """What is pending, group by group; None if nothing ever was."""
        now = self._of_keys()
        if now is not None:
            return self._groups(against(self._fed_so_far(), now, self.ledger)).where("difference > 0")
        if self.pending is None or not self.pending.runs:
            return None
        assert self.ledger.keys is not None
        return ElementGroups(self.ledger.keys).groups(self._all(self.pending))

    def _measured(self, groups: Relation) -> Residual:
        found = self.changes.plans.dataframe(groups.aggregate([], RESIDUAL)).head()
        assert found is not None
        return Residual(found["change"] or 0.0, found["groups"], found["distance"] or 0.0)
