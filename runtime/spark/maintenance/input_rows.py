"""What is there of a stream that can lose rows again: each row with how often it is there.

A state of aggregates cannot tell a row that was there from one that never was: taking away `(k, 5)` from the sum of
a key leaves some sum either way. So the rows themselves are kept, and only those that a batch takes away are looked up:
in the batch's own job, which is taken back if one of them is missing.
"""

from __future__ import annotations

import attrs

from mrql.algebra.types import Type
from mrql.runtime.engine.residual import is_number
from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.layout import Layout, atoms
from mrql.runtime.spark.relation.frame import Columns, Frame, netted, raise_if_missing
from mrql.runtime.spark.relation.keys import Keys
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.state.run import Run
from mrql.runtime.spark.state.table import Table, weighted


@attrs.define
class Ledger:
    """The rows of one stream, as a table of `(row…, weight)`."""

    stream: str
    item: Type
    plans: Plans
    in_groups: bool = False
    """Whether rows that are alike but for their numbers lie together (`element_groups.py`)."""
    table: Table | None = None
    keys: Keys | None = None
    missing: Run | None = None
    """The rows that the batch takes away and that are not there, which there should be none of."""

    def keys_like(self, value: Layout) -> Keys:
        """Rows in the layout of one of them as the columns of keys."""
        numbers = (i for i, atom in enumerate(atoms(value)) if self.in_groups and is_number(atom.type))
        return Keys(value, "r", frozenset(numbers))

    def record(self, change: Frame) -> Frame:
        """Adds a batch, and returns it without the rows that come and go in it: those are not to be evaluated, for the
        query need not have a value for them. Whether what it takes away is there, `check` says."""
        if self.table is None or self.keys is None:
            self.keys = self.keys_like(canonical(Expressions(), change.value))
            self.table = weighted(self.plans, self.keys.names)
        rows = self.keys.rows(change)
        self.table.shrinks |= change.weight is not None
        latest = self.table.append(self.table.partitioned(rows)).relation
        self.missing = None if change.weight is None else self._missing(latest)
        return Frame(latest.where("w <> 0"), self.keys.value, "w", changes=True) if change.mixed else change

    def _missing(self, latest: Relation) -> Run:
        """What is left below nothing of the rows that a batch takes away."""
        assert self.table is not None
        found = self.table.lookup(self.table.relations, latest.where("w < 0"))
        assert found is not None
        return Run.of(self.plans, found.aggregate(self.table.keys, ["sum(w) AS w"]).where("w < 0"))

    def check(self) -> None:
        """Looks whether what the batch takes away was there; that is known once the batch is computed, or computed now.

        Raises: MissingRow when it was not.
        """
        missing = self.missing
        if missing is None or self.keys is None:
            return
        if missing.rows is None:
            missing.rows = self.plans.count(missing.relation)
        if missing.rows:
            raise_if_missing(self.stream, Frame(missing.relation, self.keys.value, "w"), self.plans.spark)


def without_passing(rows: Frame, columns: Columns) -> Frame:
    """A batch without the rows that come and go in it, where there may be such."""
    if not rows.mixed:
        return rows
    return netted(attrs.evolve(rows, value=canonical(Expressions(), rows.value)), columns)
