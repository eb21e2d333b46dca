"""The records of CSV and their fields: quotes, and records over several lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import attrs

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.values.xml_elements import BLANKS
from mrql.runtime.files.compression import decoded_exactly, fed_lines, lines, opened

Fields = Sequence[tuple[str, bool]]
"""The fields of a record, each with whether it was quoted: an empty quoted field is a string, and not missing."""


@attrs.frozen
class Dialect:
    """How a record is split into fields. The patterns mean the same in Python and in Java."""

    delimiter: str
    quote: str = '"'
    """The quote character; empty if no fields are quoted."""
    escape: str = ""
    """The character that escapes a quote, or itself, in a quoted field; empty if a quote is written twice instead."""

    @staticmethod
    def of(spec: SourceSpec) -> Dialect:
        return Dialect(spec.delimiter, spec.texts.quote, spec.texts.escape or "")

    @cached_property
    def blanks(self) -> str:
        """The blanks stripped around a field, without one that is the delimiter; none if that is a space."""
        return BLANKS.replace(self.delimiter, "") if self.delimiter != " " else ""

    @cached_property
    def blank(self) -> str:
        """A pattern of any number of these blanks."""
        return f"[{''.join(map(_code, self.blanks))}]*+" if self.blanks else ""

    @cached_property
    def between(self) -> str:
        """A pattern of the delimiter."""
        return _code(self.delimiter)

    @cached_property
    def plain(self) -> str:
        """A pattern of a field that does not begin with a quote, or of the rest of one."""
        return f"[^{self.between}]*+"

    @cached_property
    def inside(self) -> str:
        """A pattern of the content of a quoted field, without the quotes."""
        quote, escape = _code(self.quote), _code(self.escape) if self.escape else ""
        pair = rf"{escape}[\s\S]" if escape else quote * 2
        return f"[^{quote}{escape}]*+(?:{pair}[^{quote}{escape}]*+)*+"

    @cached_property
    def field(self) -> str:
        """A pattern of a field as it is written, whatever quotes there are."""
        if not self.quote:
            return self.plain
        quote = _code(self.quote)
        return f"(?:{self.blank}{quote}{self.inside}(?:{quote}{self.plain})?+|{self.plain})"

    @cached_property
    def record(self) -> str:
        """A pattern of a record in which each field that begins with a quote is in quotes."""
        quote = _code(self.quote)
        field = f"{self.blank}(?:{quote}{self.inside}{quote}{self.blank}|(?!{quote}){self.plain})"
        return f"{field}(?:{self.between}{field})*+"

    @cached_property
    def _inside(self) -> re.Pattern[str]:
        """The content of a quoted field, as far as a text has it: the escape may be the last character of a line."""
        return re.compile(self.inside + (rf"(?:{_code(self.escape)}\Z)?+" if self.escape else ""))

    @cached_property
    def _record(self) -> re.Pattern[str]:
        return re.compile(self.record)

    @cached_property
    def _escaped(self) -> re.Pattern[str]:
        return re.compile(f"{_code(self.escape)}([{_code(self.escape)}{_code(self.quote)}])")

    def has_quotes(self, text: str) -> bool:
        return self.quote != "" and self.quote in text

    def stays_open(self, line: str) -> bool:
        """Whether a quoted field that is open before a line does not end in it."""
        return self._inside.fullmatch(line) is not None

    def is_well_formed(self, record: str) -> bool:
        """Whether the quotes of a record are clear: with an escape character they must be closed, with nothing after
        them. Where a quote is written twice they always are: such a field is a text with quotes in it."""
        return not self.escape or self._record.fullmatch(record) is not None

    def split(self, text: str) -> tuple[list[tuple[str, bool]], int | None]:
        """The fields of a record, and where the last one begins if its quotes are not closed.

        >>> Dialect(",").split('1, "a ""b"" , c" ,,""')
        ([('1', False), ('a "b" , c', True), ('', False), ('', True)], None)
        >>> Dialect(",").split('"a""b" c ""d"" ,')
        ([('"a"b" c ""d""', False), ('', False)], None)
        >>> Dialect(",", escape="/").split('1, "a /"b//, /c",/')
        ([('1', False), ('a "b/, /c', True), ('/', False)], None)
        >>> Dialect(",", quote="").split('5" pipe, "a')
        ([('5" pipe', False), ('"a', False)], None)
        """
        fields: list[tuple[str, bool]] = []
        at, closed = 0, True
        while True:
            start = at
            while start < len(text) and text[start] in self.blanks:
                start += 1
            if self.quote and text.startswith(self.quote, start):
                stop, field, quoted, closed = self._quoted(text, start)
            else:
                stop, quoted = self._end(text, at), False
                field = text[at:stop].strip(self.blanks)
            fields.append((field, quoted))
            if stop == len(text):
                return fields, None if closed else at
            at = stop + 1

    def _end(self, text: str, at: int) -> int:
        found = text.find(self.delimiter, at)
        return len(text) if found < 0 else found

    def _quoted(self, text: str, start: int) -> tuple[int, str, bool, bool]:
        """A field that begins with a quote: where it ends, its content, whether it is quoted, and whether the quotes
        are closed.

        If something else follows the closing quote, the quotes are part of the text; one that is written twice before
        that counts once.
        """
        content = self._inside.match(text, start + 1)
        assert content is not None
        inside, at = self._unescaped(content[0]), content.end()
        if at == len(text):
            # Spark takes a quote with nothing after it for the text of the field.
            return at, inside or self.quote, True, False
        end = at + 1
        while end < len(text) and text[end] in self.blanks:
            end += 1
        if end == len(text) or text[end] == self.delimiter:
            return end, inside, True, True
        end = self._end(text, at + 1)
        return end, f"{self.quote}{inside}{self.quote}{text[at + 1 : end]}".rstrip(self.blanks), False, True

    def _unescaped(self, inside: str) -> str:
        if self.escape:
            return self._escaped.sub(r"\1", inside)
        return inside.replace(self.quote * 2, self.quote)


def records(spec: SourceSpec, file: Path) -> Iterator[tuple[int, str, Fields]]:
    """The records of a file, without the header: the number of the first line, the text, the fields."""
    header = spec.header
    for number, text, fields, _ in all_records(spec, file):
        if not header:
            yield number, text, fields
        header = False


def all_records(spec: SourceSpec, file: Path) -> Iterator[tuple[int, str, Fields, bool]]:
    """The records of a file, including the header, each also with whether its last quote is closed."""
    dialect = Dialect.of(spec)
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
        if len(waiting) > 1 and dialect.stays_open(text):
            continue
        # Only the open field is split again, so that the time for a record of many lines is proportional to its size.
        piece = "\n".join(open_field)
        fields, opened_at = dialect.split(piece)
        if opened_at is None or not spec.multiline:
            yield first, "\n".join(waiting), [*known, *fields], opened_at is None
            waiting, open_field, known = [], [], []
        else:
            known += fields[:-1]
            open_field = [piece[opened_at:]]
    if waiting:
        yield first, "\n".join(waiting), (), False


def is_no_record(spec: SourceSpec, line: str) -> bool:
    """Whether a line between records is not one: it is blank, or a comment."""
    return not line.strip(BLANKS) or (spec.texts.comment is not None and line.startswith(spec.texts.comment))


CHUNK_BYTES = 1 << 20


def may_end_in_blanks(spec: SourceSpec, file: Path) -> bool:
    """Whether a file has quotes, and after the first of them a line that ends in a delimiter and blanks."""
    dialect = Dialect.of(spec)
    if not dialect.quote or not dialect.blanks:
        return False
    quote, delimiter = dialect.quote.encode(), dialect.delimiter.encode()
    blanks = dialect.blanks.replace("\r", "").replace("\n", "").encode()
    alike = bytes.maketrans(blanks + b"\r", b" " * len(blanks) + b"\n")
    found = re.compile(re.escape(delimiter) + rb" +\n")
    has_quotes, left = False, b""
    with opened(file) as stream:
        while read := stream.read(CHUNK_BYTES):
            chunk = left + read
            has_quotes = has_quotes or quote in chunk
            if has_quotes and b" \n" in (searched := chunk.translate(alike)) and found.search(searched):
                return True
            # Blanks, and a delimiter before them, may continue in the next chunk.
            left = chunk[max(0, len(chunk.rstrip(blanks)) - len(delimiter)) :]
    return has_quotes and found.fullmatch(left.translate(alike) + b"\n") is not None


def may_have_a_blank_record(spec: SourceSpec, file: Path) -> bool:
    """Whether Spark may take a blank line for a record, where records go over lines: it does so if the line has
    delimiters, or is the last one and has no end."""
    if not spec.multiline:
        return False
    if spec.delimiter in BLANKS:
        return True
    last = b""
    with opened(file) as stream:
        while read := stream.read(CHUNK_BYTES):
            last = (last + read).rpartition(b"\n")[2]
            last = last if not last.strip(BLANKS.encode()) else b"x"
    return bool(last) and last != b"x"


def _code(character: str) -> str:
    """A character, as it is written in a pattern."""
    return f"\\x{ord(character):02x}" if character.isascii() else character
