"""Data sources as a query describes them: where the rows lie, in which format, and of which type they are.

Which formats and connectors there are is not said here: whoever compiles a query hands in a `Catalog`.
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
    """A row is columns of atomic values, whose types the query gives, or which are found in the files."""


@attrs.frozen
class Records:
    """A row is a record, whose type the query gives, or which is found in the files."""

    typed: bool
    """Whether a file says of which types its columns are; otherwise values have types of their own, and `any` is one
    that can be asked for."""


@attrs.frozen
class Always:
    """All rows are of one type, which the query does not give; `called` says what they are."""

    type: Type
    called: str


RowRule: TypeAlias = Columns | Records | Always
"""Of which type the rows of a format are, and who says it."""


@attrs.frozen
class Format:
    """A format of rows: what a query calls it, and what it may say of a source of that format.

    Formats are told apart by their names.
    """

    name: str
    rows: RowRule = attrs.field(eq=False, repr=False)
    takes: frozenset[str] = attrs.field(default=frozenset(), eq=False, repr=False, kw_only=True)
    """Which of the arguments that not all formats have: options by their names, `delimiter`, `tagged`, `tags`,
    `xpath`."""
    handed_over: bool = attrs.field(default=False, eq=False, repr=False, kw_only=True)
    """Whether a program hands the rows over (`HandedOver`): no command can read them."""
    surplus: bool = attrs.field(default=False, eq=False, repr=False, kw_only=True)
    """Whether a record may have more fields than there are columns (`SourceSpec.surplus`)."""
    partitioned: bool = attrs.field(default=True, eq=False, repr=False, kw_only=True)
    """Whether the directories that a file lies in may have columns of its rows in their names."""

    def __str__(self) -> str:
        """The name with its article.

        >>> print(Format("orc", Records(typed=True)))
        an orc
        """
        return f"{'an' if self.name[0] in 'aeioux' else 'a'} {self.name}"

    def can_hold(self, row: Type) -> bool:
        """Whether a row of a type can be written in it."""
        return not isinstance(self.rows, Columns) or is_flat(row)


ADAPTER = Format("adapter", Records(typed=True))
"""What stands for a format where an adapter reads the rows (`runtime.sources.source`)."""


@attrs.frozen
class Connector:
    """A kind of source that is no files, by its name in a query."""

    name: str
    example: str
    """The strings that it is given."""
    adapter: str | None
    """The adapter that comes with the package, as `module:name`; None where the query names one."""
    row: Always | None = None
    """Of which type all rows are; None where the query says it."""
    row_type: str | None = None
    """What finds the type of the rows where the query does not say it, as `module:function`; None where it must."""
    is_log: bool = False
    """Whether it is a log of changes: it may take rows away again, and only such as are there."""
    files: Format | None = None
    """The format of the files that the rows lie in, where a log says which these are: the log also says of which types
    the columns are, and the source may be static."""
    abandoned: str | None = None
    """What finds what a server still keeps for streams that are not read any more, as `module:function`; None where it
    keeps nothing."""


@attrs.frozen
class HandedOver:
    """A kind of source whose rows a program hands over under a name, or has under that name in its session."""

    format: Format
    """What stands for a format of it; its name is the kind's."""
    stream: bool
    """Whether it is always a stream, else never."""
    example: str
    """A name that it is given."""

    @property
    def called(self) -> str:
        """What a query writes before its arguments."""
        return "stream" if self.stream else "source"


@attrs.frozen
class Catalog:
    """What there is that a query may name where it says what it reads, by the names that it has in a query."""

    formats: Mapping[str, Format] = attrs.Factory(dict)
    connectors: Mapping[str, Connector] = attrs.Factory(dict)
    handed_over: Mapping[str, HandedOver] = attrs.Factory(dict)
    envelopes: Mapping[str, Envelope] = attrs.Factory(dict)

    @property
    def names(self) -> tuple[str, ...]:
        """All names: those of formats, those of connectors, and those of what a program hands over."""
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
    """A column of a file; one without a type is read over."""

    name: str
    type: Type | None


@attrs.frozen
class TextOptions:
    """How values are written as texts, where that is said: the fields of CSV, and dates and timestamps in JSON."""

    quote: str = '"'
    """The character around a field in quotes; no character where there are none."""
    escape: str | None = None
    """The character that makes a quote, or itself, part of a field in quotes, where a quote is not written twice."""
    null_values: tuple[str, ...] = ()
    """Texts that stand for a missing value where they are not in quotes, as an empty field does."""
    comment: str | None = None
    """The character that lines begin with that are no records; one in a field in quotes does not."""
    date_format: str | None = None
    """The pattern that dates are written by (`algebra.functions.time_reading`)."""
    timestamp_format: str | None = None
    """The pattern that timestamps are written by."""
    date_formats: tuple[tuple[str, str], ...] = ()
    """Patterns that the dates of columns are written by, of which each has its own."""
    timestamp_formats: tuple[tuple[str, str], ...] = ()
    """The same of timestamps."""
    locale: str | None = None
    """The locale that numbers are written in (`algebra.functions.number_locales`)."""

    def way_of(self, t: Type, column: str) -> str | None:
        """How the values of a column of a type are written, where that is said, in words."""
        if ty.is_numeric(t):
            return None if self.locale is None else f"in {self.locale}"
        return self.time_format(t, column)

    @property
    def numbers(self) -> NumberLocale | None:
        """How numbers are written, where that is said."""
        return None if self.locale is None else number_locale(self.locale)

    def time_format(self, t: Type, column: str) -> str | None:
        """The pattern that the values of a column of a type are written by, where one is given."""
        if t == ty.DATE:
            return dict(self.date_formats).get(column, self.date_format)
        return dict(self.timestamp_formats).get(column, self.timestamp_format) if t == ty.TIMESTAMP else None

    def time_pattern(self, t: Type, column: str) -> TimePattern | None:
        """The same, read."""
        written = self.time_format(t, column)
        return None if written is None else field_pattern(written, t)

    def usual_text(self, text: str, t: Type, column: str) -> str | None:
        """A text as a value of a column of a type is written where no pattern says how; None where one says it, and the
        text is not written by it."""
        pattern = self.time_pattern(t, column)
        return text if pattern is None else pattern.canonical(text)


