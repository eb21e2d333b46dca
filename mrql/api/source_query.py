"""The thread that feeds a view with tables and logs, and what is to each of their streams what a streaming query of
Spark is to a DataFrame."""

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
"""So long after a look at which there was nothing new comes the next one, as with `mrql stream`."""
PROGRESS_MAX_BATCHES = 100
"""Of so many batches the progress is kept, as Spark does."""


@attrs.frozen
class Pace:
    """When tables and logs are looked at, as a trigger of Spark says it."""

    seconds: float = LOOK_SECONDS
    """How long after a look the next one comes."""
    is_regular: bool = False
    """Whether that is so after a batch, too."""
    ends: bool = False
    """Whether it ends when what was there at first was read."""
    is_one_batch: bool = False
    """Whether all that is there is one batch, and the last one."""

    @staticmethod
    def of(trigger: Mapping[str, Any] | None, spark: SparkSession) -> Pace:
        """Raises: UserError where Spark does not take the trigger, or tables and logs are not followed so."""
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
    """A batch that the view has, for its progress."""

    number: int
    begun: datetime
    seconds: float
    """How long all of it took."""
    applying: float
    """How long the view took."""
    since: float
    """How long after the batch before it began, or after the beginning."""
    rows: Mapping[str, int]
    starts: Mapping[str, Json]
    ends: Mapping[str, Json]


class SourceLoop:
    """Looks at tables and logs, and has the view take what is new, until it is stopped or something fails."""

    def __init__(
        self,
        feed: SourceFeed,
        pace: Pace,
        take: Callable[[Batch, Mapping[str, Json]], int],
        taking: Callable[[], AbstractContextManager[None]],
        is_at_work: Callable[[], bool],
    ) -> None:
        """`take` applies a batch with the offsets behind it, and returns its number, in the block that `taking` makes;
        `is_at_work` says whether this thread is in such a block."""
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
        """How many looks have begun."""
        self._nothing_new = 0
        """The last look at which there was nothing new."""
        self._awaited = 0
        """Up to this look somebody waits for one at which there is nothing new."""
        self._stopping = self._ended = False
        self._last_begun = time.monotonic()
        self._thread = Thread(target=self._run, name="mrql-following", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_active(self) -> bool:
        return not self._ended

    def stop(self) -> None:
        """Ends it after the batch that is running."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is None:
            self._end()
        elif current_thread() is not self._thread and not self._is_at_work():  # it may wait for what this thread is at
            self._thread.join()

    def wait(self, seconds: float | None) -> bool:
        """Waits for the end, for so many seconds at most; whether it has ended."""
        with self._changed:
            return self._changed.wait_for(lambda: self._ended, seconds)

    def process_all_available(self) -> None:
        """Waits until a look that begins from now on finds nothing new, or it has ended."""
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
            pass  # the batch comes with the next start
        except BaseException as error:
            # One that comes after the wish to stop is none of whoever waits for the end.
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
        """Looks once, and waits for the next time; whether there is one."""
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
    """What feeds one stream of a view with a table or a log: what a `StreamingQuery` of Spark has, by the same names.

    Tables and logs that are followed together are one thread: with one of them all are stopped.
    """

    def __init__(self, loop: SourceLoop, stream: str, name: str | None) -> None:
        self._loop = loop
        self._stream = stream
        self.name = name

    @property
    def id(self) -> str:
        """Another one after each start: what goes on is known by its offsets."""
        return self._loop.run_id

    @property
    def runId(self) -> str:
        return self._loop.run_id

    @property
    def isActive(self) -> bool:
        return self._loop.is_active

    def exception(self) -> BaseException | None:
        """What has failed."""
        return self._loop.error

    def stop(self) -> None:
        """Ends it after the batch that is running."""
        self._loop.stop()

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Waits for the end, for so many seconds at most; whether it has ended.

        Raises: what has failed.
        """
        ended = self._loop.wait(timeout)
        self._raise()
        return ended

    def processAllAvailable(self) -> None:
        """Waits until all that is there by now is applied.

        Raises: what has failed.
        """
        self._loop.process_all_available()
        self._raise()

    def _raise(self) -> None:
        if self._loop.error is not None:
            raise self._loop.error

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        """What there is to say of the last batches, as Spark says it of its own."""
        return [self._progress(batch) for batch in list(self._loop.batches) if self._is_in(batch)]

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        """The same of the last one; None where there was none."""
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
