"""Rows as they are given to the API: in Spark, or in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Union

import attrs

from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.api.arguments import kind_of

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
