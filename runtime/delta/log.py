"""The log of a table of Delta Lake: what each version adds and removes, as the protocol has it.

A version is a file of JSON, an action a line. `deltalake` reads the table at a version, from a checkpoint of the log if
there is one; what a version has changed it does not say, so those are read here.

Source: the Delta transaction log protocol, https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import attrs

from mrql.algebra.errors import UserError
from mrql.runtime.sources.files import DELTA_LOG
from mrql.runtime.sources.versioned_tables import FROM_NOW_ON, local_place

PartitionValues: TypeAlias = Mapping[str, str | None]
"""The columns that are not in a file, as texts."""

READ = frozenset({"timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"})
"""What a table may ask of a reader that is done here."""
WHERE_USED = frozenset({"deletionVectors", "columnMapping"})
"""What a table may ask for, and is refused where it is made use of."""


@attrs.frozen
class LogFile:
    """A file of rows, as the log names it. `feed` tells one of the change data feed, whose rows say themselves whether
    they came or went."""

    path: str
    values: PartitionValues | None
    size: int
    feed: bool = False


@attrs.frozen
class Action:
    """A file that a version adds, or removes; whether that changes the rows, or only where they lie."""

    file: LogFile
    weight: int
    changes_rows: bool


@attrs.frozen
class Metadata:
    """What a table is from a version on."""

    id: str
    partitioned_by: tuple[str, ...]
    schema: str
    """In JSON, as Spark writes types."""
    configuration: Mapping[str, str]


@attrs.frozen
class TableVersion:
    """What a version of a table has changed."""

    number: int
    actions: tuple[Action, ...]
    feed: tuple[LogFile, ...]
    metadata: Metadata | None
    applications: frozenset[str] = frozenset()
    """Who has noted with it how far they are (`txn`)."""

    @property
    def changes_rows(self) -> bool:
        """Whether rows came or went, and not only where they lie."""
        return any(action.changes_rows for action in self.actions)


def version_file(table: Path, number: int) -> Path:
    """The file of a version."""
    return table / DELTA_LOG / f"{number:020d}.json"


def read_version(table: Path, number: int) -> TableVersion:
    """What a version has changed.

    Raises: UserError where it is not in the log any more, or is not read here.
    """
    file = version_file(table, number)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        found = [(kind, body) for line in lines if line.strip() for kind, body in json.loads(line).items()]
    except FileNotFoundError:
        message = f"version {number} of {table} was removed from its log before it was read"
        raise UserError(
            message, hint=f"{FROM_NOW_ON}; delta.logRetentionDuration says how long versions stay"
        ) from None
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{file} cannot be read: {error}") from None
    metadata = None
    for kind, body in found:
        if kind == "protocol":
            must_be_read(table, body.get("minReaderVersion", 1), body.get("readerFeatures") or ())
        elif kind == "metaData":
            metadata = _metadata(body)
            must_have_no_mapping(table, metadata.configuration)
    files = (_action(table, kind, body) for kind, body in found if kind in ("add", "remove"))
    feed = (_file(table, body, feed=True) for kind, body in found if kind == "cdc")
    applications = frozenset(body["appId"] for kind, body in found if kind == "txn")
    return TableVersion(number, tuple(files), tuple(feed), metadata, applications)


def must_be_read(table: Path, reader: int, features: Iterable[str]) -> None:
    """Raises: UserError where a table asks more of its readers than is done here."""
    unknown = sorted({*features} - READ - WHERE_USED)
    if reader > 3 or unknown:
        what = f"the feature {unknown[0]}" if unknown else f"version {reader} of the protocol"
        raise UserError(f"{table} needs {what}, which is not read here")


def must_have_no_mapping(table: Path, configuration: Mapping[str, str | None]) -> None:
    """Raises: UserError where the columns of the files have other names than those of the table."""
    mode = configuration.get("delta.columnMapping.mode") or "none"
    if mode != "none":
        hint = "copy it to a table without delta.columnMapping.mode"
        raise UserError(f"the columns of {table} are mapped (mode {mode}), which is not read here", hint=hint)


def has_a_vector(table: Path, path: str) -> UserError:
    """The error for a file of which some rows are deleted by a deletion vector."""
    hint = (
        "`REORG TABLE … APPLY (PURGE)` writes such files anew; without delta.enableDeletionVectors there come no more"
    )
    return UserError(f"rows of {path} in {table} are deleted by a deletion vector, which is not read here", hint=hint)


def _action(table: Path, kind: str, body: Mapping[str, Any]) -> Action:
    if body.get("deletionVector"):
        raise has_a_vector(table, body["path"])
    return Action(_file(table, body), 1 if kind == "add" else -1, bool(body.get("dataChange", True)))


def _file(table: Path, body: Mapping[str, Any], *, feed: bool = False) -> LogFile:
    values = body.get("partitionValues")
    return LogFile(body["path"], values, body.get("size") or 0, feed)


def _metadata(body: Mapping[str, Any]) -> Metadata:
    return Metadata(
        body["id"], tuple(body.get("partitionColumns") or ()), body["schemaString"], body.get("configuration") or {}
    )


def place_of_file(table: Path, path: str) -> Path:
    """Where a file is: the log has its path as a URI, mostly relative to the table.

    Raises: UserError where it is no file of this machine.

    >>> place_of_file(Path("/t"), "d=a%2520b/part-0.parquet").as_posix()
    '/t/d=a%20b/part-0.parquet'
    """
    place = local_place(table, path)
    return table / unquote(path) if place is None else Path(unquote(place))


# --- several versions ---------------------------------------------------------------------------


def changed_files(versions: Iterable[TableVersion]) -> list[tuple[LogFile, int]]:
    """Which files to read to know how some versions have changed the rows, with their weights.

    *Equation*: the rows of a table are those of its files, so a version changes them by the files that it adds minus
    those that it removes. What is added and removed again cancels as a file. Where a version only writes rows anew, as
    a compaction does, the sum is nothing, and its files are left out (`dataChange`). Where it has a change data feed,
    that has the same sum, in fewer rows.
    """
    versions = [*versions]
    files: dict[str, tuple[LogFile, int]] = {}
    for version in versions:
        for action in version.actions if not version.feed else ():
            if action.changes_rows:
                known, weight = files.get(action.file.path, (action.file, 0))
                files[action.file.path] = (action.file if known.values is None else known, weight + action.weight)
    changed = [(file, weight) for file, weight in files.values() if weight]
    return [*changed, *((file, 1) for version in versions for file in version.feed)]
