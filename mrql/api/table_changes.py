"""The changes of a table of Delta Lake or Iceberg, as DataFrames for a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.api.arguments import session_of
from mrql.api.delta import Delta
from mrql.api.sources import FollowedSource, must_be_most, table_directory
from mrql.runtime.sources.files import table_in
from mrql.runtime.sources.formats.change_feed import CHANGE_FEED
from mrql.runtime.sources.source import ChangedFile, open_table
from mrql.runtime.sources.versioned_tables import is_offset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@attrs.frozen
class TableChanges:
    """Changes of a table, and the version that they lead to."""

    delta: Delta
    offset: Mapping[str, Any]
    """The table's id and a version: the `offset` for `View.apply`, and `after` for the next `table_changes`."""


def table_changes(
    spark: SparkSession, path: str | Path, after: Mapping[str, Any] | None = None, *, max_files: int | None = None
) -> TableChanges:
    """The changes of a table of Delta Lake or Iceberg in a directory from the version `after` up to the newest one;
    without `after`, all its rows as insertions. A version of an Iceberg table is the id of a snapshot.

    With `max_files`, they cover only as many versions after `after` as have about that many files, and at least one.
    Spark reads the files that the log names. Columns whose types the language does not have are left out.

    Raises: UserError if there is no such table, `after` is of another table, or the changes cannot be read any more;
        EngineError without `deltalake` or `pyiceberg`.
    """
    most = must_be_most("max_files", max_files)
    if after is not None and not is_offset(after):
        hint = 'after=view.offsets.get("orders"), or the `offset` of the changes before'
        raise UserError(f"after is the offset that table_changes has given, not {after!r}", hint=hint)
    spark = session_of(spark)
    source = FollowedSource(table_in(table_directory(path)) or "delta", str(path))
    spec = source.spec(Path(path).name, source.row_type())
    table = open_table(spec)
    offset = table.latest(after, most)
    changed = [] if offset == after else table.changes(after, offset)
    return TableChanges(Delta(_rows(spark, spec, changed, 1), _rows(spark, spec, changed, -1)), offset)


def _rows(spark: SparkSession, spec: SourceSpec, changed: Sequence[ChangedFile], weight: int) -> DataFrame | None:
    """The inserted or the deleted rows, depending on the weight; None if no file has any."""
    from mrql.runtime.spark.io.csv import TAG
    from mrql.runtime.spark.io.readers import read

    feed = [one.read_as or one.file for one in changed if one.format is not None]
    files = [one.read_as or one.file for one in changed if one.format is None and one.weight == weight]
    found = None
    if files:
        found = _named(read(spark, spec, files).df.table, spec)
    if feed:
        tagged = attrs.evolve(spec, format=CHANGE_FEED, tagged=True)
        rows = _named(read(spark, tagged, feed).df.table, spec, TAG)
        mine = rows.where(f"{TAG} = '{'+' if weight > 0 else '-'}'").drop(TAG)
        found = mine if found is None else found.unionAll(mine)
    return found


def _named(rows: DataFrame, spec: SourceSpec, *more: str) -> DataFrame:
    assert isinstance(spec.row, ty.RecordType)
    return rows.toDF(*spec.row.names, *more)
