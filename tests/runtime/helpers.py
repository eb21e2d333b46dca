"""Values of the language as DataFrames, for the tests that hold Spark against the reference evaluator."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.algebra.values import Value
from mrql.runtime.readers import row_schema


def to_dataframe(spark: SparkSession, rows: Iterable[Value], t: Type) -> DataFrame:
    """The rows of a bag type as a DataFrame."""
    assert isinstance(t, ty.BagType)
    item = t.item
    plain = [to_plain(row, item) for row in rows]
    structured = isinstance(item, ty.TupleType | ty.RecordType)
    return spark.createDataFrame(plain if structured else [(row,) for row in plain], row_schema(item))


def to_plain(value: Value, t: Type) -> object:
    """A value as `createDataFrame` takes it."""
    if value is None:
        return None
    match t:
        case ty.TupleType(items):
            return tuple(to_plain(v, item) for v, item in zip(value, items, strict=True))
        case ty.RecordType(fields):
            return tuple(to_plain(value[name], item) for name, item in fields)
        case ty.BagType(item) | ty.ListType(item):
            return [to_plain(v, item) for v in value]
        case _:
            return value
