"""The records of CSV, and their fields: what is in quotes, and which lines belong together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.values.xml_elements import BLANKS
from mrql.runtime.files.compression import decoded_exactly, fed_lines, lines

Fields = Sequence[tuple[str, bool]]
"""The fields of a record, each with whether it was in quotes: an empty one in quotes is a string."""


def records(spec: SourceSpec, file: Path) -> Iterator[tuple[int, str, Fields]]:
    """The records of a file: the number of the first line, the text, the fields."""
    header = spec.header
    for number, text, fields, _ in all_records(spec, file):
        if not header:
            yield number, text, fields
        header = False


def all_records(spec: SourceSpec, file: Path) -> Iterator[tuple[int, str, Fields, bool]]:
    """The records, the header too, and of each whether its last quote is closed."""
    waiting: list[str] = []
    open_field: list[str] = []
    known: list[tuple[str, bool]] = []
    first = 0
    for number, line in fed_lines(file) if spec.multiline else lines(file):
        text = decoded_exactly(line)
        if not waiting and is_no_record(spec, text):
            continue
        first = first if waiting else number
        waiting.append(text)
        open_field.append(text)
        if len(waiting) > 1 and _STAYS_OPEN.fullmatch(text):
            continue
        # Only the field that was open is looked at again, so that a record of many lines takes no longer than its size.
        piece = "\n".join(open_field)
        fields, opened_at = _split(piece, spec.delimiter)
        if opened_at is None or not spec.multiline:
            yield first, "\n".join(waiting), [*known, *fields], opened_at is None
            waiting, open_field, known = [], [], []
        else:
            known += fields[:-1]
            open_field = [piece[opened_at:]]
    if waiting:
        yield first, "\n".join(waiting), (), False


_STAYS_OPEN = re.compile(r'[^"]*+(?:""[^"]*+)*+')
"""A line in a field in quotes that does not end there."""


def split(text: str, delimiter: str) -> tuple[Fields, bool]:
    """The fields of a record, and whether the last quote is closed.

    >>> split('1, "a ""b"" , c" ,,""', ",")
    ([('1', False), ('a "b" , c', True), ('', False), ('', True)], True)
    >>> split('"a""b" c ""d"" ,', ",")
    ([('"a"b" c ""d""', False), ('', False)], True)
    """
    fields, opened_at = _split(text, delimiter)
    return fields, opened_at is None


def _split(text: str, delimiter: str) -> tuple[list[tuple[str, bool]], int | None]:
    """The fields of a record, and where the last one begins if it is in quotes that are not closed."""
    around = blanks(delimiter)
    fields: list[tuple[str, bool]] = []
    at, closed = 0, True
    while True:
        start = at
        while start < len(text) and text[start] in around:
            start += 1
        if text.startswith('"', start):
            stop, field, quoted, closed = _quoted(text, start, delimiter, around)
        else:
            stop, quoted = _end(text, at, delimiter), False
            field = text[at:stop].strip(around)
        fields.append((field, quoted))
        if stop == len(text):
            return fields, None if closed else at
        at = stop + 1


def blanks(delimiter: str) -> str:
    """What is taken away around a field; a blank that separates fields is none."""
    return BLANKS.replace(delimiter, "") if delimiter != " " else ""


def _end(text: str, at: int, delimiter: str) -> int:
    found = text.find(delimiter, at)
    return len(text) if found < 0 else found


def _quoted(text: str, start: int, delimiter: str, around: str) -> tuple[int, str, bool, bool]:
    """A field that begins with a quote: where it ends, what is in it, whether that is in quotes, and whether they are
    closed.

    With something else behind the closing quote, the quotes are part of the text; of one that was written twice before
    that, one is.
    """
    content = _STAYS_OPEN.match(text, start + 1)
    assert content is not None
    inside, at = content[0].replace('""', '"'), content.end()
    if at == len(text):
        # Spark takes a quote with nothing behind it for the text of the field.
        return at, inside or '"', True, False
    end = at + 1
    while end < len(text) and text[end] in around:
        end += 1
    if end == len(text) or text[end] == delimiter:
        return end, inside, True, True
    end = _end(text, at + 1, delimiter)
    return end, f'"{inside}"{text[at + 1 : end]}'.rstrip(around), False, True


def is_no_record(spec: SourceSpec, line: str) -> bool:
    """Whether a line between records is none: one of blanks, or a comment."""
    return not line.strip(BLANKS) or (spec.csv.comment is not None and line.startswith(spec.csv.comment))
