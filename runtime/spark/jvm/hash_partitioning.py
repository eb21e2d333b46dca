"""Files each of which has rows of one partition: Spark calls the partitions buckets, and takes the number of a file's
bucket from its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from mrql.runtime.spark.jvm.handles import handles, items, name_of


def partitions_by(df: DataFrame, columns: Sequence[str]) -> int | None:
    """The number of partitions of rows that are partitioned by the hash of some columns; None if they are not."""
    partitioning = df._jdf.queryExecution().executedPlan().outputPartitioning()
    if name_of(partitioning) != "HashPartitioning":
        return None
    by = [_column(expression) for expression in items(partitioning.expressions())]
    return int(partitioning.numPartitions()) if by == list(columns) else None


def _column(expression: Any) -> str | None:
    return str(expression.name()) if name_of(expression) == "AttributeReference" else None


def in_buckets(df: DataFrame, columns: Sequence[str], partitions: int) -> DataFrame:
    """A DataFrame of files and nothing else, of which Spark is told that the rows are partitioned by the hash of some
    columns.

    The number of a file's partition follows the last `_` of its name.
    """
    spark = df.sparkSession
    java = handles(spark)
    files = df._jdf.queryExecution().analyzed().relation()
    buckets = java.some(java.buckets(partitions, java.seq(columns), java.seq(())))
    schemas = files.partitionSchema(), files.dataSchema()
    bucketed = files.copy(
        files.location(), *schemas, buckets, files.fileFormat(), files.options(), files.sparkSession()
    )
    return DataFrame(spark._jsparkSession.baseRelationToDataFrame(bucketed), spark)
