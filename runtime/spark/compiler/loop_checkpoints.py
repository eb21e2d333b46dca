"""What the steps of a loop leave behind: checkpoints, which are freed when nothing can be made from them any more."""

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
"""What a loop carries lies in at most so many partitions for each core: a union has those of all its parts."""


@attrs.define(eq=False, slots=False)
class CheckpointedRows:
    """Rows of a checkpoint. Spark knows their columns and no more.

    A checkpoint has the size that was estimated for its plan, and that of a join is the product of its sides: over some
    ten steps of a loop it would become a number of millions of digits.
    """

    spark: SparkSession
    checkpoint: Any
    schema: Any
    shape: None = None
    """Nothing is known of which partition a row is in."""

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
    """Computes what the steps of a loop give, and keeps it."""

    def computed(self, relations: Sequence[Relation], kept: LoopCheckpoints) -> list[tuple[KeptRows, int]]:
        """The rows of each relation with their number; they lie in `kept`."""

    def count(self, relation: Relation) -> int:
        """The number of rows."""


def loop_store(spark: SparkSession, settings: Mapping[str, str]) -> LoopStore:
    """That of a session."""
    return OnServer(spark) if jvm.is_remote(spark) else InDriver(spark, Plans(spark, settings))


@attrs.frozen
class InDriver:
    """Each plan is made once, and used again with other rows; all rows of a step are computed in one job."""

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
    """Under Spark Connect each plan is sent, planned and computed by itself."""

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
    """Checkpoints that something is made from."""

    def __init__(self) -> None:
        self.checkpoints: list[KeptRows] = []

    def free(self) -> None:
        """Frees them: what is made from them can no longer be read."""
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
