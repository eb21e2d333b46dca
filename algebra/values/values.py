"""Values as the reference evaluator holds them, and the one order and equality on them.

Tuples are Python tuples, records `Record`s, bags `Bag`s, lists Python lists, decimals those of Python with the digits
behind the point of their type (`decimals.py`), dates and timestamps those of `datetime` without a time zone, bytes
those of Python, a missing value is `None`. `canonical` maps each value to a hashable, totally ordered key: equal values
have equal keys, numbers compare across types, bags compare as bags, NaN equals itself and is greater than any other
number, as in Spark.

A value of type `any` or `XML` is a `Document`, which is identified by its text; `json_text` and `xml_elements` define
its form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import attrs

from mrql.algebra.errors import UserError
from mrql.algebra.showable import written_name
from mrql.algebra.values.measured import Measured

Value: TypeAlias = Any
"""A value of the language: a number, a string, a truth value, a date, a timestamp or bytes; a tuple, a `Record`, a
`Bag` or a list of such; a `Document`; None where it is missing."""
Canonical: TypeAlias = tuple[Any, ...]


class Record:
    """A record value: field names to values, in the order of its type."""

    __slots__ = ("fields",)

    def __init__(self, fields: Mapping[str, Value]) -> None:
        self.fields = dict(fields)

    def __getitem__(self, name: str) -> Value:
        return self.fields[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and canonical(self) == canonical(other)

    def __hash__(self) -> int:
        return hash(canonical(self))

    def __repr__(self) -> str:
        return f"<{', '.join(f'{written_name(name)}: {value!r}' for name, value in self.fields.items())}>"


class Document:
    """A JSON value or an XML element, as canonical JSON text: equal ones have equal texts."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Document) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text


@attrs.frozen
class Unread:
    """A placeholder for a value that does not exist, such as a sum out of range: using it is an error."""

    error: UserError


def asked(value: Value) -> Value:
    """The value, if no part of it is `Unread`.

    Raises: UserError if it, or a part of it, is.
    """
    match value:
        case Unread(error):
            raise error
        case tuple() | list() | Bag():
            for item in value:
                asked(item)
        case Record():
            for item in value.fields.values():
                asked(item)
    return value


def parts_of_pair(pair: Value) -> tuple[Value, Value]:
    """The parts of a pair; both are missing if the pair is."""
    return (None, None) if pair is None else pair


class Bag:
    """A bag: a collection without order, in which equal elements may occur more than once."""

    __slots__ = ("items",)

    def __init__(self, items: Iterable[Value] = ()) -> None:
        self.items: tuple[Value, ...] = tuple(items)

    def __iter__(self) -> Iterator[Value]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __add__(self, other: Bag) -> Bag:
        return Bag(self.items + other.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bag) and canonical(self) == canonical(other)

    def __hash__(self) -> int:
        return hash(canonical(self))

    def __repr__(self) -> str:
        return f"Bag([{', '.join(map(repr, self.items))}])"


def canonical(value: Value) -> Canonical:
    """The hashable, totally ordered key of a value.

    >>> canonical(Bag([2, 1])) == canonical(Bag([1, 2]))
    True
    >>> canonical(1) == canonical(1.0), canonical(True) == canonical(1)
    (True, False)
    """
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, value)
    if isinstance(value, int | Decimal | Fraction):
        return (2, 0, value)
    if isinstance(value, float):
        # NaN is one value, after all other numbers; -0.0 == 0.0 already holds in Python.
        return (2, 1, 0.0) if math.isnan(value) else (2, 0, value)
    if isinstance(value, str):
        return (3, value)
    if isinstance(value, tuple):
        return (4, tuple(map(canonical, value)))
    if isinstance(value, Record):
        return (5, tuple((name, canonical(item)) for name, item in value.fields.items()))
    if isinstance(value, list):
        return (6, tuple(map(canonical, value)))
    if isinstance(value, Bag):
        return (7, tuple(sorted(map(canonical, value))))
    if isinstance(value, date):
        time = value.time() if isinstance(value, datetime) else None
        return (8, value.toordinal(), time.isoformat("microseconds") if time else "00:00:00.000000")
    if isinstance(value, Document):
        return (9, value.text)
    if isinstance(value, bytes):
        return (10, value)
    if isinstance(value, Unread):
        raise value.error
    raise TypeError(f"not a value of the language: {value!r}")


def same(a: Value, b: Value) -> bool:
    """Whether two values are the same one, nulls included (the equality of group-by, not of `=`)."""
    return canonical(a) == canonical(b)


def has_null(value: Value) -> bool:
    """Whether a value is missing, or a part of a tuple or record is: such a key joins with nothing."""
    if value is None:
        return True
    if isinstance(value, tuple):
        return any(map(has_null, value))
    if isinstance(value, Record):
        return any(map(has_null, value.fields.values()))
    return False


def close(a: Value, b: Value, relative: float = 1e-9, largest: float = 1.0, left: float = 0.0) -> bool:
    """Equality up to the rounding of floating-point sums, for comparing answers that were computed in different ways.

    Two numbers, at least one a float, may differ by `relative` times their own size. If one of them is measured, they
    may also differ by `relative` times its scale, plus `left`, which may remain of removed addends; otherwise by
    `relative` times `largest`, the largest addend on the way to them: a sum that cancels is as inexact as its largest
    addend.

    >>> close(0.1 + 0.2, 0.3), close(1e9 + 0.1 - 1e9, 0.1), close(1e9 + 0.1 - 1e9, 0.1, largest=1e9)
    (True, False, True)
    >>> close(1e9 + 0.1 - 1e9, Measured(0.1, 2e9)), close(0.0, Measured(0.1, 0.1), largest=1e9)
    (True, False)
    """

    def near(x: Value, y: Value) -> bool:
        return close(x, y, relative, largest, left)

    if _is_number(a) and _is_number(b) and (isinstance(a, float) or isinstance(b, float)):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        scales = [x.scale for x in (a, b) if isinstance(x, Measured)]
        apart = relative * max(scales) + left if scales else relative * largest
        return a == b or math.isclose(a, b, rel_tol=relative, abs_tol=apart)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, Record) and isinstance(b, Record):
        return list(a.fields) == list(b.fields) and all(near(a[name], b[name]) for name in a.fields)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, Bag) and isinstance(b, Bag):
        return len(a) == len(b) and unmatched(a, b, near) == ([], [])
    return same(a, b)


def unmatched(a: Bag, b: Bag, near: Callable[[Value, Value], bool] = close) -> tuple[list[Value], list[Value]]:
    """The elements that are left of two bags when each, in order, is paired with the first other one that is `near`.

    >>> unmatched(Bag([1.0, 2, 2]), Bag([2, 1.0 + 1e-12, 3]))
    ([2], [3])
    """
    left, right = sorted(a, key=canonical), sorted(b, key=canonical)
    if len(left) == len(right) and all(map(near, left, right)):
        return [], []
    # Rounding may have put elements into another order.
    over = []
    for x in left:
        at = next((at for at, y in enumerate(right) if near(x, y)), None)
        if at is None:
            over.append(x)
        else:
            del right[at]
    return over, right


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
