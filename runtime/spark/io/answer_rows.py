"""The rows of an answer as users of its DataFrame see them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from mrql.algebra.catalog import item_type
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.runtime.engine.answer import WEIGHT, has_weight, two_weights
from mrql.runtime.engine.row_format import row_columns
from mrql.runtime.spark import jvm
from mrql.runtime.spark.expressions.layout import is_taken_apart, quote
from mrql.runtime.spark.session.session import AS_WRITTEN, settings

CHANGE_TYPE, COMMIT_VERSION = "_change_type", "_commit_version"
"""The columns of a change feed: the kind of change, `insert` or `delete`, and the number of the batch."""


def rows_alone(df: DataFrame, t: Type, *, weighted: bool = False) -> DataFrame:
    """The rows of an answer without the column that says which are missing. Except under Spark Connect, this is lazy.

    Changes whose rows have a column `weight` of their own are an error when they are read.
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
    return made() if jvm.is_remote(df) else jvm.lazily(df, made)


def change_feed(df: DataFrame, t: Type, number: int) -> DataFrame:
    """The changes of an answer by the batch with this number, as rows of a change feed: a row that is inserted three
    times is three rows. This is lazy."""
    weighted = rows_alone(df, t, weighted=True)

    def made() -> DataFrame:
        columns = [quote(name) for name, _ in row_columns(item_type(t))]
        kind = f"if({WEIGHT} > 0, 'insert', 'delete') AS {CHANGE_TYPE}"
        times = f"explode(sequence(1L, abs({WEIGHT}))) AS {WEIGHT}"
        with settings(df.sparkSession, AS_WRITTEN):
            return weighted.selectExpr(*columns, kind, f"{number}L AS {COMMIT_VERSION}", times).drop(WEIGHT)

    return jvm.lazily(weighted, made)


def must_have_room_for_a_feed(t: Type) -> None:
    """Raises: UserError where rows of an answer have a column with the name of a column of their changes."""
    for name, _ in row_columns(item_type(t)):
        if name.lower() in (WEIGHT, CHANGE_TYPE, COMMIT_VERSION):
            raise UserError(f"this answer has a column `{name}`, and so have its changes", hint="call it otherwise")


def no_changes(answer: DataFrame) -> DataFrame:
    """The changes of an answer that has not changed: its columns and a weight, without rows."""
    fields = [StructField(field.name, field.dataType) for field in answer.schema.fields]
    return answer.sparkSession.createDataFrame([], StructType([*fields, StructField(WEIGHT, LongType())]))
