"""What feeds a view: streaming queries of Spark, and a thread for tables and logs."""

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
"""So many seconds at most pass before it is seen that a query has ended."""

STOPPED_MAX_SECONDS = 600.0
"""So many seconds at most pass from the wish to stop until the last query is told so."""

TRIGGER = 'trigger={"processingTime": "5 seconds"}, or {"availableNow": True}'


def must_be_a_trigger(trigger: object) -> None:
    """Raises: UserError where it is no argument of the `trigger` of Spark, by its name."""
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
    """What writes a stream, by a trigger.

    Raises: UserError where Spark does not take the value of that.
    """
    from pyspark.errors import PySparkException

    try:
        return writer.trigger(**trigger)
    except PySparkException as error:
        raise UserError(f"Spark does not take the trigger: {error.getMessage()}", hint=TRIGGER) from None


class StoppedFollowing(Exception):
    """A batch comes after the wish to stop: it is not applied, and comes again with the next start."""


class Following:
    """The streaming queries that feed a view, by the names of its streams, and what stands for those of tables and
    logs. What they are called here is as in Spark."""

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
        """Starts a streaming query of Spark that calls what feeds a stream with each batch; `kept` is the directory of
        what Spark notes of it.

        Raises: UserError where Spark does not take the value of the trigger.
        """
        writer = df.writeStream.foreachBatch(self._watched(feed))
        writer = writer if trigger is None else triggered(writer, trigger)
        writer = writer if called is None else writer.queryName(called)
        writer = writer if kept is None else writer.option("checkpointLocation", kept)
        with self._view.lock:  # the query has the settings that the session has now
            self.queries[name] = writer.start()

    def _watched(self, feed: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
        """What is called with each batch; its error is remembered, as Spark only hands on the text of it."""

        def fed(df: DataFrame, number: int) -> None:
            from mrql.runtime.spark.session.streaming import wait_to_be_stopped

            try:
                with self.taking():
                    feed(df, number)
            except StoppedFollowing:
                # To return would say that the batch was applied, and to raise, that the query has failed.
                wait_to_be_stopped(df, STOPPED_MAX_SECONDS)
                raise

        return fed

    @contextmanager
    def taking(self) -> Iterator[None]:
        """A block in which a batch is applied, unless there is the wish to stop.

        Raises: StoppedFollowing after that wish.
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
        """Raises: StoppedFollowing after the wish to stop."""
        if self._stopping:
            raise StoppedFollowing

    def stop(self) -> None:
        """Ends the queries after the batch that is running. What is not applied yet comes with the next start.

        Where it is called by what a batch is delivered to, it returns at once, and they end when that has returned.
        """
        if self._view.is_mine:
            # A query ends after its batch, and that may be this one, or wait for it.
            self._stopping = True
            Thread(target=self.stop, name="mrql-stopping", daemon=True).start()
            return
        # Spark cuts off what it is at: with the lock there is no batch, and then none begins.
        with self._view.lock:
            self._stopping = True
        with ExitStack() as stopping:  # all of them, whatever goes wrong with one
            for query in self.queries.values():
                stopping.callback(query.stop)

    @property
    def isActive(self) -> bool:
        """Whether all of them run."""
        return all(query.isActive for query in self.queries.values())

    @property
    def recentProgress(self) -> Mapping[str, list[Any]]:
        """What Spark says of the last batches of each."""
        return {name: list(query.recentProgress) for name, query in self.queries.items()}

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Waits until all have ended, for so many seconds at most; whether they have. Where one has failed, the others
        are stopped.

        Raises: what has failed: a UserError where a batch does not fit, or the query has no value for it.
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
        """Waits until all rows that are there by now are applied.

        Raises: what has failed.
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
        # Those that were stopped have failed, too, for Spark.
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
