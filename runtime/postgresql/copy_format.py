"""Rows as PostgreSQL's COPY takes them: csv, with the weight of a row as the last field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mrql.algebra import types as ty
from mrql.algebra.catalog import Records
from mrql.algebra.types import Type
from mrql.algebra.values.atom_text import show_atom
from mrql.algebra.values.values import Bag, Document, Record, Value, canonical
from mrql.runtime.engine.answer import AnswerFormat, Output
from mrql.runtime.engine.row_format import json_text, named, row_cells, row_columns
from mrql.runtime.postgresql.columns import JSONB, column_type


def encode_copy(output: Output, answer: Value) -> bytes:
    """A part file; a row without a weight gets the weight 1."""
    rows = ((row, weight or (1,)) for row, weight in output.rows(answer))
    return "".join(f"{line(row, output.item)},{n}\n" for row, (n,) in rows).encode()


COPY = AnswerFormat("copy", Records(typed=True), encode=encode_copy, suffix="csv")


def parts(directory: Path) -> Iterator[Path]:
    """The part files in a directory that are not empty."""
    yield from sorted(file for file in directory.glob("part-*") if file.stat().st_size)


def line(row: Value, item: Type) -> str:
    """A row as a line, without its weight.

    >>> line((1, "a", Bag([2.5, 1.0])), ty.TupleType((ty.LONG, ty.STRING, ty.BagType(ty.DOUBLE))))
    '1,"a","[1.0, 2.5]"'
    """
    columns = row_columns(item)
    return ",".join(_field(value, t) for value, (_, t) in zip(row_cells(row, item), columns, strict=True))


def _field(value: Value, t: Type) -> str:
    if value is None:
        return ""
    if column_type(t) == "boolean":
        return show_atom(value if t == ty.BOOL else True)
    if isinstance(value, Document):
        return _quoted(value.text)
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if column_type(t) == JSONB:
        return _quoted(json_text(named(_sorted(value), t)))
    return _quoted(value) if isinstance(value, str) else show_atom(value)


def _quoted(text: str) -> str:
    escaped = text.replace('"', '""')
    return f'"{escaped}"'


def _sorted(value: Value) -> Value:
    """A value with its bags in order, so that equal values have equal texts."""
    match value:
        case Bag():
            return Bag(map(_sorted, sorted(value, key=canonical)))
        case tuple():
            return tuple(map(_sorted, value))
        case list():
            return [_sorted(item) for item in value]
        case Record():
            return Record({name: _sorted(item) for name, item in value.fields.items()})
        case _:
            return value
