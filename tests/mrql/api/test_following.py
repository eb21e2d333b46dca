"""Views that follow streaming DataFrames: each batch is applied once."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress

import mrql
from mrql.algebra.errors import EngineError, UserError
from mrql.api import View
from tests.mrql.api.test_durable_views import QUERY, found, left, right
from tests.runtime.checkpoint.streams import write
from tests.support.data_sources import Lines

pytestmark = pytest.mark.spark

NOW = {"availableNow": True}


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return spark


def files(spark: SparkSession, directory: Path, schema: str) -> DataFrame:
    """A stream of the files in a directory, one for each batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).csv(str(directory))


def numbers(spark: SparkSession) -> DataFrame:
    """An endless stream of three rows in each batch."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
    return source.selectExpr("value % 2 AS C", "value AS D")


def answer(spark: SparkSession, view: View, lefts: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    """The expected answer of a view, by its committed offsets."""
    rows = spark.range((view.offsets["right"]["batchId"] + 1) * 3).selectExpr("id % 2 AS C", "id AS D")
    return found(QUERY.batch(spark, left=left(spark, *lefts), right=rows))


def test_two_streams_at_their_own_pace(session: SparkSession, tmp_path: Path) -> None:
    """Two streams are followed at their own pace and over a restart, and the delivered changes add up to the answer."""
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "1.csv").write_text("1,0\n2,1\n")
    (tmp_path / "left" / "2.csv").write_text("3,0\n")
    state, delivered = tmp_path / "state", {}

    def deliver(changes: DataFrame, number: int) -> None:
        delivered[number] = changes.collect()

    with QUERY.view(session, checkpoint=state) as view:
        following = view.follow(left=files(session, tmp_path / "left", "A long, B long"), deliver=deliver, trigger=NOW)
        assert following.awaitTermination(120)
        assert view.offsets["left"]["batchId"] == 1
        more = view.follow(right=numbers(session), deliver=deliver, query_name="more")
        assert more.queries["right"].name == "more-right"
        while view.batches < 4:
            assert not more.awaitTermination(0.1)
        assert more.isActive
        assert more.recentProgress["right"]
        more.stop()
        assert not more.isActive
        assert found(view.answer()) == answer(session, view, [(1, 0), (2, 1), (3, 0)])
        batches, before = view.batches, view.offsets
    (tmp_path / "left" / "3.csv").write_text("4,1\n")
    with QUERY.view(session, checkpoint=state) as view:
        assert (view.batches, view.offsets) == (batches, before)
        following = view.follow(left=files(session, tmp_path / "left", "A long, B long"), deliver=deliver, trigger=NOW)
        assert following.awaitTermination(120)
        assert view.offsets["left"]["batchId"] == 2
        assert found(view.answer()) == answer(session, view, [(1, 0), (2, 1), (3, 0), (4, 1)])
        assert sorted(delivered) == [*range(view.batches)]
        total: dict[tuple[int, ...], int] = {}
        for row in (row for rows in delivered.values() for row in rows):
            total[tuple(row[:-1])] = total.get(tuple(row[:-1]), 0) + row[-1]
        assert sorted(row for row, weight in total.items() if weight) == found(view.answer())


def test_a_data_source_in_python(session: SparkSession, tmp_path: Path) -> None:
    """A data source in Python that is registered with Spark is followed over a restart."""
    session.dataSource.register(Lines)
    (tmp_path / "n").write_text("1\n2\n3\n")
    query = mrql.compile(
        "select (k, count(x), sum(x.n)) from x in numbers group by k: x.n mod 2", numbers="bag(<n: long>)"
    )
    for lines, answered in ((3, [(0, 1, 2), (1, 2, 4)]), (5, [(0, 2, 6), (1, 3, 9)])):
        (tmp_path / "n").write_text("".join(f"{n}\n" for n in range(1, lines + 1)))
        with query.view(session, checkpoint=tmp_path / "state") as view:
            coming = session.readStream.format("lines").load(str(tmp_path / "n"))
            assert view.follow(numbers=coming, trigger=NOW).awaitTermination(120)
            assert found(view.answer()) == answered


def test_what_fails_is_said(session: SparkSession, tmp_path: Path) -> None:
    """An error in a batch is raised without Spark's or Java's wrapping; wrong arguments are refused at once."""
    (tmp_path / "1.csv").write_text("1,0\n")
    stream = files(session, tmp_path, "A long, B long")
    with QUERY.view(session) as view:

        def deliver(changes: DataFrame, number: int) -> None:
            raise UserError("there is no room for it")

        following = view.follow(left=stream, deliver=deliver, trigger=NOW)
        for _ in range(2):
            with pytest.raises(UserError, match="there is no room for it"):
                following.awaitTermination(120)
        following.stop()
        with pytest.raises(UserError, match="there is no room for it"):
            following.awaitTermination(120)
        assert view.batches == 0
        with pytest.raises(UserError, match="`left` is a DataFrame that does not stream"):
            view.follow(left=left(session, (1, 0)))
        with pytest.raises(UserError, match="the query has no stream `wrong`"):
            view.follow(wrong=stream)
        with pytest.raises(UserError, match="`right` has no column `C`"):
            view.follow(right=stream)
        with pytest.raises(UserError, match="there is nothing to follow"):
            view.follow()
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"trigger": "5 seconds"}, "a trigger is a dict of what"),
            ({"trigger": {}}, "a trigger is one of those that Spark has, not 0"),
            ({"trigger": {**NOW, "once": True}}, "a trigger is one of those that Spark has, not 2"),
            ({"trigger": {"every": "5 seconds"}}, "Spark has no trigger 'every'; its triggers: processingTime, once"),
            ({"trigger": {5: 5}}, "Spark has no trigger 5"),
            ({"trigger": {"processingTime": 5}}, "Spark does not take the trigger: "),
            ({"trigger": {"availableNow": False}}, "Spark does not take the trigger: "),
            ({"deliver": 5}, "deliver is a function of changes and a number, not"),
            ({"queryName": "fed"}, "called query_name here"),
        ]
        for arguments, said in wrong:
            with pytest.raises(UserError, match=said):
                view.follow(left=stream, **arguments)
        with pytest.raises(UserError, match="deliver is a function of changes and a number, not"):
            view.for_each_batch("left", deliver=5)  # type: ignore[arg-type]
        failing = stream.withColumn("A", udf(lambda value: value // 0, "long")("A"))
        with pytest.raises(EngineError, match=r"Spark failed: ZeroDivisionError: .*line \d+, in <lambda>"):
            view.follow(left=failing, trigger=NOW).awaitTermination(120)
    with QUERY.view(session, right=right(session, (0, 1))) as view, pytest.raises(UserError, match="a static table"):
        view.follow(right=stream)


def test_a_stream_is_followed_once(session: SparkSession, tmp_path: Path) -> None:
    """A stream is followed by one query at a time; another stream may be followed beside it."""
    (tmp_path / "1.csv").write_text("1,0\n")
    stream = files(session, tmp_path, "A long, B long")
    with QUERY.view(session, checkpoint=tmp_path / "_state") as view:
        following = view.follow(left=stream)
        with pytest.raises(UserError, match="`left` is followed already"):
            view.follow(right=numbers(session), left=stream)
        more = view.follow(right=numbers(session))
        following.processAllAvailable()
        following.stop()
        (tmp_path / "2.csv").write_text("2,1\n")
        assert view.follow(left=stream, trigger=NOW).awaitTermination(120)
        more.stop()
        assert found(view.answer()) == answer(session, view, [(1, 0), (2, 1)])


@pytest.mark.wide
def test_rows_that_replace_each_other_are_followed(session: SparkSession, tmp_path: Path) -> None:
    """The batches of a followed stream with a key are upserts, with and without a version, and over a restart."""
    query = mrql.compile("select (r.id, r.n) from r in rows", rows="bag(<id: long, n: long>)")
    for keys in ({"rows": "id"}, {"rows": mrql.key("id", version="n")}):
        home = tmp_path / str(len([*tmp_path.iterdir()]))
        home.mkdir()
        for number, (text, there) in enumerate((("1,5\n2,6\n", [(1, 5), (2, 6)]), ("1,7\n", [(1, 7), (2, 6)]))):
            (home / f"{number}.csv").write_text(text)
            with query.view(session, keys=keys, checkpoint=home / "_state") as view:
                following = view.follow(rows=files(session, home, "id long, n long"), trigger=NOW)
                assert following.awaitTermination(120)
                assert found(view.answer()) == there


@pytest.mark.wide
def test_it_is_stopped_by_what_a_batch_is_delivered_to(session: SparkSession, tmp_path: Path) -> None:
    """If `deliver` stops its query and another one, its batch counts and is the last one, and nothing deadlocks."""
    (tmp_path / "1.csv").write_text("0,0\n1,1\n")
    delivered: list[int] = []

    def deliver(changes: DataFrame, number: int) -> None:
        delivered.append(changes.count())
        if len(delivered) == 3:
            more.stop()
            lefts.stop()

    with QUERY.view(session, checkpoint=tmp_path / "state") as view:
        lefts = view.follow(left=files(session, tmp_path, "A long, B long"))
        lefts.processAllAvailable()
        more = view.follow(right=numbers(session), deliver=deliver)
        assert more.awaitTermination(120)
        assert lefts.awaitTermination(120)
        assert len(delivered) == 3
        assert view.offsets["right"]["batchId"] == 2
        assert found(view.answer()) == answer(session, view, [(0, 0), (1, 1)])


def test_another_query_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """A second query for a stream, with its own checkpointLocation, is refused: its batches need not be new ones."""
    (tmp_path / "1.csv").write_text("1,0\n")
    with QUERY.view(session) as view:
        for _ in range(2):
            following = view.follow(left=files(session, tmp_path, "A long, B long"), trigger=NOW)
            if view.batches == 0:
                assert following.awaitTermination(120)
            else:
                with pytest.raises(UserError, match="`left` was fed by another streaming query, up to its batch 0"):
                    following.awaitTermination(120)
        assert view.batches == 1


def test_batches_without_rows_of_a_stream(session: SparkSession, tmp_path: Path) -> None:
    """A function for `for_each_batch` may omit streams without rows; those fed before get the offset all the same."""
    for number, text in enumerate(("l,1,5\n", "r,5,1\n", "x,0,0\n", "l,2,5\nr,5,7\n")):
        write(tmp_path / f"{number}.csv", text, number)

    def moved(batch: DataFrame) -> dict[str, DataFrame]:
        there = {row[0] for row in batch.collect()}
        made = {"l": ("left", "a AS A", "b AS B"), "r": ("right", "a AS C", "b AS D")}
        return {made[s][0]: batch.where(f"s = '{s}'").selectExpr(*made[s][1:]) for s in sorted(there & {*made})}

    with QUERY.view(session, checkpoint=tmp_path / "state") as view:
        stream = files(session, tmp_path, "s string, a long, b long")
        stream.writeStream.foreachBatch(view.for_each_batch(moved)).trigger(**NOW).start().awaitTermination(120)
        assert view.batches == 4
        assert {offset["batchId"] for offset in view.offsets.values()} == {3}
        assert found(view.answer()) == [(1, 8, 7), (2, 8, 7)]


KEYS = {name for name, found in vars(StreamingQueryProgress).items() if isinstance(found, property)}
KEYS -= {"json", "prettyJson"}
"""The fields of Spark's progress for a batch."""


