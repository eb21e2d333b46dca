"""How a large run is kept: by columns, or gathered by key.

Where many rows have one key, as those of a join's input do, they are gathered: a row for each key, with all else in an
array. A change looks up each of its keys once, and the rows of all other keys are not looked at; a join of a million
rows with a hundred for each key takes a third of the time. Any other large run is kept by columns, compressed.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.runtime import jvm
from mrql.runtime.prepared import Checkpoint, Plans
from mrql.runtime.relation import Gathering, Relation

MANY = 4
"""Rows are gathered where there are so many for each key, on average."""

MOST = 100_000
"""They are not where one key has more than so many: its array would be a row that no task can share with another."""


@attrs.define(eq=False, slots=False)
class Gathered:
    """Rows that are kept in one row for each key; that is what it has as a leaf of plans."""

    plans: Plans
    checkpoint: Checkpoint
    gathering: Gathering

    @staticmethod
    def of(plans: Plans, rows: Relation, gathering: Gathering) -> Gathered:
        """The same rows, to be kept when they are computed."""
        return Gathered(plans, plans.checkpoint(rows.gathered(gathering), small=False), gathering)

    @property
    def spark(self) -> SparkSession:
        """The session that keeps them."""
        return self.plans.spark

    @property
    def rdd(self) -> Any:
        """Spark's handle of the rows."""
        return self.checkpoint.rdd

    @property
    def signature(self) -> str:
        """The columns and the partitioning."""
        return self.checkpoint.shape.signature

    @property
    def shape(self) -> jvm.Shape | None:
        """The same as Spark has it, where it says of each row which partition it is in."""
        return self.checkpoint.shape if self.checkpoint.shape.is_by_key else None

    @cached_property
    def df(self) -> DataFrame:
        """A row for each key."""
        return self.checkpoint.shape.over(self.spark, self.rdd)

    @cached_property
    def relation(self) -> Relation:
        """The rows as they were before."""
        return Relation.kept(self).opened(self.gathering)

    def free(self) -> None:
        """Frees the rows."""
        self.checkpoint.free()


@attrs.frozen
class Packing:
    """The ways to keep the rows of a checkpoint that may be large, none of them computed yet."""

    rows: Any
    """Spark's handle of them."""
    columnar: jvm.Columnar
    gathered: Gathered | None
    """Where they may be gathered by a key."""
    keys: Any = None
    """Spark's handle of a row for each key then."""
    crowded: Any = None
    """That of the keys that have too many rows."""

    @staticmethod
    def of(plans: Plans, rows: Any, relation: Relation, df: DataFrame, gathering: Gathering | None) -> Packing:
        """For the rows of a handle, which are those of a relation and of a DataFrame."""
        columnar = jvm.Columnar.of(df)
        if gathering is None:
            return Packing(rows, columnar, None)
        counts = relation.aggregate(gathering.by, ["count(1) AS n"])
        keys, crowded = plans.rdd(counts), plans.rdd(counts.where(f"n > {MOST}"))
        return Packing(rows, columnar, Gathered.of(plans, relation, gathering), keys, crowded)

    def compute(self, tasks: int) -> tuple[jvm.Columnar | Gathered, int]:
        """Computes the rows, in so many tasks at most, and keeps them in the better way; returns their number too."""
        rows = jvm.compute(self.rows, tasks)
        if self.gathered is not None and self._should_be_gathered(rows, tasks):
            self.columnar.free()
            jvm.compute(self.gathered.rdd, tasks)
            return self.gathered, rows
        if self.gathered is not None:
            self.gathered.free()
        self.columnar.compute(tasks)
        return self.columnar, rows

    def _should_be_gathered(self, rows: int, tasks: int) -> bool:
        return MANY * jvm.compute(self.keys, tasks) <= rows and not jvm.compute(self.crowded, tasks)

    def free(self) -> None:
        """Frees what was computed."""
        self.columnar.free()
        if self.gathered is not None:
            self.gathered.free()
