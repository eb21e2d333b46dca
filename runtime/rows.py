"""Values of the language as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.algebra.values import Document, Record, Value
from mrql.runtime import variants
from mrql.runtime.expressions import numbered
from mrql.runtime.layout import labels, quote, row_columns, sql_type


def to_dataframe(spark: SparkSession, rows: Iterable[Value], t: Type) -> DataFrame:
    """The rows of a bag type as a DataFrame; through Arrow, so that no Python process has to make them again."""
    import pyarrow as pa

    assert isinstance(t, ty.BagType)
    item = t.item if isinstance(t.item, ty.TupleType | ty.RecordType) else ty.RecordType((("value", t.item),))
    plain = [to_plain(row if item is t.item else Record({"value": row}), item) for row in rows]
    table = pa.Table.from_pylist(plain, pa.schema(arrow_type(item)))
    columns = ", ".join(f"{quote(name)} {sql_type(t)}" for name, t in labels(item))
    return spark.createDataFrame(table, schema=columns)


def to_write(df: DataFrame, t: Type) -> DataFrame:
    """The rows of an answer of some type, and what columns there are besides, as they are written out."""
    item = t.item if isinstance(t, ty.BagType | ty.ListType) else t
    if not any(part in (ty.ANY, ty.XML, ty.TIMESTAMP) for part in ty.walk(item)):
        return df
    known = dict(row_columns(item))
    columns = []
    for name in df.columns:
        shown = _shown(quote(name), known[name]) if name in known else quote(name)
        columns.append(f"{shown} AS {quote(name)}")
    return df.selectExpr(*columns)


def _shown(sql: str, t: Type) -> str:
    """A value as it is written: Spark would write timestamps otherwise, and not to the microsecond."""
    if ty.TIMESTAMP in ty.walk(t):
        sql = f"CAST({sql} AS {sql_type(t, timestamp='STRING')})"
    return variants.as_variants(sql, t, numbered("o"))


def arrow_type(t: Type) -> Any:
    """The Arrow type of a type; a tuple is a struct of `_1`, `_2`, …"""
    import pyarrow as pa

    basic = {
        ty.BOOL: pa.bool_(),
        ty.INT: pa.int32(),
        ty.LONG: pa.int64(),
        ty.FLOAT: pa.float32(),
        ty.DOUBLE: pa.float64(),
        ty.STRING: pa.string(),
        ty.DATE: pa.date32(),
        ty.TIMESTAMP: pa.timestamp("us"),
        ty.ANY: pa.string(),
        ty.XML: pa.string(),
    }
    match t:
        case ty.Basic():
            return basic[t]
        case ty.BagType(item) | ty.ListType(item):
            return pa.list_(arrow_type(item))
        case _:
            return pa.struct([pa.field(name, arrow_type(item)) for name, item in labels(t)])


def to_plain(value: Value, t: Type) -> object:
    """A value as Arrow takes it."""
    if value is None:
        return None
    match t:
        case ty.TupleType(items):
            parts = zip(labels(t), value, items, strict=True)
            return {name: to_plain(v, item) for (name, _), v, item in parts}
        case ty.RecordType(fields):
            return {name: to_plain(value[name], item) for name, item in fields}
        case ty.BagType(item) | ty.ListType(item):
            return [to_plain(v, item) for v in value]
        case _:
            return value.text if isinstance(value, Document) else value
