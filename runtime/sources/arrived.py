"""What has come of a stream that a batch reads: files, as they were when they were found, or what an adapter has."""

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
    """What a file looked like when it was read."""

    size: int
    modified: int
    identity: tuple[int, int] | None = attrs.field(default=None, eq=False)
    """Which file it is, and when anything of it has changed last: of the file as this process has seen it."""

    @staticmethod
    def of(file: Path) -> Seen:
        status = file.stat()
        return Seen(status.st_size, status.st_mtime_ns, (status.st_ino, status.st_ctime_ns))

    def is_still(self, file: Path) -> bool:
        """Whether a file is as it was: also where another of the same size and time has taken its place."""
        try:
            now = Seen.of(file)
        except OSError:
            return False
        return now == self and self.identity in (None, now.identity)


@attrs.frozen
class Arrived:
    """A file of a batch, and the weight of its rows: −1 in a directory of deletions.

    `seen` is what it looked like when it was found, before any of it was read.
    """

    file: Path
    weight: int = 1
    seen: Seen | None = None
    withdrawn: Path | None = None
    """The file whose rows are taken back, of which this is a copy."""
    copy: Path | None = None
    """What is read in its place, if files may change, or their paths do not say all."""
    format: Format | None = None
    """Its format, where it is another than that of its source, and tagged."""

    def described(self, spec: SourceSpec) -> SourceSpec:
        """How it is read, as a file of a source."""
        return spec if self.format is None else attrs.evolve(spec, format=self.format, tagged=True)

    @property
    def read_from(self) -> Path:
        return self.copy or self.file

    def called(self, row: Malformed) -> Malformed:
        """A malformed row of what is read as one of the file."""
        return attrs.evolve(row, file=self.file) if row.file == self.copy else row

    @contextmanager
    def named(self) -> Iterator[None]:
        """Has an error about what is read name the file."""
        try:
            yield
        except UserError as error:
            if self.copy is not None:
                error.message = error.message.replace(str(self.copy), str(self.file))
            raise


Part: TypeAlias = Arrived | Portion
"""What a batch has of a stream: a file, or what an adapter has read."""
Batch = Mapping[str, Sequence[Part]]
"""What is new, by stream."""


def must_be(file: Path, before: Seen, spec: SourceSpec) -> None:
    """A file that was read has to stay what it was.

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
    """How many rows a part of a batch has."""
    if not isinstance(part, Arrived):
        return part.count
    with part.named():
        return count_rows(part.described(spec), part.read_from)


def files_of(parts: Iterable[Part]) -> list[Arrived]:
    """The files of what has arrived."""
    return [part for part in parts if isinstance(part, Arrived)]


def look_again(parts: Iterable[Part], spec: SourceSpec) -> None:
    """What was read must be what was found.

    Raises: UserError, naming the first file that has changed or is gone in the meantime.
    """
    for part in files_of(parts):
        if part.copy is None and part.withdrawn is None and part.seen is not None and not part.seen.is_still(part.file):
            what = "has changed" if part.file.exists() else "has gone"
            hint = "write under a name that begins with `.` or `_`, then rename; the same command goes on"
            raise UserError(f"{part.file} {what} while it was read; nothing of the batch counts", spec.span, hint)


def files_of_all_directories(spec: SourceSpec) -> list[Arrived]:
    """All files that there are of a source, each with the weight of its rows."""
    return [Arrived(file, weight) for part, weight in spec.directories for file in list_files(part)]


def static_files(spec: SourceSpec) -> list[Arrived]:
    """The files of a static table as they are before they are read."""
    if spec.versioned:
        return of_changed(open_table(spec).files(spec.version))
    return [Arrived(file, 1, Seen.of(file)) for file in list_files(spec)]
