"""The names and types of CSV columns, found in the first records.

A type is chosen only if no field loses anything by it: `007` stays a string, and so does a whole number that no `long`
holds. A column without values is of type string.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mrql.algebra import types as ty
from mrql.algebra.catalog import AS_USUAL, SourceSpec, TextOptions
from mrql.algebra.errors import EvaluationError, UserError
from mrql.algebra.functions import INT_RANGES, convert
from mrql.algebra.types import Type
from mrql.algebra.values.file_names import is_odd
from mrql.runtime.files.compression import NOT_UTF8, shown
from mrql.runtime.sources.formats.csv_records import Fields, all_records, records
from mrql.runtime.sources.formats.csv_values import is_missing
from mrql.runtime.sources.formats.foreign_types import twice

logger = logging.getLogger(__name__)

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_FRACTION = re.compile(r"-?((?:0|[1-9][0-9]*)\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NAMED = ("NaN", "Infinity", "-Infinity")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}.*")
DOUBLE_MAX_DIGITS = 17
"""A number with a fraction has no more digits than that, or a double would not hold it."""


def column_types(
    records: Iterable[Sequence[tuple[str, bool]]], names: Sequence[str], options: TextOptions = AS_USUAL
) -> list[Type]:
    """The types of the columns with these names, found in records; an empty quoted field is a string.

    >>> rows = [[("1", False), ("2024-01-01", False), ("", False)], [("2.5", True), ("", False), ("", False)]]
    >>> [str(t) for t in column_types(rows, ["a", "b", "c"])]
    ['double', 'date', 'string']
    """
    found: list[Type] = [ty.NOTHING] * len(names)
    for fields in records:
        for place, (name, (field, quoted)) in enumerate(zip(names, fields, strict=False)):
            if field or quoted:
                found[place] = joined_column(found[place], field_type(field, options, name), options, name)
    return [ty.STRING if t == ty.NOTHING else t for t in found]


def wider_type(known: Type, field: str, column: str, options: TextOptions) -> Type:
    """The type of a column, widened from a known one that a field does not fit.

    >>> print(wider_type(ty.LONG, "0.5", "a", AS_USUAL), wider_type(ty.LONG, "x", "a", AS_USUAL))
    double string
    """
    both = joined_column(known, field_type(field, options, column), options, column)
    return ty.STRING if both == known else both


def joined_column(a: Type, b: Type, options: TextOptions, column: str) -> Type:
    """The type that holds the fields of both; with a pattern, that of dates and timestamps together is string."""
    has_pattern = any(options.time_format(t, column) is not None for t in (ty.DATE, ty.TIMESTAMP))
    if has_pattern and {a, b} == {ty.DATE, ty.TIMESTAMP}:
        return ty.STRING
    return ty.join_types(a, b) or ty.STRING


def field_type(field: str, options: TextOptions = AS_USUAL, column: str = "") -> Type:
    """The type that a field of a column has by itself.

    >>> [str(field_type(text)) for text in ("7", "007", "1e3", "true", "2024-02-30", "2024-01-01 10:00", "9" * 20)]
    ['long', 'string', 'double', 'bool', 'string', 'timestamp', 'string']
    """
    number = _number_in(field, options)
    if _WHOLE.fullmatch(number):
        low, high = INT_RANGES[ty.LONG]
        return ty.LONG if low <= int(number) <= high else ty.STRING
    if field.lower() in ("true", "false"):
        return ty.BOOL
    if _is_fraction(number):
        return ty.DOUBLE
    for usual, t in ((_DAY, ty.DATE), (_MOMENT, ty.TIMESTAMP)):
        pattern = options.time_pattern(t, column)
        written = pattern.canonical(field) if pattern is not None else field if usual.fullmatch(field) else None
        if written is not None and _is_value(written, t):
            return t
    return ty.STRING


def _number_in(field: str, options: TextOptions) -> str:
    """A field, rewritten as a number without a locale; empty if it is not a number of the locale."""
    if options.numbers is None or field in _NAMED:
        return field
    return options.numbers.canonical(field) or ""


def _is_fraction(field: str) -> bool:
    """Whether a field is a number with a fraction, or an exponent, that a double holds."""
    number = _FRACTION.fullmatch(field)
    if number is None:
        return field in _NAMED
    has_more = len(number[1]) < len(field.lstrip("-")) or "." in field
    return has_more and len(number[1].replace(".", "").lstrip("0")) <= DOUBLE_MAX_DIGITS


def _is_value(field: str, t: Type) -> bool:
    try:
        return convert(field, t) is not None
    except EvaluationError:
        return False


# --- rows ---------------------------------------------------------------------------------------

SAMPLE_ROWS = 1000
"""The most records that types are found in, unless the source says another number."""
SAMPLE_CHARACTERS = 1_000_000


def infer_csv(spec: SourceSpec, files: Sequence[Path]) -> Type | None:
    """The type of the rows, found in the first records: a record with the first header's names, else `_1`, `_2`, ….

    Raises: UserError where that header has a name twice, one that is not UTF-8, or no names.
    """
    sample = _sample(spec, files)
    if spec.header:
        header = next(((file, found) for file in files if (found := _header(spec, file)) is not None), None)
        names = None if header is None else _usable(*header, spec)
    else:
        names = [f"_{n + 1}" for n in range(_columns_in(sample))] if sample else None
    if names is None:
        return None
    own = [
        [("", False) if not quoted and is_missing(field, spec.texts) else (field, quoted) for field, quoted in fields]
        for file, some in sample
        for fields in _by_name(_header(spec, file), names, some)
    ]
    types = column_types(own, names, spec.texts)
    if not spec.header and _hides_types(own, names, types, spec):
        logger.warning("%s: the first record looks like names of columns; %s says that it has these", spec.path, WORD)
    typed = zip(names, types, strict=True)
    return ty.RecordType(tuple((name, t) for name, t in typed if name))


WORD = "`header`, or `--header` of `mrql infer`,"


def are_names(fields: Fields) -> bool:
    """Whether the fields of a record look like names of columns: words, none of them twice."""
    names = [field for field, _ in fields]
    return len({*names}) == len(names) and all(re.fullmatch(r"[^\W\d][\w .-]*", name) for name in names)


def _hides_types(own: Sequence[Fields], names: Sequence[str], types: Sequence[Type], spec: SourceSpec) -> bool:
    """Whether all columns are strings only because of the first record, whose fields look like names."""
    if {*types} != {ty.STRING} or len(own) < 2 or not are_names(own[0]):
        return False
    return {*column_types(own[1:], names, spec.texts)} != {ty.STRING}


def _sample(spec: SourceSpec, files: Sequence[Path]) -> list[tuple[Path, list[Fields]]]:
    """The fields of the first records of some files, without tags: of `spec.sample` records, or else of at most
    `SAMPLE_ROWS` records in about `SAMPLE_CHARACTERS` characters."""
    most, size_of_all = (SAMPLE_ROWS, SAMPLE_CHARACTERS) if spec.sample is None else (spec.sample, None)
    found: list[tuple[Path, list[Fields]]] = []
    rows = size = 0
    for file in files:
        found.append((file, []))
        for _, text, fields in records(spec, file):
            found[-1][1].append(fields[int(spec.tagged) :])
            rows, size = rows + 1, size + len(text)
            if rows == most or (size_of_all is not None and size > size_of_all):
                return found
    return [(file, some) for file, some in found if some]


def _columns_in(sample: Sequence[tuple[Path, Sequence[Fields]]]) -> int:
    """The number of columns in files without a header: that of the fields of the first record, without the empty one
    after a delimiter that ends all records."""
    _, records = sample[0]
    count = len(records[0])
    ended = count > 1 and all(fields[-1:] == [("", False)] for _, some in sample for fields in some)
    return count - int(ended)


def _header(spec: SourceSpec, file: Path) -> list[str] | None:
    """The names of the columns in the header of a file; None if it is empty, or has no header."""
    header = next(all_records(spec, file), None) if spec.header else None
    if header is None:
        return None
    return [name for name, _ in header[2][int(spec.tagged) :]]


def _usable(file: Path, names: list[str], spec: SourceSpec) -> list[str]:
    """Raises: UserError where a name occurs twice or is not UTF-8, or all are empty."""
    if odd := [name for name in names if is_odd(name)]:
        hint = "write the file in UTF-8; type(<…>) reads the columns that it names, and no others"
        raise UserError(f"the header of {file} is {NOT_UTF8}: {shown(odd[0])}", spec.span, hint)
    if wrong := twice(name for name in names if name):
        hint = "type(<…>) names the columns that are to be read"
        raise UserError(f"the header of {spec.path} has the column `{wrong}` twice", hint=hint)
    if not any(names):
        raise UserError(f"the header of {spec.path} has no names", hint="add type(<A: long>), say")
    return names


def _by_name(own: Sequence[str] | None, names: Sequence[str], records: Iterable[Fields]) -> Iterator[Fields]:
    """Records with their fields in the order of `names`; a column that is not there has no value."""
    if own is None or own == names:
        yield from records
        return
    places = [own.index(name) if name in own else len(own) for name in names]
    for fields in records:
        yield [(*fields, *[("", False)] * len(own))[place] for place in places]
