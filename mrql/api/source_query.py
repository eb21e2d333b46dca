"""The thread that feeds a view with tables and logs, and for each of their streams the counterpart of a streaming query
of Spark."""

from __future__ import annotations

import json
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from threading import Condition, Thread, current_thread
from typing import TYPE_CHECKING, Any

import attrs

from mrql.algebra.errors import UserError
from mrql.api.following import StoppedFollowing, triggered
from mrql.api.source_feed import SourceFeed
from mrql.runtime.checkpoint.manifest import Json
from mrql.runtime.checkpoint.places import adapted_place
from mrql.runtime.sources.arrived import Batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 1.0
"""The seconds between looks for new data while there is none, as with `mrql stream`."""
PROGRESS_MAX_BATCHES = 100
"""The number of last batches whose progress is kept, as in Spark."""


@attrs.frozen
class Pace:
    """When to look for new data in tables and logs, according to a trigger of Spark."""

    seconds: float = LOOK_SECONDS
    """The seconds from the beginning of a look to that of the next one."""
    is_regular: bool = False
    """Whether they also apply after a batch: otherwise the next look follows at once."""
    ends: bool = False
    """Whether the loop ends when everything that was there at the start is read."""
    is_one_batch: bool = False
    """Whether everything that is there makes one batch, which is the last."""

    @staticmethod
    def of(trigger: Mapping[str, Any] | None, spark: SparkSession) -> Pace:
        """The pace for a trigger.

        Raises: UserError if Spark does not accept the trigger, or it is not available for tables and logs.
        """
        from mrql.runtime.spark.jvm import interval_seconds

        if trigger is not None:
            triggered(spark.readStream.format("rate").load().writeStream, trigger)
        match trigger:
            case None:
                return Pace()
            case {"processingTime": str() as interval}:
                seconds = interval_seconds(spark, interval)
                return Pace(seconds, is_regular=True) if seconds else Pace()
            case {"availableNow": _}:
                return Pace(ends=True)
            case {"once": _}:
                return Pace(ends=True, is_one_batch=True)
            case _:
                message = f"tables and logs are followed batch by batch, and not by the trigger {next(iter(trigger))!r}"
                raise UserError(message, hint='{"processingTime": "5 seconds"}, or {"availableNow": True}')


@attrs.frozen
class FedBatch:
    """A batch that the view has applied, with the data for its progress."""

    number: int
    begun: datetime
    seconds: float
    """The duration of the whole batch."""
    applying: float
    """The time that the view took to apply it."""
    since: float
    """The time since the previous batch began, or since the loop was created."""
    rows: Mapping[str, int]
    starts: Mapping[str, Json]
    ends: Mapping[str, Json]


