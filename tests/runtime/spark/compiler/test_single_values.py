"""Values computed from all rows, each in one row."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.jvm import executed_plan

pytestmark = pytest.mark.spark


def test_one_value_is_joined_with_nothing(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(2,), (1,), (3,)], "a long")
    query = mrql.compile("select (x, n) from (x, n) in row_number(select x from x in S order by x)", S="bag(long)")
    answer = query.batch(spark, S=rows)
    assert "Join" not in executed_plan(answer)
    assert sorted(collect_value(answer, query.type)) == [(1, 1), (2, 2), (3, 3)]


def test_several_values_are_put_beside_each_other(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(2,), (1,), (3,)], "a long")
    query = mrql.compile("(sum(S), max(S), (select x from x in S order by x)[0])", S="bag(long)")
    assert collect_value(query.batch(spark, S=rows), query.type) == (6, 3, 1)
