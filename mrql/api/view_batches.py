"""The batches of a view: how each is applied and delivered, and a record of those that were applied."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mrql.algebra.errors import UserError
from mrql.api.arguments import must_be_a_receiver
from mrql.api.frames import with_weights
from mrql.api.notebook import SHOWN_MAX_BATCHES, AppliedBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mrql.api.query import Query
    from mrql.runtime.spark.batch_result import BatchResult
    from mrql.runtime.spark.durable_view import DurableView
    from mrql.runtime.spark.relation.frame import Frame
    from mrql.runtime.spark.view import SparkView


class ViewBatches:
    """Applies batches to a view, one after the other."""

    def __init__(self, query: Query, view: SparkView, durable: DurableView | None, *, change_feed: bool) -> None:
        self._query = query
        self._view = view
        self._durable = durable
        self._change_feed = change_feed
        self._is_delivering = False
        self.offsets = {} if durable is None else durable.offsets
        """The last offset of each stream that was given one."""
        self.arrived = frozenset() if durable is None else durable.commits.arrived
        """The streams that have received rows."""
        self.count = 0 if durable is None else durable.commits.next_batch
        """The number of batches applied; with a checkpoint, since its creation."""
        self.recent: deque[AppliedBatch] = deque(maxlen=SHOWN_MAX_BATCHES)
        """The last batches that were applied by this object."""

    def apply(self, frames: Mapping[str, Frame], new: Mapping[str, Any], deliver: Any) -> DataFrame:
        """Applies the changes of streams as one batch, with its new offsets, and returns the changes of the answer. The
        caller holds the lock.

        Raises: UserError, EngineError as `View.apply`.
        """
        must_be_a_receiver(deliver)
        self.must_not_be_delivering("apply it when `apply` has returned")
        put = None if deliver is None else self._putting(deliver)
        durable, start, commits = self._durable, time.monotonic(), self._view.commits
        try:
            changes = self._view.apply(frames, put) if durable is None else durable.apply(frames, new, put)
        finally:
            if self._view.commits > commits:  # also if it is interrupted after that
                self.offsets |= new
                self.arrived |= frames.keys()
                self.recent.append(AppliedBatch(self.count, (time.monotonic() - start) * 1000))
                self.count += 1
        return self._as_told(changes, self.count - 1)

    def no_changes(self) -> DataFrame:
        """The result of `apply` for a batch that was applied before: no rows."""
        from mrql.runtime.spark.io.answer_rows import no_changes

        return self._as_told(no_changes(self._view.answer()), self.count)

    def must_not_be_delivering(self, hint: str) -> None:
        """Raises: UserError when it is called by the `deliver` function of a batch, which is not applied yet."""
        if self._is_delivering and self._view.is_mine:
            raise UserError("the view is at a batch", hint=hint)

    def _putting(self, deliver: Callable[[DataFrame, int], object]) -> Callable[[BatchResult], None]:
        number = self.count

        def put(result: BatchResult) -> None:
            self._is_delivering = True
            try:
                deliver(self._as_told(result.lazily(result.changes), number), number)
            finally:
                self._is_delivering = False

        return put

    def _as_told(self, changes: DataFrame, number: int) -> DataFrame:
        """The changes of a batch in the form that the user of the view has chosen."""
        from mrql.runtime.spark.io.answer_rows import change_feed, rows_alone

        if self._change_feed:
            return change_feed(changes, self._query.type, number)
        return with_weights(rows_alone(changes, self._query.type, weighted=True))
