"""The sources that a view follows beside streaming DataFrames: tables with versions, and logs of tables."""

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
"""The default for the approximate number of changes of a log in a batch, as for `mrql stream --max-rows`."""

CALLED = {"delta": "mrql.delta_table", "iceberg": "mrql.iceberg_table", "postgresql_cdc": "mrql.postgresql_cdc"}
"""The functions that make a source for a view to follow, by connector."""


@attrs.frozen
class FollowedSource:
    """A table with versions, or the log of a table, for `View.follow`; `compile` takes the type of a stream from it.
    The first batch has the rows that are in the table then, each later one what has changed since."""

    connector: str
    """`delta`, `iceberg` or `postgresql_cdc`."""
    place: str = attrs.field(repr=without_passwords)
    """The directory of the table, or the address of the database and the table."""
    most: int | None = None
    """The approximate number of files, or of changes of a log, in a batch; None without a limit."""

    @property
    def is_log(self) -> bool:
        """Whether its rows are read from the log of a database, and not from files."""
        return CONNECTORS[self.connector].files is None

    def spec(self, name: str, row: Type = ty.UNIT, checkpoint: Path | None = None) -> SourceSpec:
        """The specification of a stream that reads it, for the given name and type of the rows.

        Raises: UserError if the directory does not exist.
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
        """The type of its rows, without the columns whose types the language does not have.

        Raises: UserError if there is no such table; EngineError if it cannot be reached, or the package that reads it
            is not installed.
        """
        spec = self.spec(self.connector)
        return found_row_type(spec) if self.is_log else open_table(spec).row_type()

    def is_offset(self, offset: object) -> bool:
        """Whether a value can be an offset of a source of this kind."""
        return change_log.is_offset(offset) if self.is_log else versioned_tables.is_offset(offset)


def delta_table(path: str | os.PathLike[str], *, max_files: int | None = None) -> FollowedSource:
    """A table of Delta Lake in a directory, for a view to follow its versions: `view.follow(S=mrql.delta_table("t"))`.

    With `max_files`, a batch has as many versions as have about that many files, and at least one.

    Raises: UserError if an argument is invalid.
    """
    return FollowedSource("delta", str(directory_of(path, "a table")), must_be_most("max_files", max_files))


def iceberg_table(path: str | os.PathLike[str], *, max_files: int | None = None) -> FollowedSource:
    """A table of Apache Iceberg in a directory, for a view to follow its snapshots.

    With `max_files`, a batch has as many snapshots as have about that many files, and at least one.

    Raises: UserError if an argument is invalid.
    """
    return FollowedSource("iceberg", str(directory_of(path, "a table")), must_be_most("max_files", max_files))


def postgresql_cdc(address: str, *, max_rows: int = LOG_MAX_ROWS) -> FollowedSource:
    """The changes of a PostgreSQL table, from the server's log: `mrql.postgresql_cdc("postgresql://host/db?table=t")`.

    A batch has as many transactions as have about `max_rows` changes, and at least one.

    Raises: UserError if an argument is invalid.
    """
    if not isinstance(address, str):
        raise UserError(f"an address is a text, not {kind_of(address)}", hint="postgresql://host/db?table=orders")
    return FollowedSource("postgresql_cdc", address, must_be_most("max_rows", max_rows))


def table_directory(path: str | os.PathLike[str]) -> Path:
    """The directory of a table.

    Raises: UserError if it does not exist.
    """
    directory = directory_of(path, "a table")
    if not directory.is_dir():
        hint = "its directory, as warehouse/db/orders; a name in a catalog is not looked up"
        raise UserError(f"there is no directory {path} with a table in it", hint=hint)
    return directory


def must_be_most(name: str, given: object) -> int | None:
    """The number of files or rows in a batch; None if none is given.

    Raises: UserError if it is not a positive integer.
    """
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
        raise UserError(f"{name} is a number of {name.removeprefix('max_')}, 1 or more, not {given!r}")
    return given
