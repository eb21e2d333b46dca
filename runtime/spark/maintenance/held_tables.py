"""Static tables that views hold: later batches find the rows that a table had when it was first read.

Spark caches by the plan of a DataFrame, not by who has asked for it. So views of one table hold it together, and it is
freed with the last of them. A table that lies in files is not held, unless all are: it is read in place, and its files
must not change.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from weakref import WeakKeyDictionary

import attrs
from pyspark import SparkContext, StorageLevel
from pyspark.sql import DataFrame

from mrql.algebra.errors import UserError
from mrql.runtime.sources.arrived import Seen
from mrql.runtime.spark import jvm
from mrql.runtime.spark.io.paths import path_of
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.session.jvm_exit import unless_stopped


@attrs.define(eq=False)
class HeldTable:
    """A DataFrame that is cached for some holders."""

    df: DataFrame
    holders: int = 0


_HELD: WeakKeyDictionary[SparkContext, list[HeldTable]] = WeakKeyDictionary()
_LOCK = Lock()


@attrs.define(eq=False)
class HeldTables:
    """The tables that one view holds."""

    tables: list[HeldTable] = attrs.Factory(list)
    files: dict[Path, Seen | None] = attrs.Factory(dict)
    """The local files of tables that are read in place, as they were; None for one that did not exist."""

    def hold(self, tables: Iterable[Frame], *, every: bool) -> None:
        """Holds more tables: those that might have other rows when they are read again, or `every` one. Tables that
        somebody else has cached are left to them."""
        for table in tables:
            with _LOCK:
                held = _held(table.df.table, every=every)
                if held is not None:
                    held.holders += 1
                    self.tables.append(held)
                elif table.df.table.storageLevel == StorageLevel.NONE:
                    self.files |= {file: _seen(file) for file in _local_files(table.df.table)}

    def check(self) -> None:
        """Raises: UserError, naming the first file of a table that has changed since `hold`, or is gone."""
        for file, before in self.files.items():
            now = _seen(file)
            if now != before:
                what = "has changed" if now is not None else "has gone"
                hint = "a static table keeps its rows: make the view anew, or give it a DataFrame that is cached"
                raise UserError(
                    f"{file}, which a static table is read from, {what} since the view was made", None, hint
                )

    def free(self) -> None:
        """Releases all tables, and frees those that nobody else holds."""
        tables, self.tables = self.tables, []
        for held in tables:
            with _LOCK:
                held.holders -= 1
                if held.holders == 0:
                    _HELD[held.df.sparkSession.sparkContext].remove(held)
                    with unless_stopped():
                        held.df.unpersist()


def _held(df: DataFrame, *, every: bool) -> HeldTable | None:
    """The table that others hold already, or a new one, cached here; None where it is not to be held."""
    everything = _HELD.setdefault(df.sparkSession.sparkContext, [])
    if df.storageLevel != StorageLevel.NONE:
        return next((held for held in everything if held.df.sameSemantics(df)), None)
    if not every and jvm.is_read_in_place(df):
        return None
    held = HeldTable(df.persist())
    everything.append(held)
    return held


def _local_files(df: DataFrame) -> Iterable[Path]:
    """The local files that a DataFrame reads."""
    return (Path(path_of(uri).removeprefix("file:")) for uri in df.inputFiles() if uri.startswith("file:"))


def _seen(file: Path) -> Seen | None:
    """What a file looks like; None if it does not exist."""
    try:
        return Seen.of(file)
    except OSError:
        return None
