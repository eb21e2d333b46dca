"""Conversion of values from Spark to values of the language."""

from __future__ import annotations

from typing import Any

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.algebra.values.data import Data, Element
from mrql.algebra.values.decimals import of_type
from mrql.algebra.values.values import Bag, Document, Record, Value


def from_spark(value: Any, t: Type) -> Value:
    """A value of a Spark row, or of Arrow, as a value of the language.

    A struct is a tuple in a row, and in Arrow a dictionary in the order of the fields.
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
        case ty.DecimalType():
            return of_type(value, t)  # some have more trailing zeros
        case ty.Basic(ty.Kind.BINARY):
            return bytes(value)
        case ty.Basic(ty.Kind.ANY):
            return Document(value)
        case ty.Basic(ty.Kind.XML):
            return Element(value)
        case ty.Basic(ty.Kind.DATA):
            return Data(value)
        case _:
            return value
