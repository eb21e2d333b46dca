"""Rows that are kept, and how they are freed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import attrs
from pyspark import SparkContext, StorageLevel
from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark.jvm.handles import field, handles, items, name_of, nothing
from mrql.runtime.spark.jvm.jobs import compute
from mrql.runtime.spark.jvm.rows import rdd_of, rows, rows_of

SEED = 42
"""The seed of Spark's hash of a row."""

BY_KEY = ("HashPartitioning", "SinglePartition$")
"""The partitionings under which rows with equal keys are in one partition, the same one for all rows partitioned so."""


@attrs.frozen
class RowShape:
    """The columns and the partitioning of rows, as Spark's plan of rows that are already computed."""

    plan: Any
    signature: str
    is_by_key: bool
    """Whether the partitioning determines the partition of each row."""
    in_one: bool
    """Whether that is the only partition."""

    def over(self, spark: SparkSession, rdd: Any, *, for_others: bool = False) -> DataFrame:
        """Rows of this shape as a DataFrame. If it is `for_others`, Spark is given no estimate of its size."""
        leaf = self.plan.newInstance()
        java = handles(spark)
        java.kept.set(leaf, rdd)
        if for_others:
            java.kept_statistics.set(leaf, java.none)
        return DataFrame(java.dataset(spark._jsparkSession, leaf), spark)


def local_checkpoint(df: DataFrame, *, small: bool, few: bool = False) -> tuple[Any, RowShape]:
    """The same rows, kept with their partitioning when they are first computed, and without their lineage.

    A small checkpoint is kept as bytes. Rows kept as objects are faster to read again, but Spark estimates their size
    while it stores them, which takes longer than serializing some ten thousand of them.

    The result is that of `DataFrame.localCheckpoint`. But that is an action: each time, Spark notifies its listeners,
    and reads the byte code of the function that copies the rows.
    """
    spark = df.sparkSession
    rdd = df._jdf.queryExecution().executedPlan().execute()
    return kept(spark, rdd, small=small), shape_of(df, few=few)


def shape_of(df: DataFrame, *, few: bool) -> RowShape:
    """The columns and the partitioning that rows have when they are kept."""
    spark = df.sparkSession
    return _shape(spark, handles(spark).leaf(nothing(spark), df), few=few)


def shape_by(df: DataFrame, columns: Sequence[str], partitions: int, *, few: bool) -> RowShape:
    """The shape of a DataFrame's rows when they are partitioned by the hash of some columns."""
    spark = df.sparkSession
    leaf = rows(spark, nothing(spark), df._jdf.schema())
    moved = leaf.repartition(partitions, *columns)._jdf.queryExecution().sparkPlan().outputPartitioning()
    logical = leaf._jdf.queryExecution().analyzed()
    handles(spark).kept_partitioning.set(logical, moved)
    return _shape(spark, logical, few=few)


@lru_cache(maxsize=64)
def places(spark: SparkSession, partitions: int) -> tuple[int, ...]:
    """For each partition, a number whose hash leads to it."""
    hashed = spark._jvm.org.apache.spark.unsafe.hash.Murmur3_x86_32(SEED).hashInt  # type: ignore[union-attr]
    found: dict[int, int] = {}
    numbers = count()
    while len(found) < partitions:
        number = next(numbers)
        found.setdefault(hashed(number) % partitions, number)
    return tuple(found[partition] for partition in range(partitions))


def _shape(spark: SparkSession, leaf: Any, *, few: bool) -> RowShape:
    # Rows of this shape may be those of several checkpoints, one after the other, and so in no order.
    java = handles(spark)
    java.kept_order.set(leaf, java.seq(()))
    partitioning = leaf.outputPartitioning()
    by_key = name_of(partitioning) in BY_KEY
    in_one = by_key and partitioning.numPartitions() == 1
    if in_one:
        # Rows in one partition are in place whatever they are grouped by.
        java.kept_partitioning.set(leaf, java.single_partition)
    if in_one and few:
        # Spark distributes rows that it estimates to be large, and estimates the size of a join as the product of the
        # sizes of its sides.
        java.kept_statistics.set(leaf, java.few_bytes)
    return RowShape(leaf, _signature(leaf), by_key, in_one)


def kept(spark: SparkSession, rdd: Any, *, small: bool) -> Any:
    """The RDD of a plan's rows, kept when it is first computed, without its lineage.

    The rows are copied, since a plan writes each over the one before.
    """
    java = handles(spark)
    level = java.as_bytes if small else java.as_rows
    return java.mapped(rdd, _copied(spark)).persist(level).localCheckpoint()


_COPIED: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()


def _copied(spark: SparkSession) -> Any:
    """The function with which Spark itself copies the rows of a partition to keep them."""
    context = spark.sparkContext
    if context not in _COPIED:
        rdd = rdd_of(spark.range(0).localCheckpoint(False, StorageLevel.MEMORY_AND_DISK))
        free(rdd)
        _COPIED[context] = field(rdd.getClass(), "f").get(rdd)
    return _COPIED[context]


@attrs.frozen
class ColumnarRows:
    """Rows kept by columns, compressed: a tenth of the memory, and faster to scan.

    It is Spark's own cache of a DataFrame, but not one that `spark.catalog.clearCache()` knows of.
    """

    df: DataFrame
    buffers: Any
    in_one: bool
    """Whether all rows are in one partition."""

    @staticmethod
    def of(rows: DataFrame, *, in_one: bool) -> ColumnarRows:
        """The same rows, with their partitioning, to be kept when they are computed; they are read from `rows` once."""
        spark = rows.sparkSession
        java = handles(spark)
        cached = java.cached.apply(java.as_rows, rows._jdf.queryExecution(), java.none)
        buffers = cached.cacheBuilder().cachedColumnBuffers().localCheckpoint()
        return ColumnarRows(DataFrame(java.dataset(spark._jsparkSession, cached), spark), buffers, in_one)

    def compute(self, tasks: int) -> None:
        """Computes the rows in at most `tasks` tasks."""
        compute(self.buffers, tasks)

    def count(self) -> int:
        """The number of rows, which is known without reading the columns."""
        return int(rows_of(self.df.select()).count())

    def free(self) -> None:
        """Frees the rows."""
        free(self.buffers)


def free(rdd: Any) -> None:
    """Frees the blocks of a local checkpoint."""
    rdd.unpersist(False)


def persistent_rdds(spark: SparkSession) -> int:
    """The number of RDDs of which Spark keeps blocks."""
    return int(spark.sparkContext._jsc.getPersistentRDDs().size())


def _signature(leaf: Any) -> str:
    """The columns and the partitioning of rows, as a text that is the same for equal ones."""
    names = {f"#{a.exprId().id()}": f"#{i}" for i, a in enumerate(items(leaf.output()))}
    partitioning = re.sub(r"#\d+", lambda found: names.get(found[0], found[0]), leaf.outputPartitioning().toString())
    return f"{leaf.schema().json()} {partitioning}"
