"""Answers for people and for programs: tables, JSON lines, and a directory of part files for each batch."""

from __future__ import annotations

import json
import math
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.table import Table

from mrql.algebra import types as ty
from mrql.algebra.atoms import show_atom
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.algebra.values import Bag, Document, Record, Value
from mrql.algebra.written import show_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN_ROWS = 20


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
    """A directory for each batch, which appears as a whole: it is written under another name and then renamed."""

    def __init__(self, directory: Path, t: Type, *, changes: bool) -> None:
        self.directory = directory
        self.type = t
        self.changes = changes
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.glob("batch-*")):
            raise UserError(f"{directory} holds batches already", hint="name another --output, or remove them")

    def write(self, number: int, rows: object) -> None:
        final = self.directory / f"batch-{number:06d}"
        hidden = self.directory / f".batch-{number:06d}"
        self._write_rows(rows, hidden)
        hidden.rename(final)

    def _write_rows(self, rows: Any, path: Path) -> None:
        if hasattr(rows, "write"):  # a DataFrame
            from mrql.runtime.rows import to_write

            written = to_write(cast("DataFrame", rows), self.type)
            written.write.mode("overwrite").option("ignoreNullFields", "false").json(str(path))
            return
        path.mkdir(exist_ok=True)
        with (path / "part-00000.json").open("w", encoding="utf-8") as out:
            for line in self._objects(rows):
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
        (path / "_SUCCESS").touch()

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
        value = self._collected(rows)
        if self.as_json:
            print(json_line(self.line, self.type, value), flush=True)
        else:
            print_table(value, self.type, Console(file=sys.stdout))

    def _collected(self, rows: Any) -> Value:
        if not hasattr(rows, "collect"):
            return rows
        from mrql.runtime.collect import collect_changes, collect_value

        if self.changes:
            assert isinstance(self.type, ty.BagType)
            assert isinstance(self.type.item, ty.TupleType)
            return collect_changes(rows, self.type.item.items[0])
        return collect_value(rows, self.type)
