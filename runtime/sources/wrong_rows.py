"""The files that contain a row that conflicts with other rows, for the hint of the error about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import AmbiguousRow, MissingRow, MissingVersion, UserError, WrongRow
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Value
from mrql.runtime.files.quarantine import pass_over
from mrql.runtime.sources.arrived import Arrived, Part, files_of_all_directories
from mrql.runtime.sources.current_rows import shown_key
from mrql.runtime.sources.files import read_changes

LOOKED_THROUGH_MAX_BYTES = 64_000_000
"""The most bytes that are searched: the files are read once more, in Python, and more would take too long."""

IsMeant: TypeAlias = Callable[[Value, int], bool]
"""Whether an error is about a row of a file with its weight."""


@contextmanager
def naming_files(
    specs: Mapping[str, SourceSpec], read: Callable[[SourceSpec], Iterable[Part]] = files_of_all_directories
) -> Iterator[None]:
    """Adds to a `WrongRow` error the files that contain the row, among the parts that `read` returns: all files of the
    source by default."""
    try:
        yield
    except WrongRow as error:
        spec = specs[error.stream]
        if spec.lies_in_files and not error.has_place:
            error.has_place = True
            error.hint = _with_files(error, spec, read(spec))
        raise


def _with_files(error: WrongRow, spec: SourceSpec, parts: Iterable[Part]) -> str | None:
    """The hint of an error, which names the files."""
    match error:
        case MissingRow(row=row):
            files = _that_have(spec, parts, lambda found, weight: weight < 0 and show_value(found) == row, most=1)
            return f"it is taken away in {files[0]}" if files else error.hint
        case MissingVersion(key=key):
            files = _that_have(spec, parts, lambda found, _: _has(spec, found, key, None), most=1)
            return f"it is in {files[0]}" if files else error.hint
        case AmbiguousRow(key=key, version=version):
            files = _that_have(spec, parts, lambda found, _: _has(spec, found, key, version), most=2)
            return f"{error.hint}; see {' and '.join(map(str, files))}" if files else error.hint
        case _:
            return error.hint


def _has(spec: SourceSpec, row: Value, key: str, version: str | None) -> bool:
    """Whether a row has a key and a version, given as errors show them; a version of None is a missing one."""
    assert spec.key is not None
    if shown_key(spec.key.of(row)) != key:
        return False
    found = spec.key.version_of(row)
    return spec.key.version is None or (None if found is None else show_value(found)) == version


def _that_have(spec: SourceSpec, parts: Iterable[Part], is_meant: IsMeant, most: int) -> list[Path]:
    """The first files with such a row, up to `most` of them; none if there is too much to read."""
    files = [part for part in parts if isinstance(part, Arrived) and part.withdrawn is None]
    try:
        if sum(part.read_from.stat().st_size for part in files) > LOOKED_THROUGH_MAX_BYTES:
            return []
        return [*islice((part.file for part in files if _has_one(spec, part, is_meant)), most)]
    except (UserError, OSError):
        return []  # a file has gone since, for example: the error then names none


def _has_one(spec: SourceSpec, part: Arrived, is_meant: IsMeant) -> bool:
    changes = read_changes(part.described(spec), part.read_from, part.weight, pass_over)
    return any(is_meant(found, weight) for found, weight in changes)
