"""Rows that are kept from one batch to others, as the leaves of relations; and how rows are gathered by key."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any, Protocol

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark import jvm

ROWS = "rows"
"""The column with the array of rows, where they are gathered."""


@attrs.frozen
class Gathering:
    """How rows are gathered: one row for each value of the columns `by`, with an array of its values of `others`."""

    by: tuple[str, ...]
    others: tuple[str, ...]
    columns: tuple[str, ...]
    """All columns, in the order of the original rows."""

    @property
    def element(self) -> str:
        """An element of the array, in SQL."""
        return f"struct({', '.join(self.others)})"


class PersistedRows(Protocol):
    """Rows that are kept from one batch to others."""

    @property
    def spark(self) -> SparkSession:
        """The session that keeps the rows."""

    @property
    def signature(self) -> Hashable:
        """The columns and the partitioning."""

    @property
    def df(self) -> DataFrame:
        """The rows as a DataFrame."""

    @property
    def rdd(self) -> Any:
        """Spark's handle of the rows."""

    @property
    def shape(self) -> jvm.RowShape | None:
        """The columns and the partitioning in Spark's form; None unless the partitioning is known to be by key."""


@attrs.define(eq=False, slots=False)
class Beside:
    """Kept rows with the same columns and partitioning, as one leaf: a plan is the same however many of them there
    are."""

    kept: tuple[PersistedRows, ...]

    @property
    def spark(self) -> SparkSession:
        """The session that keeps the rows."""
        return self.kept[0].spark

    @property
    def shape(self) -> jvm.RowShape | None:
        """The shape that they share."""
        return self.kept[0].shape

    @property
    def signature(self) -> Hashable:
        """The columns and the partitioning that they share."""
        return self.kept[0].signature

    @cached_property
    def rdd(self) -> Any:
        """An RDD each partition of which consists of one partition of each of them."""
        return jvm.beside(self.spark, [rows.rdd for rows in self.kept])

    @cached_property
    def df(self) -> DataFrame:
        """The rows as a DataFrame."""
        assert self.shape is not None
        return self.shape.over(self.spark, self.rdd)
