"""Static tables that views hold: what a table has when it is first read, later batches find again.

Spark caches by what a DataFrame says, not by who has asked for it. So views of one table hold it together, and it goes
with the last of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from weakref import WeakKeyDictionary

import attrs
from pyspark import SparkContext, StorageLevel
from pyspark.sql import DataFrame

from mrql.runtime.spark import jvm
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

    def hold(self, tables: Iterable[Frame], *, every: bool) -> None:
        """Holds some more: those that might be something else the next time that they are read, or `every` one. What
        somebody else has cached is left to them."""
        for table in tables:
            with _LOCK:
                held = _held(table.df.table, every=every)
                if held is not None:
                    held.holders += 1
                    self.tables.append(held)

    def free(self) -> None:
        """Holds none of them any more."""
        tables, self.tables = self.tables, []
        for held in tables:
            with _LOCK:
                held.holders -= 1
                if held.holders == 0:
                    _HELD[held.df.sparkSession.sparkContext].remove(held)
                    with unless_stopped():
                        held.df.unpersist()


def _held(df: DataFrame, *, every: bool) -> HeldTable | None:
    """A table as it is held for others already, or is now; None where it is not."""
    everything = _HELD.setdefault(df.sparkSession.sparkContext, [])
    if df.storageLevel != StorageLevel.NONE:
        return next((held for held in everything if held.df.sameSemantics(df)), None)
    if not every and jvm.is_read_in_place(df):
        return None
    held = HeldTable(df.persist())
    everything.append(held)
    return held
