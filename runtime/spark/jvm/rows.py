"""RDDs of Spark's own rows, and DataFrames over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark.jvm.handles import handles, items, name_of


def opaque(spark: SparkSession, df: DataFrame, *, few: bool = False) -> DataFrame:
    """The same rows, of which Spark knows the columns and no more; if `few`, it estimates their size as that of one
    row."""
    made = rows(spark, rows_of(df), df._jdf.schema())
    if few:
        java = handles(spark)
        java.kept_statistics.set(made._jdf.queryExecution().analyzed(), java.few_bytes)
    return made


def rows(spark: SparkSession, rdd: Any, schema: Any) -> DataFrame:
    """An RDD of Spark's own rows as a DataFrame of which Spark knows the columns and no more."""
    return DataFrame(spark._jsparkSession.internalCreateDataFrame(rdd, schema, False), spark)


def rows_of(df: DataFrame) -> Any:
    """The rows of a DataFrame as an RDD of Spark's own rows."""
    return df._jdf.queryExecution().toRdd()


def partitions_of(df: DataFrame) -> int:
    """The number of partitions of a DataFrame's rows."""
    return int(rows_of(df).getNumPartitions())


def estimated_bytes(df: DataFrame) -> int:
    """Spark's estimate of the size of a DataFrame's rows: the largest possible where it knows nothing."""
    return int(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


_ROW_BY_ROW = frozenset({"Project", "Filter", "SubqueryAlias", "Union", "View"})
"""Operators that compute each row by itself."""
_AT_HAND = frozenset({"LocalRelation", "OneRowRelation", "Range", "InMemoryRelation"})
"""Leaves whose rows are there, or are cached."""


def is_read_in_place(df: DataFrame) -> bool:
    """Whether a DataFrame has the same rows each time that it is computed, and only reads rows that lie in files or are
    kept already, possibly with operators that compute each row by itself."""
    plan = df._jdf.queryExecution().withCachedData()
    if not plan.deterministic() or plan.containsPattern(handles(df.sparkSession).python_udf):
        return False
    below = [plan]
    while below:
        node = below.pop()
        children = list(items(node.children()))
        if name_of(node) not in _ROW_BY_ROW and (children or not _is_in_place(node)):
            return False
        below += children
    return True


def _is_in_place(leaf: Any) -> bool:
    match name_of(leaf):
        case "LogicalRDD":
            return bool(leaf.rdd().getStorageLevel().isValid())
        case "LogicalRelation":
            return name_of(leaf.relation()) == "HadoopFsRelation"
        case name:
            return name in _AT_HAND


def rdd_of(df: DataFrame) -> Any:
    """The RDD of a DataFrame that was made from one."""
    return df._jdf.queryExecution().analyzed().rdd()


def beside(spark: SparkSession, rdds: Sequence[Any]) -> Any:
    """The RDD each partition of which consists of one partition of each given RDD; all have the same number."""
    return handles(spark).beside(spark, rdds)


def in_partitions(rdd: Any, most: int) -> Any:
    """An RDD, coalesced to at most `most` partitions."""
    return rdd if rdd.getNumPartitions() <= most else rdd.toJavaRDD().coalesce(most).rdd()
