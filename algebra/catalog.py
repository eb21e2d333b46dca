"""Data sources as a query describes them: the location, the format and the type of the rows.

The available formats and connectors are not defined here: the caller that compiles a query passes a `Catalog`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import attrs

from mrql.algebra import types as ty
from mrql.algebra.envelope import Envelope
from mrql.algebra.functions.number_locales import NumberLocale, number_locale
from mrql.algebra.functions.time_reading import TimePattern, field_pattern
from mrql.algebra.row_key import RowKey
from mrql.algebra.span import Span
from mrql.algebra.types import Type


@attrs.frozen
class Columns:
    """Rows of columns with atomic values, whose types are given in the query or inferred from the files."""


@attrs.frozen
class Records:
    """Rows that are records, whose type is given in the query or inferred from the files."""

    typed: bool
    """Whether a file declares the types of its columns; otherwise each value has its own type, and a query may ask for
    `any`."""


@attrs.frozen
class Always:
    """Rows of one fixed type, which the query does not give; `called` names them in messages."""

    type: Type
    called: str


RowRule: TypeAlias = Columns | Records | Always
"""The rule that determines the type of the rows of a format."""


@attrs.frozen
class Format:
    """A format of rows: its name in a query, and the arguments that a source of that format takes.

    Formats are compared by name.
    """

    name: str
    rows: RowRule = attrs.field(eq=False, repr=False)
    takes: frozenset[str] = attrs.field(default=frozenset(), eq=False, repr=False, kw_only=True)
    """The arguments that it takes, of those that only some formats take: names of options, `changes`, `delimiter`,
    `tagged`, `tags`, `xpath`."""
    handed_over: bool = attrs.field(default=False, eq=False, repr=False, kw_only=True)
    """Whether a program passes the rows in (`HandedOver`): no command can read them."""
    surplus: bool = attrs.field(default=False, eq=False, repr=False, kw_only=True)
    """Whether a record may have more fields than there are columns (`SourceSpec.surplus`)."""
    partitioned: bool = attrs.field(default=True, eq=False, repr=False, kw_only=True)
    """Whether the names of a file's directories may hold columns of its rows, as partitions."""

    def __str__(self) -> str:
        """The name with its article.

        >>> print(Format("orc", Records(typed=True)))
        an orc
        """
        return f"{'an' if self.name[0] in 'aeioux' else 'a'} {self.name}"

    def can_hold(self, row: Type) -> bool:
        """Whether rows of a type can be written in this format."""
        return not isinstance(self.rows, Columns) or is_flat(row)


ADAPTER = Format("adapter", Records(typed=True))
"""The placeholder for a format where an adapter reads the rows (`runtime.sources.source`)."""


@attrs.frozen
class Connector:
    """A kind of source other than files, with its name in a query."""

    name: str
    example: str
    """An example of its string arguments, for hints."""
    adapter: str | None
    """The built-in adapter, as `module:name`; None if the query names one."""
    row: Always | None = None
    """The fixed type of all rows, if there is one."""
    row_type: str | None = None
    """The function that finds the type of the rows if the query does not give it, as `module:function`, if there is
    one."""
    is_log: bool = False
    """Whether it is a log of changes: it may delete rows, but only rows that are there."""
    files: Format | None = None
    """The format of the files with the rows, for a table whose log lists them: the log also has the types of the
    columns, and the source may be static."""
    abandoned: str | None = None
    """The function that finds what a server still keeps for streams that are no longer read, as `module:function`; None
    if it keeps nothing."""


@attrs.frozen
class HandedOver:
    """A kind of source whose rows a program passes in under a name, or has under that name in its session."""

    format: Format
    """The placeholder for its format, with the name of the kind."""
    stream: bool
    """Whether it is always a stream; otherwise it never is."""
    example: str
    """An example of a name, for hints."""

    @property
    def called(self) -> str:
        """The keyword before its arguments in a query."""
        return "stream" if self.stream else "source"


