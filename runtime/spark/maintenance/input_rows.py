"""The ledger of a stream with deletions: its current rows, each with the number of times that it occurs.

A state of aggregates cannot tell whether a deleted row was ever there: subtracting `(k, 5)` from the sum of a key
leaves some sum either way. So the current rows are kept, and those that a batch deletes are looked up, in the batch's
own job; the batch is rolled back if one of them is missing.

Of a row of basic values two hashes of 64 bits are kept, its *digest*: a lookup joins by one number, and reads one
column of large runs, whatever columns the row has. Two rows have the same digest with a chance of one in 2¹²⁸; a wrong
deletion is accepted only if its row has the digest of a row that is there. Other rows (with bags in them) are kept as
they are, since Spark's hash does not tell a missing element from none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import Known
from mrql.algebra.types import Type
from mrql.rewrite.plan.operators import Access
from mrql.runtime.engine.residual import is_number
from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.layout import Layout, atoms, taken_apart
from mrql.runtime.spark.relation.frame import ColumnNames, Frame, netted, raise_if_missing
from mrql.runtime.spark.relation.keys import Keys
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.state.run import Run
from mrql.runtime.spark.state.table import Table
from mrql.runtime.spark.state.table_schema import TableSchema

DIGEST = ("digest0", "digest1")
"""The columns of a digest. Rows are partitioned and looked up by the first of them."""


@attrs.define
class Ledger:
    """The rows of one stream, or their digests, as a table of `(row…, weight)`."""

    stream: str
    item: Type
    known: Known
    """Which of the tuples in a row may be missing as a whole."""
    plans: Plans
    access: Access
    """How batches read and change it."""
    in_groups: bool = False
    """Whether the rows themselves are kept, those that are alike but for their numbers together
    (`element_groups.py`)."""
    table: Table | None = None
    keys: Keys | None = None
    batch: Run | None = None
    """The netted rows of the batch, if it may have both insertions and deletions."""
    missing: Run | None = None
    """The rows that the batch deletes and that are not there, of which there should be none."""
    arrived: Relation | None = None
    """The rows of the batch with their digests, to say which of them is missing."""

    def keys_like(self, value: Layout) -> Keys:
        """The columns for rows in the layout of one of them, as keys."""
        value = taken_apart(value, self.known)
        numbers = (i for i, atom in enumerate(atoms(value)) if self.in_groups and is_number(atom.type))
        return Keys(value, "r", frozenset(numbers))

    def begin(self) -> None:
        """Forgets the previous batch."""
        self.batch = self.missing = self.arrived = None

    def planned(self) -> Iterator[Run]:
        """The runs that the batch keeps besides the table, to be computed with it."""
        yield from (run for run in (self.batch, self.missing) if run is not None)

    def record(self, change: Frame) -> Frame:
        """Adds a batch, and returns it without the rows that it both inserts and deletes: they are not to be evaluated,
        for the query need not have a value for them. Whether the rows that it deletes are there, `check` says."""
        if self.table is None or self.keys is None:
            self.keys = self.keys_like(canonical(Expressions(), change.value))
            self.table = self._table(self.keys)
        rows, digested = self.keys.rows(change), self._is_digested(self.keys)
        self.arrived = rows.select("*", *self._digests(self.keys)) if digested else rows
        if change.mixed:
            # Moved to the partitions of its digests: the lookup need not move it again.
            moved = self.table.partitioned(self.arrived) if digested else self.arrived
            self.batch = _netted(moved, self.keys, self.plans, DIGEST if digested else ())
            rows = self.arrived = self.batch.relation
        self.table.shrinks |= change.weight is not None
        kept = self.arrived.select(*self.table.schema.keys, "w")
        # A netted batch has no equal rows; two with one digest are added up when they are looked up.
        latest = self.table.append(self.table.partitioned(kept), as_it_is=change.mixed).relation
        self.missing = None if change.weight is None else self._missing(latest)
        return Frame(rows, self.keys.value, "w", changes=True) if change.mixed else change

    def restore(self, keys: Layout, table: Table) -> None:
        """Restores what a checkpoint has: rows, or their digests."""
        self.keys, self.table = self.keys_like(keys), table
        if self._is_digested(self.keys) and table.schema.keys != DIGEST:
            (run,) = table.runs
            self.table = self._table(self.keys)
            self.table.shrinks = table.shrinks
            digests = run.relation.select(*self._digests(self.keys), "w")
            self.table.replace(self.table.merged([self.table.partitioned(digests)]))
            # The runs of the checkpoint have other columns: the next commit writes the whole table.
            self.table.appended, self.table.log.changes = self.table.runs[0], 2
            self.table.batch.replaced = [run]

    def _is_digested(self, keys: Keys) -> bool:
        return not self.in_groups and all(isinstance(atom.type, ty.Basic) for atom in atoms(keys.shape))

    def _table(self, keys: Keys) -> Table:
        if self._is_digested(keys):
            schema = TableSchema.weighted(DIGEST, DIGEST[:1], gathers=False)
        else:
            schema = TableSchema.weighted(keys.names)
        return Table(self.plans, schema, access=self.access)

    @staticmethod
    def _digests(keys: Keys) -> list[str]:
        """The digest of a row, in SQL: two hashes, of which the second begins with a constant."""
        named = ", ".join(keys.names)
        return [f"xxhash64({named}) AS {DIGEST[0]}", f"xxhash64(1L, {named}) AS {DIGEST[1]}"]

    def _missing(self, latest: Relation) -> Run:
        """The rows that a batch deletes and whose weight is then negative."""
        assert self.table is not None
        found = self.table.lookup(latest.where("w < 0"))
        assert found is not None
        return Run.of(self.plans, found.aggregate(self.table.schema.keys, ["sum(w) AS w"]).where("w < 0"))

    def check(self) -> None:
        """Checks that the rows that the batch deletes were there: known once the batch is computed, or computed now.

        Raises: MissingRow when it was not.
        """
        if self.missing is None or self.table is None or self.keys is None:
            return
        if self.missing.rows is None:
            self.missing.rows = self.plans.count(self.missing.relation)
        if self.missing.rows:
            assert self.arrived is not None
            rows = self.missing.relation
            if self._is_digested(self.keys):
                named = self.arrived.select(*self.keys.names, *DIGEST)
                short = rows.select(*(f"{name} AS missing_{name}" for name in DIGEST), "w")
                rows = short.join(named, " AND ".join(f"{name} = missing_{name}" for name in DIGEST))
            raise_if_missing(self.stream, Frame(rows, self.keys.value, "w"), self.plans.spark)


def left_of(batch: Frame, keys: Keys, plans: Plans) -> Run:
    """A batch with insertions and deletions, netted and computed once: each row with its weight `w`."""
    return _netted(keys.rows(batch), keys, plans)


def _netted(rows: Relation, keys: Keys, plans: Plans, more: Sequence[str] = ()) -> Run:
    """Rows with their weights added up, those of weight 0 left out; columns `more` depend on the row."""
    return Run.of(plans, rows.aggregate([*more, *keys.names], ["sum(w) AS w"]).where("w <> 0"))


def without_passing(rows: Frame, columns: ColumnNames) -> Frame:
    """A batch without the rows that it both inserts and deletes, if there may be such."""
    if not rows.mixed:
        return rows
    return netted(attrs.evolve(rows, value=canonical(Expressions(), rows.value)), columns)
