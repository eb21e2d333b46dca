"""A table of Iceberg as a source: its snapshots are the offsets, and its files are read as those of a directory.

The first batch is the table as it is. After that, each snapshot is the files that it adds, whose rows have weight 1,
and those that it removes, with weight −1. Removed files must still exist when they are read: they do until the earlier
snapshots are expired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.runtime.iceberg.columns import foreign_columns, other_names, parts_of_table
from mrql.runtime.iceberg.file_columns import FileColumns
from mrql.runtime.iceberg.local_files import place_of_file
from mrql.runtime.iceberg.metadata import FoundMetadata, MetadataFiles
from mrql.runtime.iceberg.snapshots import NO_SNAPSHOT, DataFile, Snapshots, chain
from mrql.runtime.sources.source import ChangedFile, Offset
from mrql.runtime.sources.versioned_tables import (
    FROM_NOW_ON,
    counts_twice,
    difference,
    located,
    must_be_the_table,
    must_be_there,
    must_have_columns,
    row_of,
)

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import NestedField


class IcebergSource:
    """A table in a directory."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self.path = Path(spec.path)
        self.metadata = MetadataFiles(self.path)
        self.snapshots = Snapshots(self.path)

    # --- what it is ---------------------------------------------------------------------------

    def row_type(self) -> Type:
        with located(self.spec):
            table = self.metadata.newest().table
            return row_of(self.path, foreign_columns(self._columns(table, self._version(table, self.spec.version))))

    def newest(self) -> int:
        with located(self.spec):
            return _current(self.metadata.newest().table)

    def _version(self, table: TableMetadata, version: int | None) -> int:
        """The id of a snapshot, after checking that it is there; that of the current one if none is given.

        Raises: UserError.
        """
        current = _current(table)
        if version is not None and version != NO_SNAPSHOT and table.snapshot_by_id(version) is None:
            newest = f"its newest one is {current}" if current != NO_SNAPSHOT else "it has none at all"
            raise UserError(f"the Iceberg table {self.path} has no snapshot {version} (any more): {newest}")
        return current if version is None else version

    def _columns(self, table: TableMetadata, version: int) -> tuple[NestedField, ...]:
        """The columns at a snapshot; at the current one, those of the current schema, which may be newer than it."""
        return _schema_of(table, None if version == _current(table) else version)

    def _must_have_columns(self, table: TableMetadata, version: int) -> tuple[NestedField, ...]:
        """The columns as they are read at a snapshot. Those that were added since have missing values there: a static
        table stays at its snapshot, and the type of its rows may be of a later one.

        Raises: UserError where one that is asked for is not there.
        """
        then = self._columns(table, version)
        names, ids = {field.name for field in then}, {field.field_id for field in then}
        later = (f for f in _schema_of(table, None) if f.name not in names and f.field_id not in ids)
        fields = (*then, *later)
        must_have_columns(self.spec, foreign_columns(fields), f"at snapshot {version}")
        return fields

    # --- snapshots ----------------------------------------------------------------------------

    def latest(self, start: Offset, most: int | None) -> Offset:
        with located(self.spec):
            found = self.metadata.newest()
            now = {"table": found.id, "version": _current(found.table)}
            if start is None:
                self._must_have_columns(found.table, _current(found.table))
                return now
            must_be_the_table(self.path, start, now)
            if start["version"] == now["version"]:
                return start
            self._must_go_on(found.table, start["version"])
            return now if most is None else {**now, "version": self._some(found.table, start["version"], most)}

    def is_at(self, offset: Offset, end: Offset) -> bool:
        """Snapshots have no order but that of their parents. An end that was rolled back since is never reached."""
        if offset is None:
            return False
        with located(self.spec):
            return chain(self.metadata.newest().table, end["version"], offset["version"]) is not None

    def _must_go_on(self, table: TableMetadata, start: int) -> None:
        """Raises: UserError where the snapshot that was read is not known any more, or columns have changed since."""
        if start == NO_SNAPSHOT:
            return
        if table.snapshot_by_id(start) is None:
            message = f"snapshot {start} of {self.path} was expired, and those after it are not known without it"
            raise UserError(message, hint=f"{FROM_NOW_ON}; history.expire.max-snapshot-age-ms says how long they stay")
        now, then = parts_of_table(_schema_of(table, None)), parts_of_table(_schema_of(table, start))
        if (said := other_names(self.spec.row, now, then)) is not None:
            raise UserError(
                f"the columns of {self.path} are others than those that were read: {said}", hint=FROM_NOW_ON
            )

    def _some(self, table: TableMetadata, start: int, most: int) -> int:
        """The snapshot to read up to: the snapshots have about `most` files together, unless there is just one. One
        with deleted rows is avoided, as a later one may have rewritten the files."""
        end = _current(table)
        steps = chain(table, start, end)
        files, last = 0, None
        for snapshot in steps or ():
            found = self.snapshots.summary(snapshot)
            files += found.count
            if files > most and last is not None:
                break
            if not found.has_deletes:
                last = snapshot.snapshot_id
        return end if last is None else last

    def changes(self, start: Offset, end: Offset) -> Sequence[ChangedFile]:
        if start is None:
            return self.files(end["version"])
        first, last = start["version"], end["version"]
        with located(self.spec):
            found = self.metadata.newest()
            must_be_the_table(self.path, start, {"table": found.id})
            self._must_go_on(found.table, first)
            steps = chain(found.table, first, self._version(found.table, last))
            changed = None if steps is None else self._sum(steps)
            if changed is None:
                changed = difference(self._files_at(found.table, first), self._files_at(found.table, last))
            return self._placed(found, last, changed, f"what has come since snapshot {first}")

    def _sum(self, steps: Sequence[Snapshot]) -> list[tuple[DataFile, int]] | None:
        """The files whose rows together are the changes of some snapshots, with their weights; None if only the
        difference of the first and the last snapshot gives them.

        *Equation*: the rows of a table are those of its files, so a snapshot changes them by the files that it adds
        minus those that it removes. One that only rewrites rows changes nothing. This does not hold while rows of files
        are deleted, but it does again after a snapshot that has rewritten those files.
        """
        files: dict[str, tuple[DataFile, int]] = {}
        for snapshot in steps:
            if self.snapshots.summary(snapshot).has_deletes:
                return None
            for file, weight in self.snapshots.changed(snapshot):
                files[file.path] = file, files.get(file.path, (file, 0))[1] + weight
        changed = [(file, weight) for file, weight in files.values() if weight]
        return None if counts_twice(changed) else changed

    def files(self, version: int | None) -> Sequence[ChangedFile]:
        with located(self.spec):
            found = self.metadata.newest()
            at = self._version(found.table, version)
            files = [(file, 1) for file in self._files_at(found.table, at).values()]
            return self._placed(found, at, files, "the table" if version is None else f"snapshot {at}")

    def _files_at(self, table: TableMetadata, version: int) -> Mapping[str, DataFile]:
        """The files at a snapshot, by their paths."""
        snapshot = table.snapshot_by_id(version)
        return {} if snapshot is None else {file.path: file for file in self.snapshots.files(snapshot)}

    # --- files --------------------------------------------------------------------------------

    def _placed(
        self, found: FoundMetadata, version: int, changed: Iterable[tuple[DataFile, int]], what: str
    ) -> list[ChangedFile]:
        """Raises: UserError where a file is gone, or does not have the columns as the table has them."""
        fields = self._must_have_columns(found.table, version)
        columns = FileColumns(self.spec, found.table, fields)
        return [ChangedFile(columns.checked(file, self._place(file, what)), weight) for file, weight in changed]

    def _place(self, file: DataFile, what: str) -> Path:
        if file.format.upper() != "PARQUET":
            message = f"{self.path} has the file {file.path}, which is of the format {file.format}, and not of Parquet"
            raise UserError(message, hint="write.format.default says of which format files are written")
        path = place_of_file(self.path, file.path)
        kept = f"was its snapshot expired? {FROM_NOW_ON}; history.expire.max-snapshot-age-ms says how long they stay"
        must_be_there(path, self.path, what, kept)
        return path


def _current(table: TableMetadata) -> int:
    return NO_SNAPSHOT if table.current_snapshot_id is None else table.current_snapshot_id


def _schema_of(table: TableMetadata, version: int | None) -> tuple[NestedField, ...]:
    """The columns that a snapshot was written with; without a snapshot, those of the current schema."""
    snapshot = None if version is None else table.snapshot_by_id(version)
    id = None if snapshot is None else snapshot.schema_id
    known = next((schema for schema in table.schemas if schema.schema_id == id), None)
    return (table.schema() if known is None else known).fields
