"""The log of a table of Delta Lake: what each version adds and removes, by the protocol.

A version is a file of JSON with one action per line. `deltalake` reads the table at a version, from a checkpoint of the
log if there is one; it does not say what a version has changed, so versions are read here.

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
"""The values of the partition columns of a file, which are not in the file, as texts."""

READ = frozenset({"timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"})
"""The features that a table may require of a reader, and that are supported here."""
WHERE_USED = frozenset({"deletionVectors", "columnMapping"})
"""The features that a table may require, but that are refused where they are used."""


@attrs.frozen
class LogFile:
    """A file of rows, as the log names it. `feed` marks one of the change data feed, whose rows say themselves whether
    they were inserted or deleted."""

    path: str
    values: PartitionValues | None
    size: int
    feed: bool = False


@attrs.frozen
class Action:
    """A file that a version adds or removes, and whether that changes the rows, or only where they lie."""

    file: LogFile
    weight: int
    changes_rows: bool


@attrs.frozen
class Metadata:
    """The metadata of a table from a version on."""

    id: str
    partitioned_by: tuple[str, ...]
    schema: str
    """In JSON, as Spark writes types."""
    configuration: Mapping[str, str]


@attrs.frozen
class TableVersion:
    """The changes of a table in one version."""

    number: int
    actions: tuple[Action, ...]
    feed: tuple[LogFile, ...]
    metadata: Metadata | None
    applications: frozenset[str] = frozenset()
    """The applications that have recorded their progress in it (`txn`)."""

    @property
    def changes_rows(self) -> bool:
        """Whether it inserts or deletes rows, and does not only change where they lie."""
        return any(action.changes_rows for action in self.actions)


def version_file(table: Path, number: int) -> Path:
    """The log file of a version."""
    return table / DELTA_LOG / f"{number:020d}.json"


def read_version(table: Path, number: int) -> TableVersion:
    """The changes of a version, read from the log.

    Raises: UserError where it is not in the log any more, or needs something that is not supported here.
    """
    file = version_file(table, number)
    try:
        lines = file.read_text(encoding="utf-8").split("\n")  # a text in a line may have other ends of lines
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
    """Raises: UserError where a table requires more of its readers than is supported here."""
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
    """The path of a file, which the log has as a URI, mostly relative to the table.

    Raises: UserError where the file is not on this machine.

    >>> place_of_file(Path("/t"), "d=a%2520b/part-0.parquet").as_posix()
    '/t/d=a%20b/part-0.parquet'
    """
    place = local_place(table, path)
    return table / unquote(path) if place is None else Path(unquote(place))


# --- several versions ---------------------------------------------------------------------------


def changed_files(versions: Iterable[TableVersion]) -> list[tuple[LogFile, int]]:
    """The files whose rows together are the changes of some versions, with their weights.

    *Equation*: the rows of a table are those of its files, so a version changes them by the files that it adds minus
    those that it removes. A file that is added and removed again cancels. If a version only rewrites rows, as a
    compaction does, the sum is zero, and its files are left out (`dataChange`). If it has a change data feed, that has
    the same sum, in fewer rows.
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
