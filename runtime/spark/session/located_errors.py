"""Answers that report what is wrong with the query or its data, even if Spark finds it only when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from mrql.algebra.span import Source
from mrql.runtime.spark import jvm
from mrql.runtime.spark.session.errors import translated

ACTIONS = (
    "collect",
    "count",
    "first",
    "foreach",
    "foreachPartition",
    "head",
    "isEmpty",
    "show",
    "tail",
    "take",
    "toArrow",
    "toPandas",
)
"""The methods that compute an answer. Those that derive another DataFrame from it make an ordinary one."""


class Told(ClassicDataFrame):
    """An answer that is computed when it is read."""

    _read: Source | None = None
    """The text of the query."""

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[Any]:
        with translated(self._read):
            yield from super().toLocalIterator(prefetchPartitions)


def _telling(name: str) -> Callable[..., Any]:
    action = getattr(ClassicDataFrame, name)

    @wraps(action)
    def told(self: Told, *args: Any, **kwargs: Any) -> Any:
        with translated(self._read):
            return action(self, *args, **kwargs)

    return told


for _name in ACTIONS:
    setattr(Told, _name, _telling(_name))


def told(df: DataFrame, source: Source | None) -> DataFrame:
    """The same DataFrame, whose actions end with a UserError for what is wrong with the query or its data.

    Under Spark Connect it is computed here, since a plan is analysed with the settings at the time when it is computed.
    """
    if jvm.is_remote(df):
        return df.localCheckpoint()
    telling = Told(df._jdf, df.sparkSession)
    telling._read = source
    return telling