class Heard(StreamingQueryListener):
    """A listener that records the events of streaming queries."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def onQueryStarted(self, event: Any) -> None:
        self.told.append(f"{event.name} started")

    def onQueryProgress(self, event: Any) -> None:
        self.told.append(f"{event.progress.numInputRows} rows")

    def onQueryIdle(self, event: Any) -> None:
        """Not recorded."""

    def onQueryTerminated(self, event: Any) -> None:
        self.told.append("ended")


def test_a_listener_hears_of_it(session: SparkSession, tmp_path: Path) -> None:
    """A listener hears of a followed stream as of any streaming query, and its progress has all of Spark's fields."""
    (tmp_path / "1.csv").write_text("1,0\n2,1\n")
    heard = Heard()
    session.streams.addListener(heard)
    try:
        with QUERY.view(session) as view:
            stream = files(session, tmp_path, "A long, B long")
            following = view.follow(left=stream, trigger=NOW, query_name="fed")
            assert following.awaitTermination(120)
            (last,) = following.recentProgress["left"]
            assert {*last} == KEYS
            query = following.queries["left"]
            assert (str(last["id"]), str(last["runId"]), last["name"]) == (query.id, query.runId, "fed-left")
            assert (last["batchId"], last["numInputRows"], last["stateOperators"]) == (0, 2, [])
            assert (last["eventTime"], last["observedMetrics"]) == ({}, {})
            assert last["processedRowsPerSecond"] > 0
            assert last["inputRowsPerSecond"] >= 0
            assert datetime.fromisoformat(last["timestamp"]).tzinfo is not None
            assert 0 < last["durationMs"]["addBatch"] <= last["batchDuration"]
            (source,) = last["sources"]
            assert (source["numInputRows"], str(tmp_path) in source["description"]) == (2, True)
            assert "ForeachBatch" in last["sink"]["description"]
            until = time.monotonic() + 20
            while "ended" not in heard.told and time.monotonic() < until:
                time.sleep(0.05)
            assert heard.told == ["fed-left started", "2 rows", "ended"]
    finally:
        session.streams.removeListener(heard)


