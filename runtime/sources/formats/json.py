"""JSON: one value per line, or one document per file (`multiline`), and the type of the rows if none is given.

A line is standard JSON: no comments, no single quotes, no NaN, no key twice, nothing after the value. A document is an
array, whose elements are the rows, or an object, which is one row. One that is not JSON is malformed as a whole; an
element that does not fit is a malformed row, reported with the line that it begins in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import AS_USUAL, Records, SourceSpec, TextOptions
from mrql.algebra.errors import EvaluationError, UserError
from mrql.algebra.showable import written_name
from mrql.algebra.stack import deep
from mrql.algebra.types import Type
from mrql.algebra.values.atom_conversion import parse_atom
from mrql.algebra.values.json_text import Json, NotJson, elements, read
from mrql.algebra.values.json_typed import NotHeld, held
from mrql.algebra.values.values import Record, Value
from mrql.runtime.engine.answer import WEIGHT, Output
from mrql.runtime.engine.row_format import json_text, row_object
from mrql.runtime.files.compression import BYTE_ORDER_MARK, NOT_UTF8, decoded, lines, opened
from mrql.runtime.files.quarantine import Malformed, Reject
from mrql.runtime.sources.formats.csv_values import PATTERNS
from mrql.runtime.sources.formats.envelopes import changes_of
from mrql.runtime.sources.formats.file_format import IS_NEW, FileFormat, count_lines, first_new
from mrql.runtime.sources.formats.json_types import joined_types, type_of, widened_by, with_any_for_nulls

SAMPLE_ROWS = 1000
"""The most rows that a type is found in, unless the source says another number."""
SAMPLE_CHARACTERS = 1_000_000


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
            yield from _rows_of(_json_of(line), spec)
        except ValueError as error:
            reason = f"{error} in one line: {OF_A_DOCUMENT}" if text.strip() in _OPENED else str(error)
            hint = OF_A_DOCUMENT if number == 1 and text.startswith("[{") and text not in _OPENED else None
            reject(Malformed(file, number, reason, text, hint or _row_hint(error)))


class NewField(ValueError):
    """A field that the rows do not have, where new fields are refused."""


def _row_hint(error: ValueError) -> str | None:
    """The hint for a new field, and for a text that is not a date or timestamp where no pattern says how those are
    written."""
    match error:
        case NewField():
            return IS_NEW
        case NotHeld(value=str() as text, type=ty.DATE | ty.TIMESTAMP as t, how=None):
            with suppress(EvaluationError):
                parse_atom(text, ty.TIMESTAMP)
                return "with a time of day it is of type `timestamp`"
            return f"an option says how it is written: `{PATTERNS[t]}`, for example; `string` reads it as it is"
        case _:
            return None


_OPENED = ("[", "{", "[{")
"""The first line of a document that is formatted for people."""
OF_A_DOCUMENT = "`multiline` reads files that are one document each"


def _read_document(spec: SourceSpec, file: Path, reject: Reject) -> Iterator[tuple[Value, int]]:
    document = document_in(file)
    if isinstance(document, Malformed):
        reject(document)
        return
    for number, element in enumerate(document, start=1):
        try:
            yield from _rows_of(element.value, spec)
        except ValueError as error:
            reason = f"{error} (element {number})"
            reject(Malformed(file, element.line, reason, element.text, _row_hint(error)))


def count_json(spec: SourceSpec, file: Path) -> int:
    """The number of rows in a file."""
    if not spec.multiline:
        return count_lines(spec, file)
    document = document_in(file)
    return 1 if isinstance(document, Malformed) else len(document)


def check_json(spec: SourceSpec, file: Path) -> Malformed | None:
    """What is wrong with a document, if anything."""
    document = document_in(file) if spec.multiline else None
    return document if isinstance(document, Malformed) else None


def _rows_of(value: Json, spec: SourceSpec) -> Sequence[tuple[Value, int]]:
    """The row that a value is, or the rows that a change inserts and deletes, each with its weight.

    Raises: ValueError where the value is neither.
    """
    return [(_as_row(value, spec.row, spec), 1)] if spec.changes is None else [*_changes_of(value, spec)]


def _changes_of(value: Json, spec: SourceSpec) -> Iterator[tuple[Value, int]]:
    """The rows that a change inserts and deletes; none for a null, which Debezium writes after a deletion.

    Raises: ValueError where it is not a change.
    """
    envelope = spec.changes
    assert envelope is not None
    assert isinstance(spec.row, ty.RecordType)
    if isinstance(value, dict) and envelope.payload in value and envelope.op not in value:
        value = value[envelope.payload]
    if value is not None:
        yield from changes_of(_as_row(value, envelope.whole(spec.row), spec), spec)


def _json_of(line: bytes) -> Json:
    """Raises: ValueError where a line is not JSON."""
    try:
        return read(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError(NOT_UTF8) from None


@deep
def _as_row(value: Json, t: Type, spec: SourceSpec) -> Value:
    """A JSON value as a value of type `t`.

    Raises: ValueError where it is not one.
    """
    if value is None and t != ty.ANY:
        raise ValueError(f"null is not a value of type {t}")
    if not (isinstance(value, dict) and isinstance(t, ty.RecordType)):
        return held(value, t)
    if spec.no_new_columns and (new := first_new(value, t.names)) is not None:
        raise NewField(f"a new field `{new}`")
    if spec.texts == AS_USUAL:
        return held(value, t)
    return Record({name: _field(value.get(name), item, name, spec.texts) for name, item in t.fields})


def _field(value: Json, t: Type, name: str, texts: TextOptions) -> Value:
    """A field of a row, in which dates and timestamps are written by the given patterns."""

    def read_text(text: str, t: ty.Basic) -> Value:
        written = texts.usual_text(text, t, name)
        if written is None:
            raise EvaluationError(f'"{text}" is not written as {texts.time_format(t, name)}')
        return parse_atom(written, t)

    try:
        return held(value, t, read_text)
    except NotHeld as error:
        place, how = f".{written_name(name)}{error.place}", texts.time_format(error.type, name)
        raise NotHeld(error.value, error.type, place, how) from None


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
"""The most characters kept of a line with a fault: a document may be a single line."""


# --- inference ----------------------------------------------------------------------------------


@deep
def infer_row(files: Sequence[Path], multiline: bool = False, rows: int | None = None) -> Type | None:
    """The type of the rows, found in the first `rows` of them, or else in at most `SAMPLE_ROWS` of the first
    `SAMPLE_CHARACTERS`; None if there are none.

    What is not JSON is skipped: it is found malformed when it is read.

    Raises: UserError where the first line that is not blank is the beginning of a document.
    """
    if not multiline:
        _must_be_lines(files)
    joined: Type | None = None
    sample = _sample(files, multiline, SAMPLE_CHARACTERS) if rows is None else _sample(files, multiline, None)
    for value in islice(sample, rows or SAMPLE_ROWS):
        found = type_of(value)
        joined = found if joined is None else joined_types(joined, found)
    return None if joined is None else with_any_for_nulls(joined)


def _must_be_lines(files: Sequence[Path]) -> None:
    first = next((text.strip() for file in files for text in _texts(file)), None)
    if first in _OPENED:
        hint = "add multiline, which reads files that are one document each"
        raise UserError(f'the first line is no JSON, but "{first}"', hint=hint)


def first_fault(files: Iterable[Path], multiline: bool) -> Malformed | None:
    """The first line that is not JSON, or what is wrong with the first document that is not."""
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
    """The first values, whose texts together have about `most` characters at most."""
    size = 0
    for file in files:
        for value, length in _values(file, multiline):
            if value is not NOTHING:
                yield value
            size += length
            if most is not None and size > most:
                return


NOTHING = object()
"""Stands for a line that is not JSON."""


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


def widened(known: Type, files: Iterable[Path], multiline: bool = False) -> Type:
    """A row type, widened to hold the rows of some files, except for those that fit no wider type."""
    for file in files:
        for value, _ in _values(file, multiline):
            if value is not NOTHING:
                known = widened_by(known, type_of(value)) or known
    return known


# --- answers ------------------------------------------------------------------------------------


def encode_json(output: Output, answer: Value) -> bytes:
    """A part file: one object per line."""
    lines = []
    for row, weight in output.rows(answer):
        named = {**row_object(row, output.item), **dict(zip((WEIGHT,), weight, strict=False))}
        lines.append(json_text(named))
    return "".join(line + "\n" for line in lines).encode()


JSON = FileFormat(
    "json",
    Records(typed=False),
    takes=frozenset({"changes", "failOnNewColumns", "multiline", "sample", "dateFormat", "timestampFormat"}),
    read=read_json,
    check=check_json,
    count=count_json,
    infer=lambda spec, files: infer_row(files, spec.multiline, spec.sample),
    widen=lambda spec, known, files: widened(known, files, spec.multiline),
    encode=encode_json,
)
