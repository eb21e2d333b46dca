"""What streams are read from: which files of directories are new, what the log of a table has, and what adapters have.

The offset of a directory is the set of files that were read, each with its size and modification time; whether those
are still what they were is looked at in turns. That of a table with a log is a version of it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence, Set
from heapq import heapify, heappop
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.runtime.sources.arrived import Arrived, Part, Seen, must_be, of_changed
from mrql.runtime.sources.file_archive import Copies
from mrql.runtime.sources.files import listing, passed_over
from mrql.runtime.sources.partitions import partition_directories
from mrql.runtime.sources.source import (
    Adapter,
    Bounded,
    Offset,
    Portion,
    VersionedTable,
    latest_of,
    open_adapter,
    open_table,
    portion,
)

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


@attrs.frozen
class FoundPortion:
    """What an adapter had for a batch, after an offset; nothing where there was nothing new."""

    start: Offset
    rows: Portion | None


@attrs.define
class Adapted:
    """A stream that an adapter reads, and up to where it was read."""

    spec: SourceSpec
    adapter: Adapter
    offset: Offset = None
    end: Any = None
    """How far it went when that was asked."""
    found: FoundPortion | None = None
    """What it had for the last batch that was put together."""
    is_again: bool = False
    """Whether that batch is put together once more: what a source does not give again is in no other place."""

    def of_type(self, spec: SourceSpec) -> Adapted:
        """The same: what an adapter reads has a type that is given."""
        return self.again(spec, self.offset)

    def again(self, spec: SourceSpec, offset: Offset) -> Adapted:
        """The same, once more from an offset on that a batch has begun at which was not committed."""
        return attrs.evolve(self, spec=spec, offset=offset, is_again=True)

    @property
    def known(self) -> FoundPortion | None:
        """What was found already of what comes next."""
        is_next = self.is_again and self.found is not None and self.found.start == self.offset
        return self.found if is_next else None

    @property
    def waiting(self) -> int:
        """No files: what waits is with whoever the adapter reads from."""
        return 0

    def upto(self, end: Offset) -> Portion | None:
        """What comes next, up to an offset; None where there is nothing new."""
        rows = None if end == self.offset else portion(self.adapter, self.offset, end)
        self.found, self.is_again = FoundPortion(self.offset, rows), False
        return rows

    def mark_end(self) -> None:
        """Has what is there now be all that a run reads before it ends, if the adapter knows how far that is.

        Raises: UserError, EngineError as `Bounded.end`.
        """
        self.end = self.adapter.end(self.offset) if isinstance(self.adapter, Bounded) else None

    @property
    def is_at_end(self) -> bool:
        """Whether it is known that all of that was read. Raises as `mark_end` does."""
        return isinstance(self.adapter, Bounded) and self.adapter.is_at(self.offset, self.end)

    def so_far(self) -> Portion:
        """All that was read.

        Raises: UserError where that cannot be read again.
        """
        if not self.adapter.replays:
            raise UserError(f"{self.spec.path} cannot be read again", self.spec.span)
        return portion(self.adapter, None, self.offset)

    def after(self, arrived: Sequence[Part]) -> Offset:
        """The offset after a batch that has so much of it."""
        last = arrived[-1] if arrived else None
        assert last is None or isinstance(last, Portion)
        return self.offset if last is None else last.end

    def commit(self, arrived: Sequence[Part]) -> None:
        """Notes what a batch has of it as read."""
        self.offset = self.after(arrived)


@attrs.define
class Versions:
    """A stream that is the versions of a table, and up to which one it was read. A version is in a batch as a whole."""

    spec: SourceSpec
    table: VersionedTable
    offset: Offset = None
    next_offset: Offset = None
    """The offset after the batch that was begun."""
    end: Any = None
    """The version that was the newest one when that was asked."""

    def of_type(self, spec: SourceSpec) -> Versions:
        """The same: the type of the rows is in the log."""
        return self

    @property
    def waiting(self) -> int:
        """The files are not counted."""
        return 0

    def next(self, most: int | None) -> list[Arrived]:
        """The files whose rows come or go next, of so many at most, if more than one version waits. What changes no row
        is passed over."""
        while (end := self.table.latest(self.offset, most)) != self.offset:
            if parts := of_changed(self.table.changes(self.offset, end)):
                self.next_offset = end
                return parts
            self.offset = end
        return []

    def mark_end(self) -> None:
        """Has the newest version be the last one that a run reads before it ends.

        Raises: UserError as `VersionedTable.latest`.
        """
        self.end = self.table.latest(self.offset, None)

    @property
    def is_at_end(self) -> bool:
        """Whether that was read. Raises as `mark_end` does."""
        return self.table.is_at(self.offset, self.end)

    def so_far(self) -> list[Arrived]:
        """The files of the version that was read last.

        Raises: UserError where one of them is gone.
        """
        return of_changed(self.table.changes(None, self.offset))

    def after(self, arrived: Sequence[Part]) -> Offset:
        """The offset after a batch that has so much of it."""
        return self.next_offset if arrived else self.offset

    def commit(self, arrived: Sequence[Part]) -> None:
        """Notes what a batch has of it as read."""
        self.offset = self.after(arrived)


Watched: TypeAlias = Directory | Adapted | Versions
"""What a stream is read from."""


def watch(specs: Iterable[SourceSpec], copies: Copies | None = None) -> list[Watched]:
    """What some streams are read from, from the beginning."""
    return [watched for spec in specs for watched in watched_of(spec, copies)]


def watched_of(spec: SourceSpec, copies: Copies | None = None) -> list[Watched]:
    """What a stream is read from: a directory, one of deletions with it, or an adapter."""
    if spec.versioned:
        return [Versions(spec, open_table(spec))]
    if spec.adapter is not None:
        return [Adapted(spec, open_adapter(spec))]
    return [Directory(part, weight, copies=copies) for part, weight in spec.directories]


def next_batch(watched: Sequence[Watched], max_files: int | None, max_rows: int | None = None) -> dict[str, list[Part]]:
    """What is new in all streams. Of files at most `max_files`, the oldest first; of equal age, insertions first. Of
    each table with a log versions of about `max_files` files, of each adapter about `max_rows` rows."""
    directories = [one for one in watched if isinstance(one, Directory)]
    batch: dict[str, list[Part]] = {}
    taken = 0
    for directory, file in _oldest_first(directories):
        if taken == max_files:
            break
        if parts := directory.take(file):
            batch.setdefault(directory.spec.name, []).extend(parts)
            taken += 1
    for name, new in _adapted([one for one in watched if isinstance(one, Adapted)], max_rows):
        batch.setdefault(name, []).append(new)
    for table in watched:
        if isinstance(table, Versions) and (files := table.next(max_files)):
            batch.setdefault(table.spec.name, []).extend(files)
    return batch


def _adapted(adapted: Sequence[Adapted], most: int | None) -> Iterator[tuple[str, Portion]]:
    """What is new in adapters; what was found for a batch that is put together once more is not asked for again."""
    known = {one.spec.name: found for one in adapted if (found := one.known) is not None}
    asked = [one for one in adapted if one.spec.name not in known]
    ends = latest_of([(one.adapter, one.offset) for one in asked], most)
    new = {one.spec.name: one.upto(end) for one, end in zip(asked, ends, strict=True)}
    for one in adapted:
        name = one.spec.name
        rows = known[name].rows if name in known else new[name]
        one.is_again = False
        if rows is not None:
            yield name, rows


def _oldest_first(directories: Sequence[Directory]) -> Iterator[tuple[Directory, str]]:
    """The files that are new in some directories, or have changed. There may be many more than a batch takes."""
    found = [
        (age, -directory.weight, file.split(os.sep), directory.spec.name, i)
        for i, directory in enumerate(directories)
        for file, age in directory.look().items()
    ]
    heapify(found)
    while found:
        _, _, parts, _, i = heappop(found)
        yield directories[i], os.sep.join(parts)


def _age_of(part: Arrived) -> int:
    assert part.seen is not None
    return part.seen.modified
