"""Rows in this process as DataFrames of Spark: frames of pandas, tables of Arrow, what Arrow can read as one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as arrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.types import MAX_PRECISION, Type
from mrql.runtime.sources.formats.foreign_types import twice


def is_pandas(rows: object) -> bool:
    """Whether these are rows of pandas, which is imported already if they are."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(rows, pandas.DataFrame)


def arrow_table(rows: Any, what: str) -> pa.Table:
    """Rows as a table of Arrow. Values that are missing to pandas, NaN too, are missing, and its index is no column.

    Raises: UserError where a column holds what Arrow has no type for.
    """
    try:
        if is_pandas(rows):
            return pa.Table.from_pandas(rows, preserve_index=False)
        return pa.table(rows)
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        raise UserError(f"{what} cannot be read: {_said(error)}") from error


def column_names(rows: Any) -> list[str]:
    """The names of the columns of a frame of pandas or a table of Arrow."""
    return [str(name) for name in rows.columns] if is_pandas(rows) else list(rows.column_names)


def parts_of_column(rows: Any, name: str) -> list[str]:
    """The names of the fields of a column of structs, which are dicts in pandas; none for any other column."""
    place = column_names(rows).index(name)
    if not is_pandas(rows):
        found = rows.schema.field(place).type
    else:
        column = rows.iloc[:, place]
        if not all(isinstance(value, dict) for value in column.dropna()):
            return []
        found = pa.Array.from_pandas(column).type
    return [field.name for field in found] if arrow.is_struct(found) else []


def spark_frame(rows: Any, row: Type, what: str, spark: SparkSession) -> DataFrame:
    """The same rows in Spark: for a record the columns that it has, else all.

    Raises: UserError where a column is missing, there twice, of a type that Spark does not have, or has a value that
        does not fit in that type.
    """
    rows = rows if is_pandas(rows) else arrow_table(rows, what)
    names = column_names(rows)
    hint = f"its columns: {', '.join(names)}"
    if wrong := twice(names):
        raise UserError(f"{what} has the column `{wrong}` twice", hint=hint)
    asked_for = [name for name, _ in row.fields] if isinstance(row, ty.RecordType) else names
    if missing := [name for name in asked_for if name not in names]:
        raise UserError(f"{what} has no column `{missing[0]}`", hint=hint)
    places = [names.index(name) for name in asked_for]
    chosen = rows.iloc[:, places] if is_pandas(rows) else rows.select(places)
    table = _of_batch(chosen, what)
    if is_pandas(rows):
        _must_not_be_doubles(table, row, what)
    try:
        table = _of_sparks_types(table, what)
        # A timestamp without a zone stays one, whatever the zone of the session.
        return spark.createDataFrame(table, from_arrow_schema(table.schema))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UserError(f"{what} cannot be given to Spark: {_said(error)}") from error


def _of_batch(rows: Any, what: str) -> pa.Table:
    """The rows of a batch as a table of Arrow. A frame of pandas without rows has arbitrary types, which are not kept.

    Raises: UserError where a column holds what Arrow has no type for.
    """
    table = arrow_table(rows, what)
    if is_pandas(rows) and table.num_rows == 0:
        return pa.table({name: pa.nulls(0) for name in table.column_names})
    return table


def _must_not_be_doubles(table: pa.Table, row: Type, what: str) -> None:
    """Raises: UserError where integers have become doubles, as in pandas where some of them are missing."""
    for name, t in row.fields if isinstance(row, ty.RecordType) else ():
        if ty.is_integral(t) and arrow.is_floating(table.column(name).type):
            message = f"the column `{name}` of {what} is of type double, where {t} was expected"
            hint = f'where integers are missing, pandas makes doubles of all: `df.astype({{"{name}": "Int64"}})`'
            raise UserError(message, hint=hint)


def spark_schema(rows: Any, what: str) -> StructType:
    """The schema that the rows have in Spark, without columns of types that Spark does not have."""
    schema = _schema_of(rows, what)
    fields = [pa.field(field.name, known) for field in schema if (known := spark_type(field.type)) is not None]
    found: StructType = from_arrow_schema(pa.schema(fields))
    return found


def _schema_of(rows: Any, what: str) -> pa.Schema:
    """The schema in Arrow; for rows that can be read only once, it is asked for without reading them."""
    if isinstance(getattr(rows, "schema", None), pa.Schema):
        return rows.schema
    return pa.schema(rows) if hasattr(rows, "__arrow_c_schema__") else arrow_table(rows, what).schema


