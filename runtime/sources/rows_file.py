"""Rows that a source has written to a Parquet file for the engines to read: a large batch need not fit in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pyarrow.parquet as pq

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.algebra.values.values import Document, Record, Value

INCOMING = "incoming"
"""The directory in a checkpoint for such files, from when their rows are read until the batch is committed."""


@attrs.frozen
class RowsFile:
    """A file of rows of one weight. Its columns are those of the stream's record, named by position."""

    path: Path
    weight: int
    count: int


def column_label(place: int) -> str:
    """The name in the file of the column at a position."""
    return f"_{place + 1}"


def rows_of(file: RowsFile, row: Type) -> Iterator[tuple[Value, int]]:
    """The rows of a file, with their weight."""
    assert isinstance(row, ty.RecordType)
    labels = [column_label(i) for i in range(len(row.fields))]
    for batch in pq.ParquetFile(file.path).iter_batches():
        for found in batch.to_pylist():
            values = zip(labels, row.fields, strict=True)
            yield Record({name: _value(found[label], t) for label, (name, t) in values}), file.weight


def _value(value: Value, t: Type) -> Value:
    return Document(value) if t == ty.ANY and value is not None else value
