"""Data sources as a query describes them: where the rows lie, in which format, and of which type they are."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import attrs

from mrql.algebra import types as ty
from mrql.algebra.span import Span
from mrql.algebra.types import Type


class Format(Enum):
    """The formats that rows are read from."""

    CSV = "csv"
    JSON = "json"
    TEXT = "text"
    XML = "xml"
    PARQUET = "parquet"
    ORC = "orc"
    ADAPTER = "adapter"
    """Rows that an adapter reads (`runtime.sources.source`)."""


LINE_BREAK = "a line break in a value of a csv file; `dump` keeps it"
ONLY_MISSING = "a row whose only value is missing has no line in a csv file; `dump` keeps it"


@attrs.frozen
class Column:
    """A column of a file; one without a type is read over."""

    name: str
    type: Type | None


@attrs.frozen
class SourceSpec:
    """A file or a directory of files. `stream` says that files arriving later are part of it too.

    What an `adapter` reads is no files: `path` is the text that it is given. It is `tagged` if it may take rows away.
    It is the name of a connector that comes with the package, or `package.module:name`.

    `columns` lists what a row of a CSV file holds, in order; the row itself is of type `row`: a tuple, a record, or
    the one column. In a file with `header` the first record has the names by which the columns are found;
    with `missing_columns`, one that is not there has missing values. In a `multiline` file a field in quotes may have
    line ends in it. The elements with one of the `tags` are the rows of an XML file.

    Rows are taken away by files in a directory of their own, `deletions`, or by a `tagged` file, whose first column is
    `+` or `-`.
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
    multiline: bool = False
    as_utf8: bool = False
    """Of files that Spark reads as UTF-8, and not byte by byte (`csvfile.is_read_as_utf8`)."""
    tags: tuple[str, ...] = ()
    deletions: str | None = None
    tagged: bool = False
    adapter: str | None = None
    found: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether the type of the rows was found in the first of them, and is wider where later ones ask for it."""
    span: Span | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def type(self) -> Type:
        return ty.BagType(self.row)

    @property
    def shrinks(self) -> bool:
        """Whether rows may be taken away again."""
        return self.tagged or self.deletions is not None

    @property
    def directories(self) -> tuple[tuple[SourceSpec, int], ...]:
        """Where files arrive, and with which weight their rows count."""
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

    @property
    def row(self) -> Type:
        """The type of a row."""
        return self.type.item if isinstance(self.type, ty.BagType | ty.ListType) else self.type


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
    return isinstance(t, ty.Basic) and ty.is_ordered(t)
