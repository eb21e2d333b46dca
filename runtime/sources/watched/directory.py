"""A stream that is the files of a directory: which of them are new, and which are not what they were.

The offset is the set of files that were read, each with its size and modification time; whether those are still what
they were is looked at in turns.
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
"""Of so many files that were read it is seen at a look whether they are still what they were; of more in turns."""


@attrs.define
class Directory:
    """The files of one directory of a stream, and which of them have been read.

    A stream that has run for weeks has read many files, and at each look hardly any are new: what is done for each file
    that was read is a look-up of its name.
    """

    spec: SourceSpec
    weight: int = 1
    seen: dict[str, Seen] = attrs.Factory(dict)
    """What was read, by absolute paths."""
    waiting: int = 0
    """How many files were new or changed when it was last looked at, and have not been read since."""
    copies: Copies | None = None
    """Copies of what was read, if files may change."""
    said: bool = False
    """Whether it was said that only what is not looked at is there."""
    ahead: set[str] | None = None
    """What was new or changed when it was first looked at, and has not been read since; None before that look."""
    changed: dict[str, Arrived] = attrs.Factory(dict)
    """The files that were read and are not what they were, with what takes their rows back."""
    ages: dict[str, int] = attrs.Factory(dict)
    """When the files were last changed that are new."""
    may_go: bool = False
    """Whether files may be removed when they were read: their rows stay."""
    has_lost: bool = False
    """Whether a file was taken out of what was read since the last commit: it has only grown otherwise."""
    checked: int = 0
    """Up to where it was seen at the last look whether files are what they were."""

    def of_type(self, spec: SourceSpec) -> Directory:
        """The same for rows of another type."""
        (found,) = (part for part, weight in spec.directories if weight == self.weight)
        return attrs.evolve(self, spec=found)

    def look(self) -> dict[str, int]:
        """The files that have not been read yet, and with copies those too that have changed or are gone, by their
        absolute paths; and when each was last changed.

        Raises: UserError when a file that was read has changed or is gone: its rows are part of the answer.
        """
        present = self._present()
        if not self.said and not present:
            # Once: files may still come, but rows may also lie where nobody looks.
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
        """What a batch reads of a file that was found: before its rows, if there are some, those that it had. Nothing
        where it changes just now: it is looked at again later.

        Raises: UserError where its old rows are not there any more.
        """
        back, part = self.changed.get(file), self._kept(self._as_named(file))
        return [one for one in (back, part) if one is not None]

    def _as_named(self, file: str) -> Path:
        """A file as the source names it, by its absolute path."""
        path = Path(file)
        return path if os.path.isabs(self.spec.path) else path.relative_to(Path.cwd())

    def _present(self) -> list[str]:
        """The files that there are."""
        found, here = list[str](), os.getcwd()
        for listed in listing(self.spec):
            home = here if listed.directory == os.curdir else os.path.join(here, listed.directory)
            inside = os.path.join(home, "")
            found += [inside + name for name in listed.names]
        return found

    def _age(self, file: str) -> int | None:
        """When a file was last changed; None where it is gone. It is asked once of one that waits for its batch."""
        known = self.ages.get(file)
        try:
            return os.stat(file).st_mtime_ns if known is None else known
        except FileNotFoundError:
            return None

    def _not_as_read(self, present: Set[str]) -> list[str]:
        """The files that were read and are not what they were, of those whose turn it is; at the first look, of all."""
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
        """What takes the rows back of a file that is not what it was; nothing where it is that again.

        Raises: UserError where there is no copy of it.
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
        """A new file; None where it is gone, or changes just now, and is looked at again later."""
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
        """Notes the files of a batch as read, those that are of this directory."""
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
        """Has what is there at the next look be all that a run reads before it ends."""
        self.ahead = None

    @property
    def is_at_end(self) -> bool:
        """Whether all of that was read."""
        return self.ahead is not None and not self.ahead

    def _is_mine(self, part: Arrived) -> bool:
        return part.weight == (self.weight if part.withdrawn is None else -self.weight)

    def so_far(self) -> Iterator[Arrived]:
        """What was read, in copies, where there are some.

        Raises: UserError where a file has changed or is gone.
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
        """The copies of what was read."""
        if self.copies is None:
            return []
        return [self._copy(self.copies, Path(file), seen) for file, seen in self.seen.items()]

    def _copy(self, copies: Copies, file: Path, seen: Seen) -> Path:
        """Where the copy of a file is."""
        return copies.place(file, seen.size, seen.modified, partition_directories(self.spec, file))


def _key(file: Path) -> str:
    return str(file.absolute())


def say_what_is_passed_over(spec: SourceSpec) -> bool:
    """Says of a directory without files that there is something in it that nobody looks at, if that is so."""
    other = passed_over(spec)
    if other is not None:
        logger.warning("%s has no file that is read, but %s", spec.path, other)
    return other is not None


def _age_of(part: Arrived) -> int:
    assert part.seen is not None
    return part.seen.modified
