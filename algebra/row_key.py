"""By which fields a row of a stream replaces the one that was there: the key of a table that is upserted."""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.algebra.values.values import Record, Value


@attrs.frozen
class RowKey:
    """The fields of a key, and the one that says which of two rows with one key is later.

    The fields of a tuple are called `_1`, `_2`, … A missing value in a key is one like any other.
    """

    fields: tuple[str, ...]
    version: str | None = None

    @property
    def kept_of_deleted(self) -> frozenset[str]:
        """The fields that are looked at of a row that is taken away."""
        return frozenset(self.fields if self.version is None else (*self.fields, self.version))

    def of(self, row: Value) -> tuple[Value, ...]:
        """The key of a row."""
        return tuple(field_of(row, name) for name in self.fields)

    def version_of(self, row: Value) -> Value:
        """The version of a row, as a value that is compared with that of others."""
        return None if self.version is None else field_of(row, self.version)

    def check_fields(self, row: Type) -> None:
        """Whether rows of a type have the fields of the key.

        Raises: UserError, naming the first that is not there, or is named twice.
        """
        for name in self.fields:
            _must_have(row, name)
        twice = next((name for name in self.fields if self.fields.count(name) > 1), None)
        if twice is not None:
            raise UserError(f"the field `{twice}` is in the key twice")

    def check_version(self, row: Type) -> None:
        """Whether the version of rows of a type says which of two is later.

        Raises: UserError.
        """
        if self.version is None:
            return
        t = _must_have(row, self.version)
        if self.version in self.fields:
            raise UserError(f"the version `{self.version}` is in the key: then no row replaces another")
        if not is_version(t):
            hint = "an int, a long, a decimal, a string, a date or a timestamp"
            raise UserError(f"the field `{self.version}` is of type {t}, and no version", hint=hint)


def _must_have(row: Type, name: str) -> Type:
    """The type of a field.

    Raises: UserError where rows have no field of the name.
    """
    fields = dict(fields_of(row))
    if name not in fields:
        hint = f"its fields: {', '.join(fields)}" if fields else "only records and tuples have fields"
        raise UserError(f"the rows have no field `{name}`", hint=hint)
    return fields[name]


def is_version(t: Type) -> bool:
    """Whether values of a type tell which is later: they are ordered, without rounding and without NaN."""
    return ty.is_integral(t) or isinstance(t, ty.DecimalType) or t in (ty.STRING, ty.DATE, ty.TIMESTAMP, ty.BYTES)


def fields_of(row: Type) -> tuple[tuple[str, Type], ...]:
    """The fields of a record or a tuple, by their names; any other row has none."""
    match row:
        case ty.RecordType(fields):
            return fields
        case ty.TupleType(items):
            return tuple((f"_{i + 1}", item) for i, item in enumerate(items))
        case _:
            return ()


def field_of(row: Value, name: str) -> Value:
    """The field of a record or a tuple."""
    if isinstance(row, Record):
        return row.fields[name]
    assert isinstance(row, tuple)
    return row[int(name[1:]) - 1]
