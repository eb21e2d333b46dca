"""Jobs that compute runs of a view while a batch is planned: Spark plans on one core, and computes on the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import attrs
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from mrql.runtime.spark import jvm
from mrql.runtime.spark.state.run import Run


@attrs.define
class BackgroundJobs:
    """Computes the runs of a view in the background, one job at a time."""

    spark: SparkSession
    uncomputed: Callable[[], list[Run]]
    """The runs whose number of rows is not known yet."""
    check: Callable[[], None]
    """Checks what was computed, and raises an error if it is wrong."""
    job: jvm.Job | None = None
    """The last job that was started, until it is waited for."""
    started: list[Run] = attrs.Factory(list)
    """The runs of all jobs since the last `finish`."""
    counts: list[int] = attrs.Factory(list)
    """The numbers of rows of those whose job was waited for."""

    def start(self, touched: Sequence[Any] = ()) -> None:
        """Starts a job for all runs that no job computes yet, which also counts the rows of the handles `touched`."""
        self._wait()
        runs = [run for run in self.uncomputed() if run not in self.started]
        self.job = jvm.Job.started(self.spark, [*(run.rdd for run in runs), *touched])
        self.started += runs

    def go_on(self) -> None:
        """Starts a job, unless one is running."""
        if self.job is None or self.job.is_done:
            self.start()

    def finish(self) -> list[int]:
        """Waits for all jobs, after which runs know their numbers of rows. Returns those of the other handles."""
        self._wait()
        for run, rows in zip(self.started, self.counts, strict=False):
            run.rows = rows
        others = self.counts[len(self.started) :]
        self.started, self.counts = [], []
        self.check()
        return others

    def give_up(self) -> None:
        """Cancels the last job, and forgets all that was started."""
        job, self.job, self.started, self.counts = self.job, None, [], []
        if job is not None:
            with suppress(Py4JError, ConnectionError):
                job.cancel()
                job.counts()

    def _wait(self) -> None:
        if self.job is not None:
            self.counts += self.job.counts()
            self.job = None
