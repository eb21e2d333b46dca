"""The one place that reaches through PySpark into the JVM, and what to do where that is not possible.

A local checkpoint cuts the lineage of a state, but its blocks stay until the driver's garbage collector finds them.
Freeing them at once needs the handle of the plan's RDD, which PySpark does not give out. Under Spark Connect there is
no such handle: then `persist` and `unpersist` serve, whose lineage is cut by reading the run back.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession


def local_checkpoint(df: DataFrame) -> DataFrame:
    """The same rows, kept with their partitioning when they are first computed, and without their history."""
    return df.localCheckpoint(eager=False)


def free(df: DataFrame) -> None:
    """Frees the blocks of a local checkpoint."""
    _checkpointed_rdd(df).unpersist(False)


def compute(df: DataFrame) -> int:
    """Computes the rows of a local checkpoint, all of them, and returns their number.

    This is `df.count()` without planning a query for it, which would take longer than a small batch.
    """
    return int(_checkpointed_rdd(df).count())


def persistent_rdds(spark: SparkSession) -> int:
    """How many RDDs Spark keeps blocks of."""
    return int(spark.sparkContext._jsc.getPersistentRDDs().size())


def executed_plan(df: DataFrame) -> str:
    """The physical plan, as text."""
    return str(df._jdf.queryExecution().executedPlan().toString())


def _checkpointed_rdd(df: DataFrame) -> Any:
    return df._jdf.queryExecution().logical().rdd()
