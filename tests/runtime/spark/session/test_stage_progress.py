"""The reported progress of running jobs."""

from __future__ import annotations

import re
from threading import Event, Thread

import pytest
from pyspark.sql import SparkSession

from mrql.runtime.spark.session.stage_progress import StageProgress
from tests.support.waiting import wait

pytestmark = pytest.mark.spark


def test_what_is_said(spark: SparkSession) -> None:
    """The progress is `planning` before and after a job, and its stage and tasks while it runs. Spark reports a job
    with some delay, so jobs are run until it has."""
    progress, seen = StageProgress(spark), Event()
    rows = spark.range(2, numPartitions=2).selectExpr("java_method('java.lang.Thread', 'sleep', 1000L + id) AS slept")

    def work() -> None:
        while not seen.is_set():
            rows.collect()

    wait(lambda: progress.said() == "planning")
    job = Thread(target=work)
    job.start()
    try:
        wait(lambda: re.fullmatch("stage 1 of 1, [01] of 2 tasks", progress.said() or "") is not None)
    finally:
        seen.set()
        job.join()
    wait(lambda: progress.said() == "planning")
