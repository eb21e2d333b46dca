"""Files of a batch, read with the plan of an earlier batch.

A DataFrame over files is analysed, optimized and planned anew for each batch, although only the files differ: that
takes longer than reading some ten thousand rows. So the physical plan that reads files of one kind is kept, and for a
batch, a copy of it gets the batch's files.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark import jvm
from mrql.runtime.spark.expressions.layout import quote
from mrql.runtime.spark.relation.column_types import type_sql

REMEMBERED_MAX_SCANS = 128
"""The number of plans for reading files that a session remembers."""

_SCANS: WeakKeyDictionary[SparkSession, OrderedDict[Hashable, jvm.Scan]] = WeakKeyDictionary()
"""The scans of each session, by the settings, the kind of the files, and the columns that are read."""


SMALL_BATCH_MAX_BYTES = 1 << 20
"""At most this many bytes of a side of a batch are read by one task: that takes no longer than starting another
stage."""


class FileScan(jvm.Lazy):
    """The rows of files whose columns are known. Files of one `kind` are read alike."""

    def __init__(
        self,
        spark: SparkSession,
        kind: Hashable,
        columns: Sequence[str],
        paths: Sequence[str],
        read: Callable[[], DataFrame],
        bytes: int | None = None,
    ) -> None:
        super().__init__(read, spark)
        self.kind = kind
        self.bytes = bytes
        self.paths = paths
        self._names = list(columns)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._names


UNKNOWN_MIN_BYTES = 1 << 40
"""A size from which on Spark's estimate means that it knows nothing: it is then the largest long, or a part of it for
some of the columns."""


def known_bytes(table: DataFrame) -> int | None:
    """The approximate size of a table's rows, or of their files; None if it is unknown."""
    size = table.bytes if isinstance(table, FileScan) else jvm.estimated_bytes(table)
    return None if size is None or size >= UNKNOWN_MIN_BYTES else size


def is_small(batch: DataFrame) -> bool:
    """Whether one task reads a side of a batch as fast as several would: the side is known to have few bytes, or has at
    most one partition anyway."""
    size = known_bytes(batch)
    if size is not None and size <= SMALL_BATCH_MAX_BYTES:
        return True
    # The number of partitions is known only once the rows are fully planned, which takes ten milliseconds more.
    return not isinstance(batch, FileScan) and jvm.partitions_of(batch) <= 1


class Scans:
    """The scans by which the files of batches are read."""

    def __init__(self, spark: SparkSession, settings: Hashable) -> None:
        self._settings = settings
        self._known = _SCANS.setdefault(spark, OrderedDict())

    def rows(self, table: DataFrame, read: tuple[str, ...] | None) -> Any:
        """The rows of a batch as an RDD. If only some columns are `read`, the others are null."""
        opened = None if isinstance(table, FileScan) else jvm.Opened.of(table)
        kind = table.kind if isinstance(table, FileScan) else opened and opened.kind
        key = (self._settings, kind, read)
        scan = self._known.pop(key, None)
        if scan is not None:
            self._known[key] = scan
            files = scan.opened(table.paths) if isinstance(table, FileScan) else scan.as_the_first(opened)
            if files is not None:
                return scan.rows(files)
        df = table if read is None else _without(table, read)
        if kind is not None and (made := jvm.Scan.of(df)) is not None:
            self._known[key] = made
            if len(self._known) > REMEMBERED_MAX_SCANS:
                self._known.popitem(last=False)
        return jvm.rows_of(df)


def _without(df: DataFrame, read: tuple[str, ...]) -> DataFrame:
    """The same columns, with null in those that are not read."""
    columns = []
    for field in df.schema.fields:
        name = quote(field.name)
        columns.append(name if field.name in read else f"CAST(NULL AS {type_sql(field.dataType)}) AS {name}")
    return df.selectExpr(*columns)
