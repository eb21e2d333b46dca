"""Files with typed columns, such as Parquet and ORC, read by Arrow.

A type that is given is checked against each file: its columns must be there, with types that widen to those given. A
type that is found has the columns of all files, with types that hold the values of all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

import attrs
import pyarrow as pa

from mrql.algebra import types as ty
from mrql.algebra.catalog import Records, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.functions import convert
from mrql.algebra.showable import written_name
from mrql.algebra.types import Type
from mrql.algebra.values.file_names import is_odd
from mrql.algebra.values.values import Bag, Record, Value
from mrql.runtime.engine.answer import Output
from mrql.runtime.files.quarantine import Malformed, Reject
from mrql.runtime.sources.formats import foreign_types, nanoseconds
from mrql.runtime.sources.formats.file_format import IS_NEW, MAY_LACK, FileFormat, first_new, once
from mrql.runtime.sources.formats.foreign_types import Fields, Foreign, ForeignAtom, Pairs, misfit, own_type, twice
from mrql.runtime.sources.formats.wider_columns import narrowed, wider, wider_row

Opened: TypeAlias = Path | IO[bytes]
"""A file as it is passed to Arrow: its path, or an open stream."""


@attrs.frozen
class ArrowReader:
    """How Arrow reads the files of a format."""

    called: str
    """The name of the format with its article, for messages."""
    schema: Callable[[Opened], pa.Schema]
    batches: Callable[[Opened, list[str]], Iterator[Any]]
    """The rows in batches, with the named columns."""
    rows: Callable[[Opened], int]
    """The number of rows."""


def columnar_format(
    name: str,
    columnar: ArrowReader,
    encode: Callable[[Output, Value], bytes] | None = None,
    *,
    takes: Iterable[str] = (),
) -> FileFormat:
    """A format of such files; `takes` are the options that not all of these formats take."""

    def infer(spec: SourceSpec, files: Sequence[Path]) -> Type:
        return infer_columns(columnar, spec, files)

    def widen(spec: SourceSpec, known: Type, files: Iterable[Path]) -> Type:
        assert isinstance(known, ty.RecordType)
        return reduce(wider_row, _rows_of(columnar, spec, files), known)

    def check(spec: SourceSpec, file: Path) -> Malformed | None:
        return check_columns(columnar, spec, file)

    def read(spec: SourceSpec, file: Path, reject: Reject) -> Iterator[Value]:
        return read_columnar(columnar, spec, file, reject)

    def count(spec: SourceSpec, file: Path) -> int:
        return 1 if check(spec, file) is not None else count_columnar(columnar, file)

    return FileFormat(
        name,
        Records(typed=True),
        takes=frozenset({"allowMissingColumns", "failOnNewColumns", *takes}),
        read=once(read),
        check=check,
        count=count,
        infer=infer,
        widen=widen,
        encode=encode,
    )


def infer_columns(columnar: ArrowReader, spec: SourceSpec, files: Sequence[Path]) -> ty.RecordType:
    """The type of the rows, read from the footers of all files, without the columns of types that the language does not
    have. A file that is not of the format is found malformed when its rows are read.

    Raises: UserError when no file has such a type; the reason is that of the first one.
    """
    rows = [*_rows_of(columnar, spec, files)]
    if not rows:
        first = _row_of(columnar, spec, files[0])
        assert isinstance(first, Malformed)
        raise first.error()
    return reduce(wider_row, rows)


def _rows_of(columnar: ArrowReader, spec: SourceSpec, files: Iterable[Path]) -> Iterator[ty.RecordType]:
    """The types of the rows of some files, without the files that have none."""
    return (row for file in files if not isinstance(row := _row_of(columnar, spec, file), Malformed))


def _row_of(columnar: ArrowReader, spec: SourceSpec, file: Path) -> ty.RecordType | Malformed:
    """The type of the rows of a file, or why it has none."""
    schema = _as_read(columnar, spec, file)
    if isinstance(schema, Malformed):
        return schema
    if wrong := twice(schema.names):
        return Malformed(file, None, f"has the column `{wrong}` twice")
    found = foreign_fields(schema)
    row = own_type(found)
    if not isinstance(row, ty.RecordType):
        hint = nanoseconds.HINT if nanoseconds.are_in(str(found)) else None
        return Malformed(file, None, f"has no column of a type that the language has, but {found}", hint=hint)
    return row


def foreign_fields(schema: pa.Schema) -> Fields:
    """The columns of a schema, for comparison with those of a row."""
    return Fields(tuple((field.name, _foreign(field.type)) for field in schema))


def check_columns(columnar: ArrowReader, spec: SourceSpec, file: Path) -> Malformed | None:
    """What is wrong with a file, if anything: it is not of the format, or its columns do not fit."""
    schema = _as_read(columnar, spec, file)
    if isinstance(schema, Malformed):
        return schema
    assert isinstance(spec.row, ty.RecordType)
    for name, wanted in spec.row.fields:
        found = schema.names.count(name)
        if not found and spec.may_lack_columns:
            continue
        if found != 1:
            said = f"has the column `{name}` twice" if found else f"has no column `{name}`"
            hint = None if found or spec.versioned else MAY_LACK
            return Malformed(file, None, f"{said}; its columns: {', '.join(schema.names)}", hint=hint)
        have = _foreign(schema.field(name).type)
        wrong = misfit(have, wanted, name, may_lack_fields=spec.may_lack_columns)
        if wrong is not None:
            hint = _hint(name, wanted, have, spec)
            return Malformed(file, None, f"has a {wrong} that {wrong.wrong}", hint=hint)
    if spec.no_new_columns:
        names = _in_the_language(schema) if spec.of_all_files else schema.names
        if (new := first_new(names, spec.row.names)) is not None:
            return Malformed(file, None, f"has a new column `{new}`", hint=IS_NEW)
    return None


def _in_the_language(schema: pa.Schema) -> list[str]:
    """The columns whose types the language has, which are those of a type that is found."""
    return [field.name for field in schema if own_type(_foreign(field.type)) is not None]


def _hint(name: str, wanted: Type, have: Foreign, spec: SourceSpec) -> str | None:
    """A hint for a column that does not fit: a type that holds its values and those of the type asked for, or an option
    by which it is read; None if there is neither."""
    if nanoseconds.are_in(str(have)) and not spec.versioned:
        return nanoseconds.HINT
    found = own_type(have)
    both = None if found is None else wider(wanted, narrowed(found, wanted))
    if both is None:
        return None
    lacks = misfit(have, both, name) is not None and not spec.versioned
    if both == wanted:
        return MAY_LACK if lacks else None
    more = ", allowMissingColumns" if lacks else ""
    return f"`type(<{written_name(name)}: {both}>){more}` reads it, and the others"


Named = TypeVar("Named")


def of_one_type(
    columnar: ArrowReader, spec: SourceSpec, files: Iterable[Named], path: Callable[[Named], Path]
) -> list[list[Named]]:
    """Well-formed files, grouped by which of the columns of the rows they have, and of which types."""
    alike: dict[tuple[Foreign | None, ...], list[Named]] = {}
    assert isinstance(spec.row, ty.RecordType)
    for file in files:
        schema = file_schema(columnar, path(file))
        if isinstance(schema, Malformed):
            raise schema.error()
        types = (_foreign(schema.field(name).type) if name in schema.names else None for name in spec.row.names)
        alike.setdefault(tuple(types), []).append(file)
    return [*alike.values()]


def _foreign(t: pa.DataType) -> Foreign:
    """A type of Arrow, for comparison with one of the language."""
    if pa.types.is_struct(t):
        return Fields(tuple((field.name, _foreign(field.type)) for field in t.fields))
    if pa.types.is_dictionary(t):
        return _foreign(t.value_type)  # the encoding in the memory of the writer, not in the file
    if any(is_list(t) for is_list in (pa.types.is_list, pa.types.is_large_list, *_other_lists())):
        return foreign_types.Sequence(_foreign(t.value_type))
    if pa.types.is_map(t):
        return Pairs(_foreign(t.key_type), _foreign(t.item_type))
    known = _single(t)
    return ForeignAtom(str(t)) if known is None else ForeignAtom(str(known), (known,))


def _other_lists() -> tuple[Callable[[pa.DataType], bool], ...]:
    """The tests for lists that their writer held in another layout in memory."""
    return pa.types.is_list_view, pa.types.is_large_list_view, pa.types.is_fixed_size_list


def _as_read(columnar: ArrowReader, spec: SourceSpec, file: Path) -> pa.Schema | Malformed:
    """The columns of a file, with the types that they are read as."""
    schema = file_schema(columnar, file)
    if isinstance(schema, Malformed) or not spec.truncate_timestamps:
        return schema
    return nanoseconds.as_microseconds(schema)


def file_schema(columnar: ArrowReader, file: Path) -> pa.Schema | Malformed:
    """The columns of a file as a schema of Arrow, or that it is not of the format."""
    try:
        with _opened(file) as stream:
            return columnar.schema(stream)
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise UserError(f"{file} cannot be read: {os.strerror(error.errno)}") from None
        return Malformed(file, None, f"is not {columnar.called} file")


@contextmanager
def _opened(file: Path) -> Iterator[Opened]:
    """A file as it is passed to Arrow: as a stream if its name is not UTF-8, which Arrow does not take."""
    if not is_odd(str(file)):
        yield file
        return
    with file.open("rb") as stream:
        yield stream


_ARROW: dict[str, Type] = {
    "bool": ty.BOOL,
    "int8": ty.INT,
    "int16": ty.INT,
    "int32": ty.INT,
    "int64": ty.LONG,
    "uint8": ty.INT,
    "uint16": ty.INT,
    "uint32": ty.LONG,
    "uint64": ty.DecimalType(20),
    "float": ty.FLOAT,
    "double": ty.DOUBLE,
    "string": ty.STRING,
    "large_string": ty.STRING,
    "string_view": ty.STRING,
    "date32[day]": ty.DATE,
    "binary": ty.BYTES,
    "large_binary": ty.BYTES,
    "binary_view": ty.BYTES,
}


def _single(t: pa.DataType) -> Type | None:
    if pa.types.is_timestamp(t) and t.unit != "ns":
        return ty.TIMESTAMP
    if pa.types.is_decimal(t) and 0 <= t.scale <= t.precision <= ty.MAX_PRECISION:
        return ty.DecimalType(t.precision, t.scale)
    if pa.types.is_fixed_size_binary(t):
        return ty.BYTES
    return _ARROW.get(str(t))


def read_columnar(columnar: ArrowReader, spec: SourceSpec, file: Path, reject: Reject) -> Iterator[Value]:
    """The rows of a file; none if its columns do not fit.

    Raises: UserError where the file has a proper footer and is damaged further up, which is not noticed before its rows
        are read.
    """
    fault = check_columns(columnar, spec, file)
    if fault is not None:
        reject(fault)
        return
    assert isinstance(spec.row, ty.RecordType)
    there = _there(columnar, spec, file)
    if not there:
        yield from (_record({}, spec.row) for _ in range(count_columnar(columnar, file)))
        return
    with _opened(file) as stream:
        yield from _rows(spec, file, columnar.batches(stream, there))


def _there(columnar: ArrowReader, spec: SourceSpec, file: Path) -> list[str]:
    """The columns asked for that a well-formed file has: all of them, unless some may be missing."""
    assert isinstance(spec.row, ty.RecordType)
    if not spec.may_lack_columns:
        return list(spec.row.names)
    schema = file_schema(columnar, file)
    assert not isinstance(schema, Malformed)
    return [name for name in spec.row.names if name in schema.names]


def _rows(spec: SourceSpec, file: Path, batches: Iterator[Any]) -> Iterator[Value]:
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError) as error:
            raise _undecoded(file, str(error)) from None
        if batch is None:
            return
        try:
            rows = (nanoseconds.as_numbers(batch) if spec.truncate_timestamps else batch).to_pylist()
        except (ValueError, OverflowError) as error:
            raise UserError(f"{file} has a value that is out of range: {error}") from None
        for row in rows:
            yield _record(row, spec.row)


def _undecoded(file: Path, said: str) -> UserError:
    """The error for rows that Arrow cannot decode."""
    if "out of range for nanosecond" in said:
        wrong = "has a timestamp that is not of the years 1678 to 2261"
        return UserError(f"{file} {wrong}", hint="--engine spark reads it")
    return UserError(f"{file} is damaged: its rows cannot be decoded")


def _record(row: Mapping[str, Any], t: Type) -> Record:
    """A row as a record; fields for which the file has no column are missing values."""
    assert isinstance(t, ty.RecordType)
    return Record({name: _value(row.get(name), item) for name, item in t.fields})


def _value(value: Any, t: Type) -> Value:
    if value is None:
        return None
    match t:
        case ty.RecordType(fields):
            return Record({name: _value(value.get(name), item) for name, item in fields})
        case ty.TupleType(items):  # a struct, by the positions of its fields, or a pair of a map
            parts = value.values() if isinstance(value, Mapping) else value
            return tuple(_value(part, item) for part, item in zip(parts, items, strict=True))
        case ty.BagType(item):
            return Bag(_value(part, item) for part in value)
        case ty.ListType(item):
            return [_value(part, item) for part in value]
        case ty.TIMESTAMP if isinstance(value, int):
            return nanoseconds.at_nanosecond(value)
        case _:
            return convert(_in_utc(value), t)


def _in_utc(value: Any) -> Value:
    """A value; a timestamp with a time zone is converted to UTC."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def count_columnar(columnar: ArrowReader, file: Path) -> int:
    """The number of rows in a file."""
    with _opened(file) as stream:
        return columnar.rows(stream)
