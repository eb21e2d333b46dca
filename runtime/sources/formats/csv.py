"""CSV: one record per line, or over several lines if a quoted field contains line ends (`multiline`).

A quoted field may contain the delimiter, and a quote that is written twice. If something follows its closing quote, the
field is not quoted, and the quotes are part of its text. If it is not closed, it ends with its line; with `multiline`,
that is a fault of the whole file. With an escape character, both are faults of the record. A field without quotes that
is empty, or one of the null values, is missing. Blanks around a field are not part of it. Blank lines and comments are
no records.

A record has as many fields as there are columns. In the format `line`, the dialect of Apache MRQL, it may have more,
which are not read. In a file of TPC's (`.tbl`), each record ends with the delimiter, and no field follows that.

In a file with a header, columns are found by their names, which are case-sensitive. Columns that are not asked for are
not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import Column, Columns, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.values.atom_text import show_atom
from mrql.algebra.values.file_names import is_odd
from mrql.algebra.values.values import Record, Value
from mrql.runtime.engine.answer import Output
from mrql.runtime.engine.row_format import row_cells
from mrql.runtime.files.compression import NOT_UTF8, decoded_exactly, fed_lines, is_marked, lines, shown
from mrql.runtime.files.quarantine import Malformed, Reject
from mrql.runtime.sources.formats.csv_records import Dialect, Fields, all_records, is_no_record, records
from mrql.runtime.sources.formats.csv_types import are_names, infer_csv, wider_type
from mrql.runtime.sources.formats.csv_values import UnfitField, is_missing, value_of
from mrql.runtime.sources.formats.file_format import IS_NEW, MAY_LACK, FileFormat, count_lines, first_new

HEADER = "if the first record has the names of the columns, `header` says so"
OPEN_QUOTE = '`multiline` reads records that go on in the next line; with `quote("")` quotes are part of the text'
UNCLEAR_QUOTES = "quotes that are not closed, or that something stands behind"

NO_CHARACTER = "\uffff"
"""The character read on Spark for an empty field without quotes, and set as quote or escape where there is none."""


def read_csv(spec: SourceSpec, file: Path, reject: Reject) -> Iterator[tuple[Value, int]]:
    """The rows of a file, each with its weight: 1, or −1 if a tagged file deletes it."""
    fault = check_csv(spec, file)
    if fault is not None:
        reject(fault)
        return
    columns = columns_of(spec, file)
    assert not isinstance(columns, Malformed)
    columns = columns if spec.surplus else columns + behind(spec, columns, file)
    dialect = Dialect.of(spec)
    for place, (number, text, fields) in enumerate(records(spec, file)):
        try:
            if not dialect.is_well_formed(text):
                raise ValueError(UNCLEAR_QUOTES)
            yield _weighted(spec, columns, fields)
        except ValueError as error:
            hint = _hint(spec, place, text, fields)
            if isinstance(error, UnfitField):
                hint = hint or error.hint or _type_hint(spec, error)
            reject(Malformed(file, number, shown(str(error)), shown(text), hint))


def _hint(spec: SourceSpec, place: int, text: str, fields: Fields) -> str | None:
    """The hint for a malformed record, with `place` records before it: an option that the source may lack."""
    if place == 0 and not spec.header and are_names(fields):
        return HEADER
    if not spec.multiline and Dialect.of(spec).split(text)[1] is not None:
        return OPEN_QUOTE
    return None


def _type_hint(spec: SourceSpec, error: UnfitField) -> str | None:
    """The hint for a field that does not fit the type found in the first rows: a type that does."""
    known = dict(spec.row.fields) if spec.found and isinstance(spec.row, ty.RecordType) else {}
    if known.get(error.column, ty.STRING) == ty.STRING:
        return None
    known[error.column] = wider_type(known[error.column], error.field, error.column, spec.texts)
    fields = [(name, t) for name, t in known.items() if len(known) <= SHOWN_COLUMNS or name == error.column]
    more = "" if len(fields) == len(known) else ", …"
    return f"`type({str(ty.RecordType(tuple(fields)))[:-1]}{more}>)` reads it: what was found in the first rows stays"


SHOWN_COLUMNS = 6
"""The most columns of a type that a hint shows in full; of a larger type it shows the column in question."""


def count_csv(spec: SourceSpec, file: Path) -> int:
    """The number of records in a file."""
    if (spec.multiline or spec.header) and check_csv(spec, file) is not None:
        return 1
    if spec.multiline:
        return sum(1 for _ in records(spec, file))
    count = count_lines(spec, file) if spec.texts.comment is None else sum(1 for _ in _record_lines(spec, file))
    return max(0, count - int(spec.header))


def check_csv(spec: SourceSpec, file: Path) -> Malformed | None:
    """What is wrong with a file as a whole, if anything: with `multiline`, a quote that is never closed or is where
    none can be; a header without the columns; where Spark decodes the file, text that is not UTF-8, or has U+FFFF.

    All that follows such a quote is quoted, so it is unknown where the record was meant to end.
    """
    if is_read_as_utf8(spec, file):
        for number, line in fed_lines(file) if spec.multiline else lines(file):
            text = decoded_exactly(line)
            if is_odd(text) or NO_CHARACTER in text:
                return Malformed(file, number, NOT_UTF8 if is_odd(text) else "a character U+FFFF", shown(text))
    if spec.multiline and _has_quotes(spec, file):
        dialect = Dialect.of(spec)
        for number, text, _, closed in all_records(spec, file):
            if not closed:
                return Malformed(file, number, "a quote that is not closed", shown(text))
            if not dialect.is_well_formed(text):
                return Malformed(file, number, UNCLEAR_QUOTES, shown(text))
    columns = columns_of(spec, file)
    return columns if isinstance(columns, Malformed) else None


def is_read_as_utf8(spec: SourceSpec, file: Path) -> bool:
    """Whether Spark decodes a file as UTF-8, with U+FFFD for invalid bytes, and does not read it byte by byte: a
    `multiline` file that begins with a byte order mark, or one whose delimiter is not ASCII."""
    return not spec.delimiter.isascii() or (spec.multiline and is_marked(file))


def _has_quotes(spec: SourceSpec, file: Path) -> bool:
    quote = spec.texts.quote.encode()
    return quote != b"" and any(quote in line for _, line in fed_lines(file))


def _weighted(spec: SourceSpec, columns: Sequence[Column], fields: Fields) -> tuple[Value, int]:
    if not spec.tagged:
        return _row(spec, columns, fields), 1
    tag = fields[0][0]
    if tag not in ("+", "-"):
        raise ValueError(f'"{tag}" where + or - was expected')
    return _row(spec, columns, fields[1:]), 1 if tag == "+" else -1


def _row(spec: SourceSpec, columns: Sequence[Column], fields: Fields) -> Value:
    if len(fields) < len(columns) or (len(fields) > len(columns) and not spec.surplus):
        raise ValueError(f"{len(fields)} field{'' if len(fields) == 1 else 's'}, where {len(columns)} were expected")
    values = {}
    for column, (field, quoted) in zip(columns, fields, strict=False):
        if column.type is not None:
            missing = not quoted and is_missing(field, spec.texts)
            values[column.name] = None if missing else value_of(field, column.type, column.name, spec.texts)
    match spec.row:
        case ty.TupleType():
            return tuple(values.values())
        case ty.RecordType(named):
            return Record({name: values.get(name) for name, _ in named})
        case _:
            return next(iter(values.values()))


# --- columns ------------------------------------------------------------------------------------


def columns_of(spec: SourceSpec, file: Path) -> tuple[Column, ...] | Malformed:
    """The columns of a file's records, or what is wrong with its header. Columns that are not read have no type."""
    header = next(all_records(spec, file), None) if spec.header else None
    if header is None:
        return spec.columns
    number, text, fields, _ = header
    if not Dialect.of(spec).is_well_formed(text):
        return Malformed(file, number, UNCLEAR_QUOTES, shown(text))
    names = [name for name, _ in fields[int(spec.tagged) :]]
    wanted = {column.name: column.type for column in spec.columns if column.type is not None}
    for name in wanted:
        if names.count(name) > 1 or (name not in names and not spec.missing_columns):
            reason = _no_such(name, names) if name not in names else f"the header has the column `{name}` twice"
            hint = None if name in names or _alike(name, names) else MAY_LACK
            return Malformed(file, number, shown(reason), shown(text), hint)
    if spec.no_new_columns and (new := first_new(names, [column.name for column in spec.columns])) is not None:
        return Malformed(file, number, shown(f"the header has a new column `{new}`"), shown(text), IS_NEW)
    return tuple(Column(name if name in wanted else f"column {n}", wanted.get(name)) for n, name in enumerate(names))


