"""What is there of a stream that can lose rows again: each row with how often it is there.

A state of aggregates cannot tell a row that was there from one that never was: taking away `(k, 5)` from the sum of
a key leaves some sum either way. So the rows themselves are kept, and only those that a batch takes away are looked up.
"""

from __future__ import annotations

import attrs
from pyspark.sql import DataFrame

from mrql.algebra.errors import MissingRow
from mrql.algebra.types import Type
from mrql.runtime import jvm
from mrql.runtime.collect import from_spark
from mrql.runtime.expressions import Expressions, canonical
from mrql.runtime.frames import Columns, Frame, expanded, netted
from mrql.runtime.keys import Keys
from mrql.runtime.layout import to_sql
from mrql.runtime.state import Table, weighted


@attrs.define
class Ledger:
    """The rows of one stream, as a table of `(row…, weight)`."""

    stream: str
    item: Type
    table: Table | None = None
    keys: Keys | None = None

    def record(self, change: Frame) -> None:
        """Adds a batch.

        Raises: MissingRow when the batch takes away what is not there.
        """
        value = canonical(Expressions(), change.value)
        if self.table is None or self.keys is None:
            self.keys = Keys(value, "r")
            self.table = weighted(self.keys.names)
        rows = change.df.selectExpr(*self.keys.columns(value), f"CAST({change.weight or '1L'} AS BIGINT) AS w")
        self.table.shrinks |= change.weight is not None
        latest = self.table.append(self.table.partitioned(rows)).df
        if change.weight is not None:
            self._check(latest)

    def _check(self, latest: DataFrame) -> None:
        assert self.table is not None
        assert self.keys is not None
        found = self.table.lookup([run.df for run in self.table.runs], latest.where("w < 0"))
        assert found is not None
        left = found.groupBy(*self.table.keys).agg(jvm.column("sum(w) AS w"))
        _must_be_there(self.stream, Frame(left, self.keys.value, "w"))


def net(stream: str, rows: Frame, columns: Columns) -> Frame:
    """What is left of rows with weights.

    Raises: MissingRow when one is taken away that is not there.
    """
    if rows.weight is None:
        return rows
    left = netted(attrs.evolve(rows, value=canonical(Expressions(), rows.value)), columns)
    _must_be_there(stream, left)
    return expanded(left, columns)


def _must_be_there(stream: str, rows: Frame) -> None:
    missing = (
        rows.df.where(f"{rows.weight} < 0").selectExpr(f"{to_sql(rows.value)} AS row", f"{rows.weight} AS w").head()
    )
    if missing is not None:
        raise MissingRow(stream, from_spark(missing["row"], rows.value.type), -missing["w"])
