"""Rows of files as values: the reference reader of csv, json lines and parquet.

What a malformed row is, and how it is reported, is decided here; the runtime's Spark readers find the same rows
malformed and come back here for the file and the line.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrql.algebra import types as ty
from mrql.algebra.errors import MissingRow, UserError
from mrql.algebra.functions import INT_RANGES, EvaluationError, convert, to_single
from mrql.algebra.sources import Format, SourceSpec
from mrql.algebra.span import Source, Span
from mrql.algebra.types import Type
from mrql.algebra.values import Bag, Record, Value
from mrql.algebra.zset import ZSet

if TYPE_CHECKING:
    # Arrow takes longer to load than a query takes to check, and only parquet needs it.
    import pyarrow as pa


def list_files(spec: SourceSpec) -> list[Path]:
    """The files of a source, by name: the file itself, those of a directory, or those that a pattern with `*` names.

    Names that begin with `.` or `_` are not looked at: that is how a file is kept from being read while it is written.

    Raises: UserError when a static source is not there; a stream's directory may still come.
    """
    path = Path(spec.path)
    if path.is_dir():
        found = [f for f in path.iterdir() if f.is_file()]
    elif path.is_file():
        found = [path]
    else:
        found = [Path(f) for f in glob.glob(spec.path)]
        if not found and not (spec.stream and not path.suffix):
            raise UserError(f"no such file or directory: {spec.path}", spec.span)
    return sorted(f for f in found if not f.name.startswith((".", "_")))


def read_source(spec: SourceSpec) -> Bag:
    """All rows of a source, without those that were taken away.

    Raises: UserError when a file is missing, a row is malformed, or one is taken away that is not there.
    """
    if not spec.shrinks:
        return Bag(row for file in list_files(spec) for row in read_file(spec, file))
    rows = ZSet()
    for part, weight in spec.directories:
        rows += ZSet.weighted(change for file in list_files(part) for change in read_changes(part, file, weight))
    for row, count in rows:
        if count < 0:
            raise MissingRow(spec.name, row, -count, spec.span)
    return rows.bag()


def read_changes(spec: SourceSpec, file: Path, weight: int = 1) -> Iterator[tuple[Value, int]]:
    """The rows of one file of a stream, each with its weight: that of the file, times −1 for a row tagged `-`.

    Raises: UserError at the first malformed row, with the file and the line.
    """
    if spec.tagged:
        for number, line in _lines(spec, file):
            (tag, _), *fields = _fields(line, spec.delimiter)
            if tag not in ("+", "-"):
                raise malformed(file, number, line, f'"{tag}" where + or - was expected')
            yield _csv_row(spec, file, number, line, fields), weight if tag == "+" else -weight
    else:
        for row in read_file(spec, file):
            yield row, weight


def read_file(spec: SourceSpec, file: Path) -> Iterator[Value]:
    """The rows of one file.

    Raises: UserError at the first malformed row, with the file and the line.
    """
    match spec.format:
        case Format.CSV:
            return _read_csv(spec, file)
        case Format.JSON:
            return _read_json(spec, file)
        case Format.PARQUET:
            return _read_parquet(spec, file)


# --- csv ----------------------------------------------------------------------------------------


def _read_csv(spec: SourceSpec, file: Path) -> Iterator[Value]:
    for number, line in _lines(spec, file):
        yield _csv_row(spec, file, number, line, list(_fields(line, spec.delimiter)))


def _lines(spec: SourceSpec, file: Path) -> Iterator[tuple[int, str]]:
    with file.open(encoding="utf-8") as text:
        for number, line in enumerate(text, start=1):
            if not (spec.header and number == 1) and line.strip():
                yield number, line.rstrip("\r\n")


def _csv_row(spec: SourceSpec, file: Path, number: int, line: str, fields: Sequence[tuple[str, bool]]) -> Value:
    if len(fields) != len(spec.columns):
        raise malformed(file, number, line, f"{len(fields)} fields, where {len(spec.columns)} were expected")
    values = []
    for column, (field, quoted) in zip(spec.columns, fields, strict=True):
        if column.type is not None:
            values.append(_csv_value(field, quoted, column.type, file, number, line, column.name))
    return _row(spec.row, values)


def _fields(line: str, delimiter: str) -> Iterator[tuple[str, bool]]:
    """The fields of a record, each with whether it was quoted.

    An empty quoted field is a string and an empty unquoted one is missing; Python's own reader tells them apart only
    from 3.12 on. Blanks around a field do not belong to it.
    """
    at = 0
    while True:
        start = at + len(line[at:]) - len(line[at:].lstrip(" ")) if delimiter != " " else at
        if line.startswith('"', start):
            end, text = _quoted(line, start + 1)
            stop = line.find(delimiter, end)
            yield text, True
        else:
            stop = line.find(delimiter, at)
            yield line[at : stop if stop >= 0 else len(line)].strip(), False
        if stop < 0:
            return
        at = stop + len(delimiter)


def _quoted(line: str, at: int) -> tuple[int, str]:
    """A quoted field from behind its first quote: where it ends, and its text. A doubled quote stands for one."""
    text = ""
    while at < len(line):
        if line.startswith('""', at):
            text += '"'
            at += 2
        elif line[at] == '"':
            return at + 1, text
        else:
            text += line[at]
            at += 1
    return at, text


def _csv_value(field: str, quoted: bool, t: Type, file: Path, number: int, line: str, column: str) -> Value:
    if field == "" and not quoted:
        return None
    if t == ty.STRING:
        return field
    try:
        return convert(field, t)
    except EvaluationError:
        raise malformed(file, number, line, f'"{field}" is not a value of type {t} (column {column})') from None


def _row(t: Type, values: list[Value]) -> Value:
    match t:
        case ty.TupleType():
            return tuple(values)
        case ty.RecordType(fields):
            return Record(dict(zip((name for name, _ in fields), values, strict=True)))
        case _:
            return values[0]


def malformed(file: Path, number: int, line: str, reason: str) -> UserError:
    """The error for a malformed row, with the line as its place."""
    source = Source(str(file), "\n" * (number - 1) + line)
    start = number - 1
    return UserError(f"malformed row: {reason}", Span(source, start, start + len(line)))


# --- json ---------------------------------------------------------------------------------------


def _read_json(spec: SourceSpec, file: Path) -> Iterator[Value]:
    with file.open(encoding="utf-8") as text:
        for number, line in enumerate(text, start=1):
            stripped = line.strip()
            if not stripped:
                continue
            try:
                yield from_json(json.loads(stripped), spec.row)
            except (json.JSONDecodeError, ValueError) as error:
                reason = str(error) if not isinstance(error, json.JSONDecodeError) else "not a JSON object"
                raise malformed(file, number, stripped, reason) from None


_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
"""Numbers that JSON has no other form for."""


def from_json(value: Any, t: Type) -> Value:
    """A JSON value as a value of type `t`; a field that is not there is missing.

    Raises: ValueError when the value is of another type.
    """
    if value is None:
        return None
    match t:
        case ty.RecordType(fields) if isinstance(value, dict):
            return Record({name: from_json(value.get(name), item) for name, item in fields})
        case ty.BagType(item) if isinstance(value, list):
            return Bag(from_json(v, item) for v in value)
        case ty.ListType(item) if isinstance(value, list):
            return [from_json(v, item) for v in value]
        case ty.Basic(ty.Kind.DATE | ty.Kind.TIMESTAMP):
            return _time_from_json(value, t)
        case ty.Basic(ty.Kind.STRING) if not isinstance(value, str):
            return json.dumps(value, separators=(",", ":"))
        case ty.FLOAT | ty.DOUBLE if value in _NOT_FINITE:
            return float(value)
        case ty.Basic() if _is_of(value, t):
            return to_single(value) if t == ty.FLOAT else float(value) if t == ty.DOUBLE else value
        case _:
            raise ValueError(f"{json.dumps(value)} is not a value of type {t}")


def _time_from_json(value: Any, t: ty.Basic) -> Value:
    """A date or timestamp: a string in JSON, itself in parquet, where it may have a zone."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    try:
        if isinstance(value, str) or (isinstance(value, date) and isinstance(value, datetime) <= (t == ty.TIMESTAMP)):
            return convert(value, t)
    except EvaluationError:
        pass
    raise ValueError(f"{json.dumps(value, default=str)} is not a value of type {t}")


