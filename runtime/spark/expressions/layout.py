"""The layout of a value in the columns of a DataFrame.

A value is an `Atom`, one SQL expression over the columns, or a `Struct` of values. Tuples and records that a query
builds stay taken apart for as long as possible: a key is a few flat columns and not a struct, a projection costs
nothing, and a struct is made only where a value has to be one (inside an array, in the output).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, assert_never

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import Known
from mrql.algebra.errors import InternalError
from mrql.algebra.functions.sql_text import text_sql
from mrql.algebra.terms import PAny, Pattern, PTuple, PVar
from mrql.algebra.types import Type


@attrs.frozen
class KeyPart:
    """A part of a key as it is stored (`keys.py`): its column, the column of bits that say which of some parts are
    missing, the place of this part among them, and their number."""

    column: str
    bits: str
    place: int
    of: int


@attrs.frozen
class Atom:
    """One SQL expression of the given type; `missing` says whether it can be null."""

    sql: str
    type: Type
    missing: bool = True
    key: KeyPart | None = None
    """The stored part of a key that it is read from, if it is one."""


@attrs.frozen
class Struct:
    """A tuple or a record as its parts."""

    fields: tuple[tuple[str, Layout], ...]
    type: Type

    def part(self, label: str) -> Layout:
        return dict(self.fields)[label]


Layout: TypeAlias = Atom | Struct


def label(index: int) -> str:
    """The column name of a part of a tuple: `_1`, `_2`, …"""
    return f"_{index + 1}"


def labels(t: Type) -> tuple[tuple[str, Type], ...]:
    """The parts of a tuple or record type by their column names."""
    match t:
        case ty.TupleType(items):
            return tuple((label(i), item) for i, item in enumerate(items))
        case ty.RecordType(fields):
            return fields
        case _:
            raise InternalError("layout", f"{t} has no parts")


def is_taken_apart(row: Type) -> bool:
    """Whether the rows of a type have a column for each part."""
    return isinstance(row, ty.TupleType | ty.RecordType) and bool(labels(row))


_OURS = re.compile(r"\w*__v?_?\d+", re.IGNORECASE)


def may_be_ours(name: str) -> bool:
    """Whether a column's name is like the generated ones of columns and of variables in SQL, which would shadow it.

    >>> may_be_ours("c__3"), may_be_ours("X__V0"), may_be_ours("x0")
    (True, True, False)
    """
    return _OURS.fullmatch(name) is not None


def quote(name: str) -> str:
    """A name of a column or of a field in SQL.

    >>> print(quote("a`b"))
    `a``b`
    """
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def record_sql(parts: Iterable[tuple[str, str]]) -> str:
    """A struct of some fields; without fields a constant `true`, since no file holds an empty struct.

    >>> print(record_sql([("A", "1"), ("B", "x")]))
    named_struct('A', 1, 'B', x)
    """
    given = ", ".join(f"{text_sql(name)}, {part}" for name, part in parts)
    return f"named_struct({given})" if given else "true"


def sql_type(t: Type, timestamp: str = "TIMESTAMP_NTZ", date: str = "DATE") -> str:
    """The Spark type of a value. The empty tuple is a constant `true`, as Spark keeps no empty structs in files.

    `timestamp` and `date` name another Spark type for these, such as that of a text on its way in or out.
    """
    match t:
        case ty.DecimalType(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case ty.Basic(kind):
            return {
                ty.Kind.BOOL: "BOOLEAN",
                ty.Kind.INT: "INT",
                ty.Kind.LONG: "BIGINT",
                ty.Kind.FLOAT: "FLOAT",
                ty.Kind.DOUBLE: "DOUBLE",
                ty.Kind.STRING: "STRING",
                ty.Kind.DATE: date,
                ty.Kind.TIMESTAMP: timestamp,
                ty.Kind.BINARY: "BINARY",
                # A VARIANT cannot be compared, grouped or stored by key; its canonical text can (see `json_variant`).
                ty.Kind.ANY: "STRING",
                ty.Kind.XML: "STRING",
                ty.Kind.DATA: "STRING",
            }[kind]
        case ty.Nothing():
            return "BOOLEAN"
        case ty.BagType(item) | ty.ListType(item):
            return f"ARRAY<{sql_type(item, timestamp, date)}>"
        case ty.TupleType(()) | ty.RecordType(()):
            return "BOOLEAN"
        case ty.TupleType() | ty.RecordType():
            parts = (f"{quote(name)}: {sql_type(item, timestamp, date)}" for name, item in labels(t))
            return f"STRUCT<{', '.join(parts)}>"
        case _:
            assert_never(t)


def unquote(column: Atom) -> str:
    """The name of the column that an atom is."""
    return column.sql[1:-1].replace("``", "`")


def to_sql(value: Layout) -> str:
    """The value as one SQL expression."""
    match value:
        case Atom(sql, _):
            return sql
        case Struct(fields):
            return record_sql((name, to_sql(part)) for name, part in fields)
        case _:
            assert_never(value)


def atoms(value: Layout) -> Iterator[Atom]:
    """The single expressions of a value, left to right."""
    match value:
        case Atom():
            yield value
        case Struct(fields):
            for _, part in fields:
                yield from atoms(part)


def filled(value: Layout, parts: Iterator[Atom]) -> Layout:
    """The same layout with other expressions, taken from left to right."""
    match value:
        case Atom():
            return next(parts)
        case Struct(fields, t):
            return Struct(tuple((name, filled(part, parts)) for name, part in fields), t)
        case _:
            assert_never(value)


def with_columns(value: Layout, names: Iterator[str]) -> Layout:
    """The same layout with each expression in a column of its own, by the given names."""
    return filled(value, (Atom(quote(next(names)), atom.type, atom.missing) for atom in atoms(value)))


def present(value: Layout) -> Layout:
    """The same layout with every expression known not to be missing."""
    return filled(value, (attrs.evolve(atom, missing=False) for atom in atoms(value)))


def as_columns(value: Layout, columns: Layout) -> list[str]:
    """The expressions of a value, each `AS` a column, in SQL."""
    return [f"{old.sql} AS {new.sql}" for old, new in zip(atoms(value), atoms(columns), strict=True)]


def part(value: Layout, name: str, t: Type) -> Layout:
    """A part of a tuple or record."""
    match value:
        case Struct():
            return value.part(name)
        case Atom(sql, _):
            return Atom(f"({sql}).{quote(name)}", t)
        case _:
            assert_never(value)


def taken_apart(value: Layout, known: Known | None) -> Layout:
    """A value, for the key of a join or of a state, with its tuples and records taken apart to their parts. One that
    may be missing as a whole stays in one piece: it is another key than one of missing parts.

    With None instead of what is `known` of the value, all are taken apart, since a key with a missing part matches
    nothing.
    """
    t = value.type
    if not isinstance(t, ty.TupleType | ty.RecordType):
        return value
    if known is not None and known.missing:
        return value if isinstance(value, Atom) else Atom(to_sql(value), t, missing=False)
    parts = []
    for i, (name, item) in enumerate(labels(t)):
        step = i if isinstance(t, ty.TupleType) else name
        parts.append((name, taken_apart(part(value, name, item), None if known is None else known.part(step))))
    return Struct(tuple(parts), t)


def known_of(value: Layout) -> Known:
    """What a layout says of whether its value may be missing."""
    match value:
        case Atom(_, _, missing):
            return Known(missing)
        case Struct(fields, t):
            names = [name for name, _ in fields]
            steps: Sequence[int | str] = range(len(fields)) if isinstance(t, ty.TupleType) else names
            return Known(False, {step: known_of(item) for step, (_, item) in zip(steps, fields, strict=True)})
        case _:
            assert_never(value)


def bind(pattern: Pattern, value: Layout) -> dict[str, Layout]:
    """The variables of a pattern, bound to the parts of a value."""
    match pattern:
        case PVar(name, _):
            return {name: value}
        case PAny():
            return {}
        case PTuple(items):
            bindings: dict[str, Layout] = {}
            for i, item in enumerate(items):
                bindings |= bind(item, part(value, label(i), item.type))
            return bindings
        case _:
            assert_never(pattern)
