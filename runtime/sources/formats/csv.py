"""CSV: one record a line, or over several lines where a field in quotes has line ends in it (`multiline`).

A field in quotes may hold the delimiter, and a quote that is written twice; one that has something behind its closing
quote is no field in quotes but a text with them. One that is not closed ends with its line, and is a fault of the
whole file where records go over lines. A field that is empty, or one of the null values, and has no quotes is missing.
Blanks around a field are not part of it. A line of blanks is no record, and one that begins as comments do neither.

A record has as many fields as there are columns. As `line`, which is CSV in the dialect of Apache MRQL, it may have
more, which are not read. In a file of TPC's (`.tbl`), each record ends with the delimiter: nothing stands behind it.

In a file with a header, columns are found by their names, which are compared as they are written, upper case and lower.
What is not asked for is not read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import islice
from pathlib import Path

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import AS_USUAL, Column, Columns, CsvOptions, SourceSpec
from mrql.algebra.errors import EvaluationError, UserError
from mrql.algebra.functions import INT_RANGES, convert, single_from_text, to_single
from mrql.algebra.functions.number_locales import NumberLocale
from mrql.algebra.span import Span
from mrql.algebra.types import Type
from mrql.algebra.values.atom_text import show_atom
from mrql.algebra.values.file_names import is_odd
from mrql.algebra.values.values import Record, Value
from mrql.algebra.values.xml_elements import BLANKS
from mrql.runtime.engine.answer import Output
from mrql.runtime.engine.row_format import row_cells
from mrql.runtime.files.compression import NOT_UTF8, decoded_exactly, fed_lines, is_marked, lines, shown
from mrql.runtime.files.quarantine import Malformed, Reject
from mrql.runtime.sources.formats.csv_types import column_types
from mrql.runtime.sources.formats.file_format import FileFormat, count_lines
from mrql.runtime.sources.formats.foreign_types import twice

Fields = Sequence[tuple[str, bool]]
"""The fields of a record, each with whether it was in quotes: an empty one in quotes is a string."""


NO_CHARACTER = "\uffff"
"""What Spark puts for an empty field without quotes."""


def read_csv(spec: SourceSpec, file: Path, reject: Reject) -> Iterator[tuple[Value, int]]:
    """The rows of a file, each with 1, or −1 where a tagged file takes it away."""
    fault = check_csv(spec, file)
    if fault is not None:
        reject(fault)
        return
    columns = columns_of(spec, file)
    assert not isinstance(columns, Malformed)
    columns = columns if spec.surplus else columns + behind(spec, columns, file)
    for number, text, fields in records(spec, file):
        try:
            yield _weighted(spec, columns, fields)
        except ValueError as error:
            reject(Malformed(file, number, shown(str(error)), shown(text)))


def count_csv(spec: SourceSpec, file: Path) -> int:
    """The number of records in a file."""
    if (spec.multiline or spec.header) and check_csv(spec, file) is not None:
        return 1
    if spec.multiline:
        return sum(1 for _ in records(spec, file))
    count = count_lines(spec, file) if spec.csv.comment is None else sum(1 for _ in _record_lines(spec, file))
    return max(0, count - int(spec.header))


def check_csv(spec: SourceSpec, file: Path) -> Malformed | None:
    """What is wrong with a file as a whole: a quote that is never closed, where records go over lines, or a header
    without the columns.

    All that stands behind such a quote is in quotes, and it cannot be told where the record was meant to end.
    """
    if is_read_as_utf8(spec, file):
        for number, line in fed_lines(file) if spec.multiline else lines(file):
            text = decoded_exactly(line)
            if is_odd(text) or NO_CHARACTER in text:
                return Malformed(file, number, NOT_UTF8 if is_odd(text) else "a character U+FFFF", shown(text))
    if spec.multiline and _has_quotes(file):
        for number, text, _, closed in _all_records(spec, file):
            if not closed:
                return Malformed(file, number, "a quote that is not closed", shown(text))
    columns = columns_of(spec, file)
    return columns if isinstance(columns, Malformed) else None


def is_read_as_utf8(spec: SourceSpec, file: Path) -> bool:
    """Whether Spark decodes a file, and puts U+FFFD for what is not UTF-8, where it takes others byte by byte: one over
    lines that begins with a byte order mark, and one whose delimiter is several bytes."""
    return not spec.delimiter.isascii() or (spec.multiline and is_marked(file))


def _has_quotes(file: Path) -> bool:
    return any(b'"' in line for _, line in fed_lines(file))


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
            missing = not quoted and is_missing(spec, field)
            values[column.name] = None if missing else value_of(field, column.type, column.name, spec.csv)
    match spec.row:
        case ty.TupleType():
            return tuple(values.values())
        case ty.RecordType(named):
            return Record({name: values.get(name) for name, _ in named})
        case _:
            return next(iter(values.values()))


def is_missing(spec: SourceSpec, field: str) -> bool:
    """Whether a field without quotes stands for a missing value."""
    return field == "" or field in spec.csv.null_values


# --- columns ------------------------------------------------------------------------------------


def columns_of(spec: SourceSpec, file: Path) -> tuple[Column, ...] | Malformed:
    """What the fields of a record of a file are, or what is wrong with its header. What is not read has no type."""
    header = next(_all_records(spec, file), None) if spec.header else None
    if header is None:
        return spec.columns
    number, text, fields, _ = header
    names = [name for name, _ in fields[int(spec.tagged) :]]
    wanted = {column.name: column.type for column in spec.columns if column.type is not None}
    for name in wanted:
        if names.count(name) > 1 or (name not in names and not spec.missing_columns):
            reason = _no_such(name, names) if name not in names else f"the header has the column `{name}` twice"
            return Malformed(file, number, shown(reason), shown(text))
    return tuple(Column(name if name in wanted else f"column {n}", wanted.get(name)) for n, name in enumerate(names))


SURPLUS = Column("", None)
"""A field that no column is for."""


def behind(spec: SourceSpec, columns: Sequence[Column], file: Path) -> tuple[Column, ...]:
    """What stands behind the columns of a file.

    Where surplus fields are not read, as many as the first record has; otherwise nothing, or the empty field behind the
    last delimiter, if each record ends with it and the first has a field more than there are columns.
    """
    _, _, first = next(records(spec, file), (0, "", ()))
    more = len(first) - len(columns) - int(spec.tagged)
    if spec.surplus:
        return (SURPLUS,) * max(0, more)
    ended = more == 1 and all(_is_ended(text, spec.delimiter) for text in _record_texts(spec, file))
    return (SURPLUS,) if ended else ()


def _is_ended(text: str, delimiter: str) -> bool:
    """Whether the last field of a record is empty and has no quotes."""
    if '"' in text:
        return split(text, delimiter)[0][-1] == ("", False)
    return text.rstrip(_blanks(delimiter)).endswith(delimiter)


def _record_texts(spec: SourceSpec, file: Path) -> Iterator[str]:
    """The records of a file as they are written, which are its lines if none goes over several."""
    if spec.multiline:
        return (text for _, text, _ in records(spec, file))
    return islice(_record_lines(spec, file), int(spec.header), None)


def _record_lines(spec: SourceSpec, file: Path) -> Iterator[str]:
    """The lines of a file that are records, the header too."""
    return (text for _, line in lines(file) if not _is_no_record(spec, text := decoded_exactly(line)))


def _is_no_record(spec: SourceSpec, line: str) -> bool:
    return not line.strip(BLANKS) or (spec.csv.comment is not None and line.startswith(spec.csv.comment))


def _no_such(name: str, names: Sequence[str]) -> str:
    alike = [other for other in names if other.strip().lower() == name.strip().lower()]
    there = f"it has `{alike[0]}`" if alike else f"its columns: {', '.join(names)}"
    return f"the header has no column `{name}`; {there}"


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
    open_field: list[str] = []
    known: list[tuple[str, bool]] = []
    first = 0
    for number, line in fed_lines(file) if spec.multiline else lines(file):
        text = decoded_exactly(line)
        if not waiting and _is_no_record(spec, text):
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
    blanks = _blanks(delimiter)
    fields: list[tuple[str, bool]] = []
    at, closed = 0, True
    while True:
        start = at
        while start < len(text) and text[start] in blanks:
            start += 1
        if text.startswith('"', start):
            stop, field, quoted, closed = _quoted(text, start, delimiter, blanks)
        else:
            stop, quoted = _end(text, at, delimiter), False
            field = text[at:stop].strip(blanks)
        fields.append((field, quoted))
        if stop == len(text):
            return fields, None if closed else at
        at = stop + 1


def _blanks(delimiter: str) -> str:
    """What is taken away around a field; a blank that separates fields is none."""
    return BLANKS.replace(delimiter, "") if delimiter != " " else ""


def _end(text: str, at: int, delimiter: str) -> int:
    found = text.find(delimiter, at)
    return len(text) if found < 0 else found


def _quoted(text: str, start: int, delimiter: str, blanks: str) -> tuple[int, str, bool, bool]:
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
    while end < len(text) and text[end] in blanks:
        end += 1
    if end == len(text) or text[end] == delimiter:
        return end, inside, True, True
    end = _end(text, at + 1, delimiter)
    return end, f'"{inside}"{text[at + 1 : end]}'.rstrip(blanks), False, True


# --- types that are found -----------------------------------------------------------------------

SAMPLE_ROWS = 1000
"""How many records the types are taken from where none are given."""
SAMPLE_CHARACTERS = 1_000_000


def infer_csv(spec: SourceSpec, files: Sequence[Path]) -> Type | None:
    """The type of the rows, by the first records: a record of the names that the first header has, else `_1`, `_2`, ….

    Raises: UserError where that header has a name twice, or none.
    """
    sample = _sample(spec, files)
    if spec.header:
        header = next((names for file in files if (names := _header(spec, file)) is not None), None)
        names = None if header is None else _usable(header, spec)
    else:
        names = [f"_{n + 1}" for n in range(_columns_in(sample))] if sample else None
    if names is None:
        return None
    own = [
        [("", False) if not quoted and is_missing(spec, field) else (field, quoted) for field, quoted in fields]
        for file, some in sample
        for fields in _by_name(_header(spec, file), names, some)
    ]
    typed = zip(names, column_types(own, len(names), spec.csv), strict=True)
    return ty.RecordType(tuple((name, t) for name, t in typed if name))


def _sample(spec: SourceSpec, files: Sequence[Path]) -> list[tuple[Path, list[Fields]]]:
    """The fields of the first records of some files, without tags."""
    found: list[tuple[Path, list[Fields]]] = []
    rows = size = 0
    for file in files:
        found.append((file, []))
        for _, text, fields in records(spec, file):
            found[-1][1].append(fields[int(spec.tagged) :])
            rows, size = rows + 1, size + len(text)
            if rows == SAMPLE_ROWS or size > SAMPLE_CHARACTERS:
                return found
    return [(file, some) for file, some in found if some]


def _columns_in(sample: Sequence[tuple[Path, Sequence[Fields]]]) -> int:
    """How many columns there are where no header says it: as many as the first record has fields, without the empty one
    behind a delimiter that all records end with."""
    _, records = sample[0]
    count = len(records[0])
    ended = count > 1 and all(fields[-1:] == [("", False)] for _, some in sample for fields in some)
    return count - int(ended)


def _header(spec: SourceSpec, file: Path) -> list[str] | None:
    """The names that a file has for its columns; None in one that is empty, or where there is no header."""
    header = next(_all_records(spec, file), None) if spec.header else None
    if header is None:
        return None
    return ["" if is_odd(name) else name for name, _ in header[2][int(spec.tagged) :]]


def _usable(names: list[str], spec: SourceSpec) -> list[str]:
    """Raises: UserError where a name is there twice, or all are empty."""
    if wrong := twice(name for name in names if name):
        hint = "type(<…>) names the columns that are to be read"
        raise UserError(f"the header of {spec.path} has the column `{wrong}` twice", hint=hint)
    if not any(names):
        raise UserError(f"the header of {spec.path} has no names", hint="add type(<A: long>), say")
    return names


def _by_name(own: Sequence[str] | None, names: Sequence[str], records: Iterable[Fields]) -> Iterator[Fields]:
    """Records with their fields in the order of the names; one that is not there has no value."""
    if own is None or own == names:
        yield from records
        return
    places = [own.index(name) if name in own else len(own) for name in names]
    for fields in records:
        yield [(*fields, *[("", False)] * len(own))[place] for place in places]


# --- values -------------------------------------------------------------------------------------

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[dDfF]?")
_NAMED = {"NaN": math.nan, "Inf": math.inf, "-Inf": -math.inf}
_NAMED |= {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf, "+NaN": math.nan, "-NaN": math.nan}


def value_of(field: str, t: Type, column: str, options: CsvOptions = AS_USUAL) -> Value:
    """A field as a value of its column's type.

    Raises: ValueError where it is none.
    """
    if t == ty.STRING:
        if is_odd(field):
            raise ValueError(f"{NOT_UTF8} (column {column})")
        return field
    found: Value = None
    with suppress(EvaluationError):
        if t == ty.BOOL:
            found = {"true": True, "false": False}.get(field.lower())
        elif t in (ty.DATE, ty.TIMESTAMP):
            pattern = options.time_pattern(t)
            written = field if pattern is None else pattern.canonical(field)
            found = None if written is None else convert(written, t)
        else:
            found = _number_of(field, t) if options.numbers is None else _local_number_of(field, t, options.numbers)
    if found is None:
        how = f", written as {given}" if (given := options.way_of(t)) is not None else ""
        raise ValueError(f'"{field}" is not a value of type {t}{how} (column {column})')
    return found


def _number_of(field: str, t: Type) -> Value:
    """A number, None where it is none of its type."""
    if t in INT_RANGES and _INTEGER.fullmatch(field):
        low, high = INT_RANGES[t]
        return int(field) if len(field) < 30 and low <= int(field) <= high else None
    if t in (ty.FLOAT, ty.DOUBLE):
        if number := _NUMBER.fullmatch(field):
            return single_from_text(number[1]) if t == ty.FLOAT else float(number[1])
        return _from_hexadecimal(field, t) if _HEXADECIMAL.fullmatch(field) else _NAMED.get(field)
    return convert(field, t) if isinstance(t, ty.DecimalType) else None


def _local_number_of(field: str, t: Type, locale: NumberLocale) -> Value:
    """A number as it is written in a locale; what is not one is written as ever."""
    written = locale.canonical(field)
    if written is not None:
        return _number_of(written, t)
    return _NAMED.get(field) if t in (ty.FLOAT, ty.DOUBLE) else None


def _from_hexadecimal(field: str, t: Type) -> float:
    """As Java has it: what is too large is infinite. A letter behind the exponent says nothing."""
    digits = field.rstrip("dDfF")
    try:
        double = float.fromhex(digits)
    except OverflowError:
        return float("-inf" if digits.startswith("-") else "inf")
    if t == ty.DOUBLE or not double:
        return double
    mantissa, exponent = digits[digits.lower().index("x") + 1 :].lower().split("p")
    whole, _, fraction = mantissa.partition(".")
    size = Fraction(int(whole + fraction, 16)) * Fraction(2) ** (int(exponent) - 4 * len(fraction))
    return to_single(-size if digits.startswith("-") else size)


# --- answers ------------------------------------------------------------------------------------

LINE_BREAK = "a line break in a value of a csv file; `dump` keeps it"
ONLY_MISSING = "a row whose only value is missing has no line in a csv file; `dump` keeps it"


def encode_csv(output: Output, answer: Value) -> bytes:
    """A part file: the cells of a row a line, texts in quotes.

    Raises: UserError where there is no line for a row.
    """
    lines = (_csv_line([*row_cells(row, output.item), *weight], output.span) for row, weight in output.rows(answer))
    return "".join(line + "\n" for line in lines).encode()


def _csv_line(cells: Iterable[Value], span: Span | None) -> str:
    """A row of a csv file.

    Raises: UserError where there is no line for it.
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
    return show_atom(value)


CSV = FileFormat(
    "csv",
    Columns(),
    infer=infer_csv,
    takes=frozenset(
        {
            "delimiter",
            "header",
            "allowMissingColumns",
            "multiline",
            "tagged",
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
"""CSV as queries of Apache MRQL have it."""
