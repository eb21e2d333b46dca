"""Answers for people and for programs: tables, JSON lines, and a directory of part files for each batch."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
from rich.console import Console
from rich.table import Table

from mrql.algebra import types as ty
from mrql.algebra.atoms import show_atom
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.algebra.values import Bag, Document, Record, Value
from mrql.algebra.written import show_value
from mrql.runtime.durable import Files, Publication

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN_ROWS = 20


class Printer(Console):
    """Standard output. That nobody reads it any more is for the command to end with, as with what it prints plainly."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def type_name(t: Type) -> str:
    """A type as the language writes it in words: `bag((long, double))`.

    >>> type_name(ty.BagType(ty.TupleType((ty.LONG, ty.DOUBLE))))
    'bag((long, double))'
    """
    match t:
        case ty.BagType(item):
            return f"bag({type_name(item)})"
        case ty.ListType(item):
            return f"list({type_name(item)})"
        case ty.TupleType(items):
            return f"({', '.join(map(type_name, items))})"
        case ty.RecordType(fields):
            return f"<{', '.join(f'{name}: {type_name(item)}' for name, item in fields)}>"
        case _:
            return str(t)


def to_json(value: Value) -> Any:
    """A value as JSON has it: bags, lists and tuples as arrays, records as objects; infinities and NaN by name,
    dates and timestamps as strings."""
    match value:
        case float() if math.isnan(value) or math.isinf(value):
            return show_atom(value)
        case date():
            return show_atom(value)
        case Document():
            return json.loads(value.text)
        case tuple() | list() | Bag():
            return [to_json(item) for item in value]
        case Record():
            return {name: to_json(item) for name, item in value.fields.items()}
        case _:
            return value


def json_line(line: int, t: Type, value: Value) -> str:
    """One answer as one line of JSON."""
    return json.dumps({"line": line, "type": type_name(t), "value": to_json(value)}, ensure_ascii=False)


def print_table(value: Value, t: Type, console: Console, limit: int | None = SHOWN_ROWS) -> None:
    """An answer as a table: a row for each element of a collection, a column for each part of a tuple or record."""
    if not ty.is_collection(t):
        console.print(show_value(value), markup=False, highlight=False)
        return
    assert isinstance(t, ty.BagType | ty.ListType)
    rows = list(value)
    table = Table(show_edge=False, header_style="bold")
    for name in column_names(t.item):
        table.add_column(name, justify="left", no_wrap=False)
    for row in rows[:limit]:
        table.add_row(*(show_value(cell) for cell in _cells(row, t.item)))
    console.print(table)
    if limit is not None and len(rows) > limit:
        console.print(f"… {len(rows) - limit} more rows", highlight=False)
    console.print(f"{len(rows)} row{'' if len(rows) == 1 else 's'}", style="dim", highlight=False)


def column_names(item: Type) -> tuple[str, ...]:
    match item:
        case ty.RecordType(fields) if fields:
            return tuple(name for name, _ in fields)
        case ty.TupleType(items) if items:
            return tuple(f"_{i + 1}" for i in range(len(items)))
        case _:
            return ("value",)


def _cells(row: Value, item: Type) -> list[Value]:
    match item:
        case ty.RecordType(fields) if fields and row is not None:
            return [row[name] for name, _ in fields]
        case ty.TupleType(items) if items and row is not None:
            return list(row)
        case _:
            return [row] + [None] * (len(column_names(item)) - 1)


# --- sinks --------------------------------------------------------------------------------------


def row_object(value: Value, item: Type) -> dict[str, Any]:
    """A row as a JSON object: the fields of a record, `_1`, `_2`, … of a tuple, else `value`; inside likewise."""
    match item:
        case ty.RecordType(fields) if fields and value is not None:
            return {name: _named(value[name], t) for name, t in fields}
        case ty.TupleType(items) if items and value is not None:
            return {f"_{i + 1}": _named(v, t) for i, (v, t) in enumerate(zip(value, items, strict=True))}
        case _:
            return {"value": _named(value, item)}


def _named(value: Value, t: Type) -> Any:
    match t:
        case _ if value is None:
            return None
        case ty.RecordType() | ty.TupleType():
            return row_object(value, t)
        case ty.BagType(item) | ty.ListType(item):
            return [_named(v, item) for v in value]
        case _:
            return to_json(value)


