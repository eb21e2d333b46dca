"""The key of a stream with upserts: the fields by which a row replaces an earlier one."""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.algebra.values.values import Record, Value


@attrs.frozen
class RowKey:
    """The fields of a key, and the version field, by which the later of two rows with the same key is determined.

    The fields of a tuple are called `_1`, `_2`, … A missing value in a key is treated like any other value.
    """

    fields: tuple[str, ...]
    version: str | None = None

    @property
    def kept_of_deleted(self) -> frozenset[str]:
        """The fields of a deleted row that are used."""
        return frozenset(self.fields if self.version is None else (*self.fields, self.version))

    def of(self, row: Value) -> tuple[Value, ...]:
        """The key of a row."""
        return tuple(field_of(row, name) for name in self.fields)

    def version_of(self, row: Value) -> Value:
        """The version of a row, for comparison with other rows; None without a version field."""
        return None if self.version is None else field_of(row, self.version)

    def check_fields(self, row: Type) -> None:
        """Checks that rows of a type have the fields of the key.

        Raises: UserError, naming the first field that is absent or listed twice.
        """
        for name in self.fields:
            _must_have(row, name)
        twice = next((name for name in self.fields if self.fields.count(name) > 1), None)
        if twice is not None:
            raise UserError(f"the field `{twice}` is in the key twice")

    def check_version(self, row: Type) -> None:
        """Checks that the version field orders rows of a type.

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

    Raises: UserError if rows have no field of that name.
    """
    fields = dict(fields_of(row))
    if name not in fields:
        hint = f"its fields: {', '.join(fields)}" if fields else "only records and tuples have fields"
        raise UserError(f"the rows have no field `{name}`", hint=hint)
    return fields[name]


def is_version(t: Type) -> bool:
    """Whether values of a type can be versions: they are ordered, without rounding and without NaN."""
    return ty.is_integral(t) or isinstance(t, ty.DecimalType) or t in (ty.STRING, ty.DATE, ty.TIMESTAMP, ty.BYTES)


def fields_of(row: Type) -> tuple[tuple[str, Type], ...]:
    """The fields of a record or a tuple, with their names; any other row has none."""
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
