"""Runs, of which a state is made: rows that are kept, and freed; large ones by columns, gathered by key, or in blocks.

Where many rows have one key, as those of a join's input do, they are gathered: a row for each key, with all else in an
array. A change looks up each of its keys once, and the rows of all other keys are not looked at; a join of a million
rows with a hundred for each key takes a third of the time. Other large runs in which batches look something up are kept
in blocks (`block_index.py`). Any other is kept by columns, compressed: a tenth of the memory.
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
    """Whether there is no better way to keep it."""

    @staticmethod
    def of(plans: Plans, rows: Relation, beside: Sequence[Run] = ()) -> Run:
        """A run that is computed with the next action that reads it; it will be about as large as those `beside` it."""
        small = sum(run.rows or 0 for run in beside) < compaction.AS_BYTES_MAX_ROWS
        return Run(plans, plans.checkpoint(rows, small=small))

    @staticmethod
    def by_columns(plans: Plans, rows: Relation) -> Run:
        """A large run, which is computed at once and kept by columns."""
        columnar = jvm.ColumnarRows.of(rows.dataframe(plans.spark), in_one=rows.in_one)
        columnar.compute(plans.spark.sparkContext.defaultParallelism)
        return Run(plans, columnar, columnar.count())

    @property
    def rdd(self) -> Any:
        """Spark's handle of the rows; those of a large run that is packed have none."""
        assert isinstance(self.kept, Checkpoint)
        return self.kept.rdd

    @property
    def handle(self) -> Any:
        """Spark's handle of what is kept."""
        match self.kept:
            case jvm.ColumnarRows(_, buffers):
                return buffers
            case Indexed(kept=kept):
                return kept.rdd
            case Checkpoint() | Gathered():
                return self.kept.rdd

    @property
    def spark(self) -> SparkSession:
        """The session that keeps them."""
        return self.plans.spark

    @property
    def signature(self) -> str:
        """The columns and the partitioning of rows that are not packed."""
        assert isinstance(self.kept, Checkpoint)
        return self.kept.shape.signature

    @property
    def shape(self) -> jvm.RowShape | None:
        """The same as Spark has it, where it says of each row which partition it is in."""
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
        """The rows, to be read. Those kept by columns stay for many batches, and so are a part of the plans."""
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
    """Rows that are kept in one row for each key."""

    keys: Run
    """These rows."""
    gathering: Gathering

    @staticmethod
    def of(run: Run, gathering: Gathering) -> Gathered:
        """The rows of a run, to be kept when they are computed."""
        checkpoint = run.plans.checkpoint(run.relation.gathered(gathering), small=False)
        return Gathered(Run(run.plans, checkpoint), gathering)

    @property
    def rdd(self) -> Any:
        """Spark's handle of what is kept."""
        return self.keys.rdd

    @property
    def relation(self) -> Relation:
        """The rows as they were before."""
        return self.keys.relation.opened(self.gathering)

    def compute(self, tasks: int) -> None:
        """Computes the rows, in so many tasks at most."""
        jvm.compute(self.rdd, tasks)

    def free(self) -> None:
        """Frees the rows."""
        self.keys.free()


@attrs.define(eq=False, slots=False)
class Indexed(PartitionedRows):
    """Rows that are kept in blocks, as they are when all of them are opened."""

    kept: Run
    """A row for each shelf of blocks."""
    blocks: Blocks

    @staticmethod
    def of(plans: Plans, rows: Relation, blocks: Blocks) -> Indexed:
        """The rows of a relation, to be kept when they are computed."""
        kept = Run(plans, plans.checkpoint(blocks.closed(rows, plans), small=False))
        return Indexed(plans, blocks.opened(kept.relation), blocks.names, blocks.partitions, kept, blocks)

    def found(self, wanted: Relation) -> Relation:
        """The rows of all blocks in which there may be some that are wanted."""
        addresses = self.blocks.addressed(self.blocks.keys(wanted), self.plans)
        found = self.blocks.found(self.kept.relation, addresses)
        return Relation.kept(PartitionedRows(self.plans, found, self.by, self.partitions))

    def compute(self, tasks: int) -> None:
        """Computes the blocks, in so many tasks at most."""
        jvm.compute(self.kept.rdd, tasks)

    def free(self) -> None:
        """Frees the rows."""
        self.kept.free()
