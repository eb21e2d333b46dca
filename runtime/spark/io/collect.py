"""Answers brought to the driver, as values of the language."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Row

from mrql.algebra import types as ty
from mrql.algebra.functions.recursive_data import Data
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Document, Element, Record, Value
from mrql.runtime.spark.expressions.layout import is_taken_apart, row_columns


def collect_value(df: DataFrame, t: Type) -> Value:
    """The value that an answer's DataFrame holds: a bag or list of its rows, or the value of its one row."""
    rows = df.collect()
    match t:
        case ty.BagType(item):
            return Bag(_row(row, item) for row in rows)
        case ty.ListType(item):
            return [_row(row, item) for row in rows]
        case _:
            return _row(rows[0], t)


def _row(row: Row, t: Type) -> Value:
    if not is_taken_apart(t):
        return from_spark(row[0], t)
    columns = len(row_columns(t))
    return None if any(row[columns:]) else from_spark(row[:columns], t)


def from_spark(value: Any, t: Type) -> Value:
    """A value as Spark's rows hold it, or as Arrow does, as a value of the language.

    The parts of a struct are a tuple in a row, and in Arrow a dictionary in the order of the fields.
    """
    if value is None:
        return None
    if isinstance(value, dict):
        value = tuple(value.values())
    match t:
        case ty.TupleType(()):
            return ()
        case ty.RecordType(()):
            return Record({})
        case ty.TupleType(items):
            return tuple(from_spark(v, item) for v, item in zip(value, items, strict=True))
        case ty.RecordType(fields):
            return Record({name: from_spark(v, item) for v, (name, item) in zip(value, fields, strict=True)})
        case ty.BagType(item):
            return Bag(from_spark(v, item) for v in value)
        case ty.ListType(item):
            return [from_spark(v, item) for v in value]
        case ty.Basic(ty.Kind.ANY):
            return Document(value)
        case ty.Basic(ty.Kind.XML):
            return Element(value)
        case ty.Basic(ty.Kind.DATA):
            return Data(value)
        case _:
            return value


def collect_changes(df: DataFrame, item: Type) -> Bag:
    """The changes of an answer as a bag of `(row, weight)`."""
    return Bag((_row(Row(*row[:-1]), item), row[-1]) for row in df.collect())
