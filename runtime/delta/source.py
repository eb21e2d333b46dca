"""A table of Delta Lake as a source: its versions are the offsets, and its files are read as those of a directory.

The first batch is the table as it is. After that, each version is the files that it adds, whose rows have weight 1, and
those that it removes, with weight −1. Removed files must still exist when they are read: they do until the table is
vacuumed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.runtime.delta.log import (
    LogFile,
    PartitionValues,
    changed_files,
    has_a_vector,
    must_be_read,
    must_have_no_mapping,
    place_of_file,
    read_version,
    version_file,
)
from mrql.runtime.delta.opened import opened, translated
from mrql.runtime.delta.partition_paths import normal_text, read_as, written
from mrql.runtime.sources.formats.change_feed import CHANGE_FEED
from mrql.runtime.sources.formats.columnar import foreign_fields
from mrql.runtime.sources.formats.foreign_types import Fields, ForeignAtom
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
    from deltalake import DeltaTable


LogEntry: TypeAlias = tuple[int, int, int]


class DeltaSource:
    """A table in a directory."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self.path = Path(spec.path)
        self.seen: tuple[Offset, LogEntry | None] | None = None
        """The offset of the newest version that was found, and the state of its log file."""

    # --- what it is ---------------------------------------------------------------------------

    def row_type(self) -> Type:
        with located(self.spec):
            return row_of(self.path, _columns(self._opened(self.spec.version)))

    def newest(self) -> int:
        with located(self.spec):
            return self._opened().version()

    def _opened(self, version: int | None = None) -> DeltaTable:
        """The table at a version, after checking that it can be read here, and has the columns that are asked for.

        Raises: UserError.
        """
        table = opened(self.path, version)
        protocol = table.protocol()
        must_be_read(self.path, protocol.min_reader_version, protocol.reader_features or ())
        must_have_no_mapping(self.path, table.metadata().configuration)
        must_have_columns(self.spec, _columns(table), f"at version {table.version()}")
        return table

    # --- versions -----------------------------------------------------------------------------

    def latest(self, start: Offset, most: int | None) -> Offset:
        if start is not None and self._is_unchanged(start):
            return start
        with located(self.spec):
            table = self._opened()
            last = table.version()
            now = {"table": str(table.metadata().id), "version": last}
            self.seen = now, self._log_entry(last)
            if start is None:
                return now
            self._must_go_on(start, now)
            return now if most is None else {**now, "version": self._some(start["version"], last, most)}

    def is_at(self, offset: Offset, end: Offset) -> bool:
        return offset is not None and bool(offset["version"] >= end["version"])

    def _is_unchanged(self, start: Offset) -> bool:
        """Whether the version that was read is still the newest one, found out without opening the table, which reads
        all that it consists of."""
        if self.seen is None or self.seen[0] != start or version_file(self.path, start["version"] + 1).exists():
            return False
        found = self._log_entry(start["version"])
        return found is not None and found == self.seen[1]

    def _log_entry(self, version: int) -> LogEntry | None:
        """The state of the log file of a version, which tells it from another one in its place."""
        try:
            status = version_file(self.path, version).stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _must_go_on(self, start: Offset, now: Offset) -> None:
        """Raises: UserError where the table is not the one that was read, or has gone back to an older version."""
        must_be_the_table(self.path, start, now)
        if now["version"] < start["version"]:
            message = f"{self.path} is at version {now['version']}, and version {start['version']} was read"
            raise UserError(message, hint=f"put the versions back, or {FROM_NOW_ON}")

    def _some(self, version: int, last: int, most: int) -> int:
        """The version to read up to: the versions have at most `most` files together, unless there is just one."""
        files, first = 0, version
        while version < last:
            found = read_version(self.path, version + 1)
            files += len(found.feed or found.actions)
            if files > most and version > first:
                break
            version += 1
        return version

    def changes(self, start: Offset, end: Offset) -> Sequence[ChangedFile]:
        if start is None:
            return self.files(end["version"])
        first, last = start["version"] + 1, end["version"]
        with located(self.spec):
            changed = changed_files(read_version(self.path, number) for number in range(first, last + 1))
            if counts_twice(changed):
                changed = self._difference(start["version"], last)
            if any(file.values is None for file, _ in changed):
                changed = self._with_values(changed, start["version"])
            return self._placed(changed, f"version {last}" if first == last else f"versions {first} to {last}")

    def _difference(self, start: int, end: int) -> list[tuple[LogFile, int]]:
        """The files that only one of two versions has, with their weights."""
        before, after = ({file.path: file for file in self._files_at(version)} for version in (start, end))
        return difference(before, after)

    def _with_values(self, changed: Iterable[tuple[LogFile, int]], version: int) -> list[tuple[LogFile, int]]:
        """The same files with their partition values: a version need not give those of a file that it removes, but the
        table at the `version` before does."""
        known = {file.path: file for file in self._files_at(version)}
        return [(known.get(file.path, file), weight) for file, weight in changed]

    def files(self, version: int | None) -> Sequence[ChangedFile]:
        with located(self.spec):
            found = [(file, 1) for file in self._files_at(version)]
            return self._placed(found, "the table" if version is None else f"version {version}")

    def _files_at(self, version: int | None) -> list[LogFile]:
        """The files of the table at a version."""
        table = self._opened(version)
        with translated(self.path):
            vectors = pa.table(table.deletion_vectors())
            actions = pa.table(table.get_add_actions())
        if vectors.num_rows:
            raise has_a_vector(self.path, str(vectors.column(0)[0]))
        return [_log_file(row) for row in actions.to_pylist()]

    # --- files --------------------------------------------------------------------------------

    def _placed(self, changed: Iterable[tuple[LogFile, int]], what: str) -> list[ChangedFile]:
        changed = [*changed]
        types = self._column_types() if any(file.values for file, _ in changed) else {}
        return [self._place(file, weight, types, what) for file, weight in changed]

    def _place(self, file: LogFile, weight: int, types: Mapping[str, str], what: str) -> ChangedFile:
        """Raises: UserError where the file is gone."""
        path = place_of_file(self.path, file.path)
        kept = f"was it vacuumed? {FROM_NOW_ON}; delta.deletedFileRetentionDuration says how long such files stay"
        must_be_there(path, self.path, what, kept)
        values = {name: normal_text(text, types.get(name, "")) for name, text in (file.values or {}).items()}
        return ChangedFile(path, weight, read_as(path, self.path, values), CHANGE_FEED if file.feed else None)

    def _column_types(self) -> Mapping[str, str]:
        """The names in the log of the types of columns without parts."""
        schema = json.loads(opened(self.path).schema().to_json())
        return {field["name"]: field["type"] for field in schema["fields"] if isinstance(field["type"], str)}


def _log_file(row: Mapping[str, Any]) -> LogFile:
    values: PartitionValues = {name: written(value) for name, value in (row.get("partition") or {}).items()}
    return LogFile(row["path"], values, row["size_bytes"])


def _columns(table: DeltaTable) -> Fields:
    """The columns of a table. A partition column of bytes has no type: its values are texts in the log, which each
    writer writes in another way."""
    in_paths = {*table.metadata().partition_columns}
    found = foreign_fields(_arrow_schema(table))
    return Fields(
        tuple(
            (name, ForeignAtom("bytes in a path") if name in in_paths and str(t) == str(ty.BYTES) else t)
            for name, t in found.fields
        )
    )


def _arrow_schema(table: DeltaTable) -> Any:
    return pa.schema(table.schema().to_arrow())
