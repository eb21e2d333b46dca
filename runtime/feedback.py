"""What a loop that is carried over has, on Spark, and what of its changes is fed back to it.

A bag that the loop carries is kept in two tables: what its stream was *fed*, and what is *pending*, that is by how much
the value of the step differs from it (`alike.py`).
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from mrql.rewrite.stages import Feedback
from mrql.runtime.alike import RESIDUAL, Alike, alike_of, matter, table_of
from mrql.runtime.frames import Frame
from mrql.runtime.ledger import Ledger
from mrql.runtime.prepared import Plans
from mrql.runtime.relation import Relation, union_all
from mrql.runtime.residual import Residual
from mrql.runtime.runs import Run
from mrql.runtime.state import Table, weighted


@attrs.define(eq=False)
class Carried:
    """One bag of a loop."""

    feedback: Feedback
    ledger: Ledger
    """What the stream was fed; it is kept in a checkpoint."""
    plans: Plans
    epsilon: float
    keep: Callable[[Relation], Run]
    """Keeps rows until the next batch."""
    pending: Table | None = None
    """By how much the value of the step differs from what was fed, in groups: the elements that are new in one, those
    that are gone, and how far these are from those."""
    offered: Run | None = None
    """What of that matters; it is computed with it."""
    fed: list[Run] = attrs.Factory(list)
    """What the batch has fed so far."""
    measured: tuple[Run, Residual] | None = None
    """How far the groups of a run go, once that was asked."""
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
        self.fed, self.begun, self.offered = [], None, None

    def begin(self, start: Frame) -> Frame:
        """Feeds what the loop begins with."""
        alike = alike_of(self.ledger, start.value)
        return self._begin(alike, alike.rows(start))

    def add_new(self, change: Frame) -> Frame:
        """Feeds what is new of what the loop begins with, where it has nothing alike."""
        alike = alike_of(self.ledger, change.value)
        table, rows = table_of(self.ledger, alike), alike.rows(change)
        known = table.lookup([run.relation for run in table.runs], rows)
        columns = [*alike.keys.names, "w"]
        sides = rows.select(*columns, "w < 0 AS known")
        if known is not None:
            here = table.merged([known], whole=False).where("w > 0")
            sides = sides.union(here.select(*columns, "true AS known"))
        entry = f"IF(known, NULL, struct({', '.join([*alike.numbers, 'w'])}))"
        groups = sides.aggregate(list(alike.by), [f"collect_list({entry}) AS rows", "bool_or(known) AS known"])
        return self._begin(alike, groups.where("NOT known").select(*alike.by, "inline(rows)").select(*columns))

    def _begin(self, alike: Alike, rows: Relation) -> Frame:
        fed = self._feed(alike, self.keep(rows))
        self.begun = fed.df.select(*alike.keys.names, "-w AS w")
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

    # --- what is pending ----------------------------------------------------------------------

    def compare(self, change: Frame) -> None:
        """Adds a change of the step's value to what is pending, and compares that group by group. What is fed back of
        it is pending no more."""
        alike = alike_of(self.ledger, change.value)
        rows = [alike.rows(change)]
        if self.pending is None:
            self.pending = weighted(self.plans, alike.by)
        if self.pending.runs:
            was_fed = self.offered is not None and self.offered in self.fed
            rows.append(alike.of_groups(self._groups, f"NOT {matter(self.epsilon)}" if was_fed else "true"))
        if self.begun is not None:
            rows.append(self.begun)
            self.begun = None
        self.pending.replace(alike.groups(rows))
        self.offered = self.keep(alike.of_groups(self._groups, matter(self.epsilon)))

    def restore(self, value: Frame) -> None:
        """Finds what is pending from the value of the step and what was fed, which were read from a checkpoint."""
        alike = alike_of(self.ledger, value.value)
        self.pending = weighted(self.plans, alike.by)
        fed = [run.relation.select(*alike.keys.names, "-w AS w") for run in table_of(self.ledger, alike).runs]
        self.pending.replace(alike.groups([alike.rows(value), *fed]))

    @property
    def _groups(self) -> Relation:
        assert self.pending is not None
        (run,) = self.pending.runs
        return run.relation

    @property
    def residual(self) -> Residual:
        """How far what is pending goes, after the last batch: a job, when it is first asked."""
        if self.pending is None or not self.pending.runs:
            return Residual()
        (run,) = self.pending.runs
        if self.measured is None or self.measured[0] is not run:
            found = self.plans.dataframe(run.relation.aggregate([], RESIDUAL)).head()
            assert found is not None
            self.measured = run, Residual(found["change"] or 0.0, found["groups"])
        return self.measured[1]
