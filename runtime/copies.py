"""Copies of the files that a stream has read: what the rows of one that has changed or gone were."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import attrs

from mrql.runtime.durable import Files


@attrs.frozen
class Copies:
    """A directory with a copy of each file that is part of the answer, as it was when it was read."""

    directory: Path
    files: Files = attrs.Factory(Files)

    def place(self, file: Path, size: int, modified: int) -> Path:
        """Where the copy of a file is, or will be; each state of a file has a place of its own."""
        known = hashlib.sha256(os.fsencode(file.absolute()) + f"\0{size}\0{modified}".encode()).hexdigest()[:20]
        return self.directory / known / file.name

    def keep(self, file: Path, size: int, modified: int) -> None:
        """Copies a file; the copy is on the disk when this returns."""
        place = self.place(file, size, modified)
        if place.exists():
            return
        self.files.make_directory(place.parent)
        aside = place.with_name(f".{place.name}")
        self.files.copy(file, aside)
        self.files.sync(aside)
        self.files.rename(aside, place)
        self.files.sync(place.parent)
        self.files.sync(self.directory)

    def drop(self, places: Iterable[Path]) -> None:
        """Removes copies."""
        for place in places:
            self.files.remove(place.parent)

    def drop_all_but(self, places: Iterable[Path]) -> None:
        """Removes what is not needed: copies that were made for a batch that was not committed."""
        needed = {place.parent for place in places}
        for found in self.directory.glob("*"):
            if found not in needed:
                self.files.remove(found)
