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
        lambda self: Ledger(self.derived.name, element_type(self.derived.stream), self.plans, in_groups=True),
        takes_self=True,
    )
    """The rows that are withheld; they are kept in a checkpoint."""
    measured: tuple[list[Run], Residual] | None = None
    """How far what is withheld goes, in some runs, once that was asked."""

    def passed_on(self, sides: Sequence[Frame]) -> Frame:
        """What matters of a change, and of what was withheld before. Only the groups of the change are compared: no
        other has changed, and none of them mattered before."""
        alike = alike_of(self.ledger, sides[0].value)
        table, by_alike = table_of(self.ledger, alike), alike.rows(sides)
        change_run = self.keep(by_alike).relation
        found = table.lookup([run.relation for run in table.runs], change_run)
        changed = [change_run] if found is None else [found, change_run]
        groups = alike.groups(table.merged(changed))
        passed = self.keep(alike.of_groups(groups, matter(self.derived.threshold))).relation
        table.append(union_all([change_run, passed.select(*alike.keys.names, "-w AS w")]), as_it_is=True)
        return Frame(passed, alike.keys.value, "w", changes=True)

    def rows(self) -> Frame | None:
        """What is withheld."""
        if self.ledger.table is None or self.ledger.keys is None:
            return None
        rows = union_all([run.relation for run in self.ledger.table.runs])
        return Frame(rows, self.ledger.keys.value, "w", changes=True)

    @property
    def is_measured(self) -> bool:
        """Whether it is known how far what is withheld goes."""
        runs = [] if self.ledger.table is None else self.ledger.table.runs
        return not runs or (self.measured is not None and self.measured[0] == runs)

    def compared(self) -> Relation:
        """What is withheld, group by group."""
        assert self.ledger.table is not None
        assert self.ledger.keys is not None
        table = self.ledger.table
        return Alike(self.ledger.keys).groups(table.current([run.relation for run in table.runs]))


def residuals(withheld: Sequence[Withheld]) -> list[Residual]:
    """How far each stream is off by what is withheld of it: a job, when it is first asked after a batch."""
    unknown = [each for each in withheld if not each.is_measured]
    if unknown:
        sides = [each.compared().select(f"{i} AS number", "difference", "distance") for i, each in enumerate(unknown)]
        measured = unknown[0].plans.dataframe(union_all(sides).aggregate(["number"], RESIDUAL))
        found = {row["number"]: Residual(row["change"], row["groups"], row["distance"]) for row in measured.collect()}
        for i, each in enumerate(unknown):
            assert each.ledger.table is not None
            each.measured = list(each.ledger.table.runs), found.get(i, Residual())
    return [each.measured[1] if each.measured is not None else Residual() for each in withheld]
