"""How a table of Delta Lake or of Iceberg has changed, as DataFrames that a view is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.api.arguments import directory_of, session_of
from mrql.api.delta import Delta
from mrql.runtime.sources.files import table_in
from mrql.runtime.sources.formats.change_feed import CHANGE_FEED
from mrql.runtime.sources.source import CONNECTORS, ChangedFile, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@attrs.frozen
class TableChanges:
    """Changes of a table, and the version up to which they go."""

    delta: Delta
    offset: Mapping[str, Any]
    """What `View.apply` is given as `offset`, and `table_changes` as `after`: the table's id, and a version."""


def table_changes(
    spark: SparkSession, path: str | Path, after: Mapping[str, Any] | None = None, *, max_files: int | None = None
) -> TableChanges:
    """How a table of Delta Lake or of Iceberg in a directory has changed since a version, up to the newest one; all of
    it from the beginning. A version of Iceberg is the id of a snapshot.

    With `max_files` it is so many versions after `after` as have about so many files, and one at least. Spark reads the
    files that the log names. Columns of types that the language does not have are left out.

    Raises: UserError where there is no such table, it is another one than that of `after`, or what has changed cannot
        be read any more; EngineError without `deltalake` or `pyiceberg`.
    """
    if max_files is not None and (not isinstance(max_files, int) or isinstance(max_files, bool) or max_files < 1):
        raise UserError(f"max_files is a number of files, 1 or more, not {max_files!r}")
    if after is not None and not _is_offset(after):
        hint = 'after=view.offsets.get("orders"), or the `offset` of the changes before'
        raise UserError(f"after is the offset that table_changes has given, not {after!r}", hint=hint)
    spark = session_of(spark)
    directory = directory_of(path, "a table")
    if not directory.is_dir():
        hint = "its directory, as warehouse/db/orders; a name in a catalog is not looked up"
        raise UserError(f"there is no directory {path} with a table in it", hint=hint)
    adapter = table_in(Path(path)) or "delta"
    format = CONNECTORS[adapter].files
    assert format is not None
    spec = SourceSpec(Path(path).name, True, format, str(path), ty.UNIT, missing_columns=True, adapter=adapter)
    spec = attrs.evolve(spec, row=open_table(spec).row_type())
    table = open_table(spec)
    offset = table.latest(after, max_files)
    changed = [] if offset == after else table.changes(after, offset)
    return TableChanges(Delta(_rows(spark, spec, changed, 1), _rows(spark, spec, changed, -1)), offset)


def _is_offset(after: object) -> bool:
    """Whether it is the id of a table with a version."""
    if not isinstance(after, Mapping) or after.keys() != {"table", "version"}:
        return False
    return isinstance(after["table"], str) and type(after["version"]) is int


def _rows(spark: SparkSession, spec: SourceSpec, changed: Sequence[ChangedFile], weight: int) -> DataFrame | None:
    """The rows that came or went, as the weight says; None where there are no files of them."""
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
