"""Conversions between values and JSON without a declared type: the operations on values of type `any`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal

from mrql.algebra.stack import deep
from mrql.algebra.values.atom_text import show_atom
from mrql.algebra.values.json_text import Json, content, document, write
from mrql.algebra.values.values import Bag, Document, Record, Value, canonical


def of_value(value: Value) -> Document:
    """A value as JSON: records are objects, collections arrays.

    >>> of_value(Record({"A": 1, "B": [0.5, None]}))
    {"A":1,"B":[0.5,null]}
    """
    return Document(write(_plain(value)))


def _plain(value: Value) -> Json:
    match value:
        case Document():
            return content(value)
        case Record():
            return {name: _plain(item) for name, item in value.fields.items()}
        case Bag():
            return [_plain(item) for item in sorted(value, key=canonical)]
        case list():
            return [_plain(item) for item in value]
        case float() if value == 0 or 1e-3 <= abs(value) < 1e15:
            # Written like a number in a JSON text, so that 0.5 equals 0.5.
            return Decimal(repr(value))
        case date() | bytes():
            return show_atom(value)
        case _:
            return value


@deep
def as_python(value: Document) -> Json:
    """A JSON value as Python's own module reads it: a copy, which the caller may change."""
    return json.loads(value.text)


def of_python(value: Json) -> Document:
    """A Python value as a JSON value.

    Raises: TypeError if it is not one.
    """

    def plain(part: Json) -> Json:
        match part:
            case None | bool() | int() | str():
                return part
            case float():
                return _plain(part)
            case list() | tuple():
                return [plain(item) for item in part]
            case Mapping() if all(isinstance(key, str) for key in part):
                return {key: plain(item) for key, item in part.items()}
            case _:
                raise TypeError(f"{type(part).__name__} is none of JSON's types")

    return Document(write(plain(value)))


def member(value: Document, name: str) -> Value:
    """`e.A`: the value of a key of an object; missing if there is no such key, or no object."""
    found = content(value)
    return document(found.get(name)) if isinstance(found, dict) else None
