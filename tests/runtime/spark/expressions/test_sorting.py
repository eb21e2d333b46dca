"""Collections that are sorted within a row, on Spark against the reference evaluator."""

from __future__ import annotations

import math
from random import Random

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.values import Bag, Value, same
from mrql.runtime.spark import jvm
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.session.errors import translated

pytestmark = pytest.mark.spark

TYPE = "bag((long, bag((double, string, (int, bool)))))"
DOUBLES = (None, -math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan)
STRINGS = (None, "", "a", "B", "b", "é", "\U0001f600")
KEYS = ("x#0", "x#1", "x#2", "x#1, x#0", "x#0, x#1 desc", "x#0 desc", "x#1 desc, x#2", "x#0 * 0.0, x#2#1", "true")
KEYS += (
    "x#2#0 desc, x#2#1 desc",
    "x#2#0 as float desc, x#1",
    "(x#2#0 as decimal(12, 2)) desc, x#0 desc",
    "x#1 desc, x#2#0 desc",
)
KEYS += ('add_days(date("1969-12-31"), x#2#0) desc', 'add_days(timestamp("1969-12-31 12:00"), x#2#0) desc, x#1')


def rows(number: int, fewest: int) -> list[Value]:
    """Rows with a bag of elements, many of which are equal in some of their parts."""
    random = Random(number)

    def element() -> Value:
        pair = random.choice((None, 1, 2)), random.choice((None, False, True))
        return random.choice(DOUBLES), random.choice(STRINGS), pair

    return [(n, Bag([element() for _ in range(random.randint(fewest, 9))])) for n in range(60)]


@pytest.mark.wide(keep=3)
@pytest.mark.parametrize("place", ["", "[0]", "[1]"])
def test_orders(spark: SparkSession, place: str) -> None:
    """Sorted lists have the order of the reference, missing values first, and so do the elements at given positions."""
    lists = (f"(select x from x in xs order by {key}){place}" for key in KEYS)
    query = mrql.compile(f"select (n, {', '.join(lists)}) from (n, xs) in rows", rows=TYPE)
    data = rows(7, 2)
    found = collect_value(query.batch(spark, rows=to_dataframe(spark, data, query.streams["rows"])), query.type)
    expected = evaluate(query.term, {"rows": Bag(data)})
    assert isinstance(found, Bag)
    by_row = {row[0]: row for row in found}
    for row in expected:
        for key, one, other in zip(("n", *KEYS), by_row[row[0]], row, strict=True):
            assert same(one, other), f"{key}: {one!r}, not {other!r}"


def test_the_first_of_none(spark: SparkSession) -> None:
    """The first element of an empty order is the error of any other list, with its place in the query."""
    query = mrql.compile("select (select x from x in xs order by x#0)[0]#1 from (n, xs) in rows", rows=TYPE)
    answer = query.batch(spark, rows=to_dataframe(spark, [(1, Bag())], query.streams["rows"]))
    missing = pytest.raises(UserError, match="there is no element 0 in a list of 0")
    with missing as caught, translated(query.query.span.source):
        collect_value(answer, query.type)
    assert caught.value.span is not None


def test_the_first_is_not_sorted_for(spark: SparkSession) -> None:
    """The first element of an order is found as the least one, in one pass, without sorting."""
    query = mrql.compile("select (select x from x in xs order by x#0)[0]#0 from (n, xs) in rows", rows=TYPE)
    data = to_dataframe(spark, rows(1, 1), query.streams["rows"]).repartition(1)  # else it is computed while planning
    plan = jvm.executed_plan(query.batch(spark, rows=data))
    assert plan.count("array_min(") == 1
    assert "sort" not in plan
