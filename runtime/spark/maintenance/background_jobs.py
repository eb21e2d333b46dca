"""What is computed of a view while what comes of it is planned: Spark plans on one core, and computes on the others."""

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
    """Computes what is kept, a job at a time, and does not wait for it."""

    spark: SparkSession
    uncomputed: Callable[[], list[Run]]
    """The runs whose rows are not known."""
    check: Callable[[], None]
    """Looks at what was computed, and raises an error if it is not as it should be."""
    job: jvm.Job | None = None
    """The job that was started last, if it was not waited for."""
    started: list[Run] = attrs.Factory(list)
    """The runs of all jobs since it was finished last."""
    counts: list[int] = attrs.Factory(list)
    """The rows of those whose job was waited for."""

    def start(self, touched: Sequence[Any] = ()) -> None:
        """Starts to compute all runs that nothing computes yet, and to count the rows of other handles with them."""
        self._wait()
        runs = [run for run in self.uncomputed() if run not in self.started]
        self.job = jvm.Job.started(self.spark, [*(run.rdd for run in runs), *touched])
        self.started += runs

    def go_on(self) -> None:
        """Does so where nothing is computed now."""
        if self.job is None or self.job.is_done:
            self.start()

    def finish(self) -> list[int]:
        """Waits for all that was started; from then on the runs know their rows. Returns those of other handles."""
        self._wait()
        for run, rows in zip(self.started, self.counts, strict=False):
            run.rows = rows
        others = self.counts[len(self.started) :]
        self.started, self.counts = [], []
        self.check()
        return others

    def give_up(self) -> None:
        """Gives up what was started."""
        job, self.job, self.started, self.counts = self.job, None, [], []
        if job is not None:
            with suppress(Py4JError, ConnectionError):
                job.cancel()
                job.counts()

    def _wait(self) -> None:
        if self.job is not None:
            self.counts += self.job.counts()
            self.job = None
