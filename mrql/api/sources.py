"""What a view follows beside streaming DataFrames: tables with versions, and the log of a table."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import ADAPTER, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.showable import without_passwords
from mrql.algebra.types import Type
from mrql.api.arguments import directory_of, kind_of
from mrql.runtime.postgresql import change_log
from mrql.runtime.sources import versioned_tables
from mrql.runtime.sources.source import CONNECTORS, found_row_type, open_table

LOG_MAX_ROWS = 100_000
"""About so many changes of a log are in a batch, unless something else is said: as with `mrql stream --max-rows`."""

CALLED = {"delta": "mrql.delta_table", "iceberg": "mrql.iceberg_table", "postgresql_cdc": "mrql.postgresql_cdc"}
"""By connector, what makes a source of it that a view follows."""


@attrs.frozen
class FollowedSource:
    """A table with versions, or the log of a table, which `View.follow` takes, and of whose rows `compile` takes the
    type. The first batch is the table as it is, and those after it are what has changed since."""

    connector: str
    """`delta`, `iceberg` or `postgresql_cdc`."""
    place: str = attrs.field(repr=without_passwords)
    """The directory of the table, or the address."""
    most: int | None = None
    """About so many files, or changes of a log, are in a batch."""

    @property
    def is_log(self) -> bool:
        """Whether it is read from a log, and not from files."""
        return CONNECTORS[self.connector].files is None

    def spec(self, name: str, row: Type = ty.UNIT, checkpoint: Path | None = None) -> SourceSpec:
        """It as the source of a stream with rows of a type.

        Raises: UserError where the directory is not there.
        """
        format = CONNECTORS[self.connector].files
        if format is None:
            return SourceSpec(
                name,
                True,
                ADAPTER,
                self.place,
                row,
                tagged=True,
                adapter=self.connector,
                is_log=True,
                checkpoint=checkpoint,
            )
        directory = table_directory(self.place)
        return SourceSpec(
            name, True, format, str(directory), row, missing_columns=True, adapter=self.connector, is_log=True
        )

    def row_type(self) -> Type:
        """The type of its rows, without the columns of types that the language does not have.

        Raises: UserError where there is no such table; EngineError where it is not reached, or without what reads it.
        """
        spec = self.spec(self.connector)
        return found_row_type(spec) if self.is_log else open_table(spec).row_type()

    def is_offset(self, offset: object) -> bool:
        """Whether a batch of such a source may have had an offset."""
        return change_log.is_offset(offset) if self.is_log else versioned_tables.is_offset(offset)


def delta_table(path: str | os.PathLike[str], *, max_files: int | None = None) -> FollowedSource:
    """A table of Delta Lake in a directory, for a view to follow its versions: `view.follow(S=mrql.delta_table("t"))`.

    With `max_files` a batch has as many versions as have about so many files, and one at least.

    Raises: UserError where an argument is none of its kind.
    """
    return FollowedSource("delta", str(directory_of(path, "a table")), must_be_most("max_files", max_files))


def iceberg_table(path: str | os.PathLike[str], *, max_files: int | None = None) -> FollowedSource:
    """A table of Apache Iceberg in a directory, for a view to follow its snapshots.

    With `max_files` a batch has as many snapshots as have about so many files, and one at least.

    Raises: UserError where an argument is none of its kind.
    """
    return FollowedSource("iceberg", str(directory_of(path, "a table")), must_be_most("max_files", max_files))


def postgresql_cdc(address: str, *, max_rows: int = LOG_MAX_ROWS) -> FollowedSource:
    """The changes of a table of PostgreSQL, by the server's log: `mrql.postgresql_cdc("postgresql://host/db?table=t")`.

    A batch has some transactions with about `max_rows` changes, and one at least.

    Raises: UserError where an argument is none of its kind.
    """
    if not isinstance(address, str):
        raise UserError(f"an address is a text, not {kind_of(address)}", hint="postgresql://host/db?table=orders")
    return FollowedSource("postgresql_cdc", address, must_be_most("max_rows", max_rows))


def table_directory(path: str | os.PathLike[str]) -> Path:
    """The directory of a table.

    Raises: UserError where it is not there.
    """
    directory = directory_of(path, "a table")
    if not directory.is_dir():
        hint = "its directory, as warehouse/db/orders; a name in a catalog is not looked up"
        raise UserError(f"there is no directory {path} with a table in it", hint=hint)
    return directory


def must_be_most(name: str, given: object) -> int | None:
    """So many files or rows are in a batch, if that is said.

    Raises: UserError where it is no number of them.
    """
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
        raise UserError(f"{name} is a number of {name.removeprefix('max_')}, 1 or more, not {given!r}")
    return given
