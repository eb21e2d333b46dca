"""RDDs of Spark's own rows, and DataFrames over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark.jvm.handles import handles


def opaque(spark: SparkSession, df: DataFrame) -> DataFrame:
    """The same rows, of which Spark knows the columns and no more."""
    return rows(spark, rows_of(df), df._jdf.schema())


def rows(spark: SparkSession, rdd: Any, schema: Any) -> DataFrame:
    """An RDD of Spark's own rows as a DataFrame of which Spark knows the columns and no more."""
    return DataFrame(spark._jsparkSession.internalCreateDataFrame(rdd, schema, False), spark)


def rows_of(df: DataFrame) -> Any:
    """The rows of a DataFrame as an RDD of Spark's own rows."""
    return df._jdf.queryExecution().toRdd()


def partitions_of(df: DataFrame) -> int:
    """In how many partitions the rows of a DataFrame are."""
    return int(rows_of(df).getNumPartitions())


def estimated_bytes(df: DataFrame) -> int:
    """How large Spark takes the rows of a DataFrame to be: as large as can be where it knows nothing."""
    return int(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


def rdd_of(df: DataFrame) -> Any:
    """The RDD of a DataFrame that is made of one."""
    return df._jdf.queryExecution().analyzed().rdd()


def beside(spark: SparkSession, rdds: Sequence[Any]) -> Any:
    """The RDD whose each partition is one of each of some others, all with as many."""
    return handles(spark).beside(spark, rdds)


def in_partitions(rdd: Any, most: int) -> Any:
    """An RDD in so many partitions at most."""
    return rdd if rdd.getNumPartitions() <= most else rdd.toJavaRDD().coalesce(most).rdd()