def test_queries_that_are_stopped_have_not_failed(session: SparkSession, tmp_path: Path) -> None:
    """Queries that reach a batch after a stop request, but before they are stopped, end without an error; their batch
    comes with the next start."""
    for number in range(3):
        write(tmp_path / f"{number}.csv", f"{number},0\n", number)
    heard = Failures()
    session.streams.addListener(heard)
    try:
        with QUERY.view(session, checkpoint=tmp_path / "state") as view:
            following = view.follow(left=files(session, tmp_path, "A long, B long"), right=numbers(session))
            while not {"left", "right"} <= view.offsets.keys():
                assert not following.awaitTermination(0.1)
            with view._view.lock:
                following._stopping = True
                batches = view.batches
            time.sleep(1)
            assert following.isActive
            following.stop()
            assert view.batches == batches
            assert following.awaitTermination(1)
            assert [query.exception() for query in following.queries.values()] == [None, None]
        while len(heard.exceptions) < 2:
            time.sleep(0.1)
        assert heard.exceptions == [None, None]
        with QUERY.view(session, checkpoint=tmp_path / "state") as view:
            again = view.follow(left=files(session, tmp_path, "A long, B long"), trigger=NOW)
            assert again.awaitTermination(120)
            assert view.offsets["left"]["batchId"] == 2
    finally:
        session.streams.removeListener(heard)


class Failures(StreamingQueryListener):
    """A listener that records the error with which each query has ended, if any."""

    def __init__(self) -> None:
        self.exceptions: list[str | None] = []

    def onQueryStarted(self, event: Any) -> None:
        """Not recorded."""

    def onQueryProgress(self, event: Any) -> None:
        """Not recorded."""

    def onQueryIdle(self, event: Any) -> None:
        """Not recorded."""

    def onQueryTerminated(self, event: Any) -> None:
        self.exceptions.append(event.exception)
