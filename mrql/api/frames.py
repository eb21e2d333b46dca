"""Rows passed to the API: in Spark, or in this process."""

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
    """The rows of both, with columns matched by position; in Spark if one of the two is.

    Raises: UserError if both are in this process, and their columns do not match.
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
