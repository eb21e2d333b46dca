"""Answers for people and for programs: tables, and JSON lines."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from mrql.algebra import types as ty
from mrql.algebra.showable import escaped, numbered, written_name
from mrql.algebra.types import Type
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Value
from mrql.runtime.engine.row_format import column_names, json_text, row_cells, to_json

SHOWN_ROWS = 20


class Printer(Console):
    """Standard output. A broken pipe is raised, so that the command ends with it as for plain prints."""

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
            return f"<{', '.join(f'{written_name(name)}: {type_name(item)}' for name, item in fields)}>"
        case _:
            return str(t)


def json_line(line: int, t: Type, value: Value) -> str:
    """One answer as one line of JSON."""
    return numbered(json_text({"line": line, "type": type_name(t), "value": to_json(value)}))


def print_table(value: Value, t: Type, console: Console, limit: int | None = SHOWN_ROWS) -> None:
    """An answer as a table: a row for each element of a collection, a column for each part of a tuple or record."""
    if not ty.is_collection(t):
        console.print(show_value(value), markup=False, highlight=False)
        return
    assert isinstance(t, ty.BagType | ty.ListType)
    rows = list(value)
    table = Table(show_edge=False, header_style="bold")
    for name in column_names(t.item):
        table.add_column(escaped(name), justify="left", no_wrap=False)
    for row in rows[:limit]:
        table.add_row(*(show_value(cell) for cell in row_cells(row, t.item)))
    console.print(table)
    if limit is not None and len(rows) > limit:
        console.print(f"… {len(rows) - limit} more rows", highlight=False)
    console.print(f"{len(rows)} row{'' if len(rows) == 1 else 's'}", style="dim", highlight=False)
