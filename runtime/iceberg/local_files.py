"""Files of this machine, as `pyiceberg` opens them.

What it would open them with depends on the properties of the table, which may name a module to import or a service to
ask, and takes some paths for addresses: here a name is that of a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import attrs

from mrql.algebra.errors import UserError
from mrql.runtime.sources.versioned_tables import local_place


@attrs.frozen
class LocalFiles:
    """The files of a table: what of a `pyiceberg.io.FileIO` is asked for where it is only read."""

    table: Path

    def new_input(self, location: str) -> LocalFile:
        return LocalFile(place_of_file(self.table, location))


@attrs.frozen
class LocalFile:
    """A file: what of a `pyiceberg.io.InputFile` is asked for."""

    place: Path

    def open(self, seekable: bool = True) -> BinaryIO:
        return self.place.open("rb")


def place_of_file(table: Path, path: str) -> Path:
    """Where a file of a table is: what it is called is written as it is, with nothing for `%`.

    Raises: UserError where it is no file of this machine.
    """
    place = local_place(table, path)
    if place is None and not path.startswith("/"):
        raise UserError(f"{table} has the file {path}, and it is not said in which directory that is")
    return Path(place or path)
