"""What is there of a stream that can lose rows again: each row with how often it is there.

A state of aggregates cannot tell a row that was there from one that never was: taking away `(k, 5)` from the sum of
a key leaves some sum either way. So the rows themselves are kept, and only those that a batch takes away are looked up.
"""

from __future__ import annotations

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mrql.algebra.errors import MissingRow
from mrql.algebra.types import Type
from mrql.runtime import jvm
from mrql.runtime.collect import from_spark
from mrql.runtime.expressions import Expressions, canonical
from mrql.runtime.frames import Columns, Frame, expanded, fit, netted, numbered, union_all
from mrql.runtime.layout import Layout, atoms, to_sql, unquote, with_columns
from mrql.runtime.state import Table, weighted


@attrs.define
class Ledger:
    """The rows of one stream, as a table of `(row…, weight)`."""

    stream: str
    item: Type
    table: Table | None = None
    shape: Layout | None = None

    def record(self, change: Frame) -> None:
        """Adds a batch.

        Raises: MissingRow when the batch takes away what is not there.
        """
        value = canonical(Expressions(), change.value)
        if self.table is None or self.shape is None:
            self.shape = with_columns(value, numbered("r"))
            names = tuple(unquote(atom) for atom in atoms(self.shape))
            self.table = weighted(names)
        fitted = zip(atoms(fit(value, self.shape)), atoms(self.shape), strict=True)
        named = [f"{old.sql} AS {new.sql}" for old, new in fitted]
        rows = change.df.selectExpr(*named, f"CAST({change.weight or '1L'} AS BIGINT) AS w")
        self.table.shrinks |= change.weight is not None
        latest = self.table.append(self.table.partitioned(rows)).df
        if change.weight is not None:
            self._check(latest)

    def _check(self, latest: DataFrame) -> None:
        assert self.table is not None
        assert self.shape is not None
        keys = self.table.keys
        taken = latest.where("w < 0").select(*(jvm.column(f"{key} AS t_{key}") for key in keys))
        same = " AND ".join(f"{key} <=> t_{key}" for key in keys) or "true"
        found = union_all([run.df for run in self.table.runs]).join(F.broadcast(taken), jvm.column(same), "left_semi")
        left = found.groupBy(*keys).agg(jvm.column("sum(w) AS w"))
        _must_be_there(self.stream, Frame(left, self.shape, "w"))


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
