"""Rows of files as values: the reference reader.

What a malformed row is, and how it is reported, is decided here and in the modules of the formats; the runtime's Spark
readers find the same rows malformed and come back here for the file and the line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import MissingRow, UserError
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
"""The directory in a table of Delta Lake that says which files its rows lie in."""
ICEBERG_METADATA = "metadata"
"""The directory in a table of Iceberg that does; it has files of that name."""


def list_files(spec: SourceSpec) -> list[Path]:
    """The files of a source, by name: the file itself, those of a directory and of the partitions in it, or those that
    a pattern names (`path_patterns`). Of a table with a log, those of a version of it.

    Names that begin with `.` or `_` are not looked at: that is how a file is kept from being read while it is written.

    Raises: UserError when a static source is not there; a stream's directory may still come. Or when files do not lie
        in the same partitions.
    """
    if spec.versioned:
        return [one.read_as or one.file for one in open_table(spec).files(spec.version)]
    path = Path(spec.path)
    if path.is_dir():
        found = _inside(path, spec)
    elif path.is_file():
        found = [path]
    else:
        found = [f for p in _named(path) if _seen(p) for f in (_inside(p, spec) if p.is_dir() else [p])]
        if not found and not (spec.stream and not path.suffix):
            raise no_such_file(spec)
    files = sorted(f for f in found if _seen(f))
    must_agree(spec, files)
    return files


def no_such_file(spec: SourceSpec) -> UserError:
    """The error for a path that names nothing."""
    deep = "**" in Path(spec.path).parts
    hint = "`**` is what `*` is, one directory: the files of each depth have a pattern of their own" if deep else None
    return UserError(f"no such file or directory: {spec.path}", spec.span, hint)


def _named(pattern: Path) -> list[Path]:
    """What a path with patterns names. A part that is there as it is written stands for itself alone."""
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
    return [path for path in _entries(directory) if _seen(path) and fits(path.name, wanted)]


def _inside(directory: Path, spec: SourceSpec) -> list[Path]:
    """The files in a directory, and in the partitions in it.

    Rows that lie where nobody looks are not taken for none.

    Raises: UserError for a static source with nothing but what is not read, and for a table whose log says that some of
        its files are no part of it any more.
    """
    try:
        entries = _entries(directory)
        files = [entry for entry in entries if entry.is_file()]
        found = [*files, *(file for entry in entries if _is_partition(entry) for file in _partition(entry))]
    except UserError as error:
        raise UserError(error.message, spec.span) from None
    _must_be_in_no_table(directory, spec)
    if not spec.stream and not any(map(_seen, found)) and (others := _others(entries)):
        hint = "directories in a directory, and names that begin with `.` or `_`, are not looked at"
        raise UserError(f"{directory} has no file that is read, but {others[0]}", spec.span, hint)
    return found


_CALLED = {"delta": "a Delta", "iceberg": "an Iceberg"}


def _must_be_in_no_table(directory: Path, spec: SourceSpec) -> None:
    """Raises: UserError for a directory that is a table with a log, or one of those that its files lie in."""
    inner = directory
    while is_partition(inner):
        inner = inner.parent
    for place in {directory: None, inner: None, inner.parent: None}:
        if (kind := table_in(place)) is not None:
            what = "is" if place == directory else "is a part of"
            message = f"{directory} {what} {_CALLED[kind]} table, of which the files are not the rows"
            hint = f'{"stream" if spec.stream else "source"}({kind}, "{place}")'
            raise UserError(f"{message}: some may be deleted", spec.span, hint)


def table_in(directory: Path) -> str | None:
    """The name of the connector that reads the table with a log that lies in a directory, if there is one."""
    if (directory / DELTA_LOG).is_dir():
        return "delta"
    metadata = directory / ICEBERG_METADATA
    return "iceberg" if metadata.is_dir() and any(metadata.glob("*.metadata.json*")) else None


def _partition(directory: Path) -> Iterator[Path]:
    """The files in a partition, and in those inside it.

    Raises: UserError where it has another directory: it cannot be told what is in that.
    """
    for entry in _entries(directory):
        if not _seen(entry):
            continue
        if _is_partition(entry):
            yield from _partition(entry)
        elif entry.is_dir():
            raise UserError(f"{entry} is a directory in a partition, and none itself")
        elif entry.is_file():
            yield entry


def _is_partition(entry: Path) -> bool:
    return is_partition(entry) and _seen(entry) and entry.is_dir()


def _others(entries: list[Path]) -> list[str]:
    """What there is in a directory without files that are read. What Spark leaves in an empty answer is nothing, nor is
    a dot with a name that no data has, such as `.gitkeep`."""
    found = (e for e in entries if e.name != "_SUCCESS" and e.suffix != ".crc")
    return sorted(e.name for e in found if not e.name.startswith(".") or (e.suffix and e.is_file()))


def passed_over(spec: SourceSpec) -> str | None:
    """What a directory has in which files may still come, and why it is not looked at, if there is something: a
    directory, or what is kept from being read by its name."""
    path = Path(spec.path)
    if spec.versioned or not path.is_dir():
        return None
    entries = _entries(path)
    directories = [e.name for e in entries if _seen(e) and e.is_dir() and not is_partition(e)]
    if directories:
        return f"the directory {min(directories)}, which is not looked at"
    hidden = _others([e for e in entries if not _seen(e)])
    return f"{hidden[0]}: names that begin with `.` or `_` are not looked at" if hidden else None


def _entries(directory: Path) -> list[Path]:
    try:
        return [*directory.iterdir()]
    except OSError as error:
        raise UserError(f"{directory} cannot be read: {error.strerror}") from None


def _seen(path: Path) -> bool:
    return not path.name.startswith((".", "_"))


def read_source(spec: SourceSpec, reject: Reject = fail) -> Bag:
    """All rows of a source, without those that were taken away.

    Raises: UserError when a file is missing, a row is malformed, one is taken away that is not there, or two have one
        key and it is not known which is later.
    """
    if spec.versioned or (spec.adapter is None and not spec.shrinks):
        return Bag(row for file in list_files(spec) for row in read_file(spec, file, reject))
    if spec.key is not None:
        with placed({spec.name: spec}):
            return Bag(CurrentRows(spec.name, spec.key).after(_all_changes(spec, reject))[0].rows())
    rows = ZSet.weighted(_all_changes(spec, reject))
    for row, count in rows if spec.adapter is None else ():
        if count < 0:
            raise MissingRow(spec.name, show_value(row), -count, spec.span)
    return rows.bag()


def read_arrived(spec: SourceSpec, reject: Reject = fail) -> Iterator[Value]:
    """All rows that have come, those too that others have replaced.

    Raises: UserError when a file is missing, or a row is malformed.
    """
    return (row for row, weight in _all_changes(spec, reject) if weight > 0)


def _all_changes(spec: SourceSpec, reject: Reject) -> Iterator[tuple[Value, int]]:
    """All that has come, with what takes some of it away."""
    if not spec.lies_in_files:
        yield from everything(spec).changes(spec.row)
        return
    for part, weight in spec.directories:
        for file in list_files(part):
            yield from read_changes(part, file, weight, reject)


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
    """What is wrong with a file as a whole, if anything is; in other formats only rows can be malformed."""
    parts = apart(spec, file)
    return parts.fault(file) or file_format(spec.format).check(parts.own, file)


def row_type(spec: SourceSpec) -> Type:
    """The type of the rows of a source that has none given, read from its files or their first rows.

    Raises: UserError when there is nothing to take it from.
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
