"""The columns of a table of Iceberg: their types, and whether those of a file are the same ones.

A column is identified by its id, whatever its name is. Here files are read by name: so the names in a file must stand
for the same ids as in the table, down to the last field that is asked for.

Source: the Iceberg table spec, "Schemas and Data Types", "Column Projection", "Name Mapping Serialization".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.runtime.sources.formats.foreign_types import Fields, Foreign, ForeignAtom, Pairs
from mrql.runtime.sources.formats.foreign_types import Sequence as ListOf

if TYPE_CHECKING:
    from pyiceberg.table.name_mapping import MappedField
    from pyiceberg.types import IcebergType, NestedField

# --- types --------------------------------------------------------------------------------------


def foreign_columns(fields: Iterable[NestedField]) -> Fields:
    """The columns of a table, for comparison with those of a row."""
    return Fields(tuple((field.name, _foreign(field.field_type)) for field in fields))


def _foreign(t: IcebergType) -> Foreign:
    from pyiceberg import types as theirs

    match t:
        case theirs.StructType():
            return foreign_columns(t.fields)
        case theirs.ListType():
            return ListOf(_foreign(t.element_type))
        case theirs.MapType():
            return Pairs(_foreign(t.key_type), _foreign(t.value_type))
        case theirs.DecimalType():
            known: Type | None = ty.DecimalType(t.precision, t.scale)
        case _:
            known = _SINGLE.get(type(t).__name__)
    return ForeignAtom(str(t)) if known is None else ForeignAtom(str(known), (known,))


_SINGLE: dict[str, Type] = {
    "BooleanType": ty.BOOL,
    "IntegerType": ty.INT,
    "LongType": ty.LONG,
    "FloatType": ty.FLOAT,
    "DoubleType": ty.DOUBLE,
    "StringType": ty.STRING,
    "BinaryType": ty.BYTES,
    "FixedType": ty.BYTES,
    "DateType": ty.DATE,
    "TimestampType": ty.TIMESTAMP,
    "TimestamptzType": ty.TIMESTAMP,
}

# --- ids ----------------------------------------------------------------------------------------


@attrs.frozen
class ColumnPart:
    """A column, or a part of one: a field of a struct, the element of a list, the key or the value of a map."""

    name: str
    id: int | None
    parts: tuple[ColumnPart, ...] = ()


def parts_of_table(fields: Iterable[NestedField]) -> tuple[ColumnPart, ...]:
    """The columns of a table."""
    return tuple(ColumnPart(field.name, field.field_id, parts_of_table(_inside(field.field_type))) for field in fields)


def _inside(t: IcebergType) -> tuple[NestedField, ...]:
    from pyiceberg import types as theirs

    match t:
        case theirs.StructType():
            return t.fields
        case theirs.ListType():
            return (t.element_field,)
        case theirs.MapType():
            return t.key_field, t.value_field
        case _:
            return ()


def parts_of_file(schema: pa.Schema, mapping: Sequence[MappedField]) -> tuple[ColumnPart, ...]:
    """The columns of a file of Parquet, with the ids in its schema. If it has none, as no writer of Iceberg has made
    it, the `mapping` of the table gives ids for its names."""
    columns = _of_file([*schema], ())
    return columns if any(_ids(columns)) or not mapping else _of_file([*schema], mapping)


def _of_file(fields: Iterable[pa.Field], mapping: Sequence[MappedField]) -> tuple[ColumnPart, ...]:
    return tuple(_part(field, field.name, mapping) for field in fields)


def _part(field: pa.Field, name: str, mapping: Sequence[MappedField]) -> ColumnPart:
    found = (field.metadata or {}).get(b"PARQUET:field_id")
    mapped = next((one for one in mapping if name in one.names), None)
    id = int(found) if found is not None else None if mapped is None else mapped.field_id
    return ColumnPart(name, id, _parts_of(field.type, () if mapped is None else mapped.fields))


def _parts_of(t: Any, mapping: Sequence[MappedField]) -> tuple[ColumnPart, ...]:
    if pa.types.is_struct(t):
        return _of_file(t.fields, mapping)
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return (_part(t.value_field, "element", mapping),)
    if pa.types.is_map(t):
        return _part(t.key_field, "key", mapping), _part(t.item_field, "value", mapping)
    return ()


def _ids(parts: Iterable[ColumnPart]) -> Iterable[int]:
    for part in parts:
        if part.id is not None:
            yield part.id
        yield from _ids(part.parts)


def columns_of_file(file: Path, mapping: Sequence[MappedField]) -> tuple[ColumnPart, ...] | None:
    """The columns of a file; None if it is not a file of Parquet, which its reader will report."""
    try:
        with file.open("rb") as stream:
            return parts_of_file(pq.read_schema(stream), mapping)
    except (pa.ArrowInvalid, OSError):
        return None


# --- whether they are the same ------------------------------------------------------------------


def other_names(row: Type, now: Sequence[ColumnPart], then: Sequence[ColumnPart]) -> str | None:
    """Which of the columns asked for had another name `then` than `now`, as a message; None if all have the same.

    >>> now = [ColumnPart("a", 1, (ColumnPart("x", 2), ColumnPart("y", 3)))]
    >>> then = [ColumnPart("a", 1, (ColumnPart("x", 3),)), ColumnPart("b", 4)]
    >>> other_names(ty.RecordType((("a", ty.RecordType((("y", ty.INT),))),)), now, then)
    '`a.y` is called `x`'
    >>> other_names(ty.RecordType((("a", ty.RecordType((("x", ty.INT),))),)), now, then)
    '`a.x` is another column, which had that name'
    >>> other_names(ty.RecordType((("a", ty.RecordType(())),)), now, then)
    """
    return _other(row, now, then, "")


def _other(wanted: Type, now: Sequence[ColumnPart], then: Sequence[ColumnPart], at: str) -> str | None:
    match wanted:
        case ty.RecordType(fields):
            here = {part.name: part for part in now}
            pairs = [(here[name], t) for name, t in fields if name in here]
            return next((said for part, t in pairs if (said := _moved(part, t, then, at)) is not None), None)
        case ty.BagType(ty.TupleType(items)) if len(now) == 2:  # a map
            return _of_parts(items, now, then, at)
        case ty.BagType(item) | ty.ListType(item):
            return _of_parts((item,), now, then, f"{at}[]")
        case ty.TupleType(items):  # fields are found by position
            if [part.id for part in now] != [part.id for part in then]:
                return f"the fields of `{at}` are others, or in another order"
            return _of_parts(items, now, then, at)
        case _:
            return None


def _moved(part: ColumnPart, wanted: Type, then: Sequence[ColumnPart], at: str) -> str | None:
    place = f"{at}.{part.name}" if at else part.name
    same = next((other for other in then if other.id == part.id), None)
    if same is not None and same.name != part.name:
        return f"`{place}` is called `{same.name}`"
    if same is None:
        named = any(other.name == part.name for other in then)
        return f"`{place}` is another column, which had that name" if named else None
    return _other(wanted, part.parts, same.parts, place)


def _of_parts(items: Iterable[Type], now: Sequence[ColumnPart], then: Sequence[ColumnPart], at: str) -> str | None:
    found = (_other(t, a.parts, b.parts, at) for t, a, b in zip(items, now, then, strict=False))
    return next((said for said in found if said is not None), None)
