"""A stream of the rows of a table with a growing column: `stream(postgresql, "postgresql://…?table=t&column=id", …)`.

It is the worked example of docs/sources.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.algebra.values.decimals import exactly
from mrql.algebra.values.values import Document, Record, Value
from mrql.runtime.postgresql.address import Address, apart_from, is_address, parse_address
from mrql.runtime.postgresql.columns import TYPES
from mrql.runtime.postgresql.connection import connect, translated
from mrql.runtime.postgresql.table import among_placeholders, quoted
from mrql.runtime.sources.source import Offset

if TYPE_CHECKING:
    from mrql.runtime.postgresql.connection import Connection


class PostgresTable:
    """The rows of a table, in the order of a column; the offset is the last value of that column, as text.

    Raises: UserError where the address does not name a table and a column, or the type is not a record of basic types.
    """

    replays = True

    def __init__(self, spec: SourceSpec) -> None:
        if not isinstance(spec.row, ty.RecordType) or not all(map(_is_basic, dict(spec.row.fields).values())):
            raise UserError(f"rows of a table are records of basic types, not {spec.row}", spec.span)
        self.fields = spec.row.fields
        address, column = polled_table(spec)
        schema = "" if address.schema is None else f"{_name(address.schema)}."
        self.table, self.column = f"{schema}{_name(address.table)}", _name(column)
        self.address, self.spec = address, spec
        self.connection: Connection | None = None

    def latest(self, start: Offset, most: int | None) -> Offset:
        limit = "" if most is None else f"ORDER BY {self.column} LIMIT {most}"
        rows = f"SELECT {self.column} AS last FROM {self.table} WHERE {self._between(start, None)} {limit}"
        found = self._rows(f"SELECT max(last)::text FROM ({rows}) t", start, None)[0][0]
        return start if found is None else found

    def end(self, start: Offset) -> Offset:
        return self.latest(start, None)

    def is_at(self, offset: Offset, end: Offset) -> bool:
        """Whether there are no rows between the two, which the server compares by the order of the column's type."""
        if end is None or offset == end:
            return True
        between = f"SELECT true FROM {self.table} WHERE {self._between(offset, end)} LIMIT 1"
        return not self._rows(between, offset, end)

    def read(self, start: Offset, end: Offset) -> Iterator[tuple[Value, int]]:
        columns = ", ".join(f"{_name(name)}::{_read_as(t)}" for name, t in self.fields)
        for row in self._rows(f"SELECT {columns} FROM {self.table} WHERE {self._between(start, end)}", start, end):
            cells = zip(row, self.fields, strict=True)
            yield Record({name: self._value(cell, name, t) for cell, (name, t) in cells}), 1

    def _value(self, cell: Value, name: str, t: Type) -> Value:
        if isinstance(t, ty.DecimalType) and cell is not None:
            found = exactly(cell, t)
            if found is None:
                where = f"in the column {name} of {self.table}"
                raise UserError(f"{cell}, {where}, is not a value of type {t}", self.spec.span)
            return found
        return Document(cell) if t == ty.ANY and cell is not None else cell

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def _between(self, start: Offset, end: Offset) -> str:
        """The condition for rows after `start` up to `end`; the server takes these as values of the column's type."""
        conditions = [] if start is None else [f"{self.column} > %(start)s"]
        conditions += [] if end is None else [f"{self.column} <= %(end)s"]
        return " AND ".join([f"{self.column} IS NOT NULL", *conditions])

    def _rows(self, query: str, start: Offset, end: Offset) -> list[tuple[Any, ...]]:
        """Executes a query; a connection that was lost since the last time is made anew."""
        if self.connection is None or self.connection.closed:
            self.connection = connect(self.address.conninfo, self.address.shown)
            self.connection.autocommit = True
        with translated(self.address.shown):
            return self.connection.execute(query.encode(), {"start": start, "end": end}).fetchall()


def polled_table(spec: SourceSpec) -> tuple[Address, str]:
    """The table that a stream names, and the column that grows.

    Raises: UserError where it names none.
    """
    try:
        rest, column = apart_from(spec.path, "column")
        if column is None or not is_address(spec.path):
            hint = "postgresql://host/db?table=orders&column=id"
            raise UserError("the address names a table and the column that grows", spec.span, hint)
        return parse_address(rest), column
    except ValueError as error:
        raise UserError(str(error), spec.span) from None


def _name(name: str) -> str:
    return among_placeholders(quoted(name))


def _is_basic(t: Type) -> bool:
    return isinstance(t, ty.Basic) and (t in TYPES or t == ty.ANY or isinstance(t, ty.DecimalType))


def _read_as(t: Type) -> str:
    """The type that the server casts a column to: a decimal is not given its scale, to which it would be rounded."""
    return "numeric" if isinstance(t, ty.DecimalType) else TYPES.get(t, "text")