SURPLUS = Column("", None)
"""Stands for a field without a column."""


def behind(spec: SourceSpec, columns: Sequence[Column], file: Path) -> tuple[Column, ...]:
    """The surplus fields after the columns of a file.

    With `surplus`, as many as the first record has; otherwise none, or the empty field after the last delimiter, if
    each record ends with it and the first has one field more than there are columns.
    """
    _, _, first = next(records(spec, file), (0, "", ()))
    more = len(first) - len(columns) - int(spec.tagged)
    if spec.surplus:
        return (SURPLUS,) * max(0, more)
    dialect = Dialect.of(spec)
    ended = more == 1 and all(_is_ended(text, dialect) for text in _record_texts(spec, file))
    return (SURPLUS,) if ended else ()


def _is_ended(text: str, dialect: Dialect) -> bool:
    """Whether the last field of a record is empty and has no quotes."""
    if dialect.has_quotes(text):
        return dialect.split(text)[0][-1] == ("", False)
    return text.rstrip(dialect.blanks).endswith(dialect.delimiter)


def _record_texts(spec: SourceSpec, file: Path) -> Iterator[str]:
    """The texts of the records of a file: its lines, unless records may go over several."""
    if spec.multiline:
        return (text for _, text, _ in records(spec, file))
    return islice(_record_lines(spec, file), int(spec.header), None)


