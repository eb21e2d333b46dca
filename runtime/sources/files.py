"""Rows of files as values: the reference reader.

This module and those of the formats decide which rows are malformed and how they are reported; the Spark readers find
the same rows malformed, and use this module to find the file and the line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

import attrs

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import MissingRow, UserError
from mrql.algebra.memory import with_room
from mrql.algebra.types import RecordType, Type
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, Value
from mrql.algebra.values.zset import ZSet
from mrql.runtime.files.quarantine import Malformed, Reject, fail
from mrql.runtime.sources.current_rows import CurrentRows
from mrql.runtime.sources.formats.file_format import file_format
from mrql.runtime.sources.formats.json import first_fault
from mrql.runtime.sources.partitions import apart, completed, is_partition, must_agree, with_partitions
from mrql.runtime.sources.path_patterns import fits
from mrql.runtime.sources.places_of_rows import placed
from mrql.runtime.sources.source import everything, found_row_type, open_table

DELTA_LOG = "_delta_log"
"""The directory of the log in a table of Delta Lake."""
ICEBERG_METADATA = "metadata"
"""The directory of the metadata in a table of Iceberg, with files `*.metadata.json*`."""


def list_files(spec: SourceSpec) -> list[Path]:
    """The files of a source, sorted by path; of a table with a log, those of its `version`.

    Raises: UserError as `listing` does.
    """
    if spec.versioned:
        return [one.read_as or one.file for one in open_table(spec).files(spec.version)]
    return sorted(Path(listed.directory, name) for listed in listing(spec) for name in listed.names)


@attrs.frozen
class Listed:
    """The names of files in one directory."""

    directory: str
    """Its path, as the source names it."""
    names: Sequence[str]


def listing(spec: SourceSpec) -> list[Listed]:
    """The files of a source by directory: the file itself, those of a directory and of the partitions in it, or those
    that match a pattern (`path_patterns`).

    As there may be many files, of which few are new each time, only their names are returned, and no paths. Names that
    begin with `.` or `_` are skipped: this keeps a file from being read while it is written.

    Raises: UserError when nothing is found, except for a stream's path without a suffix: that directory may still be
        created. Or when files do not lie in the same partitions.
    """
    path = Path(spec.path)
    if path.is_dir():
        found = _inside(path, spec)
    elif path.is_file():
        found = [Listed(str(path.parent), [path.name])]
    else:
        found = [one for p in _named(path) if _is_read(p.name) for one in _at(p, spec)]
        if not any(one.names for one in found) and not (spec.stream and not path.suffix):
            raise no_such_file(spec)
    read = [Listed(one.directory, names) for one in found if (names := [*filter(_is_read, one.names)])]
    must_agree(spec, sorted(Path(one.directory, min(one.names)) for one in read))
    return read


def _at(path: Path, spec: SourceSpec) -> list[Listed]:
    """The files at a path that matches a pattern."""
    return _inside(path, spec) if path.is_dir() else [Listed(str(path.parent), [path.name])]


def no_such_file(spec: SourceSpec) -> UserError:
    """The error for a path at which there is nothing."""
    deep = "**" in Path(spec.path).parts
    hint = "`**` is what `*` is, one directory: the files of each depth have a pattern of their own" if deep else None
    return UserError(f"no such file or directory: {spec.path}", spec.span, hint)


def _named(pattern: Path) -> list[Path]:
    """The paths that match a path with patterns. A component that exists as it is written matches only itself."""
    found = [Path(pattern.anchor)]
    for part in pattern.parts[1:] if pattern.anchor else pattern.parts:
        found = [
            path
            for directory in found
            for path in ([directory / part] if (directory / part).exists() else _matching(directory, part))
        ]
    return found


def _matching(directory: Path, wanted: str) -> list[Path]:
    if not directory.is_dir():
        return []
    names = (entry.name for entry in _entries(directory))
    return [directory / name for name in names if _is_read(name) and fits(name, wanted)]


def _inside(directory: Path, spec: SourceSpec) -> list[Listed]:
    """The files in a directory, and in the partitions in it.

    A static source is not taken for empty if its rows may be in entries that are skipped.

    Raises: UserError for a static source that has only entries that are skipped, and for the directory of a table with
        a log, of which some files may be deleted.
    """
    try:
        entries = _entries(directory)
        files = Listed(str(directory), [entry.name for entry in entries if _is_file(entry)])
        # As a Path names it: `dt=1`, and not `./dt=1`, under which no file of it was read.
        partitions = (str(directory / entry.name) for entry in entries if _is_partition(entry))
        inside = (one for partition in partitions for one in _partition(partition))
        found = [files, *inside]
    except UserError as error:
        raise UserError(error.message, spec.span) from None
    _must_be_in_no_table(directory, spec)
    is_read = any(_is_read(name) for one in found for name in one.names)
    if not spec.stream and not is_read and (others := _others(entries)):
        hint = "directories in a directory, and names that begin with `.` or `_`, are not looked at"
        raise UserError(f"{directory} has no file that is read, but {others[0]}", spec.span, hint)
    return found


_CALLED = {"delta": "a Delta", "iceberg": "an Iceberg"}


def _must_be_in_no_table(directory: Path, spec: SourceSpec) -> None:
    """Raises: UserError for the directory of a table with a log, or one in it that its files lie in."""
    inner = directory
    while is_partition(inner.name):
        inner = inner.parent
    for place in {directory: None, inner: None, inner.parent: None}:
        if (kind := table_in(place)) is not None:
            what = "is" if place == directory else "is a part of"
            message = f"{directory} {what} {_CALLED[kind]} table, of which the files are not the rows"
            hint = f'{"stream" if spec.stream else "source"}({kind}, "{place}")'
            raise UserError(f"{message}: some may be deleted", spec.span, hint)


def table_in(directory: Path) -> str | None:
    """The name of the connector for the table with a log in a directory; None if there is no such table."""
    if (directory / DELTA_LOG).is_dir():
        return "delta"
    metadata = directory / ICEBERG_METADATA
    return "iceberg" if metadata.is_dir() and any(metadata.glob("*.metadata.json*")) else None


def _partition(directory: str) -> Iterator[Listed]:
    """The files in a partition, and in the partitions inside it.

    Raises: UserError where it contains a directory that is not a partition: it is unknown what that contains.
    """
    names = []
    for entry in _entries(directory):
        if not _is_read(entry.name):
            continue
        if _is_partition(entry):
            yield from _partition(os.path.join(directory, entry.name))
        elif entry.is_dir():
            raise UserError(f"{os.path.join(directory, entry.name)} is a directory in a partition, and none itself")
        elif _is_file(entry):
            names.append(entry.name)
    yield Listed(directory, names)


def _is_partition(entry: os.DirEntry[str]) -> bool:
    return is_partition(entry.name) and _is_read(entry.name) and entry.is_dir()


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a file; a broken link is not."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _others(entries: Sequence[os.DirEntry[str]]) -> list[str]:
    """The entries that may hold data, in a directory without files that are read. What Spark leaves in an empty answer
    (`_SUCCESS`, `.crc` files) does not count, nor does a name that begins with a dot, unless it is a file with a suffix
    (`.gitkeep` has none)."""
    found = ((e, PurePath(e.name).suffix) for e in entries if e.name != "_SUCCESS")
    named = (e.name for e, suffix in found if suffix != ".crc" and (e.name[0] != "." or (suffix and _is_file(e))))
    return sorted(named)


def passed_over(spec: SourceSpec) -> str | None:
    """An entry that is skipped in the directory of a source, and why, if there is one: a directory, or a name that
    begins with `.` or `_`."""
    path = Path(spec.path)
    if spec.versioned or not path.is_dir():
        return None
    entries = _entries(path)
    directories = [e.name for e in entries if _is_read(e.name) and e.is_dir() and not is_partition(e.name)]
    if directories:
        return f"the directory {min(directories)}, which is not looked at"
    hidden = _others([e for e in entries if not _is_read(e.name)])
    return f"{hidden[0]}: names that begin with `.` or `_` are not looked at" if hidden else None


def _entries(directory: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return [*entries]
    except OSError as error:
        raise UserError(f"{directory} cannot be read: {error.strerror}") from None


def _is_read(name: str) -> bool:
    return not name.startswith((".", "_"))


def read_source(spec: SourceSpec, reject: Reject = fail) -> Bag:
    """All rows of a source, after its deletions and replacements.

    Raises: UserError when a file is missing, a row is malformed, a row is deleted that is not there, or two rows have
        one key and it is not known which is later.
    """
    if spec.versioned or (spec.adapter is None and not spec.shrinks):
        return Bag(
            with_room((row for file in list_files(spec) for row in read_file(spec, file, reject)), lambda: spec.span)
        )
    if spec.key is not None:
        with placed({spec.name: spec}):
            return Bag(CurrentRows(spec.name, spec.key).after(_all_changes(spec, reject))[0].rows())
    rows = ZSet.weighted(_all_changes(spec, reject))
    for row, count in rows if spec.adapter is None else ():
        if count < 0:
            raise MissingRow(spec.name, show_value(row), -count, spec.span)
    return rows.bag()


def read_arrived(spec: SourceSpec, reject: Reject = fail) -> Iterator[Value]:
    """All rows that were inserted, including those that others have replaced.

    Raises: UserError when a file is missing, or a row is malformed.
    """
    return (row for row, weight in _all_changes(spec, reject) if weight > 0)


def _all_changes(spec: SourceSpec, reject: Reject) -> Iterator[tuple[Value, int]]:
    """All insertions and deletions of a source, as rows with weights."""
    if not spec.lies_in_files:
        yield from everything(spec).changes(spec.row)
        return
    for part, weight in spec.directories:
        for file in list_files(part):
            yield from with_room(read_changes(part, file, weight, reject), lambda: spec.span)


def read_changes(spec: SourceSpec, file: Path, weight: int = 1, reject: Reject = fail) -> Iterator[tuple[Value, int]]:
    """The rows of one file of a stream, each with its weight: that of the file, times −1 for a row tagged `-`.

    Raises: UserError at the first malformed row, with the file and the line, unless `reject` goes on.
    """
    parts = apart(spec, file)
    fault = parts.fault(file)
    if fault is not None:
        reject(fault)
        return
    found = file_format(spec.format).read(parts.own, file, parts.told(reject))
    rows: Iterator[tuple[Value, int]] = ((row, sign * weight) for row, sign in found)
    if parts.columns:
        values = parts.values(file)
        assert isinstance(spec.row, RecordType)
        assert not isinstance(values, Malformed)
        rows = completed(spec.row, rows, values)
    yield from rows


def read_file(spec: SourceSpec, file: Path, reject: Reject = fail) -> Iterator[Value]:
    """The rows of one file.

    Raises: UserError at the first malformed row, with the file and the line, unless `reject` goes on.
    """
    return (row for row, _ in read_changes(spec, file, 1, reject))


def check_file(spec: SourceSpec, file: Path) -> Malformed | None:
    """What is wrong with a file as a whole, if anything; in some formats only rows can be malformed."""
    parts = apart(spec, file)
    return parts.fault(file) or file_format(spec.format).check(parts.own, file)


def row_type(spec: SourceSpec) -> Type:
    """The type of the rows of a source whose query gives none, found in its files or their first rows.

    Raises: UserError when there is nothing to find it in.
    """
    if spec.format.handed_over:
        hint = "add type(<id: long>), say; a program may hand it over with the name"
        raise UserError("the type of the rows is not given", spec.span, hint)
    if spec.versioned:
        return open_table(spec).row_type()
    if spec.adapter is not None:
        return found_row_type(spec)
    files = list_files(spec)
    found: Type | None = None
    if files:
        infer = file_format(spec.format).infer
        assert infer is not None
        found = infer(spec, files)
        found = found and with_partitions(spec, found, files[0])
    if found is None:
        what = "row" if files else "file"
        hint = "add type(<A: long>), say"
        fault = first_fault(files, spec.multiline) if spec.format.name == "json" else None
        why = "" if fault is None else f": {fault.file}:{fault.line}: {fault.reason}"
        if fault is not None and not spec.multiline:
            hint = f"a line is a row: where a document goes over several, add `multiline`; else {hint}"
            hint = fault.advice or hint
        raise UserError(f"no {what} in {spec.path} to take the type of the rows from{why}", hint=hint)
    return found


def count_rows(spec: SourceSpec, file: Path) -> int:
    """The number of rows in a file, for the report of a batch; a file that is malformed as a whole counts as one."""
    parts = apart(spec, file)
    return 1 if parts.fault(file) is not None else file_format(spec.format).count(parts.own, file)
