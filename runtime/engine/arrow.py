"""Values of the language as Arrow columns. A tuple is a struct of `_1`, `_2`, …, and `true` where it has no parts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.algebra.values.atom_text import unsigned
from mrql.algebra.values.values import Document, Value
from mrql.runtime.engine.row_format import row_columns

_BASIC = {
    ty.BOOL: "bool_",
    ty.INT: "int32",
    ty.LONG: "int64",
    ty.FLOAT: "float32",
    ty.DOUBLE: "float64",
    ty.STRING: "string",
    ty.DATE: "date32",
    ty.BYTES: "binary",
    ty.ANY: "string",
    ty.XML: "string",
    ty.NOTHING: "bool_",
}


def arrow_type(t: Type) -> Any:
    """The Arrow type of a type."""
    match t:
        case ty.TIMESTAMP:
            return pa.timestamp("us")
        case ty.DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ty.Basic(ty.Kind.DATA):
            return pa.string()
        case ty.Basic() | ty.Nothing():
            return getattr(pa, _BASIC[t])()
        case ty.BagType(item) | ty.ListType(item):
            return pa.list_(arrow_type(item))
        case ty.TupleType(()) | ty.RecordType(()):
            return pa.bool_()
        case _:
            return pa.struct([pa.field(name, arrow_type(item)) for name, item in row_columns(t)])


def to_plain(value: Value, t: Type) -> object:
    """A value in the form that Arrow takes."""
    if value is None:
        return None
    match t:
        case ty.TupleType(()) | ty.RecordType(()):
            return True
        case ty.TupleType(items):
            parts = zip(row_columns(t), value, items, strict=True)
            return {name: to_plain(v, item) for (name, _), v, item in parts}
        case ty.RecordType(fields):
            return {name: to_plain(value[name], item) for name, item in fields}
        case ty.BagType(item) | ty.ListType(item):
            return [to_plain(v, item) for v in value]
        case ty.DOUBLE | ty.FLOAT:
            return unsigned(value)
        case _:
            return value.text if isinstance(value, Document) else value