def _record_lines(spec: SourceSpec, file: Path) -> Iterator[str]:
    """The lines of a file that are records, including the header."""
    return (text for _, line in lines(file) if not is_no_record(spec, text := decoded_exactly(line)))


def _alike(name: str, names: Sequence[str]) -> list[str]:
    return [other for other in names if other.strip().lower() == name.strip().lower()]


def _no_such(name: str, names: Sequence[str]) -> str:
    alike = _alike(name, names)
    there = f"it has `{alike[0]}`" if alike else f"its columns: {', '.join(names)}"
    return f"the header has no column `{name}`; {there}"


# --- answers ------------------------------------------------------------------------------------

LINE_BREAK = "a line break in a value of a csv file; `dump` keeps it"
ONLY_MISSING = "a row whose only value is missing has no line in a csv file; `dump` keeps it"


def encode_csv(output: Output, answer: Value) -> bytes:
    """A part file: one line per row, with strings and the base64 of bytes in quotes.

    Raises: UserError where a row cannot be written as a line.
    """
    lines = (_csv_line([*row_cells(row, output.item), *weight], output.span) for row, weight in output.rows(answer))
    return "".join(line + "\n" for line in lines).encode()


def _csv_line(cells: Iterable[Value], span: Span | None) -> str:
    """A row as a line of a csv file.

    Raises: UserError where it cannot be written as a line.
    """
    fields = [_field(value) for value in cells]
    if fields == [""]:
        raise UserError(ONLY_MISSING, span)
    if any("\n" in field or "\r" in field for field in fields):
        raise UserError(LINE_BREAK, span)
    return ",".join(fields)


def _field(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        escaped = value.replace('"', '""')
        return f'"{escaped}"'
    return f'"{show_atom(value)}"' if isinstance(value, bytes) else show_atom(value)


CSV = FileFormat(
    "csv",
    Columns(),
    infer=infer_csv,
    takes=frozenset(
        {
            "delimiter",
            "header",
            "allowMissingColumns",
            "failOnNewColumns",
            "multiline",
            "sample",
            "tagged",
            "quote",
            "escape",
            "nullValue",
            "comment",
            "dateFormat",
            "timestampFormat",
            "locale",
        }
    ),
    read=read_csv,
    check=check_csv,
    count=count_csv,
    encode=encode_csv,
)

LINE = attrs.evolve(CSV, surplus=True)
"""CSV in the dialect of Apache MRQL."""
