"""Rows of a batch, or of a static table, that might differ when they are read again are computed once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import mrql
from mrql.algebra.errors import UserError
from mrql.runtime.spark import jvm


@pytest.mark.parametrize(
    ("query", "insert_only"),
    [
        ("select (k, sum(v)) from (k, v) in S group by k", False),
        ("select (k, sum(v), (select w from w in v)) from (k, v) in S group by k", True),
        ("count(select a from a in S, b in S where a#0 = b#0)", True),
        ("count(S)", True),
    ],
)
def test_each_row_is_computed_once(spark: SparkSession, query: str, insert_only: bool) -> None:
    computed = spark.sparkContext.accumulator(0)

    def row(number: int) -> tuple[int, int]:
        computed.add(1)
        return number % 2, number

    with mrql.compile(query, S="bag((long, long))").view(spark, insert_only=insert_only) as view:
        rows = spark.createDataFrame(spark.sparkContext.parallelize(range(3), 1).map(row), "_1 long, _2 long")
        view.apply(S=rows)
        assert view.answer().collect()
        assert computed.value == 3


def test_a_static_table_is_computed_once(spark: SparkSession) -> None:
    computed = spark.sparkContext.accumulator(0)

    def row(number: int) -> tuple[int]:
        computed.add(1)
        return (number,)

    names = spark.createDataFrame(spark.sparkContext.parallelize(range(3), 1).map(row), "_1 long")
    query = mrql.compile(
        "select (x, count(y)) from x in S, y in T where x = y group by x", S="bag(long)", T="bag(long)"
    )
    with query.view(spark, T=names) as view:
        for _ in range(3):
            view.apply(S=spark.range(2))
        assert sorted(map(tuple, view.answer().collect())) == [(0, 3), (1, 3)]
        assert computed.value == 3
    assert not names.is_cached


def test_what_is_read_in_place(spark: SparkSession, tmp_path: Path) -> None:
    """Files and kept rows are read in place, also with operations on each row; rows that may differ or are costly are
    not."""
    numbers = spark.range(4)
    numbers.write.parquet(str(tmp_path / "numbers"))
    cached = numbers.join(numbers.withColumnRenamed("id", "b"), F.col("id") == F.col("b")).cache()
    plus = F.udf(lambda n: n + 1, LongType())
    local = spark.createDataFrame(numbers.toArrow())
    expected: list[tuple[DataFrame, bool]] = [
        (spark.read.parquet(str(tmp_path / "numbers")).where("id > 1").selectExpr("id + 1"), True),
        (numbers.union(numbers), True),
        (local, True),
        (spark.createDataFrame([(1,)], "a long").localCheckpoint(), True),
        (cached, True),
        (spark.createDataFrame([(1,)], "a long"), False),
        (numbers.selectExpr("rand()"), False),
        (numbers.select(plus("id")), False),
        (numbers.groupBy().count(), False),
        (numbers.limit(2), False),
    ]
    assert [jvm.is_read_in_place(df) for df, _ in expected] == [known for _, known in expected]
    cached.unpersist()


def test_nothing_is_held_for_a_view_that_is_not_made(spark: SparkSession) -> None:
    """If a view cannot be made, as when a loop over static tables has no value, none of its tables is held."""
    names = spark.createDataFrame(spark.sparkContext.parallelize([(0,)], 1), "_1 long")
    query = mrql.compile(
        "select x from x in S, y in (repeat z = T step select w / w from w in z limit 2) where x = y",
        S="bag(long)",
        T="bag(long)",
    )
    with pytest.raises(UserError, match="division by zero"):
        query.view(spark, T=names)
    assert not names.is_cached
