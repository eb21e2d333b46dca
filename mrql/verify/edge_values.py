"""Values that the query's own data do not have, but might: in a history, some parts of the rows may be replaced.

The histories have in turn:

- the data as they are;
- doubles far from zero and near each other, whose differences are small;
- doubles of very different sizes in one column, so that sums lose the small ones;
- the extremes of each type: NaN and the infinities, −0.0, the least and the greatest numbers and dates, characters that
  take four bytes, missing values, also of whole tuples and collections in a row.

Columns are chosen at random, and the same values are put into all of them, so that rows still join.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from random import Random
from typing import TypeAlias

from mrql.algebra import types as ty
from mrql.algebra.functions import convert
from mrql.algebra.types import Type
from mrql.algebra.values.decimals import EXACT
from mrql.algebra.values.values import Bag, Record, Value


class EdgeValues(Enum):
    """How the values of a history differ from the query's own."""

    OWN = "as they are"
    NEAR = "doubles that are near each other"
    SCATTERED = "doubles of very different sizes"
    ENDS = "the ends of each type"


NEAR = 1e8
"""The rounding error of the square of such a number is about as large as the square of a small one."""

SIZES = (1.0, 1e12, 1e20, -1e37)

DOUBLES = (math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, -1e308)
TEXTS = ("", "\ufffd", "\U0001f600", "\U0010ffff", "e\u0301")

ENDS: Mapping[Type, Sequence[Value]] = {
    ty.BOOL: (True, False),
    ty.INT: (2**31 - 1, -(2**31)),
    ty.LONG: (2**63 - 1, -(2**63), 2**62, 2**53 + 1),
    ty.FLOAT: (math.nan, math.inf, -math.inf, -0.0),
    ty.DOUBLE: DOUBLES,
    ty.STRING: TEXTS,
    ty.BYTES: (b"", b"\x00", b"\x7f", b"\x80", b"\xff\x00"),
    ty.DATE: (date(1, 1, 1), date(9999, 12, 31)),
    ty.TIMESTAMP: (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)),
}

WITH_PARTS = (ty.TupleType, ty.RecordType, ty.BagType, ty.ListType)
"""The types of values that have parts of known types."""

Replace: TypeAlias = Callable[[Value, Type, str], Value]
"""From a value in a row, its type and its column to its replacement, which is None or a value of the type."""


def replaced(
    data: Mapping[str, Sequence[Value]], types: Mapping[str, Type], edges: EdgeValues, random: Random
) -> dict[str, list[Value]]:
    """Rows of collections of these types with some of their parts replaced."""
    replace = _replacement(edges, random)
    found = {}
    for name, rows in data.items():
        t = types[name]
        assert isinstance(t, ty.BagType)
        at = _part if isinstance(t.item, ty.Basic) else _inside  # a row is never missing as a whole
        found[name] = [at(row, t.item, replace, name) for row in rows]
    return found


def _replacement(edges: EdgeValues, random: Random) -> Replace:
    """The replacement of values, in columns that are chosen at random when they are first met."""
    chosen: dict[str, bool] = {}

    def is_chosen(column: str, share: float) -> bool:
        if column not in chosen:
            chosen[column] = random.random() < share
        return chosen[column]

    def replace(value: Value, t: Type, column: str) -> Value:
        match edges:
            case EdgeValues.NEAR if isinstance(value, float) and t == ty.DOUBLE:
                return value + NEAR
            case EdgeValues.SCATTERED if isinstance(value, float) and t == ty.DOUBLE:
                return (value + 0.1) * random.choice(SIZES)
            case EdgeValues.ENDS if (ends := _ends(t)) and is_chosen(column, 0.4) and random.random() < 0.4:
                return random.choice((*ends, None))
            case EdgeValues.ENDS if isinstance(t, WITH_PARTS) and random.random() < 0.4:
                return None
            case _:
                return value

    return replace


def _ends(t: Type) -> Sequence[Value]:
    if isinstance(t, ty.DecimalType):
        most = Decimal(10**t.precision - 1).scaleb(-t.scale, EXACT)
        return most, most.copy_negate(), convert(0, t), Decimal(1).scaleb(-t.scale, EXACT)
    return ENDS.get(t, ())


def _part(value: Value, t: Type, replace: Replace, column: str) -> Value:
    """The replacement of a value in a row, with its parts replaced too."""
    return _inside(replace(value, t, column), t, replace, column)


def _inside(value: Value, t: Type, replace: Replace, column: str) -> Value:
    """A value with its parts replaced; those of recursive data and of documents are left as they are."""
    match t, value:
        case ty.TupleType(items), tuple():
            parts = zip(value, items, strict=True)
            return tuple(_part(part, item, replace, f"{column}#{i}") for i, (part, item) in enumerate(parts))
        case ty.RecordType(fields), Record():
            return Record({name: _part(value[name], item, replace, f"{column}.{name}") for name, item in fields})
        case ty.BagType(item), Bag():
            return Bag(_part(part, item, replace, f"{column}{{}}") for part in value)
        case ty.ListType(item), list():
            return [_part(part, item, replace, f"{column}[]") for part in value]
        case _:
            return value
