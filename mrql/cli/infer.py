"""`mrql infer FILE…`: a type for the rows of files, and a source that reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from itertools import islice
from pathlib import Path

import attrs
import click

from mrql.algebra import types as ty
from mrql.algebra.catalog import Columns, Format, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.showable import numbered, written_name
from mrql.algebra.types import Type
from mrql.cli.exit_codes import reports_errors
from mrql.jobs.loading import compile_over_files
from mrql.output.tables import type_name
from mrql.output.terminal import say
from mrql.runtime.files.compression import UNPACKED
from mrql.runtime.files.quarantine import Malformed
from mrql.runtime.sources.catalog import CATALOG
from mrql.runtime.sources.files import check_file, list_files, read_file, row_type
from mrql.runtime.sources.formats.csv_records import Dialect, all_records
from mrql.runtime.sources.formats.csv_types import SAMPLE_ROWS, joined_column
from mrql.runtime.sources.formats.formats import FORMATS
from mrql.runtime.sources.formats.json_types import joined_types, with_any_for
from mrql.translate.source_options import text_options
from mrql.translate.source_rows import must_be_delimiter

SUFFIXES = {
    ".csv": "csv",
    ".tbl": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".orc": "orc",
}
"""The formats of files, by the suffix of their names."""
DELIMITERS = {".tbl": "|", ".tsv": "\t"}
OTHERS = (";", "\t", "|", ",")
"""Delimiters that are tried if the usual one does not fit."""
LOOKED_AT_MAX_RECORDS = 20
"""The number of records from which the delimiter is inferred."""
INFERRED = [name for name, format in FORMATS.items() if format.infer is not None]


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--source", "called", type=click.Choice(INFERRED), help="The format; else by how the first name ends.")
@click.option("--delimiter", help="What stands between the fields of csv.  [default: by the name, or found]")
@click.option("--header", is_flag=True, help="The first record of csv has the names of the columns.")
@click.option("--multiline", is_flag=True, help="A record of csv may go over lines; a file of json is one document.")
@click.option(
    "--sample", type=click.IntRange(1), help="In how many of the first rows.  [default: 1,000, or a megabyte]"
)
@click.option("--quote", help='The quote of csv, or nothing where quotes are part of the text.  [default: "]')
@click.option("--escape", help="The sign that escapes a quote in quotes.  [default: it is written twice]")
@click.option("--null-value", "nulls", multiple=True, help="A text of csv that stands for a missing value.")
@click.option("--comment", help="The sign that lines of csv begin with that are no records.")
@click.option("--date-format", help="The pattern that dates of csv are written by: dd.MM.yyyy")
@click.option("--timestamp-format", help="The pattern that timestamps of csv are written by.")
@click.option("--locale", help="The locale that numbers of csv are written in: de-DE")
@reports_errors
def infer(
    files: tuple[Path, ...],
    called: str | None,
    delimiter: str | None,
    header: bool,
    multiline: bool,
    sample: int | None,
    quote: str | None,
    escape: str | None,
    nulls: tuple[str, ...],
    comment: str | None,
    date_format: str | None,
    timestamp_format: str | None,
    locale: str | None,
) -> None:
    """Print a type that the rows of all files have, and a source for each, to paste into a query file.

    A FILE may be a directory.
    """
    name = _format_of(files, called)
    format = FORMATS[name]
    texts = {"quote": quote, "escape": escape, "comment": comment}
    texts |= {"dateFormat": date_format, "timestampFormat": timestamp_format, "locale": locale}
    options: Options = {word: () for word, is_set in (("header", header), ("multiline", multiline)) if is_set}
    options |= {"nullValue": nulls} if nulls else {}
    options |= {option: (text,) for option, text in texts.items() if text is not None}
    _must_take(format, [*options, *([] if sample is None else ["sample"])], delimiter)
    is_csv = isinstance(format.rows, Columns)

    def described(file: Path, between: str) -> SourceSpec:
        return SourceSpec(
            name=name,
            stream=False,
            format=format,
            path=str(file),
            row=ty.UNIT,
            delimiter=between,
            header=header,
            multiline=multiline,
            sample=sample,
            texts=text_options(options, between),
        )

    between = _delimiter(partial(described, files[0]), files[0], delimiter, locale, quote) if is_csv else ","
    specs = [described(file, between) for file in files]
    found = reduce(lambda a, b: _of_both(specs[0], a, b), map(_row_type, specs))
    # The type of an object without fields says nothing, and cannot be written in a query file.
    row = with_any_for(ty.RecordType(()), found)
    if name == "json" and not multiline and isinstance(row, ty.ListType):
        say("each line is an array; --multiline reads files that are one document each", err=True)
    if not is_csv and any(_lacks_columns(attrs.evolve(spec, row=row)) for spec in specs):
        options |= {"allowMissingColumns": ()}
    definition = f"type row = {type_name(row)};"
    say(definition)
    for spec in specs:
        source = _written(spec, options)
        say(source)
        _say_what_is_malformed(f"{definition}\n{source};", sample or SAMPLE_ROWS)


def _row_type(spec: SourceSpec) -> Type:
    """The type of the rows of a source.

    Raises: UserError if none is found, with a hint for this command.
    """
    try:
        return row_type(spec)
    except UserError as error:
        raise _as_here(error) from None


def _of_options(hint: str | None) -> str | None:
    """A hint about options of a source, as one about options of this command; None for one about the type of rows."""
    if hint is None or "type(<" in hint:
        return None
    return re.sub(r"`?\b(header|multiline)\b`?", r"`--\1`", hint, count=1)


def _say_what_is_malformed(query: str, most: int) -> None:
    """Reports the first malformed row among the first rows, as read by the printed source: for instance a record with
    another number of columns. The type does not cover such rows, or it would be string or `any` for all of them.
    """
    (spec,) = compile_over_files(query, may_import=False).sources.values()
    found: list[Malformed] = []
    rows = (row for file in list_files(spec) for row in read_file(spec, file, found.append))
    for _ in islice(rows, most):
        if found:
            break
    if found:
        say(f"not all rows are of that type:\n{_as_here(found[0].error())}", err=True)


def _as_here(error: UserError) -> UserError:
    return UserError(error.message, error.span, _of_options(error.hint))


Options = dict[str, tuple[str, ...]]
"""The options of a source, with their arguments."""


def _format_of(files: Sequence[Path], called: str | None) -> str:
    """The format given as an option, or that of all files according to their names.

    Raises: UsageError if the name of the first file gives no format, or that of another file gives another one.
    """
    name = called or SUFFIXES.get(_ending(files[0]))
    if name is None:
        raise click.UsageError(f"{files[0]} does not say of which format it is: --source csv, say")
    if called is None:
        _must_be_alike(files, name)
    return name


def _must_take(format: Format, options: Iterable[str], delimiter: str | None) -> None:
    """Raises: UsageError for an option that the format does not have."""
    if not isinstance(format.rows, Columns):
        if delimiter is not None:
            raise click.UsageError("--delimiter is for csv")
        if not {"dateFormat", "timestampFormat"}.isdisjoint(options):
            raise click.UsageError("--date-format and --timestamp-format are for csv: of JSON, texts are strings")
    for option in options:
        if option not in format.takes:
            taking = CATALOG.names_taking(option)
            raise click.UsageError(f"{format} source has no option `{option}`: it is for {taking}")


def _delimiter(
    described: Callable[[str], SourceSpec], file: Path, given: str | None, locale: str | None, quote: str | None
) -> str:
    """The delimiter of csv files: the given one, or the one inferred from the first file.

    Raises: UsageError if it cannot be a delimiter.
    """
    between = DELIMITERS.get(_ending(file), ",") if given is None else given
    try:
        must_be_delimiter(between, '"' if quote is None else quote)
    except UserError as error:
        raise click.UsageError(error.message) from None
    if given is None and (other := _other_delimiter(described, between, locale)) is not None:
        say(f"the fields stand apart by {_quoted(other)}; --delimiter says what else it may be", err=True)
        return other
    return between


def _written(spec: SourceSpec, options: Options) -> str:
    """A source as it is written in a query file."""
    is_csv = isinstance(spec.format.rows, Columns)
    arguments = [_quoted(spec.path), *([_quoted(spec.delimiter)] if is_csv else []), "type(row)"]
    for option, texts in options.items():
        arguments.append(f"{option}({', '.join(map(_quoted, texts))})" if texts else option)
    return f"source({spec.name}, {', '.join(arguments)})"


def _lacks_columns(spec: SourceSpec) -> bool:
    """Whether some file can only be read if columns may be missing."""
    lenient = attrs.evolve(spec, missing_columns=True)
    return any(check_file(spec, file) is not None and check_file(lenient, file) is None for file in list_files(spec))


def _other_delimiter(described: Callable[[str], SourceSpec], usual: str, locale: str | None) -> str | None:
    """The delimiter of a csv file if it is not the usual one: with it, the first records have several fields, and all
    the same number. The usual delimiter comes first, except with a locale, where it may be part of a number.

    Delimiters with which each field that begins with a quote is in quotes as a whole are preferred.
    """
    for is_clean in (True, False):
        if locale is None and _divides(described(usual), is_clean=is_clean):
            return None
        fitting = (other for other in OTHERS if other != usual and _can_be(described, other))
        found = next((other for other in fitting if _divides(described(other), is_clean=is_clean)), None)
        if found is not None:
            return found
    return None


def _can_be(described: Callable[[str], SourceSpec], delimiter: str) -> bool:
    """Whether a delimiter is allowed together with the characters that the options name."""
    try:
        described(delimiter)
    except UserError:
        return False
    return True


def _divides(spec: SourceSpec, *, is_clean: bool) -> bool:
    """Whether the first records of a source have several fields, and all the same number. With `is_clean`, each field
    that begins with a quote must also be in quotes as a whole."""
    files = list_files(spec)
    found = [*islice(all_records(spec, files[0]), LOOKED_AT_MAX_RECORDS)] if files else []
    counts = {len(fields) for _, _, fields, _ in found}
    if is_clean and spec.texts.quote:
        pattern = re.compile(Dialect.of(spec).record)
        found_clean = all(pattern.fullmatch(text) for _, text, _, _ in found)
    else:
        found_clean = True
    return found_clean and len(counts) == 1 and counts.isdisjoint({0, 1})


def _must_be_alike(files: Sequence[Path], name: str) -> None:
    """Raises: UsageError if the name of a file gives another format than that of the first."""
    for file in files:
        other = SUFFIXES.get(_ending(file), name)
        if other != name:
            raise click.UsageError(f"{files[0]} is {name} and {file} is {other}: --source says which, if one is not")


def _quoted(text: str) -> str:
    return numbered(json.dumps(text, ensure_ascii=False))


def _ending(file: Path) -> str:
    """The suffix of a file, or of the first file in a directory, without the suffix of its compression."""
    inside = (found for found in file.rglob("*") if found.is_file() and not found.name.startswith((".", "_")))
    named = min(inside, default=file) if file.is_dir() else file
    return (named.with_suffix("") if named.suffix in UNPACKED else named).suffix


def _of_both(spec: SourceSpec, a: Type, b: Type) -> Type:
    """The common type of the rows of two files: for JSON with all fields, for others with the columns that both have.

    Raises: UserError if a column has two types without a common one, the files have no column in common, or csv files
        without names of columns have different numbers of them.
    """
    if not isinstance(a, ty.RecordType) or not isinstance(b, ty.RecordType) or spec.format.name == "json":
        return joined_types(a, b)
    is_csv = isinstance(spec.format.rows, Columns)
    if is_csv and not spec.header and a.names != b.names:
        message = f"one file has {len(a.names)} columns, another {len(b.names)}"
        raise UserError(message, hint="--header finds columns by their names")
    fields = tuple((name, _column(spec, name, t, b)) for name, t in a.fields if name in b.names)
    if not fields:
        raise UserError(f"the files have no column in common: {type_name(a)} and {type_name(b)}")
    for name in dict.fromkeys([*a.names, *b.names]):
        if name not in dict(fields):
            say(f"the column {written_name(name)} is not in all files: it is left out", err=True)
    return ty.RecordType(fields)


def _column(spec: SourceSpec, name: str, t: Type, other: ty.RecordType) -> Type:
    found = dict(other.fields)[name]
    if isinstance(spec.format.rows, Columns):
        return joined_column(t, found, spec.texts, name)
    joined = ty.join_types(t, found)
    if joined is not None:
        return joined
    raise UserError(f"the column `{name}` is of type {t} in one file, and {found} in another")
