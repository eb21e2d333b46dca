"""Feeds a view with streaming queries of Spark, and with a thread for tables and logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from inspect import signature
from threading import Thread
from typing import TYPE_CHECKING, Any

from mrql.algebra.errors import EngineError, MrqlError, UserError
from mrql.api.arguments import kind_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from mrql.api.source_query import SourceQuery
    from mrql.runtime.spark.view import SparkView

GLANCE_SECONDS = 0.1
"""The seconds between two checks of whether a query has ended."""

STOPPED_MAX_SECONDS = 600.0
"""The seconds that a batch that comes after `stop` waits at most for its query to be stopped."""

TRIGGER = 'trigger={"processingTime": "5 seconds"}, or {"availableNow": True}'


def must_be_a_trigger(trigger: object) -> None:
    """Raises: UserError unless it is one keyword argument of Spark's `DataStreamWriter.trigger`, or None."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if trigger is None:
        return
    if not isinstance(trigger, Mapping):
        raise UserError(f"a trigger is a dict of what Spark's `trigger` takes, not {kind_of(trigger)}", hint=TRIGGER)
    known = [*signature(DataStreamWriter.trigger).parameters][1:]
    unknown = [name for name in trigger if name not in known]
    if unknown:
        raise UserError(f"Spark has no trigger {unknown[0]!r}; its triggers: {', '.join(known)}", hint=TRIGGER)
    if len(trigger) != 1:
        raise UserError(f"a trigger is one of those that Spark has, not {len(trigger)} of them", hint=TRIGGER)


def triggered(writer: DataStreamWriter, trigger: Mapping[str, Any]) -> DataStreamWriter:
    """A writer of a stream, with a trigger.

    Raises: UserError if Spark does not accept the value of the trigger.
    """
    from pyspark.errors import PySparkException

    try:
        return writer.trigger(**trigger)
    except PySparkException as error:
        raise UserError(f"Spark does not take the trigger: {error.getMessage()}", hint=TRIGGER) from None


class StoppedFollowing(Exception):
    """A batch has come after `stop`: it is not applied, and comes again at the next start."""


class Following:
    """The streaming queries that feed a view, by the names of its streams; for tables and logs, a `SourceQuery` each.
    The methods are named as those of Spark's `StreamingQuery`."""

    def __init__(self, view: SparkView) -> None:
        self._view = view
        self.queries: dict[str, StreamingQuery | SourceQuery] = {}
        self._stopping = False
        self._error: BaseException | None = None

    def start(
        self,
        name: str,
        df: DataFrame,
        feed: Callable[[DataFrame, int], None],
        trigger: Mapping[str, Any] | None,
        called: str | None,
        kept: str | None,
    ) -> None:
        """Starts a streaming query of Spark, named `called`, that passes each batch to `feed`; `kept` is the directory
        of its checkpoint.

        Raises: UserError if Spark does not accept the value of the trigger.
        """
        writer = df.writeStream.foreachBatch(self._watched(feed))
        writer = writer if trigger is None else triggered(writer, trigger)
        writer = writer if called is None else writer.queryName(called)
        writer = writer if kept is None else writer.option("checkpointLocation", kept)
        with self._view.lock:  # the query keeps the current settings of the session
            self.queries[name] = writer.start()

    def _watched(self, feed: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
        """The function that is called with each batch. It remembers an error, as Spark only passes on its text."""

        def fed(df: DataFrame, number: int) -> None:
            from mrql.runtime.spark.session.streaming import wait_to_be_stopped

            try:
                with self.taking():
                    feed(df, number)
            except StoppedFollowing:
                # Returning would mark the batch as applied, and raising would make the query fail.
                wait_to_be_stopped(df, STOPPED_MAX_SECONDS)
                raise

        return fed

    @contextmanager
    def taking(self) -> Iterator[None]:
        """A block in which a batch is applied, under the lock of the view.

        Raises: StoppedFollowing after `stop`.
        """
        try:
            with self._view.lock:
                self._must_go_on()
                yield
        except StoppedFollowing:
            raise
        except BaseException as error:
            self._error = self._error or error
            raise

    def _must_go_on(self) -> None:
        """Raises: StoppedFollowing after `stop`."""
        if self._stopping:
            raise StoppedFollowing

    def stop(self) -> None:
        """Stops the queries after the running batch. What is not applied yet comes with the next start.

        If it is called by the `deliver` function of a batch, it returns at once, and they end after that has returned.
        """
        if self._view.is_mine:
            # A query ends after its batch, which may be this one, or wait for it.
            self._stopping = True
            Thread(target=self.stop, name="mrql-stopping", daemon=True).start()
            return
        # Spark interrupts a running batch. Under the lock no batch is running, and none begins once `_stopping` is set.
        with self._view.lock:
            self._stopping = True
        with ExitStack() as stopping:  # all of them, even if one fails
            for query in self.queries.values():
                stopping.callback(query.stop)

    @property
    def isActive(self) -> bool:
        """Whether all queries are running."""
        return all(query.isActive for query in self.queries.values())

    @property
    def recentProgress(self) -> Mapping[str, list[Any]]:
        """The progress of the last batches, by stream, as Spark reports it."""
        return {name: list(query.recentProgress) for name, query in self.queries.items()}

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Waits until all queries have ended, for at most `timeout` seconds, and returns whether they have. If one has
        failed, the others are stopped.

        Raises: the error of the failed batch, a UserError if its rows do not fit, or the query has no value for them;
            EngineError if a query failed otherwise.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while any(query.isActive for query in self.queries.values()):
            if self._failed():
                break
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(GLANCE_SECONDS)
        self._raise()
        return True

    def processAllAvailable(self) -> None:
        """Waits until all rows that are available now are applied.

        Raises: the error of a failed query, as `awaitTermination` does.
        """
        for query in self.queries.values():
            try:
                query.processAllAvailable()
            except Exception:
                self._raise()
                raise

    def _failed(self) -> bool:
        return any(not query.isActive and query.exception() is not None for query in self.queries.values())

    def _raise(self) -> None:
        # To Spark, queries that were stopped have failed, too.
        if self._error is None and (self._stopping or not self._failed()):
            return
        self.stop()
        if isinstance(self._error, MrqlError):
            raise self._error
        exceptions = (query.exception() for query in self.queries.values())
        failed = next((exception for exception in exceptions if exception is not None), self._error)
        if isinstance(failed, MrqlError):
            raise failed
        raise EngineError(f"a streaming query has failed: {failed}") from self._error