AS_USUAL = TextOptions()
"""Where nothing is said of how they are written."""


@attrs.frozen
class SourceSpec:
    """A file or a directory of files. `stream` says that files arriving later are part of it too.

    What an `adapter` reads is no files: `path` is the text that it is given. It is `tagged` if it may take rows away.
    It is the name of a connector that comes with the package (`Connector`), or `package.module:name`. Of a table with
    a log (`versioned`) it says which files the rows lie in, those of a `version`, or of the newest one. What a program
    hands over is no files, either; its `path` is the name that it has there.

    `columns` lists what a row of a CSV file holds, in order; the row itself is of type `row`: a tuple, a record, or
    the one column. In a file with `header` the first record has the names by which the columns are found;
    with `missing_columns`, one that is not there has missing values, also in files of other formats that name their
    columns. In a `multiline` file a field in quotes may have line ends in it; one of JSON is one document. The elements
    with one of the `tags` are the rows of an XML file.

    Rows are taken away by files in a directory of their own, `deletions`, or by a `tagged` file, whose first column is
    `+` or `-`. What is written as `changes` takes rows away, too, and is `tagged`. With a `key` a row replaces the one
    with its key, and a row that is taken away takes that one.
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
    """Whether a file, or a row, with a column that the rows do not have is malformed. A type that was found does not
    get it either."""
    multiline: bool = False
    truncate_timestamps: bool = False
    """Whether timestamps of nanoseconds are read as those of the microsecond that they are in."""
    texts: TextOptions = AS_USUAL
    surplus: bool = False
    """Whether fields behind the last column are not read; else a record that has some is malformed."""
    as_utf8: bool = False
    """Of files that Spark reads as UTF-8, and not byte by byte (`runtime.sources.formats.csv.is_read_as_utf8`)."""
    ends_in_blanks: bool = False
    """Of files with a record whose last field may be of nothing but blanks."""
    whole: bool = False
    """Of XML files that Spark cannot cut into pieces (`runtime.sources.formats.xml.is_cut_by_rows`)."""
    tags: tuple[str, ...] = ()
    deletions: str | None = None
    tagged: bool = False
    adapter: str | None = None
    key: RowKey | None = None
    changes: Envelope | None = None
    version: int | None = None
    sample: int | None = attrs.field(default=None, eq=False, repr=False)
    """In how many of the first rows their type is found, where none is given and that is said."""
    found: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether the type of the rows of a stream was found in the first of them. It stays so, or becomes wider where
    later rows ask for it and the format has wider types."""
    of_all_files: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether that type has the columns that any of the files has."""
    version_found: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether the query does not say the version of a static table: it is the one that was the newest at first."""
    checkpoint: Path | None = attrs.field(default=None, eq=False, repr=False)
    """The checkpoint of the stream, if it has one: what reads the stream may note in it what it keeps elsewhere."""
    is_log: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether an adapter reads a log of changes: only rows that are there are taken away."""
    span: Span | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def type(self) -> Type:
        return ty.BagType(self.row)

    @property
    def may_lack_columns(self) -> bool:
        """Whether a file may be without columns of the rows, whose values are missing then."""
        return self.missing_columns or self.of_all_files

    @property
    def is_files(self) -> bool:
        """Whether it is a directory of files, or a file."""
        return self.adapter is None and not self.format.handed_over

    @property
    def lies_in_files(self) -> bool:
        """Whether its rows lie in files, which are there or which a log names."""
        return self.is_files or self.versioned

    @property
    def versioned(self) -> bool:
        """Whether it is a table whose log says, for each version, which files the rows lie in."""
        return self.adapter is not None and self.format != ADAPTER

    @property
    def shrinks(self) -> bool:
        """Whether rows may be taken away again."""
        by_log = self.stream and self.versioned
        return self.tagged or self.deletions is not None or self.key is not None or by_log

    @property
    def directories(self) -> tuple[tuple[SourceSpec, int], ...]:
        """Where files arrive, and with which weight their rows count."""
        if not self.lies_in_files:
            return ()
        if self.deletions is None:
            return ((self, 1),)
        return (self, 1), (attrs.evolve(self, path=self.deletions), -1)


@attrs.frozen
class SinkSpec:
    """A directory that the rows of an answer of a type are written to."""

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
