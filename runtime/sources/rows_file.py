"""Rows that a source has written to a Parquet file, for the engines to read: a large batch is in no memory of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pyarrow.parquet as pq

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.algebra.values.values import Document, Record, Value

INCOMING = "incoming"
"""Here are such files of a stream with a checkpoint, in it, from when they are read until their batch is committed."""


@attrs.frozen
class RowsFile:
    """Rows that count with a weight. The columns are those of the stream's record, and are called by their places."""

    path: Path
    weight: int
    count: int


def column_label(place: int) -> str:
    """What a column is called in the file."""
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
