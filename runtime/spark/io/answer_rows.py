"""The rows of an answer as whoever takes a DataFrame of them sees them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from mrql.algebra.catalog import item_type
from mrql.algebra.types import Type
from mrql.runtime.engine.answer import WEIGHT, has_weight, two_weights
from mrql.runtime.engine.row_format import row_columns
from mrql.runtime.spark import jvm
from mrql.runtime.spark.expressions.layout import is_taken_apart


def rows_alone(df: DataFrame, t: Type, *, weighted: bool = False) -> DataFrame:
    """The rows of an answer of a type as those see them who only know columns. Nothing is asked of Spark for that.

    Changes whose rows have a column `weight` of their own are an error when they are looked at.
    """
    row = item_type(t)
    columns = len(row_columns(row))
    if weighted and has_weight(row):

        def refused() -> DataFrame:
            raise two_weights(None, "call it otherwise, or read the view's answer")

        return jvm.Lazy(refused, df.sparkSession)

    def made() -> DataFrame:
        return df if len(df.columns) == columns + weighted else df.drop(df.columns[columns])

    if not is_taken_apart(row):
        return df
    check = df.check if isinstance(df, jvm.Lazy) else None
    return made() if jvm.is_remote(df) else jvm.Lazy(made, df.sparkSession, check)


def no_changes(answer: DataFrame) -> DataFrame:
    """The changes of an answer to which nothing has happened: its columns and a weight, without rows."""
    fields = [StructField(field.name, field.dataType) for field in answer.schema.fields]
    return answer.sparkSession.createDataFrame([], StructType([*fields, StructField(WEIGHT, LongType())]))
