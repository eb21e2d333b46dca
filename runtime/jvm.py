"""The one place that reaches through PySpark into the JVM, and what to do where that is not possible.

A local checkpoint cuts the lineage of a state, but its blocks stay until the driver's garbage collector finds them.
Freeing them at once needs the handle of the plan's RDD, which PySpark does not give out. Under Spark Connect there is
no such handle: then `persist` and `unpersist` serve, whose lineage is cut by reading the run back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

from pyspark import SparkContext, StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame


def local_checkpoint(df: DataFrame, *, small: bool) -> DataFrame:
    """The same rows, kept with their partitioning when they are first computed, and without their history.

    A small one is kept as bytes. Rows kept as objects are faster to read again, but Spark estimates their size while it
    stores them, which takes longer than to write some ten thousand of them down.
    """
    return df.localCheckpoint(False, StorageLevel.MEMORY_AND_DISK if small else StorageLevel.MEMORY_AND_DISK_DESER)


def column(text: str) -> Column:
    """The column of an SQL expression, made once: to find the function by its name costs more than to call it."""
    return _column(SparkContext._gateway, text)


@lru_cache(maxsize=4096)
def _column(gateway: Any, text: str) -> Column:
    return F.expr(text)


def free(df: DataFrame) -> None:
    """Frees the blocks of a local checkpoint."""
    _checkpointed_rdd(df).unpersist(False)


def compute(df: DataFrame, tasks: int | None = None) -> int:
    """Computes the rows of a local checkpoint, all of them, and returns their number; in so many `tasks` at most.

    This is `df.count()` without planning a query for it, which would take longer than a small batch.
    """
    rdd = _checkpointed_rdd(df)
    return int(rdd.count() if tasks is None else rdd.toJavaRDD().coalesce(tasks).count())


class Lazy(ClassicDataFrame):
    """A DataFrame that is not even analysed before something is asked of it.

    Under Spark Connect every DataFrame is so; the classic ones take milliseconds of a batch for each operation.
    """

    def __init__(self, make: Callable[[], DataFrame], spark: SparkSession) -> None:
        super().__init__(None, spark)
        self._make = make

    # The base class sets its handle in its constructor; here that is put off.
    @cached_property
    def _planned(self) -> Any:
        return self._make()._jdf

    @property
    def _jdf(self) -> Any:
        return self._planned

    @_jdf.setter
    def _jdf(self, handle: None) -> None:
        pass


def persistent_rdds(spark: SparkSession) -> int:
    """How many RDDs Spark keeps blocks of."""
    return int(spark.sparkContext._jsc.getPersistentRDDs().size())


def executed_plan(df: DataFrame) -> str:
    """The physical plan, as text."""
    return str(df._jdf.queryExecution().executedPlan().toString())


def _checkpointed_rdd(df: DataFrame) -> Any:
    return df._jdf.queryExecution().logical().rdd()
