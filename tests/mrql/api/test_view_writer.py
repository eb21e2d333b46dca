"""`view.writeStream`: Spark's interface for writing streams, as another form of `follow`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from mrql.algebra.errors import UserError
from mrql.api import View
from mrql.api.view_writer import ViewWriter
from tests.mrql.api.test_durable_views import QUERY
from tests.mrql.api.test_following import files

WRITER = ViewWriter(cast(View, None))


@pytest.mark.spark
def test_changes_are_written(spark: SparkSession, tmp_path: Path) -> None:
    """The changes of each batch are written once, also by a reopened view."""
    (tmp_path / "left").mkdir()
    (tmp_path / "right").mkdir()
    (tmp_path / "right" / "1.csv").write_text("0,10\n1,20\n")
    written: dict[int, list[Any]] = {}

    def write(changes: DataFrame, number: int) -> None:
        written[number] = changes.collect()

    for number, row in enumerate(("1,0\n", "2,1\n"), 1):
        (tmp_path / "left" / f"{number}.csv").write_text(row)
        with QUERY.view(spark, checkpoint=tmp_path / "state") as view:
            writer = view.writeStream.foreachBatch(write).queryName("changed").trigger(availableNow=True)
            following = writer.outputMode("update").start(
                left=files(spark, tmp_path / "left", "A long, B long"),
                right=files(spark, tmp_path / "right", "C long, D long"),
            )
            assert {query.name for query in following.queries.values()} == {"changed-left", "changed-right"}
            assert following.awaitTermination(120)
            total = sorted(tuple(row) for row in view.answer().collect())
            rows = [tuple(row) for changes in written.values() for row in changes]
            came = [row[:-1] for row in rows if row[-1] > 0]
            for row in rows:
                if row[-1] < 0:
                    came.remove(row[:-1])
            assert sorted(came) == total
            assert len(total) == number
    assert sorted(written) == [0, 1, 2]


def test_a_writer_that_goes_on_from_another_leaves_that_as_it_was() -> None:
    named = WRITER.queryName("a")
    assert named.trigger(once=True) != named
    assert named == WRITER.queryName("a")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda: WRITER.foreachBatch(cast(Any, None)), "the changes are given to a function, not to None"),
        (lambda: WRITER.foreachBatch(cast(Any, 1)), "the changes are given to a function, not to a value of"),
        (lambda: WRITER.start("directory"), "a view is not written to a path"),
        (
            lambda: WRITER.options(checkpointLocation="d", path="p"),
            "without options, such as 'checkpointLocation', 'path'",
        ),
        (lambda: WRITER.trigger(each="day"), "Spark has no trigger 'each'"),
        (lambda: WRITER.outputMode("complete"), "what a view writes are changes, not 'complete'"),
        (lambda: WRITER.option("checkpointLocation", "d"), "without options, such as 'checkpointLocation'"),
        (lambda: WRITER.format("parquet"), "a view has no `format`: its changes are written by a function"),
        (lambda: WRITER.toTable("t"), "a view has no `toTable`: its changes are written by a function"),
        (lambda: cast(View, View.__new__(View)).writeStream.start(), "there is nothing to follow"),
    ],
)
def test_what_is_refused(step: Any, message: str) -> None:
    with pytest.raises(UserError) as refused:
        step()
    assert message in str(refused.value)


@pytest.mark.parametrize("name", [each for each in vars(DataStreamWriter) if not each.startswith("_")])
def test_each_word_of_spark_is_there_or_refused(name: str) -> None:
    """The writer has all public names of Spark's `DataStreamWriter`."""
    assert callable(getattr(WRITER, name))


def test_what_is_no_word_of_spark() -> None:
    with pytest.raises(AttributeError, match="forEach"):
        _ = WRITER.forEach
