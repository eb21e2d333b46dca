"""The progress of Spark's running jobs."""

from __future__ import annotations

import attrs
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from mrql.runtime.spark import jvm


@attrs.define
class StageProgress:
    """Reports on the jobs of a session, from any thread."""

    spark: SparkSession

    def said(self) -> str | None:
        """`stage 3 of 7, 12 of 40 tasks`, or `planning` between the jobs; None if no stage is running, or Spark cannot
        be asked."""
        if jvm.is_remote(self.spark):
            return None
        try:
            return self._said()
        except (Py4JError, OSError):  # it has ended: whoever waits for the jobs says why
            return None

    def _said(self) -> str | None:
        tracker = self.spark.sparkContext.statusTracker()
        active = tracker.getActiveJobsIds()
        if not active:
            return "planning"
        jobs = [tracker.getJobInfo(number) for number in active]
        stages = [number for job in jobs if job is not None for number in job.stageIds]
        known = [info for info in map(tracker.getStageInfo, stages) if info is not None]
        running = [info for info in known if info.numCompletedTasks < info.numTasks and info.numActiveTasks]
        if not running:
            return None
        over = sum(info.numCompletedTasks == info.numTasks for info in known)
        tasks, done = (sum(map(count, running)) for count in (lambda i: i.numTasks, lambda i: i.numCompletedTasks))
        return f"stage {over + 1} of {len(stages)}, {done} of {tasks} tasks"
