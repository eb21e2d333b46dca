"""Stream directories: which files are new, and whether those that were read are still what they were.

The offset of a directory is the set of files that were read, each with its size and modification time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from mrql.algebra.errors import MissingRow, UserError
from mrql.algebra.files import list_files
from mrql.algebra.sources import SourceSpec


@attrs.frozen
class Seen:
    """What a file looked like when it was read."""

    size: int
    modified: int

    @staticmethod
    def of(file: Path) -> Seen:
        status = file.stat()
        return Seen(status.st_size, status.st_mtime_ns)


@attrs.frozen
class Arrived:
    """A file of a batch, and the weight of its rows: −1 in a directory of deletions.

    `seen` is what it looked like when it was found, before any of it was read.
    """

    file: Path
    weight: int = 1
    seen: Seen | None = None


@attrs.define
class Directory:
    """The files of one directory of a stream, and which of them have been read."""

    spec: SourceSpec
    weight: int = 1
    seen: dict[Path, Seen] = attrs.Factory(dict)
    """By their absolute paths."""
    waiting: int = 0
    """How many files were there when it was last looked at, and have not been read since."""

    def latest(self) -> list[Path]:
        """The files that have not been read yet.

        Raises: UserError when a file that was read has changed or is gone: its rows are part of the answer.
        """
        present = list_files(self.spec)
        for file, before in self.seen.items():
            must_be(file, before, self.spec)
        new = [file for file in present if file.absolute() not in self.seen]
        self.waiting = len(new)
        return new

    def commit(self, arrived: Sequence[Arrived]) -> None:
        """Notes the files of a batch as read, those that are of this directory."""
        for part in arrived:
            if part.weight == self.weight:
                self.seen[part.file.absolute()] = part.seen or Seen.of(part.file)
                self.waiting -= 1


def must_be(file: Path, before: Seen, spec: SourceSpec) -> None:
    """A file that was read has to stay what it was.

    Raises: UserError, naming the file, when it has changed or is gone.
    """
    try:
        now = Seen.of(file)
    except OSError:
        raise UserError(f"{file} is gone, and its rows are part of the answer", spec.span) from None
    if now != before:
        raise UserError(f"{file} has changed since it was read", spec.span, "write new rows to a new file")


Batch = Mapping[str, Sequence[Arrived]]
"""The files of a batch, by stream."""


def watch(specs: Iterable[SourceSpec]) -> list[Directory]:
    """The directories of some streams."""
    return [Directory(part, weight) for spec in specs for part, weight in spec.directories]


def next_batch(directories: Sequence[Directory], max_files: int | None) -> dict[str, list[Arrived]]:
    """The new files of all streams, at most `max_files` of them, the oldest first; of equal age, insertions first."""
    found = [(d, file, Seen.of(file)) for d in directories for file in d.latest()]
    new = [(seen.modified, -d.weight, file, d.spec.name, seen) for d, file, seen in found]
    batch: dict[str, list[Arrived]] = {}
    for _, sign, file, stream, seen in sorted(new, key=lambda one: one[:4])[:max_files]:
        batch.setdefault(stream, []).append(Arrived(file, -sign, seen))
    return batch


@contextmanager
def placed(specs: Mapping[str, SourceSpec]) -> Iterator[None]:
    """Gives an error about a deleted row the place of its stream in the query."""
    try:
        yield
    except MissingRow as error:
        error.span = error.span or specs[error.stream].span
        raise
