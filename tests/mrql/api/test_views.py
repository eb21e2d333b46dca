"""The lifetime of a view: reads that come too late, shared tables and sessions, and how it is closed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event
from typing import Any
from unittest.mock import patch

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.api import Delta
from mrql.runtime.spark.jvm import persistent_rdds
from mrql.runtime.spark.session import jvm_exit
from mrql.runtime.spark.session.session import MEANING, settings
from mrql.runtime.spark.state.run import Run
from tests.mrql.api.test_durable_views import QUERY, found, left, right

pytestmark = pytest.mark.spark


# --- what a batch has changed ---------------------------------------------------------------------


def test_changes_that_are_read_too_late(spark: SparkSession) -> None:
    """The changes of a batch can be read until the next batch, and then are an error, as their rows are gone."""
    with QUERY.view(spark) as view:
        view.apply(right=right(spark, (5, 10)))
        unread = view.apply(left=left(spark, (1, 5)))
        changes = view.apply(left=left(spark, (2, 5)))
        assert found(changes) == [(2, 10, 10, 1)]
        with pytest.raises(UserError, match="a row is deleted from `left` that is not there"):
            view.apply(left=Delta(delete=left(spark, (9, 9))))
        assert found(changes) == [(2, 10, 10, 1)]
        before = view.before()
        view.apply(left=left(spark, (3, 5)))
        for late in (unread, changes, before):
            with pytest.raises(UserError, match="these rows are those of an earlier batch, and are gone"):
                late.collect()
        with pytest.raises(UserError, match="these rows are those of an earlier batch"):
            view.apply(left=changes.selectExpr("_1 AS A", "_2 AS B"))
        assert found(view.answer()) == [(1, 10, 10), (2, 10, 10), (3, 10, 10)]


def test_changes_that_were_cached(spark: SparkSession) -> None:
    """Cached changes can be read for as long as they are cached."""
    with QUERY.view(spark) as view:
        view.apply(right=right(spark, (5, 10)))
        changes = view.apply(left=left(spark, (1, 5))).cache()
        assert changes.count() == 1
        view.apply(left=left(spark, (2, 5)))
        assert found(changes) == [(1, 10, 10, 1)]
        changes.unpersist()


def test_a_frame_of_rows_that_are_gone_is_no_loss(spark: SparkSession) -> None:
    """Rows that turn out to be gone only when Spark computes them are an error, and the view goes on."""
    query = mrql.compile("select (x, count(y)) from (x, y) in S group by x", S="bag((long, long))")
    with query.view(spark) as one, query.view(spark) as other:
        rows = spark.range(3).selectExpr("id AS _1", "id AS _2")
        stale = one.apply(S=rows).selectExpr("_1", "_2")
        for _ in range(2):
            one.apply(S=rows)
        with pytest.raises(mrql.MrqlError, match="rows were read that are gone"):
            other.apply(S=stale)
        other.apply(S=rows)
        assert found(other.answer()) == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.filterwarnings("ignore:toPandas attempted Arrow")
def test_an_answer_that_is_read_beside_batches(spark: SparkSession) -> None:
    """An answer read by another thread, in whatever way, is that after one batch, or an error that it is gone."""
    query = mrql.compile("select (x, count(y)) from (x, y) in S group by x", S="bag((long, long))")
    rows = spark.range(40).selectExpr("id % 20 AS _1", "id AS _2")
    ways: list[Callable[[DataFrame], list[Any]]] = [
        lambda answer: answer.collect(),
        lambda answer: answer.toPandas().itertuples(index=False),  # type: ignore[operator]
        lambda answer: answer.where("_1 >= 0").selectExpr("_1", "_2").collect(),
        lambda answer: answer.orderBy("_1").limit(30).toArrow().to_pylist(),
    ]
    done, seen, late = Event(), set[tuple[int, ...]](), set[str]()

    def read(answer: DataFrame, way: Callable[[DataFrame], list[Any]]) -> None:
        try:
            found = [tuple(row.values() if isinstance(row, dict) else row) for row in way(answer)]
        except UserError as error:
            late.add(error.message)
            return
        assert len(found) in (0, 20)
        seen.add(tuple({count for _, count in found}))

    def read_on() -> None:
        while not done.is_set():
            old = view.answer()
            for way in ways:
                read(view.answer(), way)
            read(old, ways[0])

    with query.view(spark) as view, ThreadPoolExecutor(2) as threads:
        reading = [threads.submit(read_on) for _ in range(2)]
        try:
            for _ in range(12):
                view.apply(S=rows)
        finally:
            done.set()
        for each in reading:
            each.result(60)
    assert len(seen) > 1
    assert all(len(counts) < 2 for counts in seen)
    assert late <= {"these rows are those of an earlier batch, and are gone"}


def test_an_answer_that_is_read_too_late(spark: SparkSession) -> None:
    """An answer of an earlier batch, what is derived from it and what is written from it are an error."""
    query = mrql.compile("select (x, count(y)) from (x, y) in S group by x", S="bag((long, long))")
    rows = spark.range(3).selectExpr("id AS _1", "id AS _2")
    with query.view(spark) as view:
        view.apply(S=rows)
        answer = view.answer()
        derived = answer.where("_1 > 0")
        for _ in range(3):
            view.apply(S=rows)
        for late in (answer.collect, derived.collect, derived.write.format("noop").mode("overwrite").save):
            with pytest.raises(UserError, match="these rows are those of an earlier batch, and are gone"):
                late()
        assert found(view.answer()) == [(0, 4), (1, 4), (2, 4)]
    with pytest.raises(UserError, match="the view is closed"):
        answer.collect()


# --- tables, and the session ----------------------------------------------------------------------


def test_two_views_of_one_table(spark: SparkSession) -> None:
    """Views of one table share a cached copy, which is freed when the last of them is closed."""
    reads = spark.sparkContext.accumulator(0)

    def read(rows):  # type: ignore[no-untyped-def]
        reads.add(1)
        yield from rows

    table = right(spark, (5, 1)).rdd.mapPartitions(read).toDF("C long, D long").coalesce(1)
    with ExitStack() as open_views:
        one, other = (open_views.enter_context(QUERY.view(spark, right=table)) for _ in range(2))
        one.apply(left=left(spark, (1, 5)))
        other.apply(left=left(spark, (1, 5)))
        once = reads.value
        one.close()
        assert table.storageLevel != StorageLevel.NONE
        other.apply(left=left(spark, (2, 5)))
        assert reads.value == once
        assert found(other.answer()) == [(1, 1, 1), (2, 1, 1)]
    assert table.storageLevel == StorageLevel.NONE


def test_a_session_has_one_set_of_settings_at_a_time(spark: SparkSession) -> None:
    """While a thread has changed the settings of a session, views in others wait; then the settings are as before."""
    before, done = spark.conf.getAll, []

    def others() -> None:
        with QUERY.view(spark) as view:
            view.apply(left=left(spark, (1, 5)), right=right(spark, (5, 1)))
            done.append(found(view.answer()))
        done.append(found(QUERY.batch(spark, left=left(spark, (1, 5)), right=right(spark, (5, 1)))))

    with ThreadPoolExecutor(1) as threads:
        with settings(spark, {**MEANING, "spark.sql.session.timeZone": "Asia/Tokyo"}):
            future = threads.submit(others)
            with pytest.raises(TimeoutError):
                future.result(1)
            assert not done
            assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        future.result(120)
    assert done == [[(1, 1, 1)]] * 2
    assert spark.conf.getAll == before


def test_settings_that_cannot_be_set(spark: SparkSession) -> None:
    """If setting is interrupted, the settings are as before, and are set when they are next needed."""
    wanted = {"spark.sql.session.timeZone": "Asia/Tokyo"}
    before = spark.conf.getAll
    with (
        patch("mrql.runtime.spark.jvm.conf.Switch.on", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
        settings(spark, wanted),
    ):
        raise AssertionError("the block is not to be entered")
    assert spark.conf.getAll == before
    with settings(spark, wanted):
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert spark.conf.getAll == before


# --- the end --------------------------------------------------------------------------------------


def test_a_view_is_not_closed_in_the_middle_of_a_batch(spark: SparkSession) -> None:
    """`deliver` cannot close its view: the batch fails, and the view goes on."""

    def deliver(changes: DataFrame, number: int) -> None:
        view.close()

    with QUERY.view(spark) as view:
        with pytest.raises(UserError, match="the view is at a batch"):
            view.apply(left=left(spark, (1, 5)), deliver=deliver)
        view.apply(left=left(spark, (1, 5)), right=right(spark, (5, 1)))
        assert found(view.answer()) == [(1, 1, 1)]


def test_why_spark_has_ended_is_what_is_said(spark: SparkSession) -> None:
    """If the JVM has ended, closing a view raises no error about states that could not be freed."""
    kept = persistent_rdds(spark)
    ended = Py4JNetworkError("Answer from Java side is empty")
    view = QUERY.view(spark)
    view.apply(left=left(spark, (1, 5)), right=right(spark, (5, 1)))
    with patch.object(Run, "free", side_effect=ended), patch.object(jvm_exit, "is_running", return_value=False):
        view.close()
    view.close()
    assert persistent_rdds(spark) == kept


def test_all_ends_whatever_goes_wrong_with_a_part(spark: SparkSession) -> None:
    """The states are freed even if a streaming query cannot be stopped."""
    kept = persistent_rdds(spark)
    view = QUERY.view(spark)
    view.apply(left=left(spark, (1, 5)), right=right(spark, (5, 1)))
    numbers = spark.readStream.format("rate").load().selectExpr("value AS C", "value AS D")
    following = view.follow(right=numbers)
    stop = following.queries["right"].stop
    with (
        patch.object(following.queries["right"], "stop", side_effect=OSError("no")),
        pytest.raises(OSError, match="no"),
    ):
        view.close()
    stop()
    assert view._view.closed
    assert persistent_rdds(spark) == kept
