"""The Python interface, given what it does not take, and queries that have no value: one message each, no trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.errors import UserError
from tests.interpreted import interpreted

QUERY = "select (k, sum(p.Y)) from p in points group by k: p.X"
POINTS = "bag(<X: long, Y: double>)"


class Pandas:
    """What pandas calls a DataFrame."""

    columns = ("X", "Y")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mrql.compile(5), "a query is a text, not a value of the type builtins.int"),
        (lambda: mrql.compile(None), "a query is a text, not None"),
        (lambda: mrql.compile("1", 7), "the name of a query is a text"),
        (lambda: mrql.compile("1", max_steps=0), "max_steps is a number of steps, 1 or more, not 0"),
        (lambda: mrql.compile("1", max_steps="x"), "max_steps is a number of steps"),
        (lambda: mrql.compile("count(s)", s=5), "the type of the stream `s` is a text or a type"),
        (lambda: mrql.compile("count(s)", s=None), "the type of the stream `s` is a text or a type, not None"),
        (lambda: mrql.compile("count(s)", s="long"), "the stream `s` must be a bag"),
        (lambda: mrql.compile(QUERY, points=POINTS).trace(loop="fast"), "there is no way 'fast' for loops"),
        (lambda: mrql.compile(QUERY, points=POINTS).explain(loop=None), "there is no way None for loops"),
        (lambda: mrql.compile(QUERY, points=POINTS).trace(epsilon="a", loop="exact"), "epsilon is a number, not"),
        (lambda: mrql.compile(QUERY, points=POINTS).batch("x"), "the session is a SparkSession, not"),
        (lambda: mrql.compile(QUERY, points=POINTS).view([1]), "the session is a SparkSession, not"),
    ],
)
def test_wrong_arguments(call: Callable[[], Any], said: str) -> None:
    """Whatever is given where something else is wanted."""
    with pytest.raises(UserError) as raised:
        call()
    assert said in raised.value.message


@pytest.mark.spark
def test_what_is_no_frame(spark: SparkSession) -> None:
    """Rows as a list, of pandas, and those that are still to come; columns that are there twice; maps."""
    query = mrql.compile(QUERY, points=POINTS)
    coming = spark.readStream.format("rate").load().selectExpr("value AS X", "1D AS Y")
    twice = spark.sql("SELECT 1L AS X, 2L AS X, 1D AS Y")
    mapped = spark.sql("SELECT map('a', 1L) AS X, 1D AS Y")
    wrong: list[tuple[Any, str]] = [
        ([(1, 2.0)], "`points` is a DataFrame of Spark, not a value of the type builtins.list"),
        (Pandas(), "`points` is a DataFrame of Spark, not a value of the type tests.test_api.Pandas"),
        (None, "`points`"),
        (coming, "`points` is a DataFrame that is still to come"),
        (twice, "`points` has the column `X` twice"),
        (mapped, "the column `X` of `points` is of type map<string,bigint>, where long was expected"),
    ]
    with query.view(spark) as view:
        for df, said in wrong:
            calls: list[Callable[[Any], object]] = [
                lambda df: query.batch(spark, points=df),
                lambda df: view.apply(points=df),
                lambda df: query.view(spark, points=df),
            ]
            if df is not None:
                calls += [
                    lambda df: view.apply(points=mrql.Delta(df)),
                    lambda df: view.apply(points=mrql.Delta(None, df)),
                ]
            for call in calls:
                with pytest.raises(UserError) as raised:
                    call(df)
                assert said in raised.value.message


@pytest.mark.spark
def test_a_query_without_a_value(spark: SparkSession) -> None:
    """What Spark finds when the answer is read is told as what it is."""
    rows = spark.sql("SELECT 0L AS X")
    answers = [
        (mrql.compile("1 / 0").batch(spark), "division by zero"),
        (mrql.compile("select 1 / p.X from p in ps", ps="bag(<X: long>)").batch(spark, ps=rows), "division by zero"),
        (mrql.compile("9223372036854775807 + 1").batch(spark), "integer overflow"),
        (mrql.compile('"x" as int').batch(spark), '"x" is not a value of type int'),
    ]
    reads: list[Callable[[DataFrame], object]]
    reads = [
        lambda df: df.collect(),
        lambda df: df.first(),
        lambda df: df.take(1),
        lambda df: df.show(),
        lambda df: df.toArrow(),
        lambda df: list(df.toLocalIterator()),
    ]
    with interpreted(spark):
        for df, said in answers:
            for read in reads if said.startswith("division") else reads[:1]:
                with pytest.raises(UserError, match=said):
                    read(df)
        assert mrql.compile("6 / 2").batch(spark).collect()[0][0] == 3
