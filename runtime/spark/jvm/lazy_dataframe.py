"""Columns that are made once, and DataFrames that are made when they are first used."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property, lru_cache, wraps
from types import FunctionType
from typing import Any

from pyspark import SparkContext, StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.readwriter import DataFrameWriter
from pyspark.sql.types import StructType

from mrql.algebra.errors import UserError


def column(text: str) -> Column:
    """The column of an SQL expression, made once: finding the function by its name costs more than calling it."""
    return F.expr(text) if SparkContext._gateway is None else _column(SparkContext._gateway, text)


@lru_cache(maxsize=4096)
def _column(gateway: Any, text: str) -> Column:
    return F.expr(text)


class Lazy(ClassicDataFrame):
    """A DataFrame that is not even analysed before it is used.

    Under Spark Connect every DataFrame is like that; classic ones take milliseconds of a batch for each operation. A
    DataFrame of rows that are not kept forever has a `check` that they still exist, which raises a UserError otherwise.
    It is called each time that the DataFrame is used; if the DataFrame has been cached, the error is ignored.
    """

    def __init__(
        self, make: Callable[[], DataFrame], spark: SparkSession, check: Callable[[], None] | None = None
    ) -> None:
        super().__init__(None, spark)
        self._make = make
        self.check = check

    def like(self, make: Callable[[], DataFrame]) -> Lazy:
        """Another lazy DataFrame over the same rows."""
        return Lazy(make, self.sparkSession, self.check)

    @cached_property
    def _made(self) -> DataFrame:
        return self._make()

    # The base class would report any error on the way to a schema as a schema that it cannot parse.
    @property
    def schema(self) -> StructType:
        return self._made.schema

    # The base class sets its handle in its constructor; here that is deferred.
    @property
    def _jdf(self) -> Any:
        made = self._made
        if self.check is not None:
            try:
                self.check()
            except UserError:
                if made.storageLevel == StorageLevel.NONE:
                    raise
        return made._jdf

    @_jdf.setter
    def _jdf(self, handle: None) -> None:
        pass


def lazily(df: DataFrame, make: Callable[[], DataFrame]) -> Lazy:
    """A lazy DataFrame derived from another one, whose `check` it takes over if that is lazy."""
    return df.like(make) if isinstance(df, Lazy) else Lazy(make, df.sparkSession)


class Reading(Lazy):
    """A DataFrame of rows that somebody else may free. Each operation on it, and on DataFrames derived from it, runs in
    a block that `reading` makes, during which nothing is freed."""

    def __init__(
        self,
        make: Callable[[], DataFrame],
        spark: SparkSession,
        check: Callable[[], None] | None,
        reading: Callable[[], AbstractContextManager[None]],
    ) -> None:
        super().__init__(make, spark, check)
        self.reading = reading

    def like(self, make: Callable[[], DataFrame]) -> Reading:
        return Reading(make, self.sparkSession, self.check, self.reading)

    @property
    def write(self) -> DataFrameWriter:
        return _ReadingWriter(self)


class _ReadingWriter(DataFrameWriter):
    """The writer of such a DataFrame."""

    def __init__(self, df: Reading) -> None:
        super().__init__(df)
        self.reading = df.reading


def _in_block(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a DataFrame, or of its writer, that runs in the block."""

    @wraps(method)
    def called(self: Any, *given: Any, **options: Any) -> Any:
        with self.reading():
            found = method(self, *given, **options)
        if type(found) is ClassicDataFrame:
            # Its rows may have been cached: whether they still exist is checked only if it fails.
            return Reading(lambda: found, self.sparkSession, None, self.reading)
        return found

    return called


for _kind, _guarded in ((ClassicDataFrame, Reading), (DataFrameWriter, _ReadingWriter)):
    for _name, _method in vars(_kind).items():
        if isinstance(_method, FunctionType) and not _name.startswith("_"):
            setattr(_guarded, _name, _in_block(_method))
