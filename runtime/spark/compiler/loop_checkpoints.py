"""What the steps of a loop leave behind: checkpoints, which are freed when nothing can be made from them any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark import jvm

PARTITIONS = 4
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
        most = PARTITIONS * self.spark.sparkContext.defaultParallelism
        return jvm.in_partitions(self.checkpoint, most)

    @cached_property
    def df(self) -> DataFrame:
        return jvm.rows(self.spark, self.rdd, self.schema)


class LoopCheckpoints:
    """Checkpoints that something is made from."""

    def __init__(self) -> None:
        self.checkpoints: list[CheckpointedRows] = []

    def free(self) -> None:
        """Frees them: what is made from them can no longer be read."""
        for lying in self.checkpoints:
            jvm.free(lying.checkpoint)
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
