"""Rows passed to the API: in Spark, or in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, Union
from weakref import WeakSet

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import item_type
from mrql.algebra.errors import UserError
from mrql.algebra.row_key import RowKey, fields_of
from mrql.algebra.types import Type
from mrql.api.arguments import kind_of, must_be_a_frame
from mrql.runtime.engine.answer import WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mrql.runtime.spark.io.change_frames import ChangeFeed, Wrapping
    from mrql.runtime.spark.relation.frame import Frame

Rows: TypeAlias = Union["DataFrame", Any]
"""A DataFrame of Spark or pandas, a table of Arrow, or an object with `__arrow_c_stream__`, such as a polars frame."""


@attrs.frozen
class CatalogTable:
    """A table of the session's catalog, by name."""

    name: str


def table(name: str) -> CatalogTable:
    """A table of the session's catalog, as a static table: `mrql.compile(…, rates=mrql.table("sales.rates"))`.

    Its type is that of its columns. It is read when a query is evaluated, or when a view of it is created.

    Raises: UserError if the name is not a string.
    """
    if not isinstance(name, str):
        raise UserError(f"a table has a text for a name, not {kind_of(name)}")
    return CatalogTable(name)


def is_in_python(rows: object) -> bool:
    """Whether rows are in this process, and not in Spark."""
    from mrql.runtime.spark.io.arrow_frames import is_pandas

    # DataFrames of Spark may have `__arrow_c_stream__`, too.
    return is_pandas(rows) or (hasattr(rows, "__arrow_c_stream__") and not hasattr(rows, "sparkSession"))


def in_spark(rows: Rows, what: str, spark: SparkSession) -> DataFrame:
    """Rows with all their columns, as a DataFrame of Spark.

    Raises: UserError if they cannot be passed to Spark.
    """
    from mrql.runtime.spark.io.arrow_frames import spark_frame

    return spark_frame(rows, ty.UNIT, what, spark) if is_in_python(rows) else rows


_WEIGHTED: WeakSet[DataFrame] = WeakSet()


def with_weights(changes: DataFrame) -> DataFrame:
    """The same DataFrame of changes of a view, which is remembered as such as long as it exists."""
    _WEIGHTED.add(changes)
    return changes


def must_not_lose_weights(name: str, rows: Rows, row: Type) -> None:
    """Raises: UserError if rows are the changes of a view, and their type has no column for the weight: deleted rows
    would be taken for inserted ones."""
    if is_in_python(rows) or rows not in _WEIGHTED:
        return
    if not isinstance(row, ty.RecordType) or WEIGHT not in row.names:
        message = f"`{name}` has the changes of a view, and rows do not have their column `{WEIGHT}`"
        raise UserError(message, hint="query.view(spark, change_feed=True) gives changes that another view applies")


def held(rows: Rows, what: str) -> Rows:
    """The same rows, as an object that can be read several times: an Arrow stream can be read only once.

    Raises: UserError if they cannot be read.
    """
    from mrql.runtime.spark.io.arrow_frames import arrow_table, is_pandas

    return arrow_table(rows, what) if is_in_python(rows) and not is_pandas(rows) else rows


def together(one: Rows | None, other: Rows | None) -> Rows | None:
    """The rows of both; in Spark if one of the two is.

    Raises: UserError if they do not have the same columns.
    """
    from mrql.runtime.spark.io.arrow_frames import in_arrow, must_have_the_same, spark_frame

    if one is None or other is None:
        return other if one is None else one
    if is_in_python(one) and is_in_python(other):
        return in_arrow(one, other)
    spark = (other if is_in_python(one) else one).sparkSession
    here, there = (
        spark_frame(rows, ty.UNIT, "a batch", spark) if is_in_python(rows) else rows for rows in (one, other)
    )
    must_have_the_same(here.columns, there.columns)
    return here.union(there)


