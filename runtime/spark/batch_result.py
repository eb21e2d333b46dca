"""The result of a batch on Spark: the answers before and after it, and the change of the answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from mrql.algebra.errors import UserError
from mrql.runtime.spark import jvm
from mrql.runtime.spark.maintenance.snapshot import Snapshot
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.session.session import settings

if TYPE_CHECKING:
    from mrql.runtime.spark.view import SparkView


def gone() -> UserError:
    """The error for reading rows of an earlier batch that are gone."""
    return UserError(
        "these rows are those of an earlier batch, and are gone",
        hint="what a batch has changed can be read until the next one: collect or write it before",
    )


class BatchResult:
    """A planned batch: reading its answer or its changes computes what is not computed yet, as `complete` does."""

    def __init__(self, view: SparkView, before: list[Snapshot]) -> None:
        self._view = view
        self._before = before
        self._after = view.states.snapshots()
        self._transaction = view.states.transaction

    def snapshot(self) -> DataFrame:
        """The answer after the batch. Like the others, it can be read until the next batch is committed."""
        return self._planned(lambda: self._view.states.answer(self._transaction, self._after))

    def before(self) -> DataFrame:
        """The answer before the batch."""
        return self._planned(lambda: self._view.states.deltas.answer(self._before))

    def changes(self) -> DataFrame:
        """The answer after the batch minus `before`, as rows with a weight."""
        return self._planned(lambda: self._view.states.changes(self._transaction, self._after))

    def lazily(self, read: Callable[[], DataFrame]) -> DataFrame:
        """One of these DataFrames, planned when it is first read; it is an error to read it when its rows are gone."""
        return jvm.Reading(
            read, self._view.spark, self._require_there, partial(self._view.reading, self._require_there)
        )

    def _planned(self, read: Callable[[], Relation]) -> DataFrame:
        with self._view.lock, settings(self._view.spark, self._view.settings):
            self._view.at_rest()
            self._require_there()
            return self._view.plans.dataframe(read())

    def _require_there(self) -> None:
        """Raises: UserError when the view is closed, or rows of the batch are gone: it was rolled back, or another one
        was committed since."""
        self._view.require_open()
        if self._transaction.is_gone(self._view.states.transaction):
            raise gone()
