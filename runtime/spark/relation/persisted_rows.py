"""Rows that are kept from one batch to others, as the leaves of what is computed; and how they are gathered by keys."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any, Protocol

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark import jvm

ROWS = "rows"
"""The column with the array, where rows are gathered."""


@attrs.frozen
class Gathering:
    """How rows are gathered: one for each value of some columns, with an array of all `others` that there are of it."""

    by: tuple[str, ...]
    others: tuple[str, ...]
    columns: tuple[str, ...]
    """All of them, in the order that they have outside."""

    @property
    def element(self) -> str:
        """An element of the array."""
        return f"struct({', '.join(self.others)})"


class PersistedRows(Protocol):
    """Rows that are kept from one batch to others."""

    @property
    def spark(self) -> SparkSession:
        """The session that keeps them."""

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
        """The same as Spark has it, where it says of each row which partition it is in."""


@attrs.define(eq=False, slots=False)
class Beside:
    """Rows that are kept, and lie alike, as one leaf: a plan is the same however many of them there are."""

    kept: tuple[PersistedRows, ...]

    @property
    def spark(self) -> SparkSession:
        """The session that keeps them."""
        return self.kept[0].spark

    @property
    def shape(self) -> jvm.RowShape | None:
        """That of each of them."""
        return self.kept[0].shape

    @property
    def signature(self) -> Hashable:
        """That of each of them."""
        return self.kept[0].signature

    @cached_property
    def rdd(self) -> Any:
        """Each partition is one of each of them."""
        return jvm.beside(self.spark, [rows.rdd for rows in self.kept])

    @cached_property
    def df(self) -> DataFrame:
        """The rows as a DataFrame."""
        assert self.shape is not None
        return self.shape.over(self.spark, self.rdd)