class SourceLoop:
    """Looks for new data in tables and logs, and lets the view apply it, until it is stopped or fails."""

    def __init__(
        self,
        feed: SourceFeed,
        pace: Pace,
        take: Callable[[Batch, Mapping[str, Json]], int],
        taking: Callable[[], AbstractContextManager[None]],
        is_at_work: Callable[[], bool],
    ) -> None:
        """`take` applies a batch with the offsets after it, and returns its number; it is called in a block made by
        `taking`. `is_at_work` says whether the current thread is in such a block."""
        self.feed = feed
        self.pace = pace
        self.batches: deque[FedBatch] = deque(maxlen=PROGRESS_MAX_BATCHES)
        self.error: BaseException | None = None
        self.run_id = str(uuid.uuid4())
        self._take = take
        self._taking = taking
        self._is_at_work = is_at_work
        self._changed = Condition()
        self._looks = 0
        """The number of looks that have begun."""
        self._nothing_new = 0
        """The number of the last look that found nothing new."""
        self._awaited = 0
        """The number of the first look that, by finding nothing new, ends all current waits for that."""
        self._stopping = self._ended = False
        self._last_begun = time.monotonic()
        self._thread = Thread(target=self._run, name="mrql-following", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_active(self) -> bool:
        return not self._ended

    def stop(self) -> None:
        """Ends the loop after the running batch."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is None:
            self._end()
        elif current_thread() is not self._thread and not self._is_at_work():  # it may wait for this thread
            self._thread.join()

    def wait(self, seconds: float | None) -> bool:
        """Waits for the end, for at most the given number of seconds, and returns whether the loop has ended."""
        with self._changed:
            return self._changed.wait_for(lambda: self._ended, seconds)

    def process_all_available(self) -> None:
        """Waits until a look that begins after this call finds nothing new, or the loop has ended."""
        with self._changed:
            awaited = self._looks + 1
            self._awaited = max(self._awaited, awaited)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._ended or self._nothing_new >= awaited)

    # --- in its thread ------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            if self.pace.ends:
                self.feed.mark_end()
            while not self._stopping and self._look():
                pass
        except StoppedFollowing:
            pass  # the batch comes again at the next start
        except BaseException as error:
            # An error after `stop` is not raised to those who wait for the end.
            self.error = None if self._stopping else error
        finally:
            self._end()

    def _end(self) -> None:
        try:
            self.feed.close()
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _look(self) -> bool:
        """Looks for new data once, and waits for the next look; returns whether there is one."""
        begun, at = time.monotonic(), datetime.now(UTC)
        with self._changed:
            self._looks += 1
        batch = self.feed.next(whole=self.pace.is_one_batch)
        if batch:
            self._apply(batch, begun, at)
        else:
            with self._changed:
                self._nothing_new = self._looks
                self._changed.notify_all()
        if self.pace.ends and (not batch or self.pace.is_one_batch or self.feed.is_at_end):
            return False
        if not batch or self.pace.is_regular:
            self._pause(begun + self.pace.seconds - time.monotonic())
        return True

    def _apply(self, batch: Batch, begun: float, at: datetime) -> None:
        rows = self.feed.counted(batch)
        with self._taking():
            if self._stopping:
                return
            started, starts, offsets = time.monotonic(), dict(self.feed.noted), self.feed.offsets(batch)
            number = self._take(batch, offsets)
            self.feed.commit(batch, offsets)
        now = time.monotonic()
        since, ends = begun - self._last_begun, dict(self.feed.noted)
        self.batches.append(FedBatch(number, at, now - begun, now - started, since, rows, starts, ends))
        self._last_begun = begun

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._awaited > self._nothing_new, seconds)


class SourceQuery:
    """The feed of one stream of a view from a table or a log, with the interface of Spark's `StreamingQuery`.

    Tables and logs that are followed together share a thread: stopping one of them stops all.
    """

    def __init__(self, loop: SourceLoop, stream: str, name: str | None) -> None:
        self._loop = loop
        self._stream = stream
        self.name = name

    @property
    def id(self) -> str:
        """A new id at each start: the position of a stream is kept by its offset."""
        return self._loop.run_id

    @property
    def runId(self) -> str:
        """The same id."""
        return self._loop.run_id

    @property
    def isActive(self) -> bool:
        """Whether it still looks for changes: it was not stopped, and has not failed."""
        return self._loop.is_active

    def exception(self) -> BaseException | None:
        """The exception that it failed with; None if it has not failed."""
        return self._loop.error

    def stop(self) -> None:
        """Stops it after the running batch."""
        self._loop.stop()

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Waits for the end, for at most `timeout` seconds, and returns whether it has ended.

        Raises: the exception that it failed with.
        """
        ended = self._loop.wait(timeout)
        self._raise()
        return ended

    def processAllAvailable(self) -> None:
        """Waits until everything that is available now is applied.

        Raises: the exception that it failed with.
        """
        self._loop.process_all_available()
        self._raise()

    def _raise(self) -> None:
        if self._loop.error is not None:
            raise self._loop.error

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        """The progress of the last batches, in the form in which Spark reports it."""
        return [self._progress(batch) for batch in list(self._loop.batches) if self._is_in(batch)]

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        """The progress of the last batch; None if there was none."""
        return next(reversed(self.recentProgress), None)

    def _is_in(self, batch: FedBatch) -> bool:
        return bool(batch.starts[self._stream] != batch.ends[self._stream])

    def _progress(self, batch: FedBatch) -> dict[str, Any]:
        rows = batch.rows[self._stream]
        speeds = {
            "numInputRows": rows,
            "inputRowsPerSecond": rows / max(batch.since, 0.001),
            "processedRowsPerSecond": rows / max(batch.seconds, 0.001),
        }
        start, end = (json.dumps(offsets[self._stream]) for offsets in (batch.starts, batch.ends))
        place = adapted_place(self._loop.feed.watched[self._stream].spec)
        source = {"description": place, "startOffset": start, "endOffset": end, "latestOffset": end, **speeds}
        applying = round(batch.applying * 1000)
        whole = round(batch.seconds * 1000)
        return {
            "id": self.id,
            "runId": self.runId,
            "name": self.name,
            "timestamp": batch.begun.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "batchId": batch.number,
            "batchDuration": whole,
            "durationMs": {"latestOffset": whole - applying, "addBatch": applying, "triggerExecution": whole},
            "eventTime": {},
            "stateOperators": [],
            "sources": [{**source, "metrics": {}}],
            "sink": {"description": "mrql.View", "numOutputRows": -1, "metrics": {}},
            "observedMetrics": {},
            **speeds,
        }
