"""Parquet and ORC: files that know the types of their columns.

A type that is given is checked against each file: its columns must be there, with types that widen to those given.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.functions import convert
from mrql.algebra.malformed import Malformed, Reject
from mrql.algebra.names import is_odd
from mrql.algebra.sources import Format, SourceSpec
from mrql.algebra.types import Type
from mrql.algebra.values import Bag, Record, Value

if TYPE_CHECKING:
    # Arrow takes longer to load than a query takes to check, and only these files need it.
    import pyarrow as pa


def infer_columns(spec: SourceSpec, file: Path) -> ty.RecordType:
    """The type of the rows, read from a file.

    Raises: UserError when the file is not of its format, or a column is of a type that the language does not have.
    """
    schema = _schema(spec, file)
    if isinstance(schema, Malformed):
        raise schema.error()
    return ty.RecordType(tuple((field.name, _from_arrow(field.type, file, field.name)) for field in schema))


def check_columns(spec: SourceSpec, file: Path) -> Malformed | None:
    """What is wrong with a file, if anything is: that it is not of its format, or does not have the columns."""
    schema = _schema(spec, file)
    if isinstance(schema, Malformed):
        return schema
    assert isinstance(spec.row, ty.RecordType)
    for name, wanted in spec.row.fields:
        if name not in schema.names:
            return Malformed(file, None, f"has no column `{name}`; its columns: {', '.join(schema.names)}")
        try:
            found = _from_arrow(schema.field(name).type, file, name)
        except UserError as error:
            return Malformed(file, None, error.message.removeprefix(f"{file} "))
        if not _widens(found, wanted):
            return Malformed(file, None, f"has a column `{name}` of type {found}, where {wanted} was expected")
    return None


def _widens(found: Type, wanted: Type) -> bool:
    if isinstance(wanted, ty.BagType) and isinstance(found, ty.ListType):
        return _widens(found.item, wanted.item)
    if isinstance(wanted, ty.RecordType) and isinstance(found, ty.RecordType):
        return wanted.names == found.names and all(
            _widens(a, b) for (_, a), (_, b) in zip(found.fields, wanted.fields, strict=True)
        )
    if isinstance(wanted, ty.ListType) and isinstance(found, ty.ListType):
        return _widens(found.item, wanted.item)
    return ty.fits(found, wanted)


def _schema(spec: SourceSpec, file: Path) -> pa.Schema | Malformed:
    import pyarrow as pa

    try:
        with _opened(file) as stream:
            if spec.format is Format.ORC:
                from pyarrow import orc

                return orc.ORCFile(stream).schema
            import pyarrow.parquet as pq

            return pq.read_schema(stream)
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise UserError(f"{file} cannot be read: {os.strerror(error.errno)}") from None
        return Malformed(file, None, f"is not {_article(spec.format)} file")


@contextmanager
def _opened(file: Path) -> Iterator[Path | IO[bytes]]:
    """What Arrow reads a file by: it takes no name that is not UTF-8."""
    if not is_odd(str(file)):
        yield file
        return
    with file.open("rb") as stream:
        yield stream


def _article(format: Format) -> str:
    return f"{'an ORC' if format is Format.ORC else 'a Parquet'}"


_ARROW: dict[str, Type] = {
    "bool": ty.BOOL,
    "int8": ty.INT,
    "int16": ty.INT,
    "int32": ty.INT,
    "int64": ty.LONG,
    "float": ty.FLOAT,
    "double": ty.DOUBLE,
    "string": ty.STRING,
    "large_string": ty.STRING,
    "date32[day]": ty.DATE,
}


def _from_arrow(t: pa.DataType, file: Path, name: str) -> Type:
    import pyarrow as pa

    if str(t) in _ARROW:
        return _ARROW[str(t)]
    if pa.types.is_timestamp(t) and t.unit != "ns":
        return ty.TIMESTAMP
    if pa.types.is_struct(t):
        fields = [t.field(i) for i in range(t.num_fields)]
        return ty.RecordType(tuple((f.name, _from_arrow(f.type, file, f.name)) for f in fields))
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return ty.ListType(_from_arrow(t.value_type, file, name))
    raise UserError(f"{file} has a column `{name}` of type {t}, which the language does not have")


def read_columnar(spec: SourceSpec, file: Path, reject: Reject) -> Iterator[Value]:
    """The rows of a file; none of one that does not have the columns.

    Raises: UserError where the file ends in the right way and is damaged further up, which is not seen before its rows
        are read.
    """
    fault = check_columns(spec, file)
    if fault is not None:
        reject(fault)
        return
    assert isinstance(spec.row, ty.RecordType)
    with _opened(file) as stream:
        yield from _rows(spec, file, _batches(spec.format, stream, list(spec.row.names)))


def _rows(spec: SourceSpec, file: Path, batches: Iterator[Any]) -> Iterator[Value]:
    import pyarrow as pa

    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError):
            raise UserError(f"{file} is damaged: its rows cannot be decoded") from None
        if batch is None:
            return
        try:
            rows = batch.to_pylist()
        except (ValueError, OverflowError) as error:
            raise UserError(f"{file} has a value that is out of range: {error}") from None
        for row in rows:
            yield _value(row, spec.row)


def _batches(format: Format, file: Path | IO[bytes], columns: list[str]) -> Iterator[Any]:
    if format is Format.ORC:
        from pyarrow import orc

        opened = orc.ORCFile(file)
        return (opened.read_stripe(n, columns=columns) for n in range(opened.nstripes))
    import pyarrow.parquet as pq

    batches: Iterator[Any] = pq.ParquetFile(file).iter_batches(columns=columns)
    return batches


def _value(value: Any, t: Type) -> Value:
    if value is None:
        return None
    match t:
        case ty.RecordType(fields):
            return Record({name: _value(value[name], item) for name, item in fields})
        case ty.BagType(item):
            return Bag(_value(part, item) for part in value)
        case ty.ListType(item):
            return [_value(part, item) for part in value]
        case _:
            return convert(_in_utc(value), t)


def _in_utc(value: Any) -> Value:
    """A timestamp with a zone is the one of that moment in UTC."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def count_columnar(spec: SourceSpec, file: Path) -> int:
    """The number of rows in a file."""
    with _opened(file) as stream:
        if spec.format is Format.ORC:
            from pyarrow import orc

            return int(orc.ORCFile(stream).nrows)
        import pyarrow.parquet as pq

        return int(pq.read_metadata(stream).num_rows)
