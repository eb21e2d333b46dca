"""Answers collected to the driver, as values of the language."""

from __future__ import annotations

from pyspark.sql import DataFrame, Row

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Value
from mrql.runtime.engine.row_format import row_columns
from mrql.runtime.spark.expressions.from_spark import from_spark
from mrql.runtime.spark.expressions.layout import is_taken_apart


def collect_value(df: DataFrame, t: Type) -> Value:
    """The value that an answer's DataFrame holds: a bag or list of its rows, or the value of its one row."""
    rows = df.collect()
    match t:
        case ty.BagType(item):
            return Bag(_row(row, item) for row in rows)
        case ty.ListType(item):
            return [_row(row, item) for row in rows]
        case _:
            return _row(rows[0], t)


def _row(row: Row, t: Type) -> Value:
    if not is_taken_apart(t):
        return from_spark(row[0], t)
    columns = len(row_columns(t))
    return None if any(row[columns:]) else from_spark(row[:columns], t)


def collect_changes(df: DataFrame, item: Type) -> Bag:
    """The changes of an answer as a bag of `(row, weight)`."""
    return Bag((_row(Row(*row[:-1]), item), row[-1]) for row in df.collect())
