"""`dump "file" from e` and `store "file" from e`: where an answer is written, and how.

`dump` writes JSON, a row a line, which `source(json, …)` reads back; `store` writes text, the values of a row separated
by commas, which `source(csv, …)` reads back. What is written is a directory of part files, which takes the place of the
one that an earlier run has written, and is seen as a whole or not at all.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.functions import show_atom
from mrql.algebra.sources import LINE_BREAK, ONLY_MISSING, Format
from mrql.algebra.span import Span
from mrql.algebra.types import Type
from mrql.algebra.values import Value
from mrql.output import item_type, row_object
from mrql.scope import Globals
from mrql.sources import known_text


@attrs.frozen
class Target:
    """A directory that the rows of an answer of a type are written to."""

    path: Path
    format: Format
    type: Type
    span: Span = attrs.field(eq=False, repr=False)

    def write(self, rows: Any) -> None:
        """Writes an answer: a value, or a DataFrame of its rows.

        Raises: UserError where something else is in the way, or a value has no form in the file.
        """
        self._must_be_free()
        hidden = self.path.with_name(f".{self.path.name}.writing")
        shutil.rmtree(hidden, ignore_errors=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._write_rows(rows, hidden)
            if self.path.exists():
                shutil.rmtree(self.path)
            hidden.rename(self.path)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)

    def _write_rows(self, rows: Any, directory: Path) -> None:
        if hasattr(rows, "write"):  # a DataFrame
            from mrql.runtime.writers import write_frame

            write_frame(rows, self.format, item_type(self.type), directory, self.span)
        else:
            self._write_lines(rows if ty.is_collection(self.type) else [rows], directory)

    def _must_be_free(self) -> None:
        """What is replaced must look like what an earlier run has written."""
        if not self.path.exists():
            return
        parts = list(self.path.iterdir()) if self.path.is_dir() else None
        if parts is None or any(not part.name.startswith(("part-", "_", ".")) for part in parts):
            raise UserError(f"{self.path} is there already, and was not written by a query", self.span)

    def _write_lines(self, rows: Any, directory: Path) -> None:
        directory.mkdir(parents=True)
        item = item_type(self.type)
        with (directory / f"part-00000.{self.format.value}").open("w", encoding="utf-8", newline="\n") as out:
            for row in rows:
                out.write((self._json(row, item) if self.format is Format.JSON else self._csv(row, item)) + "\n")
        (directory / "_SUCCESS").touch()

    def _json(self, row: Value, item: Type) -> str:
        return json.dumps(row_object(row, item), ensure_ascii=False)

    def _csv(self, row: Value, item: Type) -> str:
        fields = list(_fields(row, item))
        if fields == [""]:
            raise UserError(ONLY_MISSING, self.span)
        if any("\n" in field or "\r" in field for field in fields):
            raise UserError(LINE_BREAK, self.span)
        return ",".join(fields)


def _fields(row: Value, item: Type) -> Iterator[str]:
    match item:
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

    @staticmethod
    def instead_of(target: Target, output: Path | None, *, changes: bool) -> TargetSink:
        """The sink of a query that says itself where its answer goes.

        Raises: UserError where the command says it too, or asks for changes.
        """
        if output is not None or changes:
            option = "--output" if output is not None else "--emit changes"
            raise UserError(f"the query writes its answer to {target.path}", target.span, f"leave out {option}")
        return TargetSink(target)

    def write(self, number: int, rows: object) -> None:
        self.target.write(rows)


def target_of(statement: syntax.Dump, t: Type, known: Globals, base: Path) -> Target:
    """Where a statement writes an answer of a type.

    Raises: UserError where the path is no text that is known beforehand, or a row has no form in the file.
    """
    path = known_text(statement.path, known, "the path of a file to write")
    if statement.text:
        return Target(base / path, Format.JSON, t, statement.span)
    if not _is_flat(item_type(t)):
        message = f"a row of a csv file holds atomic values, and this one is of type {item_type(t)}"
        raise UserError(message, statement.expr.span, "`dump` writes values of all types, as JSON")
    return Target(base / path, Format.CSV, t, statement.span)


def _is_flat(item: Type) -> bool:
    match item:
        case ty.TupleType(items) if items:
            return all(isinstance(part, ty.Basic) for part in items)
        case ty.RecordType(fields) if fields:
            return all(isinstance(part, ty.Basic) for _, part in fields)
        case _:
            return isinstance(item, ty.Basic)
