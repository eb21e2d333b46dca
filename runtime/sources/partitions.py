"""Partitions: directories such as `dt=2024-01-01`, whose names hold a column of the rows in them.

If the record type names such a column, its values come from the path, even where the files have a column of that name,
as in Spark; the columns of a file are those of the type without those of its path. Names and values are written with
Hive's escapes: `%` and two hexadecimal digits for a byte of UTF-8. A value is read by the rules of a CSV field.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import Columns, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.algebra.values.values import Record, Value
from mrql.runtime.files.compression import NOT_UTF8, shown
from mrql.runtime.files.quarantine import Malformed, Reject
from mrql.runtime.sources.formats.csv_values import value_of
from mrql.runtime.sources.formats.file_format import file_format
from mrql.runtime.sources.path_patterns import fits

MISSING = "__HIVE_DEFAULT_PARTITION__"
"""The text of a missing value."""


def is_partition(directory: str) -> bool:
    """Whether the name of a directory is that of a partition."""
    return "=" in directory


def partition_directories(spec: SourceSpec, file: Path) -> tuple[str, ...]:
    """The partitions that a file of a source lies in, the innermost last.

    Those above the directory that the source names do not count. A copy of a file, which lies elsewhere, has the same
    partitions in its path.
    """
    if not spec.format.partitioned:
        return ()
    here = os.getcwd()
    bases = tuple(_parts(path, here) for path in (spec.path, spec.deletions) if path is not None)
    directory = _parts(os.path.dirname(file), here)
    if any(len(base) > len(directory) and _begin((*directory, file.name), base) for base in bases):
        return ()  # the source names the file itself
    return _partitions(directory, bases)


REMEMBERED_MAX_DIRECTORIES = 100_000
"""The size of the caches of paths: a stream over partitions looks at all of them repeatedly."""


@lru_cache(REMEMBERED_MAX_DIRECTORIES)
def _parts(path: str, here: str) -> tuple[str, ...]:
    """The components of a path from the root on."""
    return Path(here, path).parts


@lru_cache(REMEMBERED_MAX_DIRECTORIES)
def _partitions(directory: tuple[str, ...], bases: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """The partitions at the end of a path, below the paths that a source names."""
    inside = directory[max((len(base) for base in bases if _begin(directory, base)), default=0) :]
    first = len(inside)
    while first and "=" in inside[first - 1]:
        first -= 1
    return inside[first:]


def _begin(parts: tuple[str, ...], base: tuple[str, ...]) -> bool:
    """Whether a path is `base`, which may be a pattern, or lies in it."""
    return len(base) <= len(parts) and all(map(fits, parts, base))


def column_of(directory: str) -> str:
    """The name of the column that a partition holds."""
    return unquote(directory.partition("=")[0])


def must_agree(spec: SourceSpec, files: Iterable[Path]) -> None:
    """Checks that all files of a source lie in partitions of the same names, whatever their values are.

    Raises: UserError, naming two files that do not, or a file in a partition without a name or a value, or in two
        partitions of one name.
    """
    first: tuple[tuple[str, ...], Path] | None = None
    for file in files:
        directories = partition_directories(spec, file)
        names = tuple(map(column_of, directories))
        if first is None:
            first = names, file
        if names != first[0]:
            message = f"{first[1]} is {_in(first[0])}, and {file} is {_in(names)}"
            raise UserError(message, spec.span, "all files lie in partitions of the same names, in the same order")
        for directory in directories:
            name, _, value = directory.partition("=")
            if not name or not value:
                raise UserError(f"{file} is in a partition without a {'value' if name else 'name'}", spec.span)
        if len({*names}) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UserError(f"{file} is in two partitions of the name `{twice}`", spec.span)


def _in(names: tuple[str, ...]) -> str:
    return f"in partitions of {', '.join(f'`{name}`' for name in names)}" if names else "in no partition"


# --- a file and its path ------------------------------------------------------------------------


@attrs.frozen
class Apart:
    """The row of a source, split into the columns in a file itself (`own`) and those in its path."""

    own: SourceSpec
    directories: tuple[str, ...] = ()
    """The partitions that the file lies in."""
    names: tuple[str, ...] = ()
    """The names of all columns in the path, including those that the row does not name."""
    columns: tuple[tuple[str, Type], ...] = ()
    """The columns in the path that the row names."""

    def without_values(self) -> Apart:
        """The part that is the same for all files in partitions of these names, whatever their values."""
        return attrs.evolve(self, directories=())

    def values(self, file: Path) -> Mapping[str, Value] | Malformed:
        """The values of the columns in the path of a file, or what is wrong with them."""
        written = dict(zip(self.names, (d.partition("=")[2] for d in self.directories), strict=True))
        try:
            return {name: _value(written[name], t, name) for name, t in self.columns}
        except ValueError as error:
            return Malformed(file, None, shown(f"lies in a partition that cannot be read: {error}"))

    def told(self, reject: Reject) -> Reject:
        """`reject`, with a hint added for a CSV file without a header, whose records may repeat columns of the path:
        only a header would say which columns they have."""
        if not self.columns or not isinstance(self.own.format.rows, Columns) or self.own.header:
            return reject
        names = ", ".join(f"`{name}`" for name, _ in self.columns)
        hint = f"the path has {names}: a record is to have the other columns, or all are found by a `header`"

        def with_hint(row: Malformed) -> None:
            reject(attrs.evolve(row, hint=row.hint or hint))

        return with_hint

    def fault(self, file: Path) -> Malformed | None:
        """What is wrong with the path of a file, or with a type that has no columns but those of the path."""
        found = self.values(file)
        if isinstance(found, Malformed):
            return found
        if self.names and isinstance(self.own.format.rows, Columns) and not (self.own.columns or self.own.header):
            return Malformed(file, None, "has columns of its own, and the type has none but those of its path")
        return None


def apart(spec: SourceSpec, file: Path) -> Apart:
    """The row of a source, split into the columns in a file and those in its path."""
    directories = partition_directories(spec, file)
    if not directories or not isinstance(spec.row, ty.RecordType):
        return Apart(spec)
    names = tuple(map(column_of, directories))
    columns = tuple((name, t) for name, t in spec.row.fields if name in names)
    own = attrs.evolve(
        spec, row=_without(spec.row, names), columns=tuple(c for c in spec.columns if c.name not in names)
    )
    return Apart(own, directories, names, columns)


def _without(row: ty.RecordType, names: Iterable[str]) -> ty.RecordType:
    left_out = {*names}
    return attrs.evolve(row, fields=tuple((name, t) for name, t in row.fields if name not in left_out))


def completed(
    row: ty.RecordType, rows: Iterator[tuple[Value, int]], values: Mapping[str, Value]
) -> Iterator[tuple[Value, int]]:
    """The rows of a file, completed with the columns of its path."""
    for own, weight in rows:
        assert isinstance(own, Record)
        yield Record({name: values[name] if name in values else own[name] for name in row.names}), weight


def _value(written: str, t: Type, column: str) -> Value:
    """The value of a partition.

    Raises: ValueError where it is not of the type.
    """
    if written == MISSING:
        return None
    try:
        text = unquote(written, errors="strict")
    except UnicodeDecodeError:
        raise ValueError(f"{NOT_UTF8} (column {column})") from None
    return value_of(text, t, column)


# --- types that are found -----------------------------------------------------------------------


def with_partitions(spec: SourceSpec, found: Type, file: Path) -> Type:
    """A type that was found in files, with the columns of their paths added, which are strings."""
    names = [column_of(directory) for directory in partition_directories(spec, file)]
    if not names or not isinstance(found, ty.RecordType):
        return found
    own = _without(found, names)
    return attrs.evolve(own, fields=(*own.fields, *((name, ty.STRING) for name in names)))


def widened_row(spec: SourceSpec, row: Type, files: Iterable[Path]) -> Type:
    """A row type, widened to hold the rows of some files; the columns of their paths stay strings."""
    widened = file_format(spec.format).widen
    assert widened is not None
    for file in files:
        names = [column_of(directory) for directory in partition_directories(spec, file)]
        if not names or not isinstance(row, ty.RecordType):
            row = _known_alone(spec, row, widened(spec, row, [file]))
            continue
        own = _without(row, names)
        wide = _known_alone(spec, own, widened(spec, own, [file]))
        if isinstance(wide, ty.RecordType) and (wide := _without(wide, names)) != own:
            fields = (*wide.fields, *(field for field in row.fields if field[0] in names))
            row = attrs.evolve(wide, fields=fields)
    return row


def _known_alone(spec: SourceSpec, row: Type, wide: Type) -> Type:
    """A wider type of rows, without its new columns if they are refused (`no_new_columns`)."""
    if not (spec.no_new_columns and isinstance(row, ty.RecordType) and isinstance(wide, ty.RecordType)):
        return wide
    return _without(wide, {*wide.names} - {*row.names})
