"""The types of values: basic types, tuples, records, bags and lists.

`(t, …)` is a tuple, `<A: t>` a record, `{t}` a bag, `[t]` a list. `Nothing` is the type without values: the
elements of `{}` have it, and so has `null`, since every type admits a missing value.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TypeAlias

import attrs

from mrql.algebra.showable import written_name


class Kind(Enum):
    """The basic types, by their names in the language."""

    BOOL = "bool"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamp"
    BINARY = "binary"
    DECIMAL = "decimal"
    """Decimal numbers: a type for each precision and scale (`DecimalType`)."""
    ANY = "any"
    XML = "XML"
    DATA = "data"
    """A recursive type of the query, which has a name of its own."""


@attrs.frozen
class Basic:
    """A type of atomic values: `int` has 32 bits, `long` 64, `float` 32, `double` 64; strings are Unicode.

    A `date` is a day of the years 1 to 9999, a `timestamp` a microsecond of such a day, in UTC, and a `binary` any
    number of bytes. A value of type `any` is a JSON value, one of type `XML` an element or a text in one; both are
    atoms to the operators of the algebra, and functions take them apart (`values/json_values.py`,
    `values/xml_elements.py`). So are values of a recursive `data` type, which is identified by its name; `XML` is
    predefined.
    """

    kind: Kind
    name: str | None = None

    def __str__(self) -> str:
        return self.name or self.kind.value


MAX_PRECISION = 38
"""The maximal number of digits of a decimal, as in Spark."""


@attrs.frozen
class DecimalType(Basic):
    """`decimal(p, s)`: exact numbers of at most p digits, s of them behind the point: 1 ≤ p ≤ 38 and 0 ≤ s ≤ p.

    A value is held with exactly s digits behind the point, so that each number has one representation.

    Raises: ValueError for other numbers of digits.
    """

    kind: Kind = attrs.field(default=Kind.DECIMAL, init=False, repr=False)
    name: str | None = attrs.field(default=None, init=False, repr=False)
    precision: int
    scale: int = 0

    def __attrs_post_init__(self) -> None:
        if not (1 <= self.precision <= MAX_PRECISION and 0 <= self.scale <= self.precision):
            raise ValueError(f"no decimal has {self.precision} digits, {self.scale} of them behind the point")

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"

    @property
    def whole(self) -> int:
        """The number of digits before the point."""
        return self.precision - self.scale


@attrs.frozen
class Nothing:
    """The type without values, below every other type."""

    def __str__(self) -> str:
        return "nothing"


@attrs.frozen
class TupleType:
    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


@attrs.frozen
class RecordType:
    fields: tuple[tuple[str, Type], ...]
    left_out: tuple[tuple[str, str], ...] = attrs.field(default=(), eq=False, repr=False, kw_only=True)
    """Columns of the source that values do not have, for error messages, as pairs of a name and a type. The type is the
    source's name for one that the language lacks, or `any` for a column that the query skips."""

    def __str__(self) -> str:
        return f"<{', '.join(f'{written_name(name)}: {t}' for name, t in self.fields)}>"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)

    def field(self, name: str) -> Type | None:
        """The type of a field, or None where there is no such field."""
        return dict(self.fields).get(name)


@attrs.frozen
class BagType:
    item: Type

    def __str__(self) -> str:
        return f"{{{self.item}}}"


@attrs.frozen
class ListType:
    item: Type

    def __str__(self) -> str:
        return f"[{self.item}]"


Type: TypeAlias = Basic | Nothing | TupleType | RecordType | BagType | ListType
Collection: TypeAlias = BagType | ListType

BOOL = Basic(Kind.BOOL)
INT = Basic(Kind.INT)
LONG = Basic(Kind.LONG)
FLOAT = Basic(Kind.FLOAT)
DOUBLE = Basic(Kind.DOUBLE)
STRING = Basic(Kind.STRING)
DATE = Basic(Kind.DATE)
TIMESTAMP = Basic(Kind.TIMESTAMP)
BYTES = Basic(Kind.BINARY)
ANY = Basic(Kind.ANY)
XML = Basic(Kind.XML)
NOTHING = Nothing()
UNIT = TupleType(())

BASIC: dict[str, Basic] = {kind.value: Basic(kind) for kind in Kind if kind not in (Kind.DATA, Kind.DECIMAL)} | {
    "decimal": DecimalType(10)
}
"""The basic types of the language by their names; `decimal` alone is `decimal(10, 0)`, as in Spark."""

FRACTIONS: tuple[Basic, ...] = (FLOAT, DOUBLE)
"""The numeric types with infinities and NaN."""

