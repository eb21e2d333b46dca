"""The types of JSON values, and the type that holds the values of several types."""

from __future__ import annotations

from decimal import Decimal

from mrql.algebra import types as ty
from mrql.algebra.functions import INT_RANGES
from mrql.algebra.types import Type
from mrql.algebra.values.json_text import Json

RECORD_MAX_FIELDS = 200
"""An object with more keys than this is taken for a table of its own, of type `any`."""
LARGE = ty.DecimalType(38)
"""The type of whole numbers that no long holds: as doubles, different ones would be equal."""


def type_of(value: Json) -> Type:
    """The type that a JSON value has by itself; `nothing` is that of null.

    >>> print(type_of({"a": 1, "b": [1, 2.5], "c": {"d": "x"}}))
    <a: long, b: [double], c: <d: string>>
    """
    match value:
        case None:
            return ty.NOTHING
        case bool():
            return ty.BOOL
        case str():
            return ty.STRING
        case int():
            low, high = INT_RANGES[ty.LONG]
            return ty.LONG if low <= value <= high else LARGE
        case Decimal() if value.as_tuple().exponent == 0:
            return LARGE
        case dict():
            if len(value) > RECORD_MAX_FIELDS or not all(map(_is_name, value)):
                return ty.ANY
            return ty.RecordType(tuple((name, type_of(item)) for name, item in value.items()))
        case list():
            item: Type = ty.NOTHING
            for part in value:
                item = joined_types(item, type_of(part))
            return ty.ListType(item)
        case _:
            return ty.DOUBLE


def _is_name(key: str) -> bool:
    """Whether a field of a record can have this name."""
    return key != "" and '"' not in key and "\\" not in key


def joined_types(a: Type, b: Type) -> Type:
    """The type that holds the values of both; `any` if no other does.

    >>> print(joined_types(type_of({"a": 1}), type_of({"b": "x", "a": True})))
    <a: any, b: string>
    """
    match a, b:
        case _ if a == b:
            return a
        case (ty.Nothing(), other) | (other, ty.Nothing()):
            return other
        case ty.RecordType(fields), ty.RecordType():
            named = dict(fields)
            for name, t in b.fields:
                named[name] = joined_types(named[name], t) if name in named else t
            return ty.RecordType(tuple(named.items())) if len(named) <= RECORD_MAX_FIELDS else ty.ANY
        case ty.ListType(x), ty.ListType(y):
            return ty.ListType(joined_types(x, y))
        case _ if {a, b} <= {ty.LONG, ty.DOUBLE, LARGE}:
            return ty.DOUBLE if ty.DOUBLE in (a, b) else LARGE
        case _:
            return ty.ANY


def widened_by(known: Type, found: Type) -> Type | None:
    """A type, widened as far as a value of another one requires: a `long` becomes a `double`, a record gets a field.
    None if there is no such type: then the value is malformed, and the type is not wrong.

    >>> print(widened_by(type_of({"a": 1, "b": [{"c": 1}]}), type_of({"a": 1.5, "b": [{"d": "x"}]})))
    <a: double, b: [<c: long, d: string>]>
    >>> widened_by(type_of({"a": 1}), type_of({"a": "x", "b": 1})) is None
    True
    """
    match known, found:
        case (ty.ANY, _) | (_, ty.Nothing()):
            return known
        case _ if known == found:
            return known
        case ty.RecordType(), ty.RecordType():
            fields = dict(known.fields)
            for name, t in found.fields:
                wider = widened_by(fields[name], t) if name in fields else with_any_for_nulls(t)
                if wider is None:
                    return None
                fields[name] = wider
            return ty.RecordType(tuple(fields.items())) if len(fields) <= RECORD_MAX_FIELDS else ty.ANY
        case ty.ListType(item), ty.ListType(other):
            inner = widened_by(item, other)
            return None if inner is None else ty.ListType(inner)
        case _ if {known, found} <= {ty.LONG, ty.DOUBLE, LARGE}:
            return joined_types(known, found)
        case _:
            return None


def with_any_for_nulls(t: Type) -> Type:
    """The type with `any` for the parts of which only null was seen."""
    return with_any_for(ty.NOTHING, t)


def with_any_for(unknown: Type, t: Type) -> Type:
    """The type with `any` for its parts of the type `unknown`."""
    match t:
        case _ if t == unknown:
            return ty.ANY
        case ty.RecordType(fields):
            return ty.RecordType(tuple((name, with_any_for(unknown, item)) for name, item in fields))
        case ty.ListType(item):
            return ty.ListType(with_any_for(unknown, item))
        case _:
            return t