@attrs.frozen
class Catalog:
    """The formats, connectors, kinds of handed-over sources and envelopes that a query may name, by name."""

    formats: Mapping[str, Format] = attrs.Factory(dict)
    connectors: Mapping[str, Connector] = attrs.Factory(dict)
    handed_over: Mapping[str, HandedOver] = attrs.Factory(dict)
    envelopes: Mapping[str, Envelope] = attrs.Factory(dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all formats, connectors and kinds of handed-over sources."""
        return (*self.formats, *self.connectors, *self.handed_over)

    def taking(self, argument: str) -> list[Format]:
        """The formats that take an argument."""
        return [*dict.fromkeys(format for format in self.formats.values() if argument in format.takes)]

    def names_taking(self, argument: str) -> str:
        """The names of the formats that take an argument."""
        names = [format.name for format in self.taking(argument)]
        return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


@attrs.frozen
class Column:
    """A column of a file; one without a type is skipped."""

    name: str
    type: Type | None


@attrs.frozen
class TextOptions:
    """How values are written as text, where a query says so: the fields of CSV, and dates and timestamps in JSON."""

    quote: str = '"'
    """The character around a quoted field; empty if no field is quoted."""
    escape: str | None = None
    """The character that escapes a quote, or itself, in a quoted field; None if a quote is doubled instead."""
    null_values: tuple[str, ...] = ()
    """Texts that, unless quoted, stand for a missing value, as an empty field does."""
    comment: str | None = None
    """The character at the start of comment lines; a line within a quoted field is never one."""
    date_format: str | None = None
    """The pattern of dates (`algebra.functions.time_reading`)."""
    timestamp_format: str | None = None
    """The pattern of timestamps."""
    date_formats: tuple[tuple[str, str], ...] = ()
    """Patterns of dates for single columns, as pairs of a column and its pattern."""
    timestamp_formats: tuple[tuple[str, str], ...] = ()
    """The same for timestamps."""
    locale: str | None = None
    """The locale of numbers (`algebra.functions.number_locales`)."""

    def way_of(self, t: Type, column: str) -> str | None:
        """How the values of a column of a type are written, in words, if an option specifies it."""
        if ty.is_numeric(t):
            return None if self.locale is None else f"in {self.locale}"
        return self.time_format(t, column)

    @property
    def numbers(self) -> NumberLocale | None:
        """The locale of numbers, if one is given."""
        return None if self.locale is None else number_locale(self.locale)

    def time_format(self, t: Type, column: str) -> str | None:
        """The pattern of the values of a column of a type, if one is given."""
        if t == ty.DATE:
            return dict(self.date_formats).get(column, self.date_format)
        return dict(self.timestamp_formats).get(column, self.timestamp_format) if t == ty.TIMESTAMP else None

    def time_pattern(self, t: Type, column: str) -> TimePattern | None:
        """The same, parsed."""
        written = self.time_format(t, column)
        return None if written is None else field_pattern(written, t)

    def usual_text(self, text: str, t: Type, column: str) -> str | None:
        """A value's text in the form used without a pattern; None if the column has a pattern that the text does not
        match."""
        pattern = self.time_pattern(t, column)
        return text if pattern is None else pattern.canonical(text)


AS_USUAL = TextOptions()
"""No options: the default text of all values."""


@attrs.frozen
class SourceSpec:
    """A data source: a file or a directory of files. With `stream`, files that arrive later belong to it too.

    A source with an `adapter`, the name of a built-in connector (`Connector`) or `package.module:name`, is not a set of
    files: `path` is the text passed to the adapter, and `tagged` says that it may delete rows. For a table with a log
    (`versioned`), the adapter lists the files with the rows: those of `version`, or of the newest version. A source
    that a program hands over is not a set of files either; `path` is its name in the program.

    `columns` lists the columns of a CSV file, in order; the row itself is of type `row`: a tuple, a record, or the
    type of the only column. With `header`, the first record of a file has the names by which columns are found. With
    `missing_columns`, the values of an absent column are missing, also in other formats that name their columns. In a
    `multiline` CSV file a quoted field may contain line ends; a `multiline` JSON file is one document. The rows of an
    XML file are its elements with one of the `tags`.

    Rows are deleted by files in a separate directory, `deletions`, or by a `tagged` file, whose first column is `+` or
    `-`. A source of `changes` may delete rows too, and is `tagged`. With a `key`, a row replaces the row with the same
    key, and a deletion removes the row with the key of the deleted row.
    """

    name: str
    stream: bool
    format: Format
    path: str
    row: Type
    columns: tuple[Column, ...] = ()
    delimiter: str = ","
    header: bool = False
    missing_columns: bool = False
    no_new_columns: bool = False
    """Whether a file or row with an unknown column is malformed. An inferred type is not extended by such a column
    either."""
    multiline: bool = False
    truncate_timestamps: bool = False
    """Whether timestamps in nanoseconds are rounded down to microseconds."""
    texts: TextOptions = AS_USUAL
    surplus: bool = False
    """Whether fields after the last column are ignored; otherwise a record with such fields is malformed."""
    as_utf8: bool = False
    """Whether Spark decodes the files as UTF-8, not byte by byte (`runtime.sources.formats.csv.is_read_as_utf8`)."""
    ends_in_blanks: bool = False
    """Whether the files may have a record whose last field consists of blanks only."""
    whole: bool = False
    """Whether the XML files cannot be split by Spark (`runtime.sources.formats.xml.is_cut_by_rows`)."""
    tags: tuple[str, ...] = ()
    deletions: str | None = None
    tagged: bool = False
    adapter: str | None = None
    key: RowKey | None = None
    changes: Envelope | None = None
    version: int | None = None
    sample: int | None = attrs.field(default=None, eq=False, repr=False)
    """The number of leading rows from which the type of the rows is inferred, if the query gives that number."""
    found: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether the type of the rows of a stream was inferred. It stays the same, or is widened where later rows need it
    and the format has wider types."""
    of_all_files: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether the type of the rows was inferred with the columns of all files: each column that any file has."""
    version_found: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether the query gives no version of a static table: `version` is then one recorded before, or the newest."""
    checkpoint: Path | None = attrs.field(default=None, eq=False, repr=False)
    """The checkpoint of the stream, if it has one: the reader of the stream may note there what it keeps elsewhere."""
    is_log: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether an adapter reads a log of changes, which deletes only rows that are there."""
    span: Span | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def type(self) -> Type:
        return ty.BagType(self.row)

    @property
    def may_lack_columns(self) -> bool:
        """Whether a file may lack columns of the rows, whose values are then missing."""
        return self.missing_columns or self.of_all_files

    @property
    def is_files(self) -> bool:
        """Whether it is a directory of files, or a file."""
        return self.adapter is None and not self.format.handed_over

    @property
    def lies_in_files(self) -> bool:
        """Whether its rows are in files, given by a path or listed by a log."""
        return self.is_files or self.versioned

    @property
    def versioned(self) -> bool:
        """Whether it is a table whose log lists, for each version, the files with its rows."""
        return self.adapter is not None and self.format != ADAPTER

    @property
    def shrinks(self) -> bool:
        """Whether rows may be deleted or replaced."""
        by_log = self.stream and self.versioned
        return self.tagged or self.deletions is not None or self.key is not None or by_log

    @property
    def directories(self) -> tuple[tuple[SourceSpec, int], ...]:
        """The directories where files arrive, as sources, each with the weight of its rows."""
        if not self.lies_in_files:
            return ()
        if self.deletions is None:
            return ((self, 1),)
        return (self, 1), (attrs.evolve(self, path=self.deletions), -1)


@attrs.frozen
class SinkSpec:
    """A directory to which the rows of an answer of type `type` are written."""

    path: Path
    format: Format
    type: Type
    span: Span = attrs.field(eq=False, repr=False)


def item_type(t: Type) -> Type:
    """The type of the rows of an answer."""
    return t.item if isinstance(t, ty.BagType | ty.ListType) else t


def is_flat(row: Type) -> bool:
    """Whether a row of a csv file can hold the values of a type."""
    match row:
        case ty.TupleType(items) if items:
            return all(map(_is_atomic, items))
        case ty.RecordType(fields) if fields:
            return all(_is_atomic(part) for _, part in fields)
        case _:
            return _is_atomic(row)


def _is_atomic(t: Type) -> bool:
    return isinstance(t, ty.Basic) and not ty.is_document(t)