@attrs.frozen
class StreamRows:
    """What is given for the streams of a query: checks it against their types, and converts it to frames of Spark."""

    types: Mapping[str, Type]
    """The type of each stream and table, a bag."""

    def row(self, name: str) -> Type:
        """The type of the rows of a stream.

        Raises: UserError when there is no such stream.
        """
        if name not in self.types:
            raise UserError(f"the query has no stream `{name}`", hint=f"its streams: {', '.join(self.types) or 'none'}")
        return item_type(self.types[name])

    def must_stream(self, name: str, df: DataFrame) -> None:
        """Raises: UserError if it is not a streaming DataFrame with rows, or changes, of a stream."""
        from mrql.runtime.spark.io.schema import conformed

        must_be_a_frame(name, df, streaming=True)
        feed = self.change_feed(name, df, df.sparkSession)
        conformed(df if feed is None else feed.come(), self.row(name), f"`{name}`")

    def wrapping(self, name: str, rows: Rows) -> Wrapping | None:
        """How a frame holds changes of a stream; None if it does not have the columns of a change feed.

        Raises: UserError when there is no such stream, or it is not a DataFrame.
        """
        from mrql.runtime.spark.io.change_frames import wrapping_of

        row = self.row(name)
        if not is_in_python(rows):
            must_be_a_frame(name, rows, streaming=None)
        return wrapping_of(rows, row)

    def change_feed(self, name: str, rows: Rows, spark: SparkSession) -> ChangeFeed | None:
        """A frame as changes of a stream; None if it does not have the columns of a change feed.

        Raises: UserError when there is no such stream, or it is not a DataFrame, or cannot be passed to Spark.
        """
        from mrql.runtime.spark.io.change_frames import ChangeFeed

        found = self.wrapping(name, rows)
        return None if found is None else ChangeFeed.of(name, rows, found, self.row(name), spark)

    def table(self, name: str, rows: Rows, spark: SparkSession) -> Frame:
        """All rows of a stream or a table, as its type requires. Changes are refused: the rows that they change are not
        given.

        Raises: UserError when there is no such stream, or it is not a DataFrame with such rows.
        """
        rows = held(rows, f"`{name}`")
        found = self.wrapping(name, rows)
        if found is not None:
            hint = f"a view applies changes, view.apply({name}=…); if these are rows, drop the column `{found.column}`"
            message = f"`{name}` has the column `{found.column}` of a change feed, where all its rows are wanted"
            raise UserError(message, hint=hint)
        return self.frame(name, rows, spark)

    def frame(self, name: str, rows: Rows, spark: SparkSession) -> Frame:
        """The rows of a stream, as its type requires.

        Raises: UserError when there is no such stream, or it is not a DataFrame with such rows.
        """
        from mrql.runtime.spark import jvm
        from mrql.runtime.spark.io.arrow_frames import spark_frame
        from mrql.runtime.spark.io.schema import conformed
        from mrql.runtime.spark.relation.frame import from_dataframe
        from mrql.runtime.spark.session.session import AS_WRITTEN, MEANING, settings

        row = self.row(name)
        df = spark_frame(rows, row, f"`{name}`", spark) if is_in_python(rows) else rows
        must_be_a_frame(name, df)
        must_not_lose_weights(name, df, row)
        df = jvm.computed_apart(df, MEANING)
        with settings(df.sparkSession, AS_WRITTEN):
            return from_dataframe(conformed(df, row, f"`{name}`"), row)

    def frame_of_keys(self, name: str, df: DataFrame, key: RowKey) -> Frame:
        """The deleted rows of a stream with a key, of which only the fields of the key and the version are given.

        Raises: UserError when it is not a DataFrame with such columns.
        """
        from mrql.runtime.spark.expressions.layout import quote, sql_type
        from mrql.runtime.spark.io.schema import conformed
        from mrql.runtime.spark.relation.frame import from_dataframe
        from mrql.runtime.spark.session.session import AS_WRITTEN, settings

        row, fields = self.row(name), fields_of(self.row(name))
        must_be_a_frame(name, df)
        known = ty.RecordType(tuple((field, t) for field, t in fields if field in key.kept_of_deleted))
        with settings(df.sparkSession, AS_WRITTEN):
            named = conformed(df, known, f"`{name}`")
            columns = (
                quote(field) if field in key.kept_of_deleted else f"CAST(NULL AS {sql_type(t)}) AS {quote(field)}"
                for field, t in fields
            )
            return from_dataframe(named.selectExpr(*columns), row)
