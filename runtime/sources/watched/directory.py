"""A stream over the files of a directory: which of them are new, and which have changed since they were read.

The offset is the set of files that were read, each with its size and modification time; whether those have changed is
checked in turns.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence, Set
from itertools import islice
from pathlib import Path

import attrs

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.runtime.sources.arrived import Arrived, Part, Seen, must_be
from mrql.runtime.sources.file_archive import Copies
from mrql.runtime.sources.files import listing, passed_over
from mrql.runtime.sources.partitions import partition_directories

logger = logging.getLogger(__name__)


CHECKED_MAX_FILES = 10_000
"""The number of files that were read which are checked for changes at each look; if there are more, in turns."""


@attrs.define
class Directory:
    """The files of one directory of a stream, and which of them have been read.

    A stream that runs for weeks reads many files, and at each look hardly any are new: for each file that was read, a
    look does no more than look up its name.
    """

    spec: SourceSpec
    weight: int = 1
    seen: dict[str, Seen] = attrs.Factory(dict)
    """The files that were read, by absolute path."""
    waiting: int = 0
    """The number of files that were new or changed at the last look, and have not been read since."""
    copies: Copies | None = None
    """Copies of the files that were read, if files may change."""
    said: bool = False
    """Whether it was logged that the directory has only entries that are skipped."""
    ahead: set[str] | None = None
    """The files that were new or changed at the first look, and have not been read since; None before that look."""
    changed: dict[str, Arrived] = attrs.Factory(dict)
    """The files that have changed or gone since they were read, with the parts that withdraw their rows."""
    ages: dict[str, int] = attrs.Factory(dict)
    """The modification times of the new files, in nanoseconds."""
    may_go: bool = False
    """Whether files may be removed after they were read: their rows stay."""
    has_lost: bool = False
    """Whether a file was taken out of `seen` since the last commit: otherwise `seen` has only grown."""
    checked: int = 0
    """The position in `seen` up to which the last look checked files for changes."""

    def of_type(self, spec: SourceSpec) -> Directory:
        """The same directory for rows of another type."""
        (found,) = (part for part, weight in spec.directories if weight == self.weight)
        return attrs.evolve(self, spec=found)

    def look(self) -> dict[str, int]:
        """The files that have not been read yet and, with copies, those that have changed or are gone: their
        modification times by absolute path.

        Raises: UserError when a file that was read has changed or is gone, as its rows are part of the answer, and
            there is no intact copy of it.
        """
        present = self._present()
        if not self.said and not present:
            # Once: files may still come, but the rows may also be in entries that are skipped.
            self.said = say_what_is_passed_over(self.spec)
        others = self._not_as_read({*present})
        self.changed = {file: back for file in others if (back := self._back(file)) is not None}
        new = [file for file in present if file not in self.seen or file in self.changed]
        ages = {file: age for file in new if (age := self._age(file)) is not None}
        self.ages = {file: age for file, age in ages.items() if file not in self.changed}
        found = {file: _age_of(back) for file, back in self.changed.items()} | ages
        if self.ahead is None:
            self.ahead = {*found}
        self.waiting = len(found)
        return found

    def take(self, file: str) -> list[Arrived]:
        """The parts of a batch for a file that was found: the withdrawal of the rows that were read of it, if there are
        any, and then the file. The latter is left out if it is gone, or is changing right now: it is found again later.
        """
        back, part = self.changed.get(file), self._kept(self._as_named(file))
        return [one for one in (back, part) if one is not None]

    def _as_named(self, file: str) -> Path:
        """A file, given by its absolute path, as the source names it."""
        path = Path(file)
        return path if os.path.isabs(self.spec.path) else path.relative_to(Path.cwd())

    def _present(self) -> list[str]:
        """The absolute paths of the files that are there."""
        found, here = list[str](), os.getcwd()
        for listed in listing(self.spec):
            home = here if listed.directory == os.curdir else os.path.join(here, listed.directory)
            inside = os.path.join(home, "")
            found += [inside + name for name in listed.names]
        return found

    def _age(self, file: str) -> int | None:
        """The modification time of a file; None if it is gone. It is read once while the file waits for its batch."""
        known = self.ages.get(file)
        try:
            return os.stat(file).st_mtime_ns if known is None else known
        except FileNotFoundError:
            return None

    def _not_as_read(self, present: Set[str]) -> list[str]:
        """The files that have gone or changed since they were read; changes are looked for in those whose turn it is,
        at the first look in all."""
        gone = () if self.may_go else self.seen.keys() - present
        turn = [*self.seen] if self.ahead is None else self._next_turn()
        return [file for file in dict.fromkeys((*gone, *self.changed, *turn)) if self._is_other(file)]

    def _next_turn(self) -> list[str]:
        start = self.checked if self.checked < len(self.seen) else 0
        self.checked = start + CHECKED_MAX_FILES
        return [*islice(self.seen, start, self.checked)]

    def _is_other(self, file: str) -> bool:
        before = self.seen.get(file)
        try:
            now = os.stat(file)
        except OSError:
            return before is not None and not self.may_go
        return before is not None and (now.st_size, now.st_mtime_ns) != (before.size, before.modified)

    def _back(self, file: str) -> Arrived | None:
        """The part that withdraws the rows of a file that has changed; None if it is as it was after all.

        Raises: UserError where there is no intact copy of it.
        """
        known, before = self.changed.get(file), self.seen[file]
        if known is not None:
            return known
        path = Path(file)
        try:
            must_be(path, before, self.spec)
        except UserError as error:
            if self.copies is None:
                raise
            copy = self._copy(self.copies, path, before)
            if not copy.exists():
                hint = "copies are kept from the start with --rewrites apply; start with a new --checkpoint"
                raise UserError(f"{error.message}, and there is no copy of it", self.spec.span, hint) from None
            return Arrived(self.copies.whole(copy), -self.weight, before, path)
        return None

    def _kept(self, file: Path) -> Arrived | None:
        """A new file, copied if copies are kept; None if it is gone, or is changing right now and is found later."""
        copy: Path | None = None
        try:
            seen = Seen.of(file)
            if self.copies is not None:
                copy = self._copy(self.copies, file, seen)
                self.copies.keep(file, copy)
        except FileNotFoundError:
            return None
        if self.copies is not None and copy is not None and not seen.is_still(file):
            self.copies.drop([copy])
            return None
        return Arrived(file, self.weight, seen, copy=copy)

    def commit(self, arrived: Sequence[Part]) -> None:
        """Notes those files of a batch as read that are of this directory."""
        mine = [part for part in arrived if isinstance(part, Arrived) and self._is_mine(part)]
        for part in mine:
            if part.withdrawn is not None:
                del self.seen[str(part.withdrawn)]
                self.has_lost = True
                self.changed.pop(str(part.withdrawn), None)
            else:
                self.seen[_key(part.file)] = part.seen or Seen.of(part.file)
        read = {_key(part.withdrawn or part.file) for part in mine}
        self.waiting -= len(read)
        for file in read:
            self.ages.pop(file, None)
        if self.ahead is not None:
            self.ahead -= read

    def mark_end(self) -> None:
        """Makes the run end once it has read the files that are there at the next look."""
        self.ahead = None

    @property
    def is_at_end(self) -> bool:
        """Whether all of those were read."""
        return self.ahead is not None and not self.ahead

    def _is_mine(self, part: Arrived) -> bool:
        return part.weight == (self.weight if part.withdrawn is None else -self.weight)

    def so_far(self) -> Iterator[Arrived]:
        """The files that were read, as copies where there are any.

        Raises: UserError where a file without a copy has changed or is gone, or a copy is damaged.
        """
        for name, seen in self.seen.items():
            file, copy = Path(name), None
            if self.copies is not None:
                copy = self._copy(self.copies, file, seen)
            if self.copies is None or copy is None or not copy.exists():
                must_be(file, seen, self.spec)
                copy = None
            else:
                copy = self.copies.whole(copy)
            yield Arrived(file, self.weight, seen, copy=copy)

    def copied(self) -> list[Path]:
        """The paths of the copies of the files that were read."""
        if self.copies is None:
            return []
        return [self._copy(self.copies, Path(file), seen) for file, seen in self.seen.items()]

    def _copy(self, copies: Copies, file: Path, seen: Seen) -> Path:
        """The path of the copy of a file."""
        return copies.place(file, seen.size, seen.modified, partition_directories(self.spec, file))


def _key(file: Path) -> str:
    return str(file.absolute())


def say_what_is_passed_over(spec: SourceSpec) -> bool:
    """Logs a warning if a directory without files has an entry that is skipped; returns whether it has one."""
    other = passed_over(spec)
    if other is not None:
        logger.warning("%s has no file that is read, but %s", spec.path, other)
    return other is not None


def _age_of(part: Arrived) -> int:
    assert part.seen is not None
    return part.seen.modified
