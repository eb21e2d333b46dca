"""Constants of a query, and places in it, in SQL."""

from __future__ import annotations

from datetime import date
from urllib.parse import quote as urlquote

from mrql.algebra import types as ty
from mrql.algebra.functions.sql_text import text_sql
from mrql.algebra.span import Span
from mrql.algebra.types import Type
from mrql.algebra.values.atom_text import show_atom
from mrql.algebra.values.values import Document, Value
from mrql.runtime.spark.expressions.layout import Atom, Struct, labels, sql_type, to_sql


def place(span: Span | None, *, of_ints: bool = False) -> str:
    """A comment that carries a place of the query into Spark's errors; in an included file, with the file's name.

    It also says whether all operands there are ints: Spark's error for their overflow is the same as for longs.
    """
    if span is None:
        return ""
    file = f"@{urlquote(span.source.name)}" if span.source.included else ""
    return f"/*@{span.start}:{span.end}{file}{';int' if of_ints else ''}*/ "


def has_place(sql: str) -> bool:
    """Whether an expression has a part that may fail, known by the comment with its place."""
    return "/*@" in sql


def literal_sql(value: object, t: Type) -> str:
    """A constant of a basic type, or null."""
    if value is None:
        return f"CAST(NULL AS {sql_type(t)})"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Document):
        return text_sql(value.text)
    if isinstance(value, str):
        return text_sql(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, date):
        return f"{sql_type(t)}'{show_atom(value)}'"
    if isinstance(value, int):
        return f"{value}{'L' if t == ty.LONG else ''}" if 0 <= value < 2**31 else f"CAST('{value}' AS {sql_type(t)})"
    return f"CAST('{show_atom(value)}' AS {sql_type(t)})"


def value_sql(value: Value, t: Type) -> str:
    """A constant of any type."""
    if value is None or isinstance(t, ty.Basic | ty.Nothing):
        return literal_sql(value, t)
    match t:
        case ty.BagType(item) | ty.ListType(item):
            return f"CAST(array({', '.join(value_sql(x, item) for x in value)}) AS {sql_type(t)})"
        case ty.TupleType(items):
            parts = zip(labels(t), value, items, strict=True)
            return to_sql(Struct(tuple((name, Atom(value_sql(x, item), item)) for (name, _), x, item in parts), t))
        case ty.RecordType(fields):
            return to_sql(Struct(tuple((name, Atom(value_sql(value[name], item), item)) for name, item in fields), t))
