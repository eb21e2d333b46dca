"""What a batch has made of a view on Spark: the answer before it and after it, and how the answer has changed."""

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
    """The error for rows that are read too late."""
    return UserError(
        "these rows are those of an earlier batch, and are gone",
        hint="what a batch has changed can be read until the next one: collect or write it before",
    )


class BatchResult:
    """A batch as it was planned: its answer, its changes and `complete` compute what is not computed yet."""

    def __init__(self, view: SparkView, before: list[Snapshot]) -> None:
        self._view = view
        self._before = before
        self._after = view.states.snapshots()
        self._transaction = view.states.transaction

    def snapshot(self) -> DataFrame:
        """The answer after the batch. All of it can be read until the next batch is committed."""
        return self._planned(lambda: self._view.states.answer(self._transaction, self._after))

    def before(self) -> DataFrame:
        """The answer before the batch."""
        return self._planned(lambda: self._view.states.deltas.answer(self._before))

    def changes(self) -> DataFrame:
        """The answer after the batch minus `before`, as rows with a weight."""
        return self._planned(lambda: self._view.states.changes(self._transaction, self._after))

    def lazily(self, read: Callable[[], DataFrame]) -> DataFrame:
        """One of these, planned when it is read, and refused when that is too late."""
        return jvm.Reading(
            read, self._view.spark, self._require_there, partial(self._view.reading, self._require_there)
        )

    def _planned(self, read: Callable[[], Relation]) -> DataFrame:
        with self._view.lock, settings(self._view.spark, self._view.settings):
            self._view.at_rest()
            self._require_there()
            return self._view.plans.dataframe(read())

    def _require_there(self) -> None:
        """Raises: UserError when the view is closed, or another batch was committed since: rows of this one are gone
        then."""
        self._view.require_open()
        if self._transaction.is_gone(self._view.states.transaction):
            raise gone()