def item_type(t: Type) -> Type:
    """The type of the rows of an answer."""
    return t.item if isinstance(t, ty.BagType | ty.ListType) else t


class DirectorySink:
    """A directory for each batch, which appears as a whole: it is written under another name and then renamed.

    One that goes on `after` a batch may hold the batches up to that; `suffix` tells what this process writes aside
    from what others did.
    """

    def __init__(
        self,
        directory: Path,
        t: Type,
        *,
        changes: bool,
        files: Files | None = None,
        suffix: str = "",
        after: int | None = None,
    ) -> None:
        self.directory = directory
        self.type = t
        self.changes = changes
        self.files = files or Files()
        self.suffix = suffix
        self.files.make_directory(directory)
        self._must_go_on(after)

    def _must_go_on(self, after: int | None) -> None:
        there = sorted(self.directory.glob("batch-*"))
        if there and after is None:
            raise UserError(f"{self.directory} holds batches already", hint="name another --output, or remove them")
        over = [path.name for path in there if path.name > f"batch-{after or 0:06d}"]
        if over:
            message = f"{self.directory / over[0]} is there already, and the checkpoint is at batch {after}"
            raise UserError(message, hint="name another --output, or remove what came after the checkpoint")

    def write(self, number: int, rows: object) -> None:
        self.prepare(number, rows).publish(self.files)

    def prepare(self, number: int, rows: object) -> Publication:
        """Writes the rows of a batch aside."""
        hidden = self.directory / f".batch-{number:06d}{self.suffix}"
        self._write_rows(rows, hidden)
        return Publication(hidden, self.directory / f"batch-{number:06d}")

    def hidden(self) -> Iterator[Path]:
        """What is written aside and was not published."""
        yield from self.directory.glob(".batch-*")

    def _write_rows(self, rows: Any, path: Path) -> None:
        if hasattr(rows, "write"):  # a DataFrame
            from mrql.runtime.rows import to_write

            written = to_write(cast("DataFrame", rows), self.type)
            written.write.mode("overwrite").option("ignoreNullFields", "false").json(str(path))
            return
        lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in self._objects(rows))
        self.files.make_directory(path)
        self.files.write(path / "part-00000.json", "".join(lines).encode())
        self.files.write(path / "_SUCCESS", b"")

    def _objects(self, rows: Any) -> list[dict[str, Any]]:
        item = item_type(self.type)
        if self.changes:
            return [{**row_object(value, item), "weight": weight} for value, weight in rows]
        return [row_object(row, item) for row in (rows if ty.is_collection(self.type) else [rows])]


class ConsoleSink:
    """The answer of each batch on standard output."""

    def __init__(self, t: Type, line: int, *, as_json: bool, changes: bool) -> None:
        item = ty.TupleType((item_type(t), ty.LONG))
        self.type: Type = ty.BagType(item) if changes else t
        self.line = line
        self.as_json = as_json
        self.changes = changes

    def write(self, number: int, rows: object) -> None:
        self.prepare(number, rows).publish(Files())

    def prepare(self, number: int, rows: object) -> Printed:
        """Computes the rows of a batch."""
        return Printed(self, self._collected(rows))

    def hidden(self) -> Iterator[Path]:
        """Nothing is written aside."""
        return iter(())

    def _collected(self, rows: Any) -> Value:
        if not hasattr(rows, "collect"):
            return rows
        from mrql.runtime.collect import collect_changes, collect_value

        if self.changes:
            assert isinstance(self.type, ty.BagType)
            assert isinstance(self.type.item, ty.TupleType)
            return collect_changes(rows, self.type.item.items[0])
        return collect_value(rows, self.type)


@attrs.frozen
class Printed:
    """An answer that is not printed yet."""

    sink: ConsoleSink
    value: Value

    def publish(self, files: Files) -> None:
        """Prints it."""
        sink = self.sink
        if sink.as_json:
            print(json_line(sink.line, sink.type, self.value), flush=True)
        else:
            print_table(self.value, sink.type, Printer(file=sys.stdout))
