"""Runs merged in the background: a merge that fails, or is given up with its batch, loses no rows."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from threading import Event
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.values.values import Bag
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.jvm import persistent_rdds
from mrql.runtime.spark.state import compaction
from mrql.runtime.spark.state.compaction import BackgroundCompaction
from mrql.runtime.spark.state.packing import Packing
from mrql.runtime.spark.state.table import Table

pytestmark = pytest.mark.spark

QUERY = mrql.compile("select (x, sum(y)) from (x, y) in S group by x", S="bag((long, long))")


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treats all states as large ones."""
    monkeypatch.setattr(compaction, "MERGED_WHOLE_MAX_ROWS", 0)
    monkeypatch.setattr(compaction, "WAITED_FOR_MAX_ROWS", 0)
    monkeypatch.setattr(compaction, "LOOKED_UP_IN_BLOCKS_MIN_ROWS", 0)


def applied(view: mrql.View, spark: SparkSession, batch: int) -> None:
    """Applies a batch that replaces the value of each of five keys."""
    gone = spark.range(5).selectExpr("id AS _1", f"id + {batch - 1} AS _2")
    come = spark.range(5).selectExpr("id AS _1", f"id + {batch} AS _2")
    view.apply(S=mrql.Delta(insert=come, delete=gone if batch else None))


def merging(view: mrql.View) -> list[Table]:
    return [table for table in view._view.states.tables() if table.merging is not None]


def assert_value(view: mrql.View, batch: int) -> None:
    """Checks the answer after a batch; batch −1 is before the first one."""
    expected = Bag((x, x + batch) for x in range(5)) if batch >= 0 else Bag()
    assert collect_value(view.answer(), QUERY.type) == expected


def test_what_fails_is_logged(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """A merge that fails is logged and tried again, and no run is lost."""
    before = persistent_rdds(spark)
    with QUERY.view(spark) as view:
        for batch in range(8):
            with patch.object(Packing, "compute", side_effect=OSError("no room")) if batch < 6 else nullcontext():
                applied(view, spark, batch)
                for table in merging(view):
                    assert table.merging is not None
                    failed = table.merging.made.exception() is not None
                    assert len(table.merged_aside()) == (0 if failed else 1)
            assert_value(view, batch)
    said = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert any("the runs of a state were not merged beside the batches" in record.message for record in said)
    assert persistent_rdds(spark) <= before


@pytest.mark.wide
def test_a_merge_of_a_batch_that_is_taken_back(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge that contains rows of a batch is given up when the batch is rolled back."""
    before = persistent_rdds(spark)
    started = Table.merge_aside
    interrupted = list[int]()

    def interrupt(table: Table, aside: BackgroundCompaction) -> None:
        began = table.merging is None
        started(table, aside)
        if began and table.merging is not None and interrupted[-1:] != [batch]:
            interrupted.append(batch)
            table.merging.made.result()  # the merged run is computed, and can be taken
            raise KeyboardInterrupt

    monkeypatch.setattr(Table, "merge_aside", interrupt)
    with QUERY.view(spark) as view:
        for batch in range(8):
            try:
                applied(view, spark, batch)
            except KeyboardInterrupt:
                assert_value(view, batch - 1)
                applied(view, spark, batch)
            assert_value(view, batch)
    assert interrupted, "nothing was merged beside the batches"
    deadline = time.monotonic() + 30
    while persistent_rdds(spark) > before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert persistent_rdds(spark) <= before


def test_closing_does_not_wait_for_jobs_to_come(spark: SparkSession) -> None:
    """Closing also cancels the later jobs of a merge, which runs several, one after the other."""
    aside, first, rows = BackgroundCompaction(spark), Event(), spark.range(10)

    def jobs(tasks: int) -> None:
        for _ in range(1000):
            rows.count()
            first.set()

    made = aside.compute(jobs)
    assert first.wait(60)
    aside.close()
    assert made.exception(1) is not None
