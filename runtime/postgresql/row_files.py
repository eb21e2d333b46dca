"""Rows that come from PostgreSQL as text, written to Parquet files, which the engines read by themselves.

A row is the texts that the output functions of its columns' types give, whether it comes from COPY or from the log. All
rows are converted here, by Arrow, some ten thousand at a time: no more are in memory.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.types import Type
from mrql.runtime.engine.arrow import arrow_type
from mrql.runtime.postgresql.pgoutput import Texts
from mrql.runtime.sources.rows_file import RowsFile, column_label

BLOCK_ROWS = 1 << 16
"""The most changes that are in memory."""
BLOCK_BYTES = 1 << 22
"""The size of a block of a table that is in memory as text."""


@attrs.frozen
class ReadColumn:
    """A column as it is read: its name, the type of its values here, and the name of its type in PostgreSQL."""

    name: str
    type: Type
    source: str


@attrs.frozen
class TableShape:
    """The columns of a table that are read; `table` and `span` stand for it in messages."""

    table: str
    columns: tuple[ReadColumn, ...]
    span: Span | None = attrs.field(default=None, eq=False, repr=False)

    def schema(self) -> pa.Schema:
        """The columns of the files, which are named by position."""
        return pa.schema([(column_label(i), arrow_type(c.type)) for i, c in enumerate(self.columns)])


@attrs.define
class RowsWriter:
    """Writes rows of one weight to a file, which is made only if there are any."""

    shape: TableShape
    path: Path
    weight: int
    count: int = 0
    waiting: list[Texts] = attrs.Factory(list)
    file: Any = None

    def add(self, row: Texts) -> None:
        """Writes a row, given as texts."""
        self.waiting.append(row)
        if len(self.waiting) >= BLOCK_ROWS:
            self._flush()

    def write(self, texts: Sequence[pa.Array]) -> None:
        """Writes rows, given as columns of texts."""
        schema = self.shape.schema()
        if self.file is None:
            self.file = pq.ParquetWriter(self.path, schema)
        columns = [converted(text, c, self.shape) for text, c in zip(texts, self.shape.columns, strict=True)]
        batch = pa.record_batch(columns, schema=schema)
        self.file.write_batch(batch)
        self.count += batch.num_rows

    def _flush(self) -> None:
        if self.waiting:
            self.write([pa.array(texts, pa.string()) for texts in zip(*self.waiting, strict=True)])
            self.waiting.clear()

    def close(self) -> tuple[RowsFile, ...]:
        """Finishes the file, and returns it if there were any rows."""
        self._flush()
        if self.file is None:
            return ()
        self.file.close()
        return (RowsFile(self.path, self.weight, self.count),)


# --- texts of COPY ------------------------------------------------------------------------------


class _Blocks(io.RawIOBase):
    """The blocks that COPY sends, as a file."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        super().__init__()
        self.blocks = blocks
        self.left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        filled = 0
        while filled < len(buffer):
            if not self.left:
                block = next(self.blocks, None)
                if block is None:
                    break
                self.left = memoryview(block)
            count = min(len(self.left), len(buffer) - filled)
            buffer[filled : filled + count] = self.left[:count]
            self.left = self.left[count:]
            filled += count
        return filled


def write_copied(blocks: Iterable[bytes], writer: RowsWriter) -> None:
    """Writes rows as COPY sends them in CSV, with a constant before the columns, so that no line is empty."""
    names = ["constant", *map(column_label, range(len(writer.shape.columns)))]
    stream = _Blocks(iter(blocks))
    first = stream.read(1)  # Arrow takes no empty file
    if not first:
        return
    stream.left = memoryview(first + bytes(stream.left))
    reader = csv.open_csv(
        stream,
        csv.ReadOptions(column_names=names, block_size=BLOCK_BYTES, use_threads=False),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    for batch in reader:
        writer.write(batch.columns[1:])


# --- values -------------------------------------------------------------------------------------


def converted(texts: pa.Array, column: ReadColumn, shape: TableShape) -> pa.Array:
    """The values of a column, given as texts.

    Raises: UserError, naming the first text that is not of the type.
    """
    try:
        return _converted(texts, column)
    except pa.ArrowInvalid:
        for text in texts:
            try:
                _converted(pa.array([text.as_py()], pa.string()), column)
            except pa.ArrowInvalid:
                where = f"in the column {column.name} of {shape.table}"
                raise UserError(f"{text.as_py()}, {where}, is not a value of type {column.type}", shape.span) from None
        raise


def _converted(texts: pa.Array, column: ReadColumn) -> pa.Array:
    wanted = arrow_type(column.type)
    match column.source:
        case "bool":
            return pc.equal(texts, "t")
        case "bpchar":
            return pc.utf8_rtrim(texts, " ")
        case "bytea":  # `\x` and its digits
            return pa.array([None if text is None else _bytes_of(text) for text in texts.to_pylist()], wanted)
        case "float4":  # a double is the nearest to the `real`, and not to its text
            return pc.add(texts.cast(pa.float32()), pa.scalar(0, pa.float32())).cast(wanted)
        case "int8" if column.type == ty.DOUBLE:
            return texts.cast(pa.int64()).cast(wanted, safe=False)
        case "timestamptz":  # the session is in UTC
            return pc.replace_substring_regex(texts, r"\+00$", "").cast(wanted)
    if column.type == ty.DOUBLE:
        return pc.add(texts.cast(wanted), 0.0)  # there is no −0
    if isinstance(column.type, ty.DecimalType):
        return pc.replace_substring_regex(texts, r"(\.\d*?)0+$", r"\1").cast(wanted)
    return texts if wanted == pa.string() else texts.cast(wanted)


def _bytes_of(text: str) -> bytes:
    """The bytes of a text that the server writes, where `bytea_output` is `hex`."""
    return bytes.fromhex(text.removeprefix("\\x"))