def _of_sparks_types(table: pa.Table, what: str) -> pa.Table:
    """The columns cast to the types that Spark has for them."""
    columns = {}
    for name in table.column_names:
        column = table.column(name)
        known = spark_type(column.type)
        if known is None:
            raise UserError(f"the column `{name}` of {what} is of type {column.type}, which Spark does not have")
        columns[name] = column if known == column.type else column.cast(known)
    return pa.table(columns)


_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}
"""Types of Arrow without an equivalent in Spark, each with one that holds all its values."""


def spark_type(t: pa.DataType) -> pa.DataType | None:
    """The type of Arrow in which Spark takes values of a type; None where there is none.

    >>> str(spark_type(pa.dictionary(pa.int8(), pa.string()))), str(spark_type(pa.list_(pa.uint8())))
    ('string', 'list<item: int16>')
    >>> spark_type(pa.month_day_nano_interval())
    """
    if t in _WIDER:
        return _WIDER[t]
    if arrow.is_timestamp(t):
        return pa.timestamp("us", t.tz)
    if arrow.is_decimal(t):
        return pa.decimal128(t.precision, t.scale) if t.precision <= MAX_PRECISION else None
    if arrow.is_dictionary(t):
        return spark_type(t.value_type)
    if arrow.is_list(t) or arrow.is_large_list(t) or arrow.is_fixed_size_list(t):
        item = spark_type(t.value_type)
        return None if item is None else pa.list_(item)
    if arrow.is_map(t):
        key, value = spark_type(t.key_type), spark_type(t.item_type)
        return None if key is None or value is None else pa.map_(key, value)
    if arrow.is_struct(t):
        parts = [(field.name, spark_type(field.type)) for field in t]
        return None if any(part is None for _, part in parts) else pa.struct(parts)
    return t if any(check(t) for check in _TAKEN) else None


def readable_schema(columns: Iterable[pa.Field]) -> StructType:
    """The columns of a file as Spark reads them, without columns and fields of structs whose types it does not have;
    timestamps of nanoseconds are longs."""
    fields = [field.with_type(known) for field in columns if (known := _readable(field.type)) is not None]
    found: StructType = from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=True)
    return found


def _readable(t: pa.DataType) -> pa.DataType | None:
    if arrow.is_struct(t):
        parts = [(field.name, part) for field in t if (part := _readable(field.type)) is not None]
        return pa.struct(parts) if parts else None
    if arrow.is_list(t) or arrow.is_large_list(t):
        item = _readable(t.value_type)
        return None if item is None else pa.list_(item)
    if arrow.is_map(t):
        key, value = _readable(t.key_type), _readable(t.item_type)
        return None if key is None or value is None else pa.map_(key, value)
    if arrow.is_timestamp(t) and t.unit == "ns":
        return pa.int64()
    return pa.binary() if arrow.is_fixed_size_binary(t) else spark_type(t)


_TAKEN = (
    arrow.is_null,
    arrow.is_boolean,
    arrow.is_signed_integer,
    arrow.is_float32,
    arrow.is_float64,
    arrow.is_string,
    arrow.is_large_string,
    arrow.is_binary,
    arrow.is_large_binary,
    arrow.is_date32,
)
"""The checks for types that Spark takes as they are."""


def _said(error: Exception) -> str:
    """The first line of an error."""
    return str(error).strip().split("\n")[0] or type(error).__name__


def must_have_the_same(first: Sequence[str], second: Sequence[str]) -> None:
    """Raises: UserError where the columns of two batches differ in their names or their order: whether they are matched
    by name or by place depends on the rows of the stream."""
    if list(first) != list(second):
        names = [", ".join(map(repr, columns)) for columns in (first, second)]
        message = f"two batches of other columns are not one: one has {names[0]}, the other {names[1]}"
        raise UserError(message, hint="give one after the other: `with view.batch() as batch`")


def in_arrow(one: Any, other: Any) -> pa.Table:
    """The rows of two batches.

    Raises: UserError where they do not have the same columns.
    """
    first, second = _of_batch(one, "a batch"), _of_batch(other, "a batch")
    must_have_the_same(first.column_names, second.column_names)
    try:
        return pa.concat_tables([first, second], promote_options="permissive")
    except (pa.ArrowException, ValueError) as error:
        raise UserError(f"two batches of other columns are not one: {_said(error)}") from error
