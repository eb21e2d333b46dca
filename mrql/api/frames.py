"""Rows as they are given to the API: in Spark, or in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Union
from weakref import WeakSet

import attrs

from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.api.arguments import kind_of
from mrql.runtime.engine.answer import WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows: TypeAlias = Union["DataFrame", Any]
"""A DataFrame of Spark, one of pandas, a table of Arrow, or what has `__arrow_c_stream__`, as a frame of polars."""


@attrs.frozen
class CatalogTable:
    """A table of the session's catalog, by its name there."""

    name: str


def table(name: str) -> CatalogTable:
    """A table of the session's catalog, to be a static table: `mrql.compile(…, rates=mrql.table("sales.rates"))`.

    Its type is that of its columns. It is read when a query is evaluated, or a view of it is made.

    Raises: UserError where the name is no text.
    """
    if not isinstance(name, str):
        raise UserError(f"a table has a text for a name, not {kind_of(name)}")
    return CatalogTable(name)


def is_in_python(rows: object) -> bool:
    """Whether these are rows that lie in this process, and not in Spark."""
    from mrql.runtime.spark.io.arrow_frames import is_pandas

    # A DataFrame of Spark hands itself over as well.
    return is_pandas(rows) or (hasattr(rows, "__arrow_c_stream__") and not hasattr(rows, "sparkSession"))


def in_spark(rows: Rows, what: str, spark: SparkSession) -> DataFrame:
    """Rows with all their columns, in Spark.

    Raises: UserError where they cannot be given to Spark.
    """
    from mrql.runtime.spark.io.arrow_frames import spark_frame

    return spark_frame(rows, ty.UNIT, what, spark) if is_in_python(rows) else rows


_WEIGHTED: WeakSet[DataFrame] = WeakSet()


def with_weights(changes: DataFrame) -> DataFrame:
    """The changes of a view, which are remembered as such as long as they are there."""
    _WEIGHTED.add(changes)
    return changes


def must_not_lose_weights(name: str, rows: Rows, row: Type) -> None:
    """Raises: UserError where rows are the changes of a view, of which those that went would be taken for others that
    came."""
    if is_in_python(rows) or rows not in _WEIGHTED:
        return
    if not isinstance(row, ty.RecordType) or WEIGHT not in row.names:
        message = f"`{name}` has the changes of a view, and rows do not have their column `{WEIGHT}`"
        raise UserError(message, hint="query.view(spark, change_feed=True) gives changes that another view applies")


def held(rows: Rows, what: str) -> Rows:
    """Rows that may be looked at several times: those of a stream of Arrow are there once.

    Raises: UserError where they cannot be read.
    """
    from mrql.runtime.spark.io.arrow_frames import arrow_table, is_pandas

    return arrow_table(rows, what) if is_in_python(rows) and not is_pandas(rows) else rows


def together(one: Rows | None, other: Rows | None) -> Rows | None:
    """The rows of both, by the places of their columns; in Spark where one of them is there.

    Raises: UserError where those of Arrow do not have the same columns.
    """
    from mrql.runtime.spark.io.arrow_frames import in_arrow, spark_frame

    if one is None or other is None:
        return other if one is None else one
    if is_in_python(one) and is_in_python(other):
        return in_arrow(one, other)
    spark = (other if is_in_python(one) else one).sparkSession
    here, there = (
        spark_frame(rows, ty.UNIT, "a batch", spark) if is_in_python(rows) else rows for rows in (one, other)
    )
    return here.union(there)
