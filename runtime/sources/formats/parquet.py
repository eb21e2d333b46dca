"""Parquet: files with typed columns."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mrql.algebra import types as ty
from mrql.algebra.values.values import Record, Value
from mrql.runtime.engine.answer import Output
from mrql.runtime.engine.arrow import arrow_type, to_plain
from mrql.runtime.engine.row_format import row_cells
from mrql.runtime.sources.formats import nanoseconds
from mrql.runtime.sources.formats.columnar import ArrowReader, Opened, columnar_format


def _parquet(file: Opened) -> pq.ParquetFile:
    """An opened file. Timestamps of 96 bits, as Spark writes them, are read as microseconds, as by Spark."""
    return pq.ParquetFile(file, coerce_int96_timestamp_unit="us")


def _schema(file: Opened) -> pa.Schema:
    with _parquet(file) as opened:
        return opened.schema_arrow


def _batches(file: Opened, columns: list[str]) -> Iterator[Any]:
    batches: Iterator[Any] = _parquet(file).iter_batches(columns=columns)
    return batches


def _rows(file: Opened) -> int:
    return int(pq.read_metadata(file).num_rows)


def encode_parquet(output: Output, answer: Value) -> bytes:
    """A part file."""
    record = ty.RecordType(output.columns)
    named = (
        Record(dict(zip(record.names, [*row_cells(row, output.item), *weight], strict=True)))
        for row, weight in output.rows(answer)
    )
    written = io.BytesIO()
    rows = [to_plain(row, record) for row in named]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(arrow_type(record))), written)
    return written.getvalue()


IN_ARROW = ArrowReader("a Parquet", _schema, _batches, _rows)
PARQUET = columnar_format("parquet", IN_ARROW, encode_parquet, takes={nanoseconds.OPTION})
