"""What a loop that is carried over has, on Spark, and what of its changes is fed back to it.

A bag that the loop carries is kept in two tables: what its stream was *fed*, and what is *pending*, that is by how much
the value of the step differs from it (`alike.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from mrql.rewrite.stages import Feedback
from mrql.rewrite.threshold import Threshold
from mrql.runtime import upkeep
from mrql.runtime.alike import RESIDUAL, Alike, alike_of, matter, table_of
from mrql.runtime.frames import Frame
from mrql.runtime.ledger import Ledger
from mrql.runtime.prepared import Plans
from mrql.runtime.relation import Relation, union_all
from mrql.runtime.residual import Residual
from mrql.runtime.runs import Run
from mrql.runtime.state import Table

LITTLE = 20
"""What is fed back is little if what is pending has so many times more rows: each row that is fed changes several."""


@attrs.define(eq=False)
class Carried:
    """One bag of a loop."""

    feedback: Feedback
    ledger: Ledger
    """What the stream was fed; it is kept in a checkpoint."""
    plans: Plans
    threshold: Threshold
    keep: Callable[[Relation], Run]
    """Keeps rows until the next batch."""
    pending: Table | None = None
    """By how much the value of the step differs from what was fed: elements that are new, and elements that are gone.
    Those that are alike lie together."""
    offered: Run | None = None
    """What of that matters; it is computed with it."""
    rests: bool = False
    """Whether nothing matters of what is pending, but for what is offered."""
    again: bool = False
    """Whether the batch has compared before."""
    fed: list[Run] = attrs.Factory(list)
    """What the batch has fed so far."""
    steps: list[Run] = attrs.Factory(list)
    """What was offered in each step of the batch."""
    expected: list[int] = attrs.Factory(list)
    """How many rows that was in the batch before."""
    size: int = 0
    """How many rows are pending, as far as that is known."""
    measured: tuple[list[Run], Residual] | None = None
    """How far what is pending goes, in some runs, once that was asked."""
    begun: Relation | None = None
    """What of it the loop begins with, which is not taken away from what is pending yet."""

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
        self.fed, self.steps, self.begun, self.offered, self.again = [], [], None, None, False

    def begin(self, start: Frame) -> Frame:
        """Feeds what the loop begins with."""
        alike = alike_of(self.ledger, start.value)
        return self._begin(alike, alike.rows([start]))

    def add_new(self, sides: Sequence[Frame]) -> Frame:
        """Feeds what is new of what the loop begins with, where it has nothing alike."""
        alike = alike_of(self.ledger, sides[0].value)
        table = table_of(self.ledger, alike)
        rows = self.keep(table.merged([alike.rows(sides)], whole=False).where("w <> 0")).relation
        known = table.lookup([run.relation for run in table.runs], rows)
        columns = [*alike.keys.names, "w"]
        both = rows.select(*columns, "w < 0 AS known")
        if known is not None:
            here = table.merged([known], whole=False).where("w > 0")
            both = both.union(here.select(*columns, "true AS known"))
        entry = f"IF(known, NULL, struct({', '.join([*alike.numbers, 'w'])}))"
        groups = both.aggregate(list(alike.by), [f"collect_list({entry}) AS rows", "bool_or(known) AS known"])
        return self._begin(alike, groups.where("NOT known").select(*alike.by, "inline(rows)").select(*columns))

    def _begin(self, alike: Alike, rows: Relation) -> Frame:
        fed = self._feed(alike, self.keep(rows))
        self.begun = alike.taken_away(fed.df)
        return fed

    @property
    def is_due(self) -> bool:
        """Whether anything that is pending matters, once that is computed."""
        return self.offered is not None and bool(self.offered.rows)

    def feed_back(self) -> Frame:
        """Feeds what is pending of the groups that matter."""
        assert self.ledger.keys is not None
        assert self.offered is not None
        return self._feed(Alike(self.ledger.keys), self.offered)

    def _feed(self, alike: Alike, run: Run) -> Frame:
        self.fed.append(run)
        return Frame(run.relation, alike.keys.value, "w", changes=True)

    def end(self) -> None:
        """Adds what the batch has fed to what was fed before."""
        if self.fed and self.ledger.keys is not None:
            table_of(self.ledger, Alike(self.ledger.keys)).update(union_all([run.relation for run in self.fed]))
            self.fed = []
        self.rests = not self.is_due
        self.expected, self.steps = [run.rows or 0 for run in self.steps], []

    def forget(self) -> None:
        """Forgets how a batch has ended that is taken back."""
        self.rests = False

    # --- what is pending ----------------------------------------------------------------------

    def compare(self, sides: Sequence[Frame]) -> None:
        """Adds a change of the step's value to what is pending, and compares that group by group. What is fed back of
        it is pending no more.

        All that matters is fed back, as long as there are steps. So what did not change since then does not matter, and
        only the groups of the change are looked up, unless these are most of them.
        """
        alike = alike_of(self.ledger, sides[0].value)
        rows = [alike.rows(sides)]
        if self.offered is not None and self.offered in self.fed:
            rows.append(alike.taken_away(self.offered.relation))
        if self.begun is not None:
            rows.append(self.begun)
            self.begun = None
        pending = self._pending_in(alike)
        pending.is_passing = not (self.rests and self._changes_little(pending))
        if not pending.is_passing:
            pending.append(union_all(rows), again=self.again, as_it_is=True)
            different = self._changed(pending)
        else:
            pending.merge(union_all(rows))
            different = self._all(pending)
        self.offered = self.keep(alike.of_groups(alike.groups(different), matter(self.threshold)))
        self.steps.append(self.offered)
        self.rests = self.again = True

    def _changes_little(self, pending: Table) -> bool:
        """Whether a step is likely to change few of many groups, as the first of a batch is, or one that little was fed
        to."""
        known = [run.rows for run in pending.runs if run.rows is not None]
        if len(known) == len(pending.runs):
            self.size = sum(known)
        return self.size > upkeep.STEPWISE and self._offered_rows() * LITTLE < self.size

    def _offered_rows(self) -> int:
        """The rows that were offered last; while they are computed, as many as in that step of the batch before."""
        if self.offered is None:
            return 0
        if self.offered.rows is not None or len(self.steps) > len(self.expected):
            return self.offered.rows or 0
        return self.expected[len(self.steps) - 1]

    def restore(self, value: Frame) -> None:
        """Finds what is pending from the value of the step and what was fed, which were read from a checkpoint."""
        alike = alike_of(self.ledger, value.value)
        fed = [alike.taken_away(run.relation) for run in table_of(self.ledger, alike).runs]
        pending = self._pending_in(alike)
        pending.replace(pending.merged([alike.rows([value]), *fed]))

    def _pending_in(self, alike: Alike) -> Table:
        if self.pending is None:
            self.pending = alike.table(self.plans)
            self.pending.shrinks = True
        return self.pending

    @staticmethod
    def _all(pending: Table) -> Relation:
        return pending.current([run.relation for run in pending.runs])

    @staticmethod
    def _changed(pending: Table) -> Relation:
        """What is pending in the groups that the last step has changed."""
        assert pending.appended is not None
        change = pending.appended.relation
        found = pending.lookup([run.relation for run in pending.runs if run is not pending.appended], change)
        return pending.merged([change] if found is None else [found, change])

    @property
    def residual(self) -> Residual:
        """How far what is pending goes, after the last batch: a job, when it is first asked."""
        if self.pending is None or not self.pending.runs:
            return Residual()
        assert self.ledger.keys is not None
        if self.measured is None or self.measured[0] != self.pending.runs:
            groups = Alike(self.ledger.keys).groups(self._all(self.pending))
            found = self.plans.dataframe(groups.aggregate([], RESIDUAL)).head()
            assert found is not None
            residual = Residual(found["change"] or 0.0, found["groups"], found["distance"] or 0.0)
            self.measured = list(self.pending.runs), residual
        return self.measured[1]
