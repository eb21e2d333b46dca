"""The current rows of a keyed stream, whose rows replace each other: one row for each key.

A batch has rows to insert and deletions by key, in any order. Of those of one key the last one counts, by its version.
It is compared with the current row of the key: the change that the query gets is the deletion of that one and the
insertion of the new one. The current rows are partitioned by key (`state/table.py`), so that those of the touched keys
are looked up; they are a weighted bag, to which the change is added like to any other.

With a version, a deleted key keeps a row with nothing but its key and version, marked as `gone`: an older row that
arrives later does not bring it back. `relation/keyed_columns.py` says how a row replaces another.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from mrql.algebra.row_key import RowKey
from mrql.rewrite.plan.operators import Access
from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.layout import Layout
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.relation.keyed_columns import KeyedColumns
from mrql.runtime.spark.relation.keys import Keys
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.state.run import Run
from mrql.runtime.spark.state.table import Table
from mrql.runtime.spark.state.table_schema import TableSchema


@attrs.define
class UpsertedRows:
    """The rows of one stream by their keys, as a table of `(row…, gone, weight)`."""

    stream: str
    key: RowKey
    plans: Plans
    access: Access
    """How batches read and change it."""
    table: Table | None = None
    columns: KeyedColumns | None = None
    latest: Run | None = None
    """The last row of each key of the batch."""
    beside: Run | None = None
    """The same, each beside the row that its key had before."""
    wrong: Run | None = None
    """Those of them with a fault, of which there should be none."""

    @property
    def keys(self) -> Keys | None:
        return None if self.columns is None else self.columns.keys

    def begin(self) -> None:
        """Forgets the previous batch."""
        self.latest = self.beside = self.wrong = None

    def planned(self) -> Iterator[Run]:
        """The runs that the batch keeps besides the table, to be computed with it."""
        yield from (run for run in (self.latest, self.beside, self.wrong) if run is not None)

    def record(self, change: Frame) -> Frame:
        """Adds a batch, and returns the change by it. Whether it is known which row replaces which, `check` says."""
        if self.table is None or self.columns is None:
            self.columns = KeyedColumns.of(self.key, canonical(Expressions(), change.value))
            schema = TableSchema.weighted(self.columns.all, self.columns.of_key, gathers=False)
            self.table = Table(self.plans, schema, shrinks=True, access=self.access)
        columns = self.columns
        self.latest = Run.of(self.plans, columns.latest(self.table.partitioned(columns.rows(change))))
        found = self.table.lookup(self.latest.relation)
        if found is None:
            decided, moved = self.latest.relation, columns.come(self.latest.relation)
        else:
            self.beside = Run.of(self.plans, columns.beside(self.latest.relation, found))
            decided, moved = self.beside.relation, columns.moved(self.beside.relation)
        self.wrong = Run.of(self.plans, decided.where("fault > 0"))
        return columns.there(self.table.append(self.table.partitioned(moved), as_it_is=True).relation)

    def current(self) -> Frame:
        """The current rows."""
        assert self.table is not None
        assert self.columns is not None
        rows = self.table.scan()
        assert rows is not None
        return self.columns.there(rows)

    def restore(self, keys: Layout, table: Table) -> None:
        """Restores the rows that a checkpoint has."""
        self.columns = KeyedColumns.of(self.key, keys)
        self.table = attrs.evolve(table, schema=attrs.evolve(table.schema, gathers=False))

    def check(self) -> None:
        """Checks that it is known which row replaces which; that is found once the batch is computed, or computed now.

        Raises: AmbiguousRow, MissingVersion.
        """
        if self.wrong is None or self.columns is None:
            return
        if self.wrong.rows is None:
            self.wrong.rows = self.plans.count(self.wrong.relation)
        if self.wrong.rows:
            self.columns.check(self.stream, self.wrong.relation, self.plans.spark)
