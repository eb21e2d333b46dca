"""What is the same of all tables whose log says, for each version, which files their rows lie in (`VersionedTable`).

An offset of one is `{"table": …, "version": …}`: what tells the table from another one that takes its place, and the
version up to which it was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.runtime.sources.formats.foreign_types import Fields, misfit, own_type
from mrql.runtime.sources.source import Offset

FROM_NOW_ON = "start with a new --checkpoint, from the table as it is now"

Named = TypeVar("Named")

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


@contextmanager
def located(spec: SourceSpec) -> Iterator[None]:
    """Gives an error the place of the source in the query."""
    try:
        yield
    except UserError as error:
        error.span = error.span or spec.span
        raise


def is_offset(offset: object) -> bool:
    """Whether it is the offset of such a table: its id with a version."""
    if not isinstance(offset, Mapping) or offset.keys() != {"table", "version"}:
        return False
    return isinstance(offset["table"], str) and type(offset["version"]) is int


def must_be_the_table(path: Path, start: Offset, now: Offset) -> None:
    """Raises: UserError where the table is not the one that was read."""
    if start["table"] != now["table"]:
        message = f"{path} is another table than the one that was read: its id is {now['table']}"
        raise UserError(f"{message}, and was {start['table']}", hint=FROM_NOW_ON)


# --- columns ------------------------------------------------------------------------------------


def row_of(path: Path, found: Fields) -> ty.RecordType:
    """The type of the rows, without the columns of types that the language does not have.

    Raises: UserError where no other are there.
    """
    row = own_type(found)
    if not isinstance(row, ty.RecordType) or not row.fields:
        raise UserError(f"{path} has no column of a type that the language has, but {found}")
    return row


def must_have_columns(spec: SourceSpec, found: Fields, at: str) -> None:
    """What a version (`at`) has is held against the columns that are asked for, or that were there at first.

    Raises: UserError where a column is not there (any more), or is of a type that does not widen to that.
    """
    if not isinstance(spec.row, ty.RecordType):
        return
    types = dict(found.fields)
    for name, wanted in spec.row.fields:
        if name not in types:
            raise UserError(f"{spec.path} has no column `{name}` {at}; its columns: {', '.join(found.names)}")
        if (wrong := misfit(types[name], wanted, name)) is not None:
            hint = f"{FROM_NOW_ON}, or say with type(…) what is to come" if spec.found else None
            raise UserError(f"the {wrong} of {spec.path} {wrong.wrong} {at}", hint=hint)


# --- files --------------------------------------------------------------------------------------


def difference(before: Mapping[str, Named], after: Mapping[str, Named]) -> list[tuple[Named, int]]:
    """The files, by their paths, that are there at one version and not at another, with their weights.

    *Equation*: the rows of a table are those of its files, which are never changed. So this is exact whatever has
    happened in between; it has rows in it that were only written anew.
    """
    come = [(file, 1) for path, file in after.items() if path not in before]
    return [*come, *((file, -1) for path, file in before.items() if path not in after)]


def counts_twice(changed: Iterable[tuple[Named, int]]) -> bool:
    """Whether the changes of some versions have a file more than once. One that a compaction has removed, which is left
    out, and that has come again since, would be: then the two versions are compared."""
    return any(abs(weight) > 1 for _, weight in changed)


def local_place(table: Path, path: str) -> str | None:
    """Where a file is that a log names by a URI with the scheme `file`, as it is written there; None where it is named
    by a path.

    Raises: UserError where it is no file of this machine.

    >>> local_place(Path("/t"), "file:///t/a%20b"), local_place(Path("/t"), "x=1:2/a")
    ('/t/a%20b', None)
    """
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    if _URI.match(path):
        raise UserError(f"{table} has the file {path}, which is not on this machine")
    return None


def must_be_there(file: Path, table: Path, what: str, kept: str) -> None:
    """Raises: UserError where a file is gone without which a part of the table, `what`, cannot be read. What it is
    `kept` by says how long such files stay."""
    if not file.is_file():
        message = f"{file} is gone, and {what} of {table} cannot be read without it"
        raise UserError(message, hint=kept)
