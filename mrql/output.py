"""Answers for people and for programs: tables, and JSON lines."""

from __future__ import annotations

import json
import math
from datetime import date
from typing import Any

from rich.console import Console
from rich.table import Table

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.algebra.values.atom_text import show_atom, unsigned
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, Document, Record, Value

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
        case float():
            return unsigned(value) if math.isfinite(value) else show_atom(value)
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
        table.add_row(*(show_value(cell) for cell in row_cells(row, t.item)))
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


def row_cells(row: Value, item: Type) -> list[Value]:
    """The parts of a row, one for each column."""
    match item:
        case ty.RecordType(fields) if fields and row is not None:
            return [row[name] for name, _ in fields]
        case ty.TupleType(items) if items and row is not None:
            return list(row)
        case _:
            return [row] + [None] * (len(column_names(item)) - 1)


# --- rows as JSON objects -----------------------------------------------------------------------


def row_object(value: Value, item: Type) -> dict[str, Any]:
    """A row as a JSON object: the fields of a record, `_1`, `_2`, … of a tuple, else `value`; inside likewise.

    A missing tuple is a row whose columns are missing, as it is wherever rows are columns.
    """
    match item:
        case ty.RecordType(fields) if fields:
            return {name: named(v, t) for v, (name, t) in zip(row_cells(value, item), fields, strict=True)}
        case ty.TupleType(items) if items:
            parts = enumerate(zip(row_cells(value, item), items, strict=True))
            return {f"_{i + 1}": named(v, t) for i, (v, t) in parts}
        case _:
            return {"value": named(value, item)}


def named(value: Value, t: Type) -> Any:
    """A value as JSON, with the parts of records and tuples by their names."""
    match t:
        case _ if value is None:
            return None
        case ty.RecordType(()) | ty.TupleType(()):
            return True  # as Spark writes it, which has no empty structs
        case ty.RecordType() | ty.TupleType():
            return row_object(value, t)
        case ty.BagType(item) | ty.ListType(item):
            return [named(v, item) for v in value]
        case _:
            return to_json(value)


def item_type(t: Type) -> Type:
    """The type of the rows of an answer."""
    return t.item if isinstance(t, ty.BagType | ty.ListType) else t
