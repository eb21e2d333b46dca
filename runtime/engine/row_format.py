"""The form of the rows of an answer, as columns and as JSON, for all that write them."""

from __future__ import annotations

import json
import math
from datetime import date
from decimal import Decimal
from typing import Any

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.algebra.values.atom_text import show_atom, unsigned
from mrql.algebra.values.json_text import write
from mrql.algebra.values.values import Bag, Document, Record, Value


def row_columns(row: Type) -> tuple[tuple[str, Type], ...]:
    """The columns of the rows of a type: the fields of a record, `_1`, `_2`, … of a tuple, else `value`."""
    match row:
        case ty.RecordType(fields) if fields:
            return fields
        case ty.TupleType(items) if items:
            return tuple((f"_{i + 1}", item) for i, item in enumerate(items))
        case _:
            return (("value", row),)


def column_names(item: Type) -> tuple[str, ...]:
    """The names of the columns of the rows of a type."""
    return tuple(name for name, _ in row_columns(item))


def row_cells(row: Value, item: Type) -> list[Value]:
    """The parts of a row, one for each column."""
    match item:
        case ty.RecordType(fields) if fields and row is not None:
            return [row[name] for name, _ in fields]
        case ty.TupleType(items) if items and row is not None:
            return list(row)
        case _:
            return [row] + [None] * (len(column_names(item)) - 1)


def row_object(value: Value, item: Type) -> dict[str, Any]:
    """A row as a JSON object: the fields of a record, `_1`, `_2`, … of a tuple, else `value`; nested values likewise.

    A missing tuple or record is a row whose columns are all missing, as in other formats with columns.
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


def json_text(value: Any) -> str:
    """JSON as text. Decimals, which Python's `json` module cannot write, are numbers without an exponent."""
    match value:
        case dict():
            return f"{{{', '.join(f'{json_text(name)}: {json_text(item)}' for name, item in value.items())}}}"
        case list():
            return f"[{', '.join(map(json_text, value))}]"
        case Decimal():
            return write(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def to_json(value: Value) -> Any:
    """A value as JSON: bags, lists and tuples as arrays, records as objects; infinities and NaN by name,
    dates, timestamps and bytes as strings."""
    match value:
        case float():
            return unsigned(value) if math.isfinite(value) else show_atom(value)
        case date() | bytes():
            return show_atom(value)
        case Document():
            return json.loads(value.text)
        case tuple() | list() | Bag():
            return [to_json(item) for item in value]
        case Record():
            return {name: to_json(item) for name, item in value.fields.items()}
        case _:
            return value
