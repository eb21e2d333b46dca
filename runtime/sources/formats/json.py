"""JSON: one value a line, and what type the rows have where none is given.

A line is JSON as the standard has it: no comments, no single quotes, no NaN, no key twice, nothing behind the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from mrql.algebra import types as ty
from mrql.algebra.catalog import Records, SourceSpec
from mrql.algebra.stack import deep
from mrql.algebra.types import Type
from mrql.algebra.values.json_text import Json, read
from mrql.algebra.values.json_typed import held
from mrql.algebra.values.values import Value
from mrql.runtime.engine.answer import WEIGHT, Output
from mrql.runtime.engine.row_format import json_text, row_object
from mrql.runtime.files.compression import NOT_UTF8, decoded, lines
from mrql.runtime.files.quarantine import Malformed, Reject
from mrql.runtime.sources.formats.envelopes import changes_of
from mrql.runtime.sources.formats.file_format import FileFormat, count_lines

SAMPLE_ROWS = 1000
"""How many rows the type is taken from where none is given."""
SAMPLE_BYTES = 1_000_000


def read_json(spec: SourceSpec, file: Path, reject: Reject) -> Iterator[tuple[Value, int]]:
    """The rows of a file, each with its weight."""
    for number, line in lines(file):
        text = decoded(line)
        if not text.strip(" \t"):
            continue
        try:
            if spec.changes is None:
                yield row_of(line, spec.row), 1
            else:
                yield from [*changes_in(line, spec)]
        except ValueError as error:
            reject(Malformed(file, number, str(error), text))


def row_of(line: bytes, t: Type) -> Value:
    """A line as a value of the row type.

    Raises: ValueError where it is none.
    """
    return _as_row(_json_of(line), t)


def changes_in(line: bytes, spec: SourceSpec) -> Iterator[tuple[Value, int]]:
    """What a line that is a change brings and takes away; null is none, as Debezium writes it behind a deletion.

    Raises: ValueError where it is no change.
    """
    envelope, value = spec.changes, _json_of(line)
    assert envelope is not None
    assert isinstance(spec.row, ty.RecordType)
    if isinstance(value, dict) and envelope.payload is not None and envelope.payload in value:
        value = value[envelope.payload]
    if value is not None:
        yield from changes_of(_as_row(value, envelope.whole(spec.row)), spec)


def _json_of(line: bytes) -> Json:
    try:
        return read(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError(NOT_UTF8) from None


@deep
def _as_row(value: Json, t: Type) -> Value:
    if value is None and t != ty.ANY:
        raise ValueError(f"null is not a value of type {t}")
    return held(value, t)


# --- inference ----------------------------------------------------------------------------------


@deep
def infer_row(files: Iterable[Path]) -> Type | None:
    """The type of the rows, from the first ones; None where there are none.

    What is no JSON takes no part: it will be found malformed when it is read.
    """
    joined: Type | None = None
    for value in islice(_sample(files), SAMPLE_ROWS):
        found = type_of(value)
        joined = found if joined is None else joined_types(joined, found)
    return None if joined is None else settled(joined)


def _sample(files: Iterable[Path]) -> Iterator[Json]:
    size = 0
    for file in files:
        for _, line in lines(file):
            try:
                if line.strip():
                    yield read(decoded(line))
            except ValueError:
                pass
            size += len(line)
            if size > SAMPLE_BYTES:
                return


MOST_FIELDS = 200
"""An object with more keys than that is a table by itself, and of type `any`."""


def type_of(value: Json) -> Type:
    """The type that a JSON value has by itself; `nothing` is that of null.

    >>> print(type_of({"a": 1, "b": [1, 2.5], "c": {"d": "x"}}))
    <a: long, b: [double], c: <d: string>>
    """
    match value:
        case None:
            return ty.NOTHING
        case bool():
            return ty.BOOL
        case str():
            return ty.STRING
        case int():
            return ty.LONG
        case dict():
            if len(value) > MOST_FIELDS or any('"' in key or "\\" in key for key in value):
                return ty.ANY
            return ty.RecordType(tuple((name, type_of(item)) for name, item in value.items()))
        case list():
            item: Type = ty.NOTHING
            for part in value:
                item = joined_types(item, type_of(part))
            return ty.ListType(item)
        case _:
            return ty.DOUBLE


def joined_types(a: Type, b: Type) -> Type:
    """The type that holds the values of both; `any` where no other does.

    >>> print(joined_types(type_of({"a": 1}), type_of({"b": "x", "a": True})))
    <a: any, b: string>
    """
    match a, b:
        case _ if a == b:
            return a
        case (ty.Nothing(), other) | (other, ty.Nothing()):
            return other
        case ty.RecordType(fields), ty.RecordType():
            named = dict(fields)
            for name, t in b.fields:
                named[name] = joined_types(named[name], t) if name in named else t
            return ty.RecordType(tuple(named.items())) if len(named) <= MOST_FIELDS else ty.ANY
        case ty.ListType(x), ty.ListType(y):
            return ty.ListType(joined_types(x, y))
        case (ty.Basic(ty.Kind.LONG), ty.Basic(ty.Kind.DOUBLE)) | (ty.Basic(ty.Kind.DOUBLE), ty.Basic(ty.Kind.LONG)):
            return ty.DOUBLE
        case _:
            return ty.ANY


def widened(known: Type, files: Iterable[Path]) -> Type:
    """The type of rows that also holds those of some files, as far as they fit a wider one at all."""
    for file in files:
        for _, line in lines(file):
            with suppress(ValueError):
                known = widened_by(known, type_of(read(decoded(line)))) or known
    return known


def widened_by(known: Type, found: Type) -> Type | None:
    """A type that is as wide as it has to be for a value of another one: a `long` becomes a `double`, a record has a
    field more. None where there is no such type: then the value is malformed, and not the type wrong.

    >>> print(widened_by(type_of({"a": 1, "b": [{"c": 1}]}), type_of({"a": 1.5, "b": [{"d": "x"}]})))
    <a: double, b: [<c: long, d: string>]>
    >>> widened_by(type_of({"a": 1}), type_of({"a": "x", "b": 1})) is None
    True
    """
    match known, found:
        case (ty.ANY, _) | (_, ty.Nothing()):
            return known
        case _ if known == found:
            return known
        case ty.RecordType(), ty.RecordType():
            fields = dict(known.fields)
            for name, t in found.fields:
                wider = widened_by(fields[name], t) if name in fields else settled(t)
                if wider is None:
                    return None
                fields[name] = wider
            return ty.RecordType(tuple(fields.items())) if len(fields) <= MOST_FIELDS else ty.ANY
        case ty.ListType(item), ty.ListType(other):
            inner = widened_by(item, other)
            return None if inner is None else ty.ListType(inner)
        case ty.LONG | ty.DOUBLE, ty.LONG | ty.DOUBLE:
            return ty.DOUBLE
        case _:
            return None


def settled(t: Type) -> Type:
    """The type with `any` for what only null was seen of."""
    match t:
        case ty.Nothing():
            return ty.ANY
        case ty.RecordType(fields):
            return ty.RecordType(tuple((name, settled(item)) for name, item in fields))
        case ty.ListType(item):
            return ty.ListType(settled(item))
        case _:
            return t


# --- answers ------------------------------------------------------------------------------------


def encode_json(output: Output, answer: Value) -> bytes:
    """A part file: an object a line."""
    lines = []
    for row, weight in output.rows(answer):
        named = {**row_object(row, output.item), **dict(zip((WEIGHT,), weight, strict=False))}
        lines.append(json_text(named))
    return "".join(line + "\n" for line in lines).encode()


JSON = FileFormat(
    "json",
    Records(typed=False),
    takes=frozenset({"changes"}),
    read=read_json,
    count=count_lines,
    infer=lambda spec, files: infer_row(files),
    widen=widened,
    encode=encode_json,
)
