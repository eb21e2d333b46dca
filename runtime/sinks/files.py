"""Answers as part files: JSON, CSV or Parquet, the same rows from both engines."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import LINE_BREAK, ONLY_MISSING, Format, is_flat
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.types import Type
from mrql.algebra.values.atom_text import show_atom
from mrql.algebra.values.values import Record, Value
from mrql.runtime.files.durable import Files
from mrql.runtime.sinks.row_format import item_type, row_cells, row_columns, row_object

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DONE = "_SUCCESS"
"""This is in a directory whose files are all there, as other programs have it."""
MARK = "written by mrql"
"""What it begins with here; the names of the files follow."""
WEIGHT = "weight"
"""The last column of changes."""


@attrs.frozen
class Output:
    """Answers of a type, or their `changes`, in files of a format."""

    type: Type
    changes: bool
    format: Format = Format.JSON
    span: Span | None = None
    """The place of the query."""

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        """The columns of a file."""
        columns = row_columns(item_type(self.type))
        return (*columns, (WEIGHT, ty.LONG)) if self.changes else columns

    def must_have_a_form(self) -> None:
        """Raises: UserError where the files cannot hold such an answer."""
        item = item_type(self.type)
        if self.format is Format.CSV and not is_flat(item):
            message = f"a row of a csv file holds atomic values, and one of this answer is of type {item}"
            raise UserError(message, self.span, "--output-format json takes values of all types")
        if self.changes and any(name.lower() == WEIGHT for name, _ in row_columns(item)):
            message = f"this answer has a column `{WEIGHT}`, and so have its changes: how often a row came or went"
            raise UserError(message, self.span, "call it otherwise, or put out snapshots")

    def rows(self, answer: Any) -> Iterator[tuple[Value, tuple[int, ...]]]:
        """The rows of a value, or of its changes, each with its weight, if it has one."""
        if self.changes:
            yield from ((value, (weight,)) for value, weight in answer)
        else:
            yield from ((row, ()) for row in (answer if ty.is_collection(self.type) else [answer]))


def write_output(output: Output, answer: Any, directory: Path, files: Files) -> None:
    """Writes an answer, a value or a DataFrame, to a directory.

    Raises: UserError where a value has no form in the file.
    """
    if hasattr(answer, "write"):
        _write_frame(output, cast("DataFrame", answer), directory)
        # Hadoop has noted a checksum of what is written anew.
        files.remove(directory / f".{DONE}.crc")
    else:
        files.make_directory(directory)
        files.write(directory / f"part-00000.{output.format.value}", _content(output, answer))
    parts = sorted(path.name for path in directory.iterdir() if path.name.startswith("part-"))
    files.write(directory / DONE, "".join(f"{line}\n" for line in (MARK, *parts)).encode())


def is_ours(directory: Path) -> bool:
    """Whether a directory holds what was written here and nothing else, or nothing at all."""
    if not directory.is_dir():
        return False
    there = {path.name for path in directory.iterdir()}
    if not there:
        return True
    try:
        first, *parts = (directory / DONE).read_text(encoding="utf-8").splitlines() or [""]
    except (OSError, UnicodeDecodeError):
        return False
    return first == MARK and there <= {DONE, *parts, *(f".{part}.crc" for part in parts)}


def _content(output: Output, answer: Any) -> bytes:
    if output.format is Format.PARQUET:
        return _parquet(output, answer)
    lines = []
    for row, weight in output.rows(answer):
        if output.format is Format.JSON:
            named = {**row_object(row, item_type(output.type)), **dict(zip((WEIGHT,), weight, strict=False))}
            lines.append(json.dumps(named, ensure_ascii=False))
        else:
            lines.append(_csv_line([*row_cells(row, item_type(output.type)), *weight], output.span))
    return "".join(line + "\n" for line in lines).encode()


def _csv_line(cells: Iterable[Value], span: Span | None) -> str:
    """A row of a csv file.

    Raises: UserError where there is no line for it.
    """
    fields = [_field(value) for value in cells]
    if fields == [""]:
        raise UserError(ONLY_MISSING, span)
    if any("\n" in field or "\r" in field for field in fields):
        raise UserError(LINE_BREAK, span)
    return ",".join(fields)


def _field(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        escaped = value.replace('"', '""')
        return f'"{escaped}"'
    return show_atom(value)


def _parquet(output: Output, answer: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from mrql.runtime.spark.expressions.arrow import arrow_type, to_plain

    record = ty.RecordType(output.columns)
    plain = [
        to_plain(
            Record(dict(zip(record.names, [*row_cells(row, item_type(output.type)), *weight], strict=True))), record
        )
        for row, weight in output.rows(answer)
    ]
    written = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(plain, pa.schema(arrow_type(record))), written)
    return written.getvalue()


def _write_frame(output: Output, df: DataFrame, directory: Path) -> None:
    from mrql.runtime.spark.io.answer_rows import rows_alone
    from mrql.runtime.spark.io.writers import write_frame

    df = rows_alone(df, output.type, weighted=output.changes)
    write_frame(df, output.format, ty.RecordType(output.columns), directory, output.span)
