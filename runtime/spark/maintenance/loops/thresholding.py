"""Changes of a derived stream that are held back from the stages that read it, because they are too small.

A stage that reads the stream has been given all its rows but those that are *withheld*. A batch's change is added to
these; of what does not cancel out, the groups of elements that are off by more than a threshold are passed on, and the
others are withheld (`element_groups.py`, `residual.py`). So what the stage reads is never off by more than the
threshold.

If each key of a state makes one element, and tells it from others, the rows that were *passed on* are kept instead: the
current elements of the touched keys are compared with these, and the elements before the batch need not be known.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from mrql.algebra.terms import element_type
from mrql.rewrite.plan.delta_rules import DeltaRules
from mrql.rewrite.plan.plan import DerivedStream
from mrql.runtime.engine.residual import Residual
from mrql.runtime.spark.expressions.expressions import Expressions
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
from mrql.runtime.spark.relation.frame import Frame, signed
from mrql.runtime.spark.relation.relation import Relation, union_all
from mrql.runtime.spark.state.run import Run


@attrs.define(eq=False)
class ResidualChanges:
    """The changes of one derived stream that are held back."""

    derived: DerivedStream
    changes: Deltas
    ledger: Ledger
    """The rows that are withheld, or those that were passed on; they are kept in a checkpoint."""
    measured: tuple[list[Run], Residual] | None = None
    """The residual of what is withheld, with the runs that it is of, once it was requested."""

    # --- a batch ------------------------------------------------------------------------------

    def passed_on(self, before: StatesBefore) -> Frame:
        """The part that matters of the change of the stream since `before` and of what was withheld then."""
        rules = self._rules
        now = self._of_keys(before)
        if now is not None:
            return self._passed_on_of_keys(now)
        if before.is_start:
            return self._passed_on([self.changes.since(rules, before)])
        return self._passed_on(self.changes.sides_since(rules, before))

    def _passed_on(self, change: Sequence[Frame]) -> Frame:
        """Compares only the groups of the change: no others have changed, and none of those mattered before."""
        element_groups = element_groups_of(self.ledger, change[0].value)
        table, rows = table_of(self.ledger, element_groups), self._kept(element_groups.rows(change, self.ledger.plans))
        found = table.lookup(rows)
        groups = element_groups.groups(table.merged([rows] if found is None else [found, rows]))
        passed = self._kept(element_groups.of_groups(groups, matter(self.derived.threshold)))
        table.append(union_all([rows, element_groups.taken_away(passed)]), as_it_is=True)
        return Frame(passed, element_groups.keys.value, "w", changes=True)

    def _passed_on_of_keys(self, now: OfKeys) -> Frame:
        """Compares the elements of some keys with those passed on of them, for which only these keys are looked up."""
        element_groups = element_groups_of(self.ledger, now.elements.value)
        table = table_of(self.ledger, element_groups)
        groups = element_groups.pairs(against(table.relations, now, self.ledger))
        matters = element_groups.of_groups(groups, matter(self.derived.threshold))
        passed = table.append(matters, as_it_is=True).relation
        return Frame(passed, element_groups.keys.value, "w", changes=True)

    @property
    def _rules(self) -> DeltaRules:
        return self.changes.circuit.derived[self.derived.name]

    def _of_keys(self, before: StatesBefore | None = None) -> OfKeys | None:
        return elements_of_keys(self.changes, self.ledger, self._rules, before)

    def _kept(self, rows: Relation) -> Relation:
        return self.changes.kept(rows).relation

    # --- what there is ------------------------------------------------------------------------

    def so_far(self) -> Frame:
        """All rows that the stages have been given; if these are not known, they are given all that there are."""
        whole = self._of_keys()
        kept = self._rows_kept()
        if kept is None:
            return self.changes.whole(self.derived.term) if whole is None else self._passed_on_of_keys(whole)
        term = self.derived.term
        frames = [self.changes.whole(term), signed(kept, -1, Expressions())] if whole is None else [kept]
        return self.changes.added(frames, element_type(term))

    def _rows_kept(self) -> Frame | None:
        if self.ledger.table is None or self.ledger.keys is None:
            return None
        return Frame(union_all(self.ledger.table.relations), self.ledger.keys.value, "w", changes=True)

    @property
    def is_measured(self) -> bool:
        """Whether the residual of what is withheld is known."""
        runs = [] if self.ledger.table is None else self.ledger.table.runs
        return not runs or (self.measured is not None and self.measured[0] == runs)

    def compared(self) -> Relation:
        """The withheld rows, group by group."""
        assert self.ledger.table is not None
        assert self.ledger.keys is not None
        element_groups, table, whole = ElementGroups(self.ledger.keys), self.ledger.table, self._of_keys()
        if whole is None:
            return element_groups.groups(table.current(table.relations))
        return element_groups.pairs(against(table.relations, whole, self.ledger)).where("difference > 0")


def residuals(streams: Sequence[ResidualChanges]) -> list[Residual]:
    """How far each stream is off by what is withheld of it, computed by a job when first requested after a batch."""
    unknown = [each for each in streams if not each.is_measured]
    if unknown:
        sides = [each.compared().select(f"{i} AS number", "difference", "distance") for i, each in enumerate(unknown)]
        measured = unknown[0].changes.plans.dataframe(union_all(sides).aggregate(["number"], RESIDUAL))
        found = {row["number"]: Residual(row["change"], row["groups"], row["distance"]) for row in measured.collect()}
        for i, each in enumerate(unknown):
            assert each.ledger.table is not None
            each.measured = list(each.ledger.table.runs), found.get(i, Residual())
    return [each.measured[1] if each.measured is not None else Residual() for each in streams]
