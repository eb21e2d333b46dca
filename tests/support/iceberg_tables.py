"""Tables of Iceberg with histories, as `pyiceberg` writes and reads them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue, In
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.typedef import Record as PartitionValues
from pyiceberg.types import DoubleType

from mrql.algebra.values.values import Bag
from tests.support.delta_tables import NESTED, TYPES, Shape, Step, bag_of

NAMES = ("p", "q_r", "Größe", "data")
"""Names that columns have in the files, too: those with other characters are written differently there."""
KINDS = tuple(kind for kind in TYPES if kind != "struct")
"""The types of columns, without the one that has a field name with other characters."""


@cache
def catalog(home: Path) -> Catalog:
    """A catalog of the tables in a directory, which is itself in memory."""
    found = SqlCatalog("c", uri="sqlite:///:memory:", warehouse=str(home))
    found.create_namespace("d")
    return found


def create(path: Path, schema: pa.Schema, properties: Mapping[str, str] | None = None) -> Table:
    """An empty table."""
    return catalog(path.parent).create_table(f"d.{path.name}", schema, str(path), properties=dict(properties or {}))


def table_at(path: Path) -> Table:
    """The current state of a table."""
    return catalog(path.parent).load_table(f"d.{path.name}")


def append(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Appends rows, in the columns that the table has."""
    table = table_at(path)
    table.append(as_arrow(table, rows))


def as_arrow(table: Table, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([*rows], table.schema().as_arrow())


def content(path: Path, version: int | None = None) -> Bag:
    """The rows of a table, as `pyiceberg` reads them; none before its first snapshot."""
    if version == 0:
        return Bag()
    return bag_of(table_at(path).scan(snapshot_id=version).to_arrow().to_pylist())


# --- histories ----------------------------------------------------------------------------------


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Columns of any types; by up to two of them the table is partitioned."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    columns = {name: draw(st.sampled_from(KINDS)) for name in names}
    atomic = [name for name, t in columns.items() if t not in NESTED]
    return Shape(columns, tuple(atomic[: draw(st.integers(0, 2))]), draw(st.booleans()))


KINDS_OF_STEPS = ("append", "delete", "overwrite", "partitions", "all", "column", "compact", "rollback", "nothing")


def create_shape(path: Path, shape: Shape) -> None:
    """Creates an empty table, which merges manifests if the shape has a `feed`."""
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    table = create(path, shape.schema, merging if shape.feed else {})
    with table.update_spec() as spec:
        for name in shape.partitioned:
            spec.add_identity(name)


def apply(path: Path, shape: Shape, step: Step) -> None:
    """Applies a step to the table."""
    with there_may_be_none():
        _apply(path, shape, step)


@contextmanager
def there_may_be_none() -> Iterator[None]:
    """A block in which a deletion may match no rows, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Delete operation did not match any records")
        yield


def delete(path: Path, condition: str) -> None:
    """Deletes the rows for which a condition is true."""
    with there_may_be_none():
        table_at(path).delete(condition)


def _apply(path: Path, shape: Shape, step: Step) -> None:
    table = table_at(path)
    rows = as_arrow(table, step.rows)
    among = In("id", {*step.ids})  # type: ignore[arg-type]
    match step.kind:
        case "append":
            table.append(rows)
        case "delete":
            table.delete(among)
        case "overwrite":
            table.overwrite(rows, among)
        case "all":
            table.overwrite(rows, AlwaysTrue())
        case "partitions" if shape.partitioned:
            table.dynamic_partition_overwrite(rows)
        case "column":
            if "more" not in table.schema().column_names:
                with table.update_schema() as schema:
                    schema.add_column("more", DoubleType())
            append(path, [{**row, "more": 1.5} for row in step.rows])
        case "compact":
            compact(table)
        case "rollback":
            ancestors = [entry.snapshot_id for entry in table.history()][:-1]
            known = table.current_snapshot()
            before = None if known is None else known.parent_snapshot_id
            if before in ancestors:
                table.manage_snapshots().rollback_to_snapshot(before).commit()
        case "nothing":
            with table.transaction() as transaction:
                transaction.set_properties(touched="true")


def compact(table: Table) -> None:
    """Rewrites the rows into new files, as `rewrite_data_files` of Spark does: `pyiceberg` cannot."""
    rows = table.scan().to_arrow()
    if not rows.num_rows:
        return
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as snapshot:
        for task in table.scan().plan_files():
            snapshot.delete_data_file(task.file)
        for file in _dataframe_to_data_files(table.metadata, rows, table.io):
            snapshot.append_data_file(file)
    edit(table_at(Path(table.metadata.location)), says_replace)


def says_replace(metadata: dict[str, Any]) -> None:
    """Marks the last snapshot as one that only rewrites rows."""
    metadata["snapshots"][-1]["summary"]["operation"] = "replace"


def edit(table: Table, change: Any) -> None:
    """Changes the newest file of metadata in place."""
    file = Path(table.metadata_location.removeprefix("file:"))
    metadata = json.loads(file.read_text(encoding="utf-8"))
    change(metadata)
    file.write_text(json.dumps(metadata), encoding="utf-8")


# --- what `pyiceberg` does not write -------------------------------------------------------------


def delete_rows(table: Table, file: str, positions: Sequence[int], **said: Any) -> None:
    """Adds a snapshot that deletes rows of a file by position; `said` overrides what is noted of its file."""
    place = Path(table.metadata.location, "data", f"deletes-{len(positions)}.parquet")
    pq.write_table(pa.table({"file_path": [file] * len(positions), "pos": [*positions]}), place)
    with patch.object(ManifestWriterV2, "content", lambda self: ManifestContent.DELETES):
        add_file(table, place, **{"content": DataFileContent.POSITION_DELETES, **said})


def add_file(table: Table, file: Path, **said: Any) -> None:
    """Adds a snapshot with one more file; `said` overrides what is noted of it."""
    known: dict[str, Any] = {
        "content": DataFileContent.DATA,
        "file_path": str(file),
        "file_format": FileFormat.PARQUET,
        "partition": PartitionValues(),
        "record_count": 1,
        "file_size_in_bytes": file.stat().st_size,
    }
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        snapshot.append_data_file(DataFile.from_args(**{**known, **said}))


def without_deletes(table: Table) -> None:
    """Removes the manifests of deleted rows from the last snapshot, as is right if the files were rewritten."""
    last = table.current_snapshot()
    assert last is not None
    kept = [manifest for manifest in last.manifests(table.io) if manifest.content == ManifestContent.DATA]
    to, parent, number = table.io.new_output(last.manifest_list), last.parent_snapshot_id, last.sequence_number
    with write_manifest_list(2, to, last.snapshot_id, parent, number, "deflate") as manifests:
        manifests.add_manifests(kept)
