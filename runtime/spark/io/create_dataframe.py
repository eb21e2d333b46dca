"""Values of the language as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.algebra.values.values import Record, Value
from mrql.runtime.engine.arrow import arrow_type, to_plain
from mrql.runtime.engine.row_format import row_columns
from mrql.runtime.spark.expressions import json_variant
from mrql.runtime.spark.expressions.casts import numbered
from mrql.runtime.spark.expressions.layout import labels, quote, sql_type


def to_dataframe(spark: SparkSession, rows: Iterable[Value], t: Type) -> DataFrame:
    """The rows of a bag type as a DataFrame; through Arrow, so that no Python worker has to make them again."""
    assert isinstance(t, ty.BagType)
    item = t.item if isinstance(t.item, ty.TupleType | ty.RecordType) else ty.RecordType((("value", t.item),))
    plain = [to_plain(row if item is t.item else Record({"value": row}), item) for row in rows]
    table = pa.Table.from_pylist(plain, pa.schema(arrow_type(item)))
    columns = ", ".join(f"{quote(name)} {sql_type(t)}" for name, t in labels(item))
    return spark.createDataFrame(table, schema=columns)


def to_write(df: DataFrame, t: Type) -> DataFrame:
    """The rows of an answer of a type, and any other columns, in the form in which they are written."""
    item = t.item if isinstance(t, ty.BagType | ty.ListType) else t
    if not any(json_variant.is_written_as_variant(part) or part == ty.TIMESTAMP for part in ty.walk(item)):
        return df
    known = dict(row_columns(item))
    columns = []
    for name in df.columns:
        shown = _shown(quote(name), known[name]) if name in known else quote(name)
        columns.append(f"{shown} AS {quote(name)}")
    return df.selectExpr(*columns)


def _shown(sql: str, t: Type) -> str:
    """A value as it is to be written: Spark would write timestamps in another form, and not to the microsecond."""
    if ty.TIMESTAMP in ty.walk(t):
        sql = f"CAST({sql} AS {sql_type(t, timestamp='STRING')})"
    return json_variant.as_variants(sql, t, numbered("o"))
