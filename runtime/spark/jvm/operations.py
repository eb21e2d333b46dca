"""Operations of a DataFrame on SQL texts, with a call or two to the JVM: PySpark looks up a class for each text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mrql.runtime.spark.jvm.handles import handles
from mrql.runtime.spark.jvm.lazy_dataframe import column
from mrql.runtime.spark.jvm.remote import is_remote


def select(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Selects a column for each expression."""
    if is_remote(df):
        return df.selectExpr(*columns)
    java = handles(df.sparkSession)
    return DataFrame(df._jdf.selectExpr(java.texts(columns)), df.sparkSession)


def aggregate(df: DataFrame, keys: Sequence[str], measures: Sequence[str]) -> DataFrame:
    """One row for each key, with the keys and the measures."""
    if is_remote(df):
        return df.groupBy(*map(F.expr, keys)).agg(*map(F.expr, measures))
    java = handles(df.sparkSession)
    first, *others = _columns(measures)
    groups = df._jdf.groupBy(java.seq(_columns(keys)))
    return DataFrame(groups.agg(first, java.seq(others)), df.sparkSession)


def repartition(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows, with those that have equal columns in one partition; without columns, with all in one."""
    if not columns:
        return df.repartition(1)
    if is_remote(df):
        return df.repartition(*map(F.expr, columns))
    java = handles(df.sparkSession)
    return DataFrame(df._jdf.repartition(java.seq(_columns(columns))), df.sparkSession)


def _columns(texts: Sequence[str]) -> list[Any]:
    return [column(text)._jc for text in texts]


def wait(spark: SparkSession, seconds: float) -> None:
    """Waits in Spark's own thread, where Spark may interrupt it.

    Raises: Py4JError if it was interrupted.
    """
    spark._jvm.java.lang.Thread.sleep(int(seconds * 1000))  # type: ignore[union-attr]


def interval_seconds(spark: SparkSession, interval: str) -> float:
    """The length of a trigger's interval in seconds, as Spark reads it.

    Raises: PySparkException, Py4JError if it is not an interval.
    """
    trigger = spark._jvm.org.apache.spark.sql.streaming.Trigger.ProcessingTime(interval)  # type: ignore[union-attr]
    return float(trigger.intervalMs()) / 1000
