"""Answers with rows in columns (docs/language.md, on missing values)."""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.catalog import item_type
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Record, Value
from mrql.runtime.spark.expressions.layout import is_taken_apart


def in_columns(value: Value, t: Type) -> Value:
    """An answer as a DataFrame has it: a row that is a missing tuple becomes one of missing parts."""
    if not ty.is_collection(t):
        return _row(value, t)
    rows = [_row(row, item_type(t)) for row in value]  # type: ignore[union-attr]
    return rows if isinstance(t, ty.ListType) else Bag(rows)


def _row(row: Value, t: Type) -> Value:
    if row is not None or not is_taken_apart(t):
        return row
    if isinstance(t, ty.RecordType):
        return Record(dict.fromkeys(t.names))
    assert isinstance(t, ty.TupleType)
    return (None,) * len(t.items)
