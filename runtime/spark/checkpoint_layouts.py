"""Types and layouts as JSON: how the columns of a saved table are read as values."""

from __future__ import annotations

from typing import Any

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions.layout import Atom, Layout, Struct


def type_to_json(t: Type) -> Any:
    """A type as JSON.

    >>> type_to_json(ty.BagType(ty.TupleType((ty.LONG, ty.STRING))))
    {'bag': {'tuple': ['long', 'string']}}
    """
    match t:
        case ty.TupleType(items):
            return {"tuple": [type_to_json(item) for item in items]}
        case ty.RecordType(fields):
            return {"record": [[name, type_to_json(item)] for name, item in fields]}
        case ty.BagType(item):
            return {"bag": type_to_json(item)}
        case ty.ListType(item):
            return {"list": type_to_json(item)}
        case ty.DecimalType(precision, scale):
            return {"decimal": [precision, scale]}
        case ty.Basic(ty.Kind.DATA, name):
            return {"data": name}
        case _:
            return str(t)


def type_from_json(plain: Any) -> Type:
    """The type that was written as JSON."""
    match plain:
        case str():
            return ty.NOTHING if plain == str(ty.NOTHING) else ty.Basic(ty.Kind(plain))
        case {"decimal": [precision, scale]}:
            return ty.DecimalType(precision, scale)
        case {"data": name}:
            return ty.Basic(ty.Kind.DATA, name)
        case {"tuple": items}:
            return ty.TupleType(tuple(map(type_from_json, items)))
        case {"record": fields}:
            return ty.RecordType(tuple((name, type_from_json(item)) for name, item in fields))
        case {"bag": item}:
            return ty.BagType(type_from_json(item))
        case {"list": item}:
            return ty.ListType(type_from_json(item))
        case _:
            raise ValueError(f"no type is written {plain!r}")


def layout_to_json(value: Layout) -> Any:
    """A layout as JSON."""
    match value:
        case Atom(sql, t, missing):
            return {"sql": sql, "type": type_to_json(t), "missing": missing}
        case Struct(fields, t):
            return {"fields": [[name, layout_to_json(part)] for name, part in fields], "type": type_to_json(t)}


def layout_from_json(plain: Any) -> Layout:
    """The layout that was written as JSON."""
    t = type_from_json(plain["type"])
    if "sql" in plain:
        return Atom(plain["sql"], t, plain["missing"])
    return Struct(tuple((name, layout_from_json(part)) for name, part in plain["fields"]), t)
