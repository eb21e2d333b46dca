"""Interrupted jobs are cancelled."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.spark import jvm
from mrql.runtime.spark.checkpoint import write_rows

pytestmark = pytest.mark.spark


def test_a_write_that_is_interrupted(spark: SparkSession, tmp_path: Path) -> None:
    """If a write is interrupted, as by Ctrl-C in a commit, its job ends, and what it has left can be removed."""
    slowly = "reflect('java.lang.Thread', 'sleep', 100L)"
    df = spark.range(0, 400, 1, 8).selectExpr("id", f"{slowly} AS slept")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        with pytest.raises(KeyboardInterrupt):
            write_rows(df, df.schema, (), tmp_path / "run", DurableFiles())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    DurableFiles().remove(tmp_path / "run")
    until = time.monotonic() + 5
    while spark.sparkContext.statusTracker().getActiveJobsIds():
        assert time.monotonic() < until, "the job goes on"
        time.sleep(0.05)


@pytest.mark.parametrize(("closed", "asked"), [(1, 2), (1000, 3)])
def test_connections_that_are_closed_with_the_one_of_the_call(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, closed: int, asked: int
) -> None:
    """Closed connections do not hide the interruption, and the jobs are cancelled over the next connection."""
    cancel, tried = SparkContext.cancelJobsWithTag, []

    def over_a_connection(self: SparkContext, tag: str) -> None:
        tried.append(tag)
        if len(tried) <= closed:
            raise Py4JNetworkError("Answer from Java side is empty")
        cancel(self, tag)

    monkeypatch.setattr(SparkContext, "cancelJobsWithTag", over_a_connection)
    with pytest.raises(KeyboardInterrupt), jvm.ending_with(spark):
        raise KeyboardInterrupt
    assert len(tried) == asked
    assert not spark.sparkContext.getJobTags()
