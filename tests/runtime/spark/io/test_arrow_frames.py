"""Rows of pandas and of Arrow, which are accepted wherever DataFrames of Spark are."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.runtime.spark.io.arrow_frames import spark_frame, spark_schema, spark_type

NOON = datetime(2026, 7, 1, 12)
POINTS = "bag(<X: long, Y: double, T: timestamp>)"


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (pa.uint64(), "decimal128(20, 0)"),
        (pa.float16(), "float"),
        (pa.string_view(), "string"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.large_list(pa.struct([("a", pa.uint32())])), "list<item: struct<a: int64>>"),
        (pa.map_(pa.string(), pa.uint8()), "map<string, int16>"),
        (pa.list_(pa.month_day_nano_interval()), None),
        (pa.struct([("a", pa.month_day_nano_interval())]), None),
    ],
)
def test_types_that_spark_does_not_have(given: pa.DataType, taken: str | None) -> None:
    """An Arrow type that Spark does not have is read as one with all its values; if there is none, types that contain
    it have none, either."""
    found = spark_type(given)
    assert (found and str(found)) == taken


def test_types_for_a_query() -> None:
    """A frame can be given for the type of a stream; columns without a type in the language are left out."""
    table = pa.table({"N": pa.array([1], pa.uint8()), "gone": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    assert spark_schema(table, "`s`").simpleString() == "struct<N:smallint>"
    assert str(mrql.compile("s", s=table).type) == "{<N: int>}"
    assert str(mrql.compile("s", s=pd.DataFrame({"A": ["x"], "B": [1.0]})).type) == "{<A: string, B: double>}"


NO_ROWS = pd.DataFrame({"X": [], "Y": [], "T": []})
"""A frame without rows; to pandas, each column is one of doubles."""


@pytest.mark.spark
def test_no_rows_of_pandas(spark: SparkSession) -> None:
    """A frame without rows is a batch without rows, whatever pandas takes for the types of its columns."""
    one = pd.DataFrame({"X": [1], "Y": [0.5], "T": [NOON]})
    query = mrql.compile("select p.X from p in points", points=POINTS)
    assert query.batch(spark, points=NO_ROWS).collect() == []
    assert (mrql.Delta(NO_ROWS) + mrql.Delta(one)).insert.schema.field("X").type == pa.int64()
    with query.view(spark) as view:
        for batch, answer in ((NO_ROWS, []), (mrql.Delta(one, NO_ROWS), [(1,)]), (mrql.Delta(NO_ROWS, one), [])):
            view.apply(points=batch)
            assert view.answer().collect() == answer


def test_integers_that_pandas_has_as_doubles() -> None:
    """Integers that pandas has as doubles are an error, since a whole double need not have been an integer."""
    frame = pd.DataFrame({"X": [1, None]})
    with pytest.raises(UserError, match="`X` of `points` is of type double, where long was expected") as caught:
        spark_frame(frame, ty.RecordType((("X", ty.LONG),)), "`points`", Mock())
    assert "Int64" in (caught.value.hint or "")


class Polars:
    """A frame of another library, which exports its rows by Arrow's C interface."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.spark
def test_frames_in_all_places(spark: SparkSession) -> None:
    """Frames can be evaluated, inserted, deleted, added up, and used as static tables. What pandas takes for missing is
    missing; a time without a zone is that time, whatever the zone of the session is."""
    frame = pd.DataFrame({"Y": [1.0, float("nan")], "T": [NOON, NOON], "X": [1, 2], "other": [object(), 1]})
    table = pa.table({"X": [3], "Y": [2.0], "T": [NOON]})
    query = mrql.compile("select (p.X, p.Y, p.T) from p in points", points=POINTS)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        with query.view(spark) as view:
            assert sorted(query.batch(spark, points=frame).collect()) == [(1, 1.0, NOON), (2, None, NOON)]
            assert query.batch(spark, points=Polars(table)).collect() == [(3, 2.0, NOON)]
            assert view.apply(points=frame).count() == 2
            in_spark = spark.createDataFrame([(4, 1.0, NOON)], "X long, Y double, T timestamp_ntz")
            frame = frame[["X", "Y", "T"]]
            batch = mrql.Delta(table) - mrql.Delta(frame) + mrql.Delta(in_spark)
            changes = sorted((row[0], row.weight) for row in view.apply(points=batch).collect())
            assert changes == [(1, -1), (2, -1), (3, 1), (4, 1)]
            assert (mrql.Delta(table) + mrql.Delta(table)).insert.num_rows == 2
            joined = mrql.compile("select p.X from p in points, x in xs where p.X = x", points=POINTS, xs="bag(long)")
            with joined.view(spark, xs=pa.table({"x": [3]})) as other:
                assert other.apply(points=table).collect() == [(3, 1)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))


