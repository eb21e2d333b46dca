"""JSON: one value a line, or one document a file (`multiline`), and what type the rows have where none is given.

A line is JSON as the standard has it: no comments, no single quotes, no NaN, no key twice, nothing behind the value. A
document is an array, whose elements are the rows, or an object, which is one. One that is no JSON is malformed as a
whole; an element that does not fit is a malformed row, of the line that it begins in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import islice
from pathlib import Path

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import Records, SourceSpec
from mrql.algebra.errors import EvaluationError, UserError
from mrql.algebra.functions import INT_RANGES
from mrql.algebra.stack import deep
from mrql.algebra.types import Type
from mrql.algebra.values.atom_conversion import parse_atom
from mrql.algebra.values.json_text import Json, NotJson, elements, read
from mrql.algebra.values.json_typed import NotHeld, held
from mrql.algebra.values.values import Value
from mrql.runtime.engine.answer import WEIGHT, Output
from mrql.runtime.engine.row_format import json_text, row_object
from mrql.runtime.files.compression import BYTE_ORDER_MARK, NOT_UTF8, decoded, lines, opened
from mrql.runtime.files.quarantine import Malformed, Reject
from mrql.runtime.sources.formats.envelopes import changes_of
from mrql.runtime.sources.formats.file_format import FileFormat, count_lines

SAMPLE_ROWS = 1000
"""How many rows the type is taken from where none is given."""
SAMPLE_BYTES = 1_000_000


def read_json(spec: SourceSpec, file: Path, reject: Reject) -> Iterator[tuple[Value, int]]:
    """The rows of a file, each with its weight."""
    if spec.multiline:
        yield from _read_document(spec, file, reject)
        return
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
            reason = f"{error} in one line: {OF_A_DOCUMENT}" if text.strip() in _OPENED else str(error)
            hint = OF_A_DOCUMENT if number == 1 and text.startswith("[{") and text not in _OPENED else None
            reject(Malformed(file, number, reason, text, hint or _time_hint(error)))


def _time_hint(error: ValueError) -> str | None:
    """The hint for a text that is no date, or no timestamp, as they are written in JSON."""
    match error:
        case NotHeld(value=str() as text, type=ty.DATE | ty.TIMESTAMP as t):
            with suppress(EvaluationError):
                parse_atom(text, ty.TIMESTAMP)
                return "with a time of day it is of type `timestamp`"
            called = "date" if t == ty.DATE else "timestamp"
            return f"`string` reads it, and `parse_{called}` with a pattern takes the text as one"
        case _:
            return None


_OPENED = ("[", "{", "[{")
"""What the first line of a document is that is written for people."""
OF_A_DOCUMENT = "`multiline` reads files that are one document each"


def _read_document(spec: SourceSpec, file: Path, reject: Reject) -> Iterator[tuple[Value, int]]:
    document = document_in(file)
    if isinstance(document, Malformed):
        reject(document)
        return
    for number, element in enumerate(document, start=1):
        try:
            if spec.changes is None:
                yield _as_row(element.value, spec.row), 1
            else:
                yield from [*_changes_of(element.value, spec)]
        except ValueError as error:
            reason = f"{error} (element {number})"
            reject(Malformed(file, element.line, reason, element.text, _time_hint(error)))


def count_json(spec: SourceSpec, file: Path) -> int:
    """The number of rows in a file."""
    if not spec.multiline:
        return count_lines(spec, file)
    document = document_in(file)
    return 1 if isinstance(document, Malformed) else len(document)


def check_json(spec: SourceSpec, file: Path) -> Malformed | None:
    """What is wrong with a document."""
    document = document_in(file) if spec.multiline else None
    return document if isinstance(document, Malformed) else None


def row_of(line: bytes, t: Type) -> Value:
    """A line as a value of the row type.

    Raises: ValueError where it is none.
    """
    return _as_row(_json_of(line), t)


def changes_in(line: bytes, spec: SourceSpec) -> Iterator[tuple[Value, int]]:
    """What a line that is a change brings and takes away.

    Raises: ValueError where it is no change.
    """
    return _changes_of(_json_of(line), spec)


def _changes_of(value: Json, spec: SourceSpec) -> Iterator[tuple[Value, int]]:
    """What a change brings and takes away; null is none, as Debezium writes it behind a deletion."""
    envelope = spec.changes
    assert envelope is not None
    assert isinstance(spec.row, ty.RecordType)
    if isinstance(value, dict) and envelope.payload in value and envelope.op not in value:
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


# --- documents ----------------------------------------------------------------------------------


@attrs.frozen
class DocumentRow:
    """A value in a document, with its text and the number of the line that it begins in."""

    value: Json
    text: str
    line: int


def document_in(file: Path) -> Sequence[DocumentRow] | Malformed:
    """The elements of the array in a file, or the object in it, or what is wrong with the file."""
    with opened(file) as stream:
        data = stream.read().removeprefix(BYTE_ORDER_MARK)
    text = decoded(data)
    try:
        data.decode("utf-8")
        found = elements(text)
    except UnicodeDecodeError as error:
        return _fault(file, text, len(decoded(data[: error.start])), NOT_UTF8)
    except NotJson as error:
        return _fault(file, text, error.at, str(error))
    numbers, at, number = [], 0, 1
    for start, _, _ in found:
        number, at = number + _line_ends(text, at, start), start
        numbers.append(number)
    placed = zip(found, numbers, strict=True)
    return [DocumentRow(value, text[start:end], number) for (start, end, value), number in placed]


_LINE_END = re.compile(r"\r\n|\r|\n")


def _line_ends(text: str, start: int, end: int) -> int:
    return sum(1 for _ in _LINE_END.finditer(text, start, end))


def _fault(file: Path, text: str, at: int, reason: str) -> Malformed:
    begin = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    line = _LINE_END.split(text[begin : begin + SHOWN_MAX_CHARACTERS], maxsplit=1)[0]
    return Malformed(file, 1 + _line_ends(text, 0, begin), f"{reason} (column {at - begin + 1})", line)


SHOWN_MAX_CHARACTERS = 1000
"""So many signs of a line with a fault are kept: a document may be all in one."""


# --- inference ----------------------------------------------------------------------------------


@deep
def infer_row(files: Sequence[Path], multiline: bool = False, rows: int | None = None) -> Type | None:
    """The type of the rows, from so many of the first ones, else from those of the first megabyte; None where there are
    none.

    What is no JSON takes no part: it will be found malformed when it is read.

    Raises: UserError where the first line with something in it is how a document begins.
    """
    if not multiline:
        _must_be_lines(files)
    joined: Type | None = None
    sample = _sample(files, multiline, SAMPLE_BYTES) if rows is None else _sample(files, multiline, None)
    for value in islice(sample, rows or SAMPLE_ROWS):
        found = type_of(value)
        joined = found if joined is None else joined_types(joined, found)
    return None if joined is None else settled(joined)


def _must_be_lines(files: Sequence[Path]) -> None:
    first = next((text.strip() for file in files for text in _texts(file)), None)
    if first in _OPENED:
        hint = "add multiline, which reads files that are one document each"
        raise UserError(f'the first line is no JSON, but "{first}"', hint=hint)


def first_fault(files: Iterable[Path], multiline: bool) -> Malformed | None:
    """The first line that is no JSON, or what is wrong with the first document that is none."""
    for file in files:
        if multiline:
            document = document_in(file)
            if isinstance(document, Malformed):
                return document
            continue
        for number, line in lines(file):
            try:
                if line.strip():
                    _json_of(line)
            except ValueError as error:
                return Malformed(file, number, str(error), decoded(line))
    return None


def _sample(files: Iterable[Path], multiline: bool, most: int | None) -> Iterator[Json]:
    """The first values, in about so many bytes at `most`."""
    size = 0
    for file in files:
        for value, length in _values(file, multiline):
            if value is not NOTHING:
                yield value
            size += length
            if most is not None and size > most:
                return


NOTHING = object()
"""What stands for a line that is no JSON."""


def _values(file: Path, multiline: bool) -> Iterator[tuple[Json, int]]:
    """The values in a file, each with the length of its text."""
    if multiline:
        document = document_in(file)
        found = [] if isinstance(document, Malformed) else document
        yield from ((element.value, len(element.text)) for element in found)
        return
    for line in _texts(file):
        try:
            yield read(line), len(line)
        except ValueError:
            yield NOTHING, len(line)


def _texts(file: Path) -> Iterator[str]:
    """The lines of a file that are not blank."""
    return (decoded(line) for _, line in lines(file) if line.strip())


RECORD_MAX_FIELDS = 200
"""An object with more keys than that is a table by itself, and of type `any`."""


LARGE = ty.DecimalType(38)
"""The type of whole numbers that no long has: as doubles, several would be one."""


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
            low, high = INT_RANGES[ty.LONG]
            return ty.LONG if low <= value <= high else LARGE
        case Decimal() if value.as_tuple().exponent == 0:
            return LARGE
        case dict():
            if len(value) > RECORD_MAX_FIELDS or any('"' in key or "\\" in key for key in value):
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
            return ty.RecordType(tuple(named.items())) if len(named) <= RECORD_MAX_FIELDS else ty.ANY
        case ty.ListType(x), ty.ListType(y):
            return ty.ListType(joined_types(x, y))
        case _ if {a, b} <= {ty.LONG, ty.DOUBLE, LARGE}:
            return ty.DOUBLE if ty.DOUBLE in (a, b) else LARGE
        case _:
            return ty.ANY


def widened(known: Type, files: Iterable[Path], multiline: bool = False) -> Type:
    """The type of rows that also holds those of some files, as far as they fit a wider one at all."""
    for file in files:
        for value, _ in _values(file, multiline):
            if value is not NOTHING:
                known = widened_by(known, type_of(value)) or known
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
            return ty.RecordType(tuple(fields.items())) if len(fields) <= RECORD_MAX_FIELDS else ty.ANY
        case ty.ListType(item), ty.ListType(other):
            inner = widened_by(item, other)
            return None if inner is None else ty.ListType(inner)
        case _ if {known, found} <= {ty.LONG, ty.DOUBLE, LARGE}:
            return joined_types(known, found)
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
    takes=frozenset({"changes", "multiline", "sample"}),
    read=read_json,
    check=check_json,
    count=count_json,
    infer=lambda spec, files: infer_row(files, spec.multiline, spec.sample),
    widen=lambda spec, known, files: widened(known, files, spec.multiline),
    encode=encode_json,
)
