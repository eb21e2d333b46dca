"""Values widened or cast from one type to another, part by part.

Atoms are converted by `values/atom_conversion.py`. All that JSON can hold converts to `any`, and a value of type `any`
to a type of which it is a value.
"""

from __future__ import annotations

import math
from decimal import Decimal

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.algebra.values.atom_conversion import check_range, convert_atom
from mrql.algebra.values.atom_text import show_single
from mrql.algebra.values.json_typed import taken_as
from mrql.algebra.values.json_values import of_value
from mrql.algebra.values.values import Bag, Document, Record, Value


def convert(value: Value, t: Type) -> Value:
    """A value widened or cast to type `t`, part by part; missing values stay missing.

    Raises: EvaluationError when the value has no counterpart in `t`.
    """
    if value is None:
        return None
    if t is ty.LONG and type(value) is int:  # a frequent case: each time that something is counted
        return check_range(value, t)
    if t in (ty.ANY, ty.XML):
        return value if isinstance(value, Document) else of_value(value)
    if ty.is_data(t):
        return value
    if isinstance(value, Document):
        return taken_as(value, t)
    match t:
        case ty.Basic():
            return convert_atom(value, t)
        case ty.TupleType(items):
            return tuple(convert(v, item) for v, item in zip(value, items, strict=True))
        case ty.RecordType(fields):
            return Record({name: convert(value[name], item) for name, item in fields})
        case ty.BagType(item):
            return Bag(convert(v, item) for v in value)
        case ty.ListType(item):
            return [convert(v, item) for v in value]
        case _:
            return value


def widened(value: Value, source: Type, t: Type) -> Value:
    """A value of type `source` widened to type `t`; returned as it is if the types are equal."""
    return value if source == t else convert(value, t)


def convert_from(value: Value, source: Type, t: Type) -> Value:
    """A value of type `source` cast to `t`: a `float` as a string or decimal has the digits of the 32-bit number.

    Raises: EvaluationError as `convert` does.
    """
    if source == ty.FLOAT and value is not None:
        if t == ty.STRING:
            return show_single(value)
        if isinstance(t, ty.DecimalType) and math.isfinite(value):
            return convert(Decimal(show_single(value)), t)
    return convert(value, t)
