"""Answers written to where a query says: a directory of part files.

It takes the place of the one that an earlier run has written, and is seen as a whole or not at all.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from mrql.algebra import types as ty
from mrql.algebra.atoms import show_atom
from mrql.algebra.errors import UserError
from mrql.algebra.sources import LINE_BREAK, ONLY_MISSING, Format
from mrql.algebra.types import Type
from mrql.algebra.values import Value
from mrql.output import row_object
from mrql.runtime.durable import Files, Publication
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
        lines.append((_json(row, target.row) if target.format is Format.JSON else _csv(row, target)) + "\n")
    files.make_directory(directory)
    files.write(directory / f"part-00000.{target.format.value}", "".join(lines).encode())
    files.write(directory / "_SUCCESS", b"")


def _json(row: Value, t: Type) -> str:
    return json.dumps(row_object(row, t), ensure_ascii=False)


def _csv(row: Value, target: Target) -> str:
    fields = list(_fields(row, target.row))
    if fields == [""]:
        raise UserError(ONLY_MISSING, target.span)
    if any("\n" in field or "\r" in field for field in fields):
        raise UserError(LINE_BREAK, target.span)
    return ",".join(fields)


def _fields(row: Value, t: Type) -> Iterator[str]:
    match t:
        case ty.TupleType(items):
            values = [None] * len(items) if row is None else list(row)
        case ty.RecordType(fields):
            values = [None if row is None else row[name] for name, _ in fields]
        case _:
            values = [row]
    for value in values:
        if value is None:
            yield ""
        elif isinstance(value, str):
            escaped = value.replace('"', '""')
            yield f'"{escaped}"'
        else:
            yield show_atom(value)


@attrs.frozen
class TargetSink:
    """Writes the answer after each batch where the query says."""

    target: Target
    files: Files
    suffix: str

    @staticmethod
    def instead_of(
        target: Target, output: Path | None, *, changes: bool, files: Files | None = None, suffix: str = ""
    ) -> TargetSink:
        """The sink of a query that says itself where its answer goes.

        Raises: UserError where the command says it too, or asks for changes.
        """
        if output is not None or changes:
            option = "--output" if output is not None else "--emit changes"
            raise UserError(f"the query writes its answer to {target.path}", target.span, f"leave out {option}")
        return TargetSink(target, files or Files(), suffix)

    def write(self, number: int, rows: object) -> None:
        write(self.target, rows)

    def prepare(self, number: int, rows: object) -> Publication:
        """Writes the rows of a batch aside.

        Raises: UserError where something else is in the way, or a value has no form in the file.
        """
        path = self.target.path
        _must_be_free(self.target)
        hidden = path.with_name(f".{path.name}.batch-{number:06d}{self.suffix}")
        self.files.make_directory(path.parent)
        _write_rows(self.target, rows, hidden, self.files)
        return Publication(hidden, path, replaces=True)

    def hidden(self) -> Iterator[Path]:
        """What is written aside and was not published."""
        yield from self.target.path.parent.glob(f".{self.target.path.name}.batch-*")
