"""What of the changes of a derived stream is kept back from the stages that read it, because it is too little.

A stage that reads the stream has been given all but what is *withheld*. A batch's change is added to that; of what does
not cancel out, the groups of elements that are off by more than a threshold are passed on, and the others are withheld
(`alike.py`, `residual.py`). So what the stage reads is never off by more than the threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from mrql.algebra.terms import element_type
from mrql.rewrite.stages import Derived
from mrql.runtime.alike import RESIDUAL, Alike, alike_of, matter, table_of
from mrql.runtime.frames import Frame
from mrql.runtime.ledger import Ledger
from mrql.runtime.prepared import Plans
from mrql.runtime.relation import Relation, union_all
from mrql.runtime.residual import Residual
from mrql.runtime.runs import Run


@attrs.define(eq=False)
class Withheld:
    """What is kept back of one derived stream."""

    derived: Derived
    plans: Plans
    keep: Callable[[Relation], Run]
    """Keeps rows until the next batch."""
    ledger: Ledger = attrs.Factory(
        lambda self: Ledger(self.derived.name, element_type(self.derived.stream), self.plans), takes_self=True
    )
    """The rows that are withheld; they are kept in a checkpoint."""
    groups: Run | None = None
    """Those that the last batch has compared, where there are any."""
    residual: Residual = Residual()

    def passed_on(self, change: Frame) -> Frame:
        """What matters of a change, and of what was withheld before."""
        alike = alike_of(self.ledger, change.value)
        table, due = table_of(self.ledger, alike), matter(self.derived.threshold)
        groups = self._compared(alike, [alike.rows(change), *(run.relation for run in table.runs)]).relation
        table.replace(alike.of_groups(groups, f"NOT {due}"))
        return Frame(alike.of_groups(groups, due), alike.keys.value, "w", changes=True)

    def rows(self) -> Frame | None:
        """What is withheld."""
        if self.ledger.table is None or self.ledger.keys is None:
            return None
        rows = union_all([run.relation for run in self.ledger.table.runs])
        return Frame(rows, self.ledger.keys.value, "w", changes=True)

    def restore(self) -> None:
        """Compares what was read from a checkpoint."""
        if self.ledger.table is not None and self.ledger.keys is not None:
            alike = Alike(self.ledger.keys)
            self._compared(alike, [run.relation for run in self.ledger.table.runs])

    def _compared(self, alike: Alike, rows: Sequence[Relation]) -> Run:
        self.groups = self.keep(alike.groups(table_of(self.ledger, alike).merged(rows)))
        return self.groups


def measure(withheld: Sequence[Withheld]) -> None:
    """Measures how far the streams are off that the last batch has changed, once what is withheld is computed."""
    compared = [(each, groups.relation) for each in withheld if (groups := each.groups) is not None]
    if compared:
        sides = [
            groups.where(f"NOT {matter(each.derived.threshold)}").select(f"{i} AS number", "difference", "distance")
            for i, (each, groups) in enumerate(compared)
        ]
        measured = compared[0][0].plans.dataframe(union_all(sides).aggregate(["number"], RESIDUAL))
        found = {row["number"]: Residual(row["change"], row["groups"], row["distance"]) for row in measured.collect()}
        for i, (each, _) in enumerate(compared):
            each.residual, each.groups = found.get(i, Residual()), None
