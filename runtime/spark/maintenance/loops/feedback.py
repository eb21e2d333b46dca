"""The state of a loop that is carried over, on Spark, and which of its changes are fed back to it.

For each bag of the loop, the rows that its stream was *fed* are kept; the groups in which they differ from the value of
the step are *pending* (`element_groups.py`). If a step has one element for each key, its value is compared with what
was fed (`key_comparison.py`); otherwise the pending rows are kept too, in a table that each change is added to.
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
"""Few rows are fed back if there are more than so many times as many to compare: each that is fed changes several."""


@attrs.define(eq=False)
class FeedbackState:
    """The state of one bag of a loop."""

    feedback: Feedback
    ledger: Ledger
    """The rows that the stream was fed; they are kept in a checkpoint."""
    changes: Deltas
    threshold: Threshold
    pending: Table | None = None
    """The difference between the value of the step and what was fed, if it is kept: elements that are new, and elements
    that are gone. Those that are alike lie together."""
    offered: Run | None = None
    """The pending rows of groups that exceed the threshold, by the last comparison; computed with the states."""
    rests: bool = False
    """Whether no pending change exceeds the threshold, other than those in `offered`."""
    fed: list[Run] = attrs.Factory(list)
    """The runs that the batch has fed so far."""
    fed_before: list[Run] = attrs.Factory(list)
    """The runs that the last batch fed, once it has ended."""
    steps: list[Run] = attrs.Factory(list)
    """The run offered by each step of this batch."""
    expected: list[int] = attrs.Factory(list)
    """The number of rows offered by each step of the previous batch."""
    size: int = 0
    """The last known number of pending rows, if they are kept."""
    measured: Residual | None = None
    """The residual of the pending rows after the last batch, once it was requested."""
    repeats: bool = True
    """Whether more than one element of a key may have been fed: the loop may begin with such elements."""
    begun: Relation | None = None
    """The rows that the loop begins with that were fed, but not compared yet."""

    @property
    def name(self) -> str:
        return self.feedback.fed.name

    @property
    def is_empty(self) -> bool:
        """Whether the ledger has no rows, so that the loop begins anew. In several runs, rows may cancel each other: a
        job adds up their weights, for loops that would not begin with new rows of their start."""
        table = self.ledger.table
        if table is None or not any(run.rows is None or run.rows for run in table.runs):
            return True
        if len(table.runs) == 1 or self.feedback.start_reads:
            return False
        total = self.changes.plans.dataframe(union_all(table.relations).aggregate([], ["sum(w) AS w"])).head()
        return total is None or not total["w"]

    # --- what is fed --------------------------------------------------------------------------

    def start(self) -> None:
        """Discards what a failed batch has left behind."""
        self.fed, self.fed_before, self.steps, self.begun, self.offered = [], [], [], None, None
        self.measured = None

    def begin(self, start: Frame) -> Frame:
        """Feeds the rows that the loop begins with."""
        element_groups = element_groups_of(self.ledger, start.value)
        return self._begin(element_groups, element_groups.rows([start], self.ledger.plans))

    def add_new(self, sides: Sequence[Frame]) -> Frame:
        """Feeds the new rows that the loop begins with, of groups of which it has none yet and none is deleted."""
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
        """Whether any pending rows matter, once they are computed."""
        return self.offered is not None and bool(self.offered.rows)

    def feed_back(self) -> Frame:
        """Feeds back the pending rows of the groups that matter."""
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
        """Ends the batch: adds the rows that it has fed to the ledger."""
        self.fed_before = self.fed
        if self.fed and self.ledger.keys is not None:
            table_of(self.ledger, ElementGroups(self.ledger.keys)).update(union_all([run.relation for run in self.fed]))
            self.fed = []
        self.rests = not self.is_due
        self.repeats = self.repeats and not self.rests
        self.expected, self.steps = [run.rows or 0 for run in self.steps], []

    def forget(self) -> None:
        """Resets what was noted of a batch that is rolled back."""
        self.start()
        self.rests, self.repeats = False, True

    # --- what is pending ----------------------------------------------------------------------

    def compare(self, before: StatesBefore) -> None:
        """Compares the current value of the step with what was fed.

        All that matters is fed back, as long as there are steps. So what has not changed since `before` does not matter
        then, and only what has is compared, unless that is likely to be most of the value.
        """
        little = self.rests and self._changes_little(sum(run.rows or 0 for run in self._fed_before()))
        now = self._of_keys(before if little else None)
        if now is not None:
            # The step may make nothing of rows that the loop begins with.
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
        """The delta rules of the bag's value after a step."""
        return self.changes.circuit.values[self.name]

    def _of_keys(self, before: StatesBefore | None = None) -> OfKeys | None:
        return elements_of_keys(self.changes, self.ledger, self._value, before)

    def _groups(self, different: Relation) -> Relation:
        """The current elements of some keys, and those that were fed of them, as groups."""
        assert self.ledger.keys is not None
        element_groups = ElementGroups(self.ledger.keys)
        return element_groups.groups(different) if self.repeats else element_groups.pairs(different)

    def _fed_before(self) -> list[Run]:
        """The runs that were fed before the batch."""
        return [] if self.ledger.table is None else self.ledger.table.runs

    def _fed_so_far(self) -> list[Relation]:
        return [run.relation for run in (*self._fed_before(), *self.fed)]

    def _pending_since(self, sides: Sequence[Frame]) -> Relation:
        """Adds a change of the step's value to the pending rows, without those that were fed; returns the pending rows
        to compare, group by group."""
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
        """Whether a step is likely to change few of so many rows, as is the first of a batch, or one that was fed few
        rows."""
        return size > compaction.STEPS_MERGED_WHOLE_MAX_ROWS and self._offered_rows() * FED_BACK_MAX_RATIO < size

    def _size_of(self, pending: Table) -> int:
        """The number of pending rows, or the last one that was known."""
        known = [run.rows for run in pending.runs if run.rows is not None]
        if len(known) == len(pending.runs):
            self.size = sum(known)
        return self.size

    def _offered_rows(self) -> int:
        """The number of rows offered last; until they are computed, that of the same step in the previous batch."""
        if self.offered is None:
            return 0
        if self.offered.rows is not None or len(self.steps) > len(self.expected):
            return self.offered.rows or 0
        return self.expected[len(self.steps) - 1]

    def restore(self) -> None:
        """Finds the pending rows, if they are kept, from the value of the step and what was fed, both as restored from
        a checkpoint."""
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
        """The pending rows of the groups that the last step has changed."""
        assert pending.appended is not None
        change = pending.appended.relation
        found = pending.schema.lookup([run.relation for run in pending.runs if run is not pending.appended], change)
        return pending.merged([change] if found is None else [found, change])

    @property
    def residual(self) -> Residual:
        """The residual of the pending rows after the last batch, computed by a job when it is first requested."""
        if self.measured is None:
            groups = self._different()
            self.measured = Residual() if groups is None else self._measured(groups)
        return self.measured

    def _different(self) -> Relation | None:
        """The pending rows, group by group; None if there never were any."""
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
