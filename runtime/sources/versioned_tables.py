"""The parts shared by all tables whose log says, for each version, which files their rows lie in (`VersionedTable`).

Their offset is `{"table": …, "version": …}`: an id that tells the table from another one in its place, and the version
up to which it was read.
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
    """Adds the place of the source in the query to an error."""
    try:
        yield
    except UserError as error:
        error.span = error.span or spec.span
        raise


def is_offset(offset: object) -> bool:
    """Whether a value is the offset of such a table: its id and a version."""
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

    Raises: UserError where no columns are left.
    """
    row = own_type(found)
    if not isinstance(row, ty.RecordType) or not row.fields:
        raise UserError(f"{path} has no column of a type that the language has, but {found}")
    return row


def must_have_columns(spec: SourceSpec, found: Fields, at: str) -> None:
    """Checks the columns of a version (`at`) against those that are asked for, or that were found at first.

    Raises: UserError where a column is not there (any more), or its type does not widen to the one expected.
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
    """The files that only one of two versions has, compared by path, with their weights.

    *Equation*: the rows of a table are those of its files, which are never changed. So this is exact whatever has
    happened in between; it includes rows that were only rewritten.
    """
    come = [(file, 1) for path, file in after.items() if path not in before]
    return [*come, *((file, -1) for path, file in before.items() if path not in after)]


def counts_twice(changed: Iterable[tuple[Named, int]]) -> bool:
    """Whether a file counts more than once in the changes of some versions. This happens if a compaction removed it,
    which is left out, and it was added again since: then the two versions are compared instead."""
    return any(abs(weight) > 1 for _, weight in changed)


def local_place(table: Path, path: str) -> str | None:
    """The path in a URI with the scheme `file`, by which a log names a file, as it is written there; None where it is
    named by a path.

    Raises: UserError where the URI has another scheme: the file is not on this machine.

    >>> local_place(Path("/t"), "file:///t/a%20b"), local_place(Path("/t"), "x=1:2/a")
    ('/t/a%20b', None)
    """
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    if _URI.match(path):
        raise UserError(f"{table} has the file {path}, which is not on this machine")
    return None


def must_be_there(file: Path, table: Path, what: str, kept: str) -> None:
    """Raises: UserError where a file is gone that is needed to read a part of the table, `what`. The hint `kept` says
    how long such files stay."""
    if not file.is_file():
        message = f"{file} is gone, and {what} of {table} cannot be read without it"
        raise UserError(message, hint=kept)
