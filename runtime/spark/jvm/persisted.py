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
"""What Spark begins the hash of a row with."""

BY_KEY = ("HashPartitioning", "SinglePartition$")
"""The ways in which rows with equal keys are in one partition, the same one wherever rows lie in this way."""


@attrs.frozen
class RowShape:
    """The columns and the partitioning of rows, as Spark's plan of rows that are there already."""

    plan: Any
    signature: str
    is_by_key: bool
    """Whether it says of each row which partition it is in."""
    in_one: bool
    """Whether that is the only one."""

    def over(self, spark: SparkSession, rdd: Any, *, for_others: bool = False) -> DataFrame:
        """Rows of this shape as a DataFrame. For what `for_others` do with it, Spark knows nothing of its size."""
        leaf = self.plan.newInstance()
        java = handles(spark)
        java.kept.set(leaf, rdd)
        if for_others:
            java.kept_statistics.set(leaf, java.none)
        return DataFrame(java.dataset(spark._jsparkSession, leaf), spark)


def local_checkpoint(df: DataFrame, *, small: bool, few: bool = False) -> tuple[Any, RowShape]:
    """The same rows, kept with their partitioning when they are first computed, and without their history.

    A small one is kept as bytes. Rows kept as objects are faster to read again, but Spark estimates their size while it
    stores them, which takes longer than to write some ten thousand of them down.

    It is what `DataFrame.localCheckpoint` makes. But that is an action: Spark tells its listeners of it, and reads the
    byte code of the function that copies the rows, each time.
    """
    spark = df.sparkSession
    rdd = df._jdf.queryExecution().executedPlan().execute()
    return kept(spark, rdd, small=small), shape_of(df, few=few)


def shape_of(df: DataFrame, *, few: bool) -> RowShape:
    """The columns and the partitioning that rows have when they are kept."""
    spark = df.sparkSession
    return _shape(spark, handles(spark).leaf(nothing(spark), df), few=few)


def shape_by(df: DataFrame, columns: Sequence[str], partitions: int, *, few: bool) -> RowShape:
    """The columns of a DataFrame, and that rows lie in so many partitions by the hash of some of them."""
    spark = df.sparkSession
    leaf = rows(spark, nothing(spark), df._jdf.schema())
    moved = leaf.repartition(partitions, *columns)._jdf.queryExecution().sparkPlan().outputPartitioning()
    logical = leaf._jdf.queryExecution().analyzed()
    handles(spark).kept_partitioning.set(logical, moved)
    return _shape(spark, logical, few=few)


@lru_cache(maxsize=64)
def places(spark: SparkSession, partitions: int) -> tuple[int, ...]:
    """For each partition, of so many, a number that lies in it by its hash."""
    hashed = spark._jvm.org.apache.spark.unsafe.hash.Murmur3_x86_32(SEED).hashInt  # type: ignore[union-attr]
    found: dict[int, int] = {}
    numbers = count()
    while len(found) < partitions:
        number = next(numbers)
        found.setdefault(hashed(number) % partitions, number)
    return tuple(found[partition] for partition in range(partitions))


def _shape(spark: SparkSession, leaf: Any, *, few: bool) -> RowShape:
    # Rows of this shape may be those of several checkpoints, one after the other.
    java = handles(spark)
    java.kept_order.set(leaf, java.seq(()))
    partitioning = leaf.outputPartitioning()
    by_key = name_of(partitioning) in BY_KEY
    in_one = by_key and partitioning.numPartitions() == 1
    if in_one:
        # Whatever they are grouped by, they are there.
        java.kept_partitioning.set(leaf, java.single_partition)
    if in_one and few:
        # Spark distributes what it takes to be large, and the size of a join it takes to be those of its sides,
        # multiplied.
        java.kept_statistics.set(leaf, java.few_bytes)
    return RowShape(leaf, _signature(leaf), by_key, in_one)


def kept(spark: SparkSession, rdd: Any, *, small: bool) -> Any:
    """The RDD of a plan's rows, kept when it is first computed, without its history.

    The rows are copied, for a plan puts each into the place of the one before.
    """
    java = handles(spark)
    level = java.as_bytes if small else java.as_rows
    return java.mapped(rdd, _copied(spark)).persist(level).localCheckpoint()


_COPIED: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()


def _copied(spark: SparkSession) -> Any:
    """How Spark itself copies the rows of a partition to keep them."""
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
        """Computes the rows, in so many tasks at most."""
        compute(self.buffers, tasks)

    def count(self) -> int:
        """The number of the rows, which the columns say without being read."""
        return int(rows_of(self.df.select()).count())

    def free(self) -> None:
        """Frees the rows."""
        free(self.buffers)


def free(rdd: Any) -> None:
    """Frees the blocks of a local checkpoint."""
    rdd.unpersist(False)


def persistent_rdds(spark: SparkSession) -> int:
    """How many RDDs Spark keeps blocks of."""
    return int(spark.sparkContext._jsc.getPersistentRDDs().size())


def _signature(leaf: Any) -> str:
    """The columns and the partitioning of rows, in words in which equal ones are the same."""
    names = {f"#{a.exprId().id()}": f"#{i}" for i, a in enumerate(items(leaf.output()))}
    partitioning = re.sub(r"#\d+", lambda found: names.get(found[0], found[0]), leaf.outputPartitioning().toString())
    return f"{leaf.schema().json()} {partitioning}"