BINARY: tuple[Basic, ...] = (INT, LONG, *FRACTIONS)
"""The numeric types of a fixed number of bits, each of which widens to the next."""

INTEGERS_AS_DECIMALS = {INT: DecimalType(10), LONG: DecimalType(20)}
"""The decimal type that holds each integer type, as in Spark."""


def is_numeric(t: Type) -> bool:
    return t in BINARY or isinstance(t, DecimalType) or t == NOTHING


def is_integral(t: Type) -> bool:
    return t in (INT, LONG)


def is_json(t: Type) -> bool:
    """Whether JSON can hold the values of a type: it has no tuples, no XML elements and no recursive types."""
    return not any(isinstance(part, TupleType) or part == XML or is_data(part) for part in walk(t))


def is_data(t: Type) -> bool:
    """Whether a type is recursive."""
    return isinstance(t, Basic) and t.kind is Kind.DATA


def is_document(t: Type) -> bool:
    """Whether the values of a type are documents."""
    return t in (ANY, XML) or is_data(t)


def is_ordered(t: Type) -> bool:
    """Whether the values of a type have an order: bags have none, and of documents XML alone has one."""
    return not any(isinstance(part, BagType) or (is_document(part) and part != XML) for part in walk(t))


def is_collection(t: Type) -> bool:
    return isinstance(t, BagType | ListType)


def join_types(a: Type, b: Type) -> Type | None:
    """The least type that holds the values of both, or None.

    Numbers widen (`int` < `long` < `float` < `double`; integers to decimals, decimals to `double`), and a `date` to
    the `timestamp` at its start, also inside tuples, records and collections. Two decimal types whose values no third
    one holds have no common type.

    >>> print(join_types(TupleType((INT, STRING)), TupleType((DOUBLE, STRING))))
    (double, string)
    >>> print(join_types(DecimalType(5, 2), INT), join_types(DecimalType(38), DecimalType(5, 2)))
    decimal(12, 2) None
    >>> join_types(INT, STRING) is None
    True
    """
    match a, b:
        case _ if a == b:
            return a
        case Nothing(), _:
            return b
        case _, Nothing():
            return a
        case Basic(), Basic():
            if is_numeric(a) and is_numeric(b):
                return _wider_number(a, b)
            return TIMESTAMP if {a, b} == {DATE, TIMESTAMP} else None
        case TupleType(xs), TupleType(ys) if len(xs) == len(ys):
            items = [join_types(x, y) for x, y in zip(xs, ys, strict=True)]
            return None if None in items else TupleType(tuple(t for t in items if t is not None))
        case RecordType(), RecordType() if a.names == b.names:
            fields = [(n, join_types(x, y)) for (n, x), (_, y) in zip(a.fields, b.fields, strict=True)]
            return RecordType(tuple((n, t) for n, t in fields if t is not None)) if all(t for _, t in fields) else None
        case BagType(x), BagType(y):
            item = join_types(x, y)
            return None if item is None else BagType(item)
        case ListType(x), ListType(y):
            item = join_types(x, y)
            return None if item is None else ListType(item)
        case _:
            return None


def _wider_number(a: Basic, b: Basic) -> Basic | None:
    if a in BINARY and b in BINARY:
        return max(a, b, key=BINARY.index)
    x, y = (as_decimal(t) for t in (a, b))
    if x is None or y is None:
        return DOUBLE
    whole, scale = max(x.whole, y.whole), max(x.scale, y.scale)
    return DecimalType(whole + scale, scale) if whole + scale <= MAX_PRECISION else None


def as_decimal(t: Type) -> DecimalType | None:
    """The smallest decimal type that holds all values of a numeric type, if there is one."""
    if isinstance(t, DecimalType):
        return t
    return INTEGERS_AS_DECIMALS.get(t) if isinstance(t, Basic) else None


def fits(value: Type, expected: Type) -> bool:
    """Whether a value of type `value` may stand where `expected` is asked for (after widening)."""
    return join_types(value, expected) == expected


def walk(t: Type) -> Iterator[Type]:
    """The type and all types in it, outermost first."""
    yield t
    match t:
        case TupleType(items):
            for item in items:
                yield from walk(item)
        case RecordType(fields):
            for _, item in fields:
                yield from walk(item)
        case BagType(item) | ListType(item):
            yield from walk(item)
        case _:
            pass


def has_collection(t: Type) -> bool:
    """Whether a bag or a list occurs anywhere in the type."""
    return any(is_collection(part) for part in walk(t))
