"""ORC: files that know the types of their columns.

Arrow reads its timestamps as nanoseconds, of the years 1678 to 2261; they are taken as microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import orc

from mrql.runtime.sources.formats.columnar import ArrowReader, Opened, columnar_format


def _orc_schema(file: Opened) -> pa.Schema:
    schema = orc.ORCFile(file).schema
    return pa.schema([field.with_type(_microseconds(field.type)) for field in schema])


def in_microseconds(batch: pa.RecordBatch) -> pa.Table:
    """Rows whose timestamps are of microseconds.

    Raises: ArrowInvalid where one is of a part of a microsecond.
    """
    fields = [field.with_type(_microseconds(field.type)) for field in batch.schema]
    return pa.Table.from_batches([batch]).cast(pa.schema(fields))


def _microseconds(t: pa.DataType) -> pa.DataType:
    """A type of Arrow with microseconds in the place of nanoseconds, in its parts too."""
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", t.tz)
    if pa.types.is_struct(t):
        return pa.struct([field.with_type(_microseconds(field.type)) for field in t.fields])
    if pa.types.is_list(t):
        return pa.list_(t.value_field.with_type(_microseconds(t.value_type)))
    return t


def _batches(file: Opened, columns: list[str]) -> Iterator[Any]:
    opened = orc.ORCFile(file)
    return (in_microseconds(opened.read_stripe(n, columns=columns)) for n in range(opened.nstripes))


def _rows(file: Opened) -> int:
    return int(orc.ORCFile(file).nrows)


IN_ARROW = ArrowReader("an ORC", _orc_schema, _batches, _rows)
ORC = columnar_format("orc", IN_ARROW)