@pytest.mark.spark
def test_frames_that_do_not_fit(spark: SparkSession) -> None:
    """Frames are checked by the same rules as DataFrames of Spark."""
    query = mrql.compile("select p.X from p in points", points="bag(<X: long, D: decimal(4, 1), T: timestamp>)")
    right = {"X": [1], "D": [Decimal("1.5")], "T": [NOON]}
    days = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    wrong: list[tuple[Any, str]] = [
        (pa.table({**right, "X": ["a"]}), "the column `X` of `points` is of type string, where long was expected"),
        (pa.table({**right, "D": [1.5]}), "`D` of `points` is of type double, where decimal(4, 1) was expected"),
        (pa.table({**right, "X": days}), "the column `X` of `points` is of type month_day_nano_interval, which Spark"),
        (pa.table({**right, "T": pa.array([1], pa.timestamp("ns"))}), "`points` cannot be given to Spark: Casting"),
        (pa.table({"Y": [1]}), "`points` has no column `X`"),
        (pd.DataFrame([[1, 2]], columns=["X", "X"]), "`points` has the column `X` twice"),
        (pd.DataFrame({**right, "X": [object()]}), "`points` cannot be read: "),
    ]
    for frame, said in wrong:
        with pytest.raises(UserError) as raised:
            query.batch(spark, points=frame)
        assert said in raised.value.message


@pytest.mark.spark
def test_a_long_as_a_float_is_rounded_once(spark: SparkSession) -> None:
    """A column of longs where floats are expected is converted as the language converts a long."""
    number = 2**54 + 2**30 + 1
    frame = spark.createDataFrame([(number, number)], "X long, Y long")
    query = mrql.compile("select (p.X, p.Y as float) from p in points", points="bag(<X: float, Y: long>)")
    assert query.batch(spark, points=frame).collect() == [(2.0**54 + 2.0**31,) * 2]


def test_batches_of_other_columns() -> None:
    with pytest.raises(UserError, match="two batches of other columns are not one: "):
        mrql.Delta(pa.table({"X": [1]})) + mrql.Delta(pa.table({"X": ["a"]}))


@pytest.mark.spark
def test_batches_with_columns_in_another_order(spark: SparkSession) -> None:
    """Rows of records are matched by the names of their columns, and tuples by their places: which of them a stream
    has, a sum of batches cannot know. A batch that is given in two steps can."""
    one, other = pa.table({"X": [1], "Y": [10]}), pa.table({"Y": [1], "X": [20]})
    in_spark = [spark.createDataFrame([(1, 10)], "X long, Y long"), spark.createDataFrame([(1, 20)], "Y long, X long")]
    for first, second in ((one, other), in_spark, (one, in_spark[1]), (in_spark[0], other)):
        with pytest.raises(UserError, match="one has 'X', 'Y', the other 'Y', 'X'"):
            mrql.Delta(first) + mrql.Delta(delete=first, insert=second)
    with mrql.compile("select (p.X, p.Y) from p in S", S="bag(<X: long, Y: long>)").view(spark) as view:
        with view.batch() as batch:
            batch.apply(S=one)
            batch.apply(S=other)
        assert sorted(map(tuple, view.answer().collect())) == [(1, 10), (20, 1)]
