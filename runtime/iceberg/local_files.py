"""Files of this machine, as `pyiceberg` opens them.

By itself it would open them in a way that depends on the properties of the table, which may name a module to import or
a service to call, and that takes some paths for addresses. Here a name is always that of a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import attrs

from mrql.algebra.errors import UserError
from mrql.runtime.sources.versioned_tables import local_place


@attrs.frozen
class LocalFiles:
    """The files of a table: the part of a `pyiceberg.io.FileIO` that reading needs."""

    table: Path

    def new_input(self, location: str) -> LocalFile:
        return LocalFile(place_of_file(self.table, location))


@attrs.frozen
class LocalFile:
    """A file: the part of a `pyiceberg.io.InputFile` that reading needs."""

    place: Path

    def open(self, seekable: bool = True) -> BinaryIO:
        return self.place.open("rb")


def place_of_file(table: Path, path: str) -> Path:
    """The path of a file of a table: its name is taken as it is written, without `%` escapes.

    Raises: UserError where the file is not on this machine, or the path is relative.
    """
    place = local_place(table, path)
    if place is None and not path.startswith("/"):
        raise UserError(f"{table} has the file {path}, and it is not said in which directory that is")
    return Path(place or path)
