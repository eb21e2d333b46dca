"""The snapshots of a table of Iceberg: which files each has, and which it adds and removes.

A snapshot is a list of manifests, and a manifest a list of files, each with the snapshot that has added or removed it.

Source: the Iceberg table spec, "Snapshots" and "Manifests", https://iceberg.apache.org/spec/
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import attrs

from mrql.algebra.errors import UserError
from mrql.runtime.iceberg.local_files import LocalFiles, place_of_file
from mrql.runtime.iceberg.metadata import translated
from mrql.runtime.sources.formats.foreign_types import twice

if TYPE_CHECKING:
    from pyiceberg.io import FileIO, InputFile
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

NO_SNAPSHOT = 0
"""Stands for the id of the current snapshot in a table that has no snapshot yet."""


@attrs.frozen
class DataFile:
    """A file of rows, as a manifest lists it."""

    path: str
    format: str
    spec: int
    """The id of the partition spec of the table that it was written with."""


@attrs.frozen
class SnapshotChanges:
    """The number of files that a snapshot adds and removes, and whether it has files of which some rows are deleted."""

    count: int
    has_deletes: bool


def chain(table: TableMetadata, start: int, end: int) -> list[Snapshot] | None:
    """The snapshots after one up to another, each the parent of the next; None if they are not connected: the table was
    rolled back or replaced, or some in between were expired."""
    found: list[Snapshot] = []
    snapshot = table.snapshot_by_id(end)
    while snapshot is not None and snapshot.snapshot_id != start:
        found.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return None if snapshot is None else found[::-1]


@attrs.frozen
class Snapshots:
    """Reads the manifests of a table."""

    path: Path

    def files(self, snapshot: Snapshot) -> list[DataFile]:
        """The files that a snapshot has.

        Raises: UserError where some of their rows are deleted, a file is listed twice, or a manifest cannot be read.
        """
        manifests = self._manifests(snapshot)
        for manifest in manifests:
            if _is_of_deletes(manifest):
                for entry in self._entries(manifest, live=True):
                    raise self._has_deletes(entry, snapshot)
        rows = [manifest for manifest in manifests if not _is_of_deletes(manifest)]
        files = [_data_file(entry) for manifest in rows for entry in self._entries(manifest, live=True)]
        if wrong := twice(file.path for file in files):
            message = f"{self.path} has the file {wrong} twice (snapshot {snapshot.snapshot_id})"
            raise UserError(message, hint="its rows would count twice: delete them, and add the file once")
        return files

    def changed(self, snapshot: Snapshot) -> Iterator[tuple[DataFile, int]]:
        """The files that a snapshot adds and removes, with their weights; none if it only replaces files without
        changing the rows."""
        from pyiceberg.manifest import ManifestEntryStatus

        weights = {ManifestEntryStatus.ADDED: 1, ManifestEntryStatus.DELETED: -1}
        for manifest in self._own(snapshot):
            for entry in self._entries(manifest, live=False):
                if entry.snapshot_id == snapshot.snapshot_id and entry.status in weights:
                    yield _data_file(entry), weights[entry.status]

    def summary(self, snapshot: Snapshot) -> SnapshotChanges:
        """The changes of a snapshot, as far as its list of manifests tells."""
        own = self._own(snapshot)
        count = sum((m.added_files_count or 0) + (m.deleted_files_count or 0) for m in own)
        deletes = (m for m in self._manifests(snapshot) if _is_of_deletes(m))
        return SnapshotChanges(count, any(m.has_added_files() or m.has_existing_files() for m in deletes))

    def _own(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """The manifests in which a snapshot lists the data files that it adds and removes, if that changes rows."""
        from pyiceberg.table.snapshots import Operation

        if snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE:
            return ()
        manifests = (m for m in self._manifests(snapshot) if not _is_of_deletes(m))
        return [m for m in manifests if m.added_snapshot_id in (snapshot.snapshot_id, None)]

    def _manifests(self, snapshot: Snapshot) -> list[ManifestFile]:
        from pyiceberg.manifest import read_manifest_list

        what = f"snapshot {snapshot.snapshot_id} of {self.path} cannot be read"
        self._must_be_there(snapshot.manifest_list, what)
        with translated(what):
            return [*read_manifest_list(cast("InputFile", LocalFiles(self.path).new_input(snapshot.manifest_list)))]

    def _entries(self, manifest: ManifestFile, *, live: bool) -> list[ManifestEntry]:
        what = f"the manifest {manifest.manifest_path} of {self.path} cannot be read"
        self._must_be_there(manifest.manifest_path, what)
        with translated(what):
            return manifest.fetch_manifest_entry(cast("FileIO", LocalFiles(self.path)), discard_deleted=live)

    def _must_be_there(self, path: str, what: str) -> None:
        place = place_of_file(self.path, path)
        if not place.is_file():
            raise UserError(f"{what}: {place} is gone", hint="was it expired?")

    def _has_deletes(self, entry: ManifestEntry, snapshot: Snapshot) -> UserError:
        """The error for a snapshot in which rows of files are deleted."""
        from pyiceberg.manifest import DataFileContent, FileFormat

        file = entry.data_file
        kind = "position deletes"
        if file.content == DataFileContent.EQUALITY_DELETES:
            kind = "equality deletes"
        elif file.file_format == FileFormat.PUFFIN:
            kind = "a deletion vector"
        message = f"rows of {self.path} are deleted by {kind}, which are not read here: {file.file_path}"
        hint = (
            "`CALL … rewrite_data_files` with the options delete-file-threshold 1 and remove-dangling-deletes true "
            "writes such files anew, and the same command goes on; with write.delete.mode, write.update.mode and "
            "write.merge.mode on copy-on-write there come no more"
        )
        return UserError(f"{message} (snapshot {snapshot.snapshot_id})", hint=hint)


def _is_of_deletes(manifest: ManifestFile) -> bool:
    from pyiceberg.manifest import ManifestContent

    return manifest.content == ManifestContent.DELETES


def _data_file(entry: ManifestEntry) -> DataFile:
    file = entry.data_file
    return DataFile(file.file_path, file.file_format.value, file.spec_id)
