"""The parts of a batch: files, as they were when they were found, or portions that an adapter has read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import attrs

from mrql.algebra.catalog import Format, SourceSpec
from mrql.algebra.errors import UserError
from mrql.runtime.files.quarantine import Malformed
from mrql.runtime.sources.files import count_rows, list_files
from mrql.runtime.sources.source import ChangedFile, Portion, open_table


@attrs.frozen
class Seen:
    """The state of a file at one time; two states are equal if size and modification time are."""

    size: int
    modified: int
    identity: tuple[int, int] | None = attrs.field(default=None, eq=False)
    """Its inode and the time of its last status change, if this process has seen the file itself."""

    @staticmethod
    def of(file: Path) -> Seen:
        status = file.stat()
        return Seen(status.st_size, status.st_mtime_ns, (status.st_ino, status.st_ctime_ns))

    def is_still(self, file: Path) -> bool:
        """Whether a file is unchanged and, with a known `identity`, not replaced by one of equal size and time."""
        try:
            now = Seen.of(file)
        except OSError:
            return False
        return now == self and self.identity in (None, now.identity)


@attrs.frozen
class Arrived:
    """A file of a batch, and the weight of its rows: −1 in a directory of deletions.

    `seen` is its state when it was found, before any of it was read.
    """

    file: Path
    weight: int = 1
    seen: Seen | None = None
    withdrawn: Path | None = None
    """The file whose rows are withdrawn; `file` is then its copy, and `weight` the opposite of its weight."""
    copy: Path | None = None
    """The path read in its place: a copy, if files may change, or a link in directories of its partition values."""
    format: Format | None = None
    """Its format, if not that of its source; such a file is `tagged`."""

    def described(self, spec: SourceSpec) -> SourceSpec:
        """The specification that this file of a source is read by."""
        return spec if self.format is None else attrs.evolve(spec, format=self.format, tagged=True)

    @property
    def read_from(self) -> Path:
        return self.copy or self.file

    def called(self, row: Malformed) -> Malformed:
        """A malformed row, reported with `file` if it was found in `copy`."""
        return attrs.evolve(row, file=self.file) if row.file == self.copy else row

    @contextmanager
    def named(self) -> Iterator[None]:
        """Makes an error about `copy` name `file` instead."""
        try:
            yield
        except UserError as error:
            if self.copy is not None:
                error.message = error.message.replace(str(self.copy), str(self.file))
            raise


Part: TypeAlias = Arrived | Portion
"""A part of a batch: a file, or a portion that an adapter has read."""
Batch = Mapping[str, Sequence[Part]]
"""The new parts, by stream."""


def must_be(file: Path, before: Seen, spec: SourceSpec) -> None:
    """Checks that a file that was read is unchanged.

    Raises: UserError, naming the file, when it has changed or is gone.
    """
    try:
        now = Seen.of(file)
    except OSError:
        hint = "put it back as it was; with `--rewrites keep-removed` its rows stay, without it"
        raise UserError(f"{file} is gone, and its rows are part of the answer", spec.span, hint) from None
    if now != before:
        hint = "write new rows to a new file; a stream begun with `--rewrites apply` follows files that change"
        raise UserError(f"{file} has changed since it was read", spec.span, hint)


def of_changed(changed: Iterable[ChangedFile]) -> list[Arrived]:
    return [Arrived(one.file, one.weight, Seen.of(one.file), copy=one.read_as, format=one.format) for one in changed]


def count_of(part: Part, spec: SourceSpec) -> int:
    """The number of rows in a part of a batch."""
    if not isinstance(part, Arrived):
        return part.count
    with part.named():
        return count_rows(part.described(spec), part.read_from)


def files_of(parts: Iterable[Part]) -> list[Arrived]:
    """The files among the parts of a batch."""
    return [part for part in parts if isinstance(part, Arrived)]


def look_again(parts: Iterable[Part], spec: SourceSpec) -> None:
    """Checks that the files of a batch did not change while they were read.

    Raises: UserError, naming the first file that has changed or is gone in the meantime.
    """
    for part in files_of(parts):
        if part.copy is None and part.withdrawn is None and part.seen is not None and not part.seen.is_still(part.file):
            what = "has changed" if part.file.exists() else "has gone"
            hint = "write under a name that begins with `.` or `_`, then rename; the same command goes on"
            raise UserError(f"{part.file} {what} while it was read; nothing of the batch counts", spec.span, hint)


def files_of_all_directories(spec: SourceSpec) -> list[Arrived]:
    """All files of a source, each with the weight of its rows."""
    return [Arrived(file, weight) for part, weight in spec.directories for file in list_files(part)]


def static_files(spec: SourceSpec) -> list[Arrived]:
    """The files of a static table, with their states before they are read."""
    if spec.versioned:
        return of_changed(open_table(spec).files(spec.version))
    return [Arrived(file, 1, Seen.of(file)) for file in list_files(spec)]
