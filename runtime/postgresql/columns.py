"""An answer's type as the columns of a table."""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import item_type
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.runtime.engine.row_format import row_columns
from mrql.runtime.postgresql.address import NAME_MAX_BYTES

TYPES: dict[Type, str] = {
    ty.BOOL: "boolean",
    ty.INT: "integer",
    ty.LONG: "bigint",
    ty.FLOAT: "real",
    ty.DOUBLE: "double precision",
    ty.STRING: "text",
    ty.BYTES: "bytea",
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
        """Whether it holds floating-point numbers, whose last digits depend on the order in which they were added."""
        return self.type in ("real", "double precision")


def columns_of(t: Type) -> tuple[TableColumn, ...]:
    """The columns of a table that holds the answers of a type.

    Raises: UserError where the name of a field is too long for a column.
    """
    columns = tuple(TableColumn(name, column_type(part)) for name, part in row_columns(item_type(t)))
    for column in columns:
        if len(column.name.encode()) > NAME_MAX_BYTES:
            raise UserError(f"the name of a column has at most {NAME_MAX_BYTES} bytes, and {column.name} has more")
    return columns


def has_fractions(t: Type) -> bool:
    """Whether there may be floating-point numbers anywhere in an answer of a type."""
    return any(part in ty.FRACTIONS or ty.is_document(part) for part in ty.walk(t))


def shown(columns: tuple[TableColumn, ...]) -> str:
    """Columns as a message names them."""
    return "(" + ", ".join(f"{column.name} {column.type}" for column in columns) + ")"


# --- the other way round ------------------------------------------------------------------------

INTEGERS = ("int2", "int4", "int8")
READ_FROM: dict[Type, tuple[str, ...]] = {
    ty.BOOL: ("bool",),
    ty.INT: INTEGERS[:2],
    ty.LONG: INTEGERS,
    ty.FLOAT: ("int2", "float4"),
    ty.DOUBLE: (*INTEGERS, "float4", "float8", "numeric"),
    ty.STRING: ("text", "varchar", "bpchar", "name", "uuid"),
    ty.BYTES: ("bytea",),
    ty.DATE: ("date",),
    ty.TIMESTAMP: ("timestamp", "timestamptz"),
    ty.ANY: ("json", "jsonb"),
}
"""For each type, the column types, by their names in `pg_type`, whose values as text are read as that type: the result
is the value to which the server casts that of the column."""


def is_basic(t: Type) -> bool:
    """Whether a column can be read as values of a type."""
    return t in READ_FROM or isinstance(t, ty.DecimalType)


def is_read_from(t: Type, source: str, *, is_text: bool) -> bool:
    """Whether values of a type are read from columns of the type `source`; `is_text` says that its cast to text gives
    the text that the server prints.

    >>> is_read_from(ty.LONG, "int4", is_text=True), is_read_from(ty.INT, "int8", is_text=True)
    (True, False)
    """
    if isinstance(t, ty.DecimalType):
        return source in (*INTEGERS, "numeric")
    return source in READ_FROM[t] or (t == ty.STRING and is_text)
