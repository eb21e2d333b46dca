"""Which file takes away a row that is not there: an error says it, so that nobody has to look for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import MissingRow, UserError
from mrql.algebra.values.value_text import show_value
from mrql.runtime.files.quarantine import pass_over
from mrql.runtime.sources.directory import Arrived, Part, files_of_all_directories
from mrql.runtime.sources.files import read_changes

LOOKED_THROUGH_MAX_BYTES = 64_000_000
"""Files are read once more for it, in Python: in more than that nobody would wait for the name of one."""


@contextmanager
def naming_files(
    specs: Mapping[str, SourceSpec], read: Callable[[SourceSpec], Iterable[Part]] = files_of_all_directories
) -> Iterator[None]:
    """Gives the error about a row that is taken away, but is not there, the file that does so, among those that were
    read: all of a source, unless something else says which."""
    try:
        yield
    except MissingRow as error:
        spec = specs[error.stream]
        if error.hint is None and spec.lies_in_files:
            file = _that_deletes(spec, error.row, read(spec))
            error.hint = None if file is None else f"it is taken away in {file}"
        raise


def _that_deletes(spec: SourceSpec, row: str, parts: Iterable[Part]) -> Path | None:
    """The first file with a row less that is shown as the given one. None where there is none, or too much to read."""
    files = [part for part in parts if isinstance(part, Arrived) and part.withdrawn is None]
    try:
        if sum(part.read_from.stat().st_size for part in files) > LOOKED_THROUGH_MAX_BYTES:
            return None
        for part in files:
            changes = read_changes(part.described(spec), part.read_from, part.weight, pass_over)
            if any(weight < 0 and show_value(found) == row for found, weight in changes):
                return part.file
    except (UserError, OSError):
        pass  # the file has gone since, say: the error is said without it
    return None
