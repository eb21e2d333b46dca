"""Copies of the files that a stream has read, which hold the rows of files that have changed or gone since."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import attrs

from mrql.algebra.errors import UserError
from mrql.runtime.files.digests import checksum
from mrql.runtime.files.durable import DurableFiles

DIGEST = ".sha256"
"""The name of the file with the digest of a copy, in the directory of that copy."""


@attrs.frozen
class Copies:
    """A directory with a copy of each file that is part of the answer, as it was when it was read."""

    directory: Path
    files: DurableFiles = attrs.Factory(DurableFiles)

    @property
    def is_empty(self) -> bool:
        """Whether there are no copies."""
        return not any(self.directory.glob("[!.]*"))

    def place(self, file: Path, size: int, modified: int, inside: Sequence[str] = ()) -> Path:
        """The path of the copy of a file, whether it is there yet or not; each state of a file has its own path.

        The partitions that the file lies `inside` are in that path, too: their names are part of its rows.
        """
        state = os.fsencode(file.absolute()) + f"\0{size}\0{modified}".encode()
        state += b"".join(b"\0" + os.fsencode(directory) for directory in inside)
        known = hashlib.sha256(state).hexdigest()[:20]
        return Path(self.directory, known, *inside, file.name)

    def _home(self, place: Path) -> Path:
        """The directory that holds a copy and its digest."""
        return self.directory / place.relative_to(self.directory).parts[0]

    def whole(self, place: Path) -> Path:
        """The path of a copy, after checking its digest.

        Raises: UserError where it does not have the digest of what was copied.
        """
        noted = self._home(place) / DIGEST
        known = noted.read_bytes() if noted.exists() else b""
        if checksum(place).encode() != known:
            hint = "put back a copy of both; or start with a new checkpoint, from all data again"
            raise UserError(f"{place} is damaged: it has not the SHA-256 that is in {noted}", hint=hint)
        return place

    def faults(self) -> Iterator[str]:
        """What is wrong with the existing copies, one message each."""
        for kept in sorted(self.directory.glob("[!.]*")):
            files = [file for file in kept.rglob("*") if file.is_file()]
            places = [file for file in files if not file.name.startswith(".")]
            if not places and [file.name for file in files] == [DIGEST]:  # otherwise copying was cut off
                yield f"the copy of a file is gone from {kept}"
            for place in places:
                try:
                    self.whole(place)
                except UserError as error:
                    yield error.message

    def keep(self, file: Path, place: Path) -> None:
        """Copies a file to its place; the copy is on the disk when this returns."""
        if place.exists():
            return
        self.files.make_directory(place.parent)
        aside = place.with_name(f".{place.name}.copying")
        self.files.copy(file, aside)
        self.files.sync(aside)
        noted = self._home(place) / DIGEST
        self.files.write(noted, checksum(aside).encode())
        self.files.sync(noted)
        self.files.rename(aside, place)
        # The entries of the digest and of each partition are in the directories in between.
        for made in (place.parent, *place.parent.parents):
            self.files.sync(made)
            if made == self.directory:
                break

    def drop(self, places: Iterable[Path]) -> None:
        """Removes copies."""
        for place in places:
            home = self._home(place)
            if home.exists():
                self.files.drop(home, home.with_name(f".{home.name}"))

    def drop_all_but(self, places: Iterable[Path]) -> None:
        """Removes all other copies: they were made for a batch that was not committed."""
        needed = {self._home(place) for place in places}
        for found in self.directory.glob("*"):
            if found not in needed:
                self.files.remove(found)
