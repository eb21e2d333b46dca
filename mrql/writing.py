"""Answers written to where a query says: a directory of part files.

It takes the place of the one that an earlier run has written, and is seen as a whole or not at all.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs

from mrql.algebra import types as ty
from mrql.algebra.atoms import show_atom
from mrql.algebra.errors import UserError
from mrql.algebra.sources import LINE_BREAK, ONLY_MISSING, Format
from mrql.algebra.span import Span
from mrql.algebra.types import Type
from mrql.algebra.values import Value
from mrql.output import row_cells, row_object
from mrql.runtime.durable import Files, Publication
from mrql.runtime.sinks import Answer
from mrql.targets import Target


def write(target: Target, rows: Any) -> None:
    """Writes an answer: a value, or a DataFrame of its rows.

    Raises: UserError where something else is in the way, or a value has no form in the file.
    """
    _must_be_free(target)
    hidden = target.path.with_name(f".{target.path.name}.writing")
    shutil.rmtree(hidden, ignore_errors=True)
    target.path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _write_rows(target, rows, hidden, Files())
        if target.path.exists():
            shutil.rmtree(target.path)
        hidden.rename(target.path)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _must_be_free(target: Target) -> None:
    """What is replaced must look like what an earlier run has written."""
    if not target.path.exists():
        return
    parts = list(target.path.iterdir()) if target.path.is_dir() else None
    if parts is None or any(not part.name.startswith(("part-", "_", ".")) for part in parts):
        raise UserError(f"{target.path} is there already, and was not written by a query", target.span)


def _write_rows(target: Target, rows: Any, directory: Path, files: Files) -> None:
    if hasattr(rows, "write"):  # a DataFrame
        from mrql.runtime.writers import write_frame

        write_frame(rows, target.format, target.row, directory, target.span)
        return
    lines = []
    for row in rows if ty.is_collection(target.type) else [rows]:
        is_json = target.format is Format.JSON
        lines.append(_json(row, target.row) if is_json else csv_line(row_cells(row, target.row), target.span))
    files.make_directory(directory)
    files.write(directory / f"part-00000.{target.format.value}", "".join(line + "\n" for line in lines).encode())
    files.write(directory / "_SUCCESS", b"")


def _json(row: Value, t: Type) -> str:
    return json.dumps(row_object(row, t), ensure_ascii=False)


def csv_line(cells: Iterable[Value], span: Span | None) -> str:
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


@attrs.frozen
class TargetSink:
    """Writes the answer after each batch where the query says."""

    target: Target
    files: Files
    suffix: str

    @staticmethod
    def instead_of(
        target: Target, *, named: bool, changes: bool, files: Files | None = None, suffix: str = ""
    ) -> TargetSink:
        """The sink of a query that says itself where its answer goes.

        Raises: UserError where the command says it too, or asks for changes.
        """
        if named or changes:
            option = "--output" if named else "--emit changes"
            raise UserError(f"the query writes its answer to {target.path}", target.span, f"leave out {option}")
        return TargetSink(target, files or Files(), suffix)

    place: None = None
    changes: bool = False
    due: bool = False

    def prepare(self, number: int, answer: Answer) -> Publication:
        """Writes the answer after a batch aside.

        Raises: UserError where something else is in the way, or a value has no form in the file.
        """
        path = self.target.path
        _must_be_free(self.target)
        hidden = path.with_name(f".{path.name}.batch-{number:06d}{self.suffix}")
        self.files.make_directory(path.parent)
        _write_rows(self.target, answer.snapshot(), hidden, self.files)
        return Publication(hidden, path, replaces=True)

    def start_anew(self) -> None:
        """Each answer stands by itself."""

    def hidden(self) -> Iterator[Path]:
        """What is written aside and was not published."""
        yield from self.target.path.parent.glob(f".{self.target.path.name}.batch-*")

    def close(self) -> None:
        """Nothing is held."""
