"""Timestamps with nanoseconds, which the language does not have.

Those of ORC, which has no others, and with `truncateTimestamps` those of Parquet are read as the microsecond that they
are in, also before 1970: they are read as whole numbers, and rounded down to microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pyarrow as pa

OPTION = "truncateTimestamps"
HINT = f"with `{OPTION}` it is read to the microsecond"
_EPOCH = datetime(1970, 1, 1)


def are_in(text: str) -> bool:
    """Whether a type of Arrow, given by its name, contains such timestamps."""
    return "timestamp[ns" in text


def as_microseconds(schema: pa.Schema) -> pa.Schema:
    """The columns, with timestamps of microseconds in place of such timestamps."""
    return _with(schema, lambda t: pa.timestamp("us", t.tz))


def as_numbers(batch: pa.RecordBatch) -> pa.RecordBatch | pa.Table:
    """Rows with the number of nanoseconds since 1970 in place of such timestamps."""
    if not are_in(str(batch.schema)):
        return batch
    return pa.Table.from_batches([batch]).cast(_with(batch.schema, lambda t: pa.int64()))


def at_nanosecond(number: int) -> datetime:
    """The timestamp of the microsecond that contains a nanosecond, given as its number since 1970.

    >>> at_nanosecond(-1), at_nanosecond(1999)
    (datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.datetime(1970, 1, 1, 0, 0, 0, 1))
    """
    return _EPOCH + timedelta(microseconds=number // 1000)


def _with(schema: pa.Schema, other: Callable[[pa.TimestampType], pa.DataType]) -> pa.Schema:
    return pa.schema([field.with_type(_replaced(field.type, other)) for field in schema])


def _replaced(t: pa.DataType, other: Callable[[pa.TimestampType], pa.DataType]) -> pa.DataType:
    """A type with another one in place of such timestamps, also in its parts."""
    if pa.types.is_timestamp(t):
        return other(t) if t.unit == "ns" else t
    if pa.types.is_struct(t):
        return pa.struct([field.with_type(_replaced(field.type, other)) for field in t.fields])
    if pa.types.is_list(t):
        return pa.list_(t.value_field.with_type(_replaced(t.value_type, other)))
    if pa.types.is_large_list(t):
        return pa.large_list(t.value_field.with_type(_replaced(t.value_type, other)))
    if pa.types.is_map(t):
        return pa.map_(_replaced(t.key_type, other), _replaced(t.item_type, other))
    return t
