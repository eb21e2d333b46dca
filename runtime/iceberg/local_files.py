"""Files of this machine, as `pyiceberg` opens them.

What it would take by itself depends on the properties of the table, which may name a module to import or a service to
ask, and takes some paths for addresses: here a name is that of a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

from mrql.algebra.errors import UserError
from mrql.runtime.sources.versioned_tables import local_place


class LocalFiles(FileIO):
    """The files of a table, none of which is written."""

    def __init__(self, table: Path) -> None:
        super().__init__()
        self.table = table

    def new_input(self, location: str) -> InputFile:
        return LocalFile(location, place_of_file(self.table, location))

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError


class LocalFile(InputFile):
    """A file."""

    def __init__(self, location: str, place: Path) -> None:
        super().__init__(location)
        self.place = place

    def __len__(self) -> int:
        return self.place.stat().st_size

    def exists(self) -> bool:
        return self.place.is_file()

    def open(self, seekable: bool = True) -> InputStream:
        return cast(InputStream, self.place.open("rb"))


def place_of_file(table: Path, path: str) -> Path:
    """Where a file of a table is: what it is called is written as it is, with nothing for `%`.

    Raises: UserError where it is no file of this machine.
    """
    place = local_place(table, path)
    if place is None and not path.startswith("/"):
        raise UserError(f"{table} has the file {path}, and it is not said in which directory that is")
    return Path(place or path)
