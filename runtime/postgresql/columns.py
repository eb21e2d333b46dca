"""An answer's type as the columns of a table."""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import item_type
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.runtime.engine.row_format import row_columns
from mrql.runtime.postgresql.address import LONGEST

TYPES: dict[Type, str] = {
    ty.BOOL: "boolean",
    ty.INT: "integer",
    ty.LONG: "bigint",
    ty.FLOAT: "real",
    ty.DOUBLE: "double precision",
    ty.STRING: "text",
    ty.DATE: "date",
    ty.TIMESTAMP: "timestamp without time zone",
    ty.NOTHING: "boolean",
    ty.UNIT: "boolean",
    ty.RecordType(()): "boolean",
}
JSONB = "jsonb"
"""The type of nested values, and of those that are JSON."""


def column_type(t: Type) -> str:
    """The type of a column that holds values of a type."""
    return f"numeric({t.precision},{t.scale})" if isinstance(t, ty.DecimalType) else TYPES.get(t, JSONB)


@attrs.frozen
class TableColumn:
    """A column, with the type that PostgreSQL gives it."""

    name: str
    type: str

    @property
    def fraction(self) -> bool:
        """Whether it holds numbers with a fraction, whose last digits depend on the order of their sum."""
        return self.type in ("real", "double precision")


def columns_of(t: Type) -> tuple[TableColumn, ...]:
    """The columns of a table that holds the answers of a type.

    Raises: UserError where the name of a field is too long for a column.
    """
    columns = tuple(TableColumn(name, column_type(part)) for name, part in row_columns(item_type(t)))
    for column in columns:
        if len(column.name.encode()) > LONGEST:
            raise UserError(f"the name of a column has at most {LONGEST} bytes, and {column.name} has more")
    return columns


def has_fractions(t: Type) -> bool:
    """Whether there are numbers with a fraction anywhere in an answer."""
    return any(part in (ty.FLOAT, ty.DOUBLE) or ty.is_document(part) for part in ty.walk(t))


def shown(columns: tuple[TableColumn, ...]) -> str:
    """Columns as a message names them."""
    return "(" + ", ".join(f"{column.name} {column.type}" for column in columns) + ")"
