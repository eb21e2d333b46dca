"""CSV: one record a line, or over several lines where a field in quotes has line ends in it (`multiline`).

A field in quotes may hold the delimiter, and a quote that is written twice; one that has something behind its closing
quote is no field in quotes but the text as it stands. One that is not closed ends with its line, and is a fault of the
whole file where records go over lines. A field that is empty and has no quotes is missing. Blanks around a field are
not part of it. A line of blanks is no record.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from mrql.algebra import types as ty
from mrql.algebra.documents import BLANKS
from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions import INT_RANGES, convert, to_single
from mrql.algebra.malformed import Malformed, Reject
from mrql.algebra.opened import NOT_UTF8, REPLACED, decoded, fed_lines, lines
from mrql.algebra.sources import SourceSpec
from mrql.algebra.types import Type
from mrql.algebra.values import Record, Value

Fields = Sequence[tuple[str, bool]]
"""The fields of a record, each with whether it was in quotes: an empty one in quotes is a string."""


def read_csv(spec: SourceSpec, file: Path, reject: Reject) -> Iterator[tuple[Value, int]]:
    """The rows of a file, each with 1, or −1 where a tagged file takes it away."""
    fault = check_csv(spec, file)
    if fault is not None:
        reject(fault)
        return
    for number, text, fields in records(spec, file):
        try:
            yield _weighted(spec, fields)
        except ValueError as error:
            reject(Malformed(file, number, str(error), text))


def check_csv(spec: SourceSpec, file: Path) -> Malformed | None:
    """What is wrong with a file as a whole: a quote that is never closed, where records go over lines.

    All that stands behind it is in quotes then, and it cannot be told where the record was meant to end.
    """
    if not spec.multiline or not _has_quotes(file):
        return None
    unclosed = ((number, text) for number, text, _, closed in _all_records(spec, file) if not closed)
    found = next(unclosed, None)
    return None if found is None else Malformed(file, found[0], "a quote that is not closed", found[1])


def _has_quotes(file: Path) -> bool:
    return any(b'"' in line for _, line in fed_lines(file))


def _weighted(spec: SourceSpec, fields: Fields) -> tuple[Value, int]:
    if not spec.tagged:
        return _row(spec, fields), 1
    tag = fields[0][0]
    if tag not in ("+", "-"):
        raise ValueError(f'"{tag}" where + or - was expected')
    return _row(spec, fields[1:]), 1 if tag == "+" else -1


def _row(spec: SourceSpec, fields: Fields) -> Value:
    if len(fields) != len(spec.columns):
        raise ValueError(
            f"{len(fields)} field{'' if len(fields) == 1 else 's'}, where {len(spec.columns)} were expected"
        )
    values = []
    for column, (field, quoted) in zip(spec.columns, fields, strict=True):
        if column.type is not None:
            values.append(None if field == "" and not quoted else value_of(field, column.type, column.name))
    match spec.row:
        case ty.TupleType():
            return tuple(values)
        case ty.RecordType(named):
            return Record(dict(zip((name for name, _ in named), values, strict=True)))
        case _:
            return values[0]


# --- records ------------------------------------------------------------------------------------


def records(spec: SourceSpec, file: Path) -> Iterator[tuple[int, str, Fields]]:
    """The records of a file: the number of the first line, the text, the fields."""
    header = spec.header
    for number, text, fields, _ in _all_records(spec, file):
        if not header:
            yield number, text, fields
        header = False


def _all_records(spec: SourceSpec, file: Path) -> Iterator[tuple[int, str, Fields, bool]]:
    """The records, the header too, and of each whether its last quote is closed."""
    waiting: list[str] = []
    first = 0
    for number, line in fed_lines(file) if spec.multiline else lines(file):
        text = decoded(line)
        if not waiting and not text.strip(BLANKS):
            continue
        first = first if waiting else number
        waiting.append(text)
        whole = "\n".join(waiting)
        fields, closed = split(whole, spec.delimiter)
        if closed or not spec.multiline:
            waiting = []
            yield first, whole, fields, closed
    if waiting:
        yield first, "\n".join(waiting), (), False


def split(text: str, delimiter: str) -> tuple[Fields, bool]:
    """The fields of a record, and whether the last quote is closed.

    >>> split('1, "a ""b"" , c" ,,""', ",")
    ([('1', False), ('a "b" , c', True), ('', False), ('', True)], True)
    """
    blanks = BLANKS.replace(delimiter, "") if delimiter != " " else ""
    fields: list[tuple[str, bool]] = []
    at, closed = 0, True
    while True:
        start = at
        while start < len(text) and text[start] in blanks:
            start += 1
        if text.startswith('"', start):
            stop, inside, closed = _quoted(text, start, delimiter, blanks)
        else:
            stop, inside = _end(text, at, delimiter), None
        field = text[at:stop].strip(blanks) if blanks else text[at:stop]
        fields.append((field, False) if inside is None else (inside, True))
        if stop == len(text):
            return fields, closed
        at = stop + 1


def _end(text: str, at: int, delimiter: str) -> int:
    found = text.find(delimiter, at)
    return len(text) if found < 0 else found


def _quoted(text: str, start: int, delimiter: str, blanks: str) -> tuple[int, str | None, bool]:
    """A field that begins with a quote: where it ends, what is in the quotes, and whether they are closed.

    With something else behind the closing quote, None is in quotes.
    """
    inside, at = "", start + 1
    while True:
        quote = text.find('"', at)
        if quote < 0:
            return len(text), inside + text[at:], False
        inside += text[at:quote]
        at = quote + 1
        if text.startswith('"', at):
            inside, at = inside + '"', at + 1
            continue
        end = at
        while end < len(text) and text[end] in blanks:
            end += 1
        if end == len(text) or text[end] == delimiter:
            return end, inside, True
        return _end(text, at, delimiter), None, True


# --- values -------------------------------------------------------------------------------------

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[dDfF]?")
_NAMED = {"NaN": math.nan, "Inf": math.inf, "-Inf": -math.inf}
_NAMED |= {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf, "+NaN": math.nan, "-NaN": math.nan}


def value_of(field: str, t: Type, column: str) -> Value:
    """A field as a value of its column's type.

    Raises: ValueError where it is none.
    """
    if t == ty.STRING:
        if REPLACED in field:
            raise ValueError(f"{NOT_UTF8} (column {column})")
        return field
    found: Value = None
    if t == ty.BOOL:
        found = {"true": True, "false": False}.get(field.lower())
    elif t in INT_RANGES and _INTEGER.fullmatch(field):
        low, high = INT_RANGES[t]
        found = int(field) if len(field) < 30 and low <= int(field) <= high else None
    elif t in (ty.FLOAT, ty.DOUBLE):
        number = _NUMBER.fullmatch(field)
        found = float(number[1]) if number else _NAMED.get(field)
        if found is None and _HEXADECIMAL.fullmatch(field):
            found = _from_hexadecimal(field.rstrip("dDfF"))
        found = to_single(found) if found is not None and t == ty.FLOAT else found
    elif t in (ty.DATE, ty.TIMESTAMP):
        with suppress(EvaluationError):
            found = convert(field, t)
    if found is None:
        raise ValueError(f'"{field}" is not a value of type {t} (column {column})')
    return found


def _from_hexadecimal(digits: str) -> float:
    """As Java has it: what is too large is infinite."""
    try:
        return float.fromhex(digits)
    except OverflowError:
        return float("-inf" if digits.startswith("-") else "inf")
