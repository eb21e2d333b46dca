"""Runs, of which a state consists: rows that are kept until they are freed, large ones in a layout of their own.

Where many rows share a key, as in a join's input, they are gathered: one row for each key, with the other columns in an
array. A change looks up each of its keys once, and the rows of all other keys are not read; a join of a million rows, a
hundred for each key, takes a third of the time. Other large runs in which batches look up rows are kept in blocks
(`block_index.py`), or row by row. All others are kept by columns, compressed: a tenth of the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark import jvm
from mrql.runtime.spark.relation.persisted_rows import Gathering
from mrql.runtime.spark.relation.plan_cache import Checkpoint, Plans
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.state import compaction
from mrql.runtime.spark.state.block_index import Blocks, PartitionedRows, are_flat


@attrs.define(eq=False, slots=False)
class Run:
    """Some rows of a table. Their number is known once an action has computed them."""

    plans: Plans
    kept: Checkpoint | jvm.ColumnarRows | Gathered | Indexed
    rows: int | None = None
    is_packed: bool = False
    """Whether it has been packed (`packing.py`)."""

    @staticmethod
    def of(plans: Plans, rows: Relation, beside: Sequence[Run] = ()) -> Run:
        """A run that is computed by the next action that reads it. Its size is estimated as that of the runs `beside`
        together."""
        small = sum(run.rows or 0 for run in beside) < compaction.AS_BYTES_MAX_ROWS
        return Run(plans, plans.checkpoint(rows, small=small))

    @staticmethod
    def by_columns(plans: Plans, rows: Relation) -> Run:
        """A large run, computed at once and kept by columns."""
        columnar = jvm.ColumnarRows.of(rows.dataframe(plans.spark), in_one=rows.in_one)
        columnar.compute(plans.spark.sparkContext.defaultParallelism)
        return Run(plans, columnar, columnar.count())

    @property
    def rdd(self) -> Any:
        """Spark's handle of the rows, for a run kept as a checkpoint."""
        assert isinstance(self.kept, Checkpoint)
        return self.kept.rdd

    @property
    def handle(self) -> Any:
        """Spark's handle of what is kept, in any layout."""
        match self.kept:
            case jvm.ColumnarRows(_, buffers):
                return buffers
            case Indexed(kept=kept):
                return kept.rdd
            case Checkpoint() | Gathered():
                return self.kept.rdd

    @property
    def spark(self) -> SparkSession:
        """The session that keeps the rows."""
        return self.plans.spark

    @property
    def signature(self) -> str:
        """The columns and the partitioning, for a run kept as a checkpoint."""
        assert isinstance(self.kept, Checkpoint)
        return self.kept.shape.signature

    @property
    def shape(self) -> jvm.RowShape | None:
        """The columns and the partitioning in Spark's form; None unless the partitioning is known to be by key."""
        return self.kept.shape if isinstance(self.kept, Checkpoint) and self.kept.shape.is_by_key else None

    @cached_property
    def df(self) -> DataFrame:
        """The rows as a DataFrame."""
        if isinstance(self.kept, jvm.ColumnarRows | Indexed):
            return self.kept.df
        if isinstance(self.kept, Gathered):
            return self.relation.dataframe(self.plans.spark)
        return self.kept.shape.over(self.plans.spark, self.kept.rdd)

    @cached_property
    def relation(self) -> Relation:
        """The rows as a relation. Those kept by columns stay for many batches, and so enter plans as a static table."""
        if isinstance(self.kept, Gathered):
            return self.kept.relation
        if isinstance(self.kept, Indexed):
            return Relation.kept(self.kept)
        if isinstance(self.kept, jvm.ColumnarRows):
            return Relation.of(self.df, in_one=self.kept.in_one)
        return Relation.kept(self)

    @property
    def is_flat(self) -> bool:
        """Whether the rows can be kept by columns."""
        return are_flat(self.df.schema)

    def free(self) -> None:
        self.kept.free()


@attrs.frozen
class Gathered:
    """Rows that are gathered into one row for each key."""

    keys: Run
    """The gathered rows."""
    gathering: Gathering

    @staticmethod
    def of(run: Run, gathering: Gathering) -> Gathered:
        """The rows of a run, gathered when they are computed."""
        checkpoint = run.plans.checkpoint(run.relation.gathered(gathering), small=False)
        return Gathered(Run(run.plans, checkpoint), gathering)

    @property
    def rdd(self) -> Any:
        """Spark's handle of the gathered rows."""
        return self.keys.rdd

    @property
    def relation(self) -> Relation:
        """The original rows, opened again."""
        return self.keys.relation.opened(self.gathering)

    def compute(self, tasks: int) -> None:
        """Computes the rows in at most `tasks` tasks."""
        jvm.compute(self.rdd, tasks)

    def free(self) -> None:
        """Frees the rows."""
        self.keys.free()


@attrs.define(eq=False, slots=False)
class Indexed(PartitionedRows):
    """Rows that are kept in blocks; as `PartitionedRows`, all of them, opened."""

    kept: Run
    """A row for each shelf of blocks."""
    blocks: Blocks

    @staticmethod
    def of(plans: Plans, rows: Relation, blocks: Blocks) -> Indexed:
        """The rows of a relation, put in blocks when they are computed."""
        kept = Run(plans, plans.checkpoint(blocks.closed(rows, plans), small=False))
        return Indexed(plans, blocks.opened(kept.relation), blocks.names, blocks.partitions, kept, blocks)

    def found(self, wanted: Relation) -> Relation:
        """The rows of all blocks that may contain wanted rows."""
        addresses = self.blocks.addressed(self.blocks.keys(wanted), self.plans)
        found = self.blocks.found(self.kept.relation, addresses)
        return Relation.kept(PartitionedRows(self.plans, found, self.by, self.partitions))

    def compute(self, tasks: int) -> None:
        """Computes the blocks in at most `tasks` tasks."""
        jvm.compute(self.kept.rdd, tasks)

    def free(self) -> None:
        """Frees the rows."""
        self.kept.free()
