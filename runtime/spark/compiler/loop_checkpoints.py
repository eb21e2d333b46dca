"""Checkpoints of the rows that the steps of a loop compute, freed when nothing reads them any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark import jvm
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation

PARTITIONS_MAX_PER_CORE = 4
"""The most partitions, for each core, of what a loop carries: a union has the partitions of all its parts."""


@attrs.define(eq=False, slots=False)
class CheckpointedRows:
    """Rows of a checkpoint, of which Spark knows the columns only.

    Otherwise it would take a checkpoint to be of the size estimated for its plan, which for a join is the product of
    its sides: over some ten steps of a loop, that would become a number of millions of digits.
    """

    spark: SparkSession
    checkpoint: Any
    schema: Any
    shape: None = None
    """The partitioning of the rows is unknown."""

    @property
    def signature(self) -> str:
        return str(self.schema.json())

    @cached_property
    def rdd(self) -> Any:
        most = PARTITIONS_MAX_PER_CORE * self.spark.sparkContext.defaultParallelism
        return jvm.in_partitions(self.checkpoint, most)

    @cached_property
    def df(self) -> DataFrame:
        return jvm.rows(self.spark, self.rdd, self.schema)

    def free(self) -> None:
        jvm.free(self.checkpoint)


@attrs.define(eq=False, slots=False)
class ServerRows:
    """Rows that a server of Spark Connect keeps."""

    df: DataFrame
    shape: None = None
    rdd: None = None

    @property
    def spark(self) -> SparkSession:
        return self.df.sparkSession

    @property
    def signature(self) -> str:
        return self.df.schema.json()

    def free(self) -> None:
        jvm.give_back(self.df)


KeptRows: TypeAlias = CheckpointedRows | ServerRows


class LoopStore(Protocol):
    """Computes and keeps the rows of a loop's steps."""

    def computed(self, relations: Sequence[Relation], kept: LoopCheckpoints) -> list[tuple[KeptRows, int]]:
        """The rows of each relation, which are added to `kept`, and their number."""

    def count(self, relation: Relation) -> int:
        """The number of rows."""


def loop_store(spark: SparkSession, settings: Mapping[str, str]) -> LoopStore:
    """The loop store of a session."""
    return OnServer(spark) if jvm.is_remote(spark) else InDriver(spark, Plans(spark, settings))


@attrs.frozen
class InDriver:
    """Each plan is made once and reused with other rows; all rows of a step are computed in one job."""

    spark: SparkSession
    plans: Plans

    def computed(self, relations: Sequence[Relation], kept: LoopCheckpoints) -> list[tuple[KeptRows, int]]:
        made: list[CheckpointedRows] = []
        for relation in relations:
            checkpoint = self.plans.checkpoint(relation, small=False)
            checkpointed = CheckpointedRows(self.spark, checkpoint.rdd, checkpoint.shape.plan.schema())
            kept.checkpoints.append(checkpointed)
            made.append(checkpointed)
        counts = jvm.compute_all(self.spark, [checkpointed.checkpoint for checkpointed in made])
        return list(zip(made, counts, strict=True))

    def count(self, relation: Relation) -> int:
        return self.plans.count(relation)


@attrs.frozen
class OnServer:
    """Under Spark Connect each relation is sent, planned and computed separately."""

    spark: SparkSession

    def computed(self, relations: Sequence[Relation], kept: LoopCheckpoints) -> list[tuple[KeptRows, int]]:
        found: list[tuple[KeptRows, int]] = []
        for relation in relations:
            rows = ServerRows(jvm.computed(relation.dataframe(self.spark)))
            kept.checkpoints.append(rows)
            found.append((rows, rows.df.count()))
        return found

    def count(self, relation: Relation) -> int:
        return relation.dataframe(self.spark).count()


class LoopCheckpoints:
    """Checkpoints that other rows are computed from."""

    def __init__(self) -> None:
        self.checkpoints: list[KeptRows] = []

    def free(self) -> None:
        """Frees the checkpoints: rows computed from them can no longer be read."""
        for checkpointed in self.checkpoints:
            checkpointed.free()
        self.checkpoints = []

    def take(self, other: LoopCheckpoints) -> None:
        self.checkpoints += other.checkpoints
        other.checkpoints = []


@contextmanager
def passing() -> Iterator[LoopCheckpoints]:
    """Checkpoints that are freed at the end of the block, unless they are taken from it."""
    kept = LoopCheckpoints()
    try:
        yield kept
    finally:
        kept.free()