def _is_of(value: Any, t: ty.Basic) -> bool:
    if t == ty.BOOL:
        return isinstance(value, bool)
    if t == ty.STRING:
        return isinstance(value, str)
    if isinstance(value, bool):
        return False
    if t in INT_RANGES:
        low, high = INT_RANGES[t]
        return isinstance(value, int) and low <= value <= high
    return isinstance(value, int | float)


# --- parquet ------------------------------------------------------------------------------------


def parquet_type(spec: SourceSpec) -> Type:
    """The type of the rows of a parquet source, read from its first file.

    Raises: UserError when there is no file, or a column is of a type that the language does not have.
    """
    files = list_files(spec)
    if not files:
        raise UserError(f"no file in {spec.path} to take the type of the rows from", hint="add type(<A: long>), say")
    schema = _parquet_schema(files[0])
    return ty.RecordType(tuple((field.name, _from_arrow(field.type, files[0], field.name)) for field in schema))


def _parquet_schema(file: Path) -> pa.Schema:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{file} is not a parquet file: {error}") from None


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
    raise UserError(f"the column {name} of {file} is of type {t}, which the language does not have")


def _read_parquet(spec: SourceSpec, file: Path) -> Iterator[Value]:
    import pyarrow.parquet as pq

    _parquet_schema(file)
    assert isinstance(spec.row, ty.RecordType)
    for batch in pq.ParquetFile(file).iter_batches(columns=list(spec.row.names)):
        for row in batch.to_pylist():
            try:
                yield from_json(row, spec.row)
            except ValueError as error:
                raise UserError(f"malformed row in {file}: {error}") from None
