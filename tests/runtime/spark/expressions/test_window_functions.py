"""Window functions and groups within a row, over lists so long that quadratic time would be noticed."""

from __future__ import annotations

from random import Random

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.values import Bag, close
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe

pytestmark = pytest.mark.spark

LONG = 2_000
BY_KEY = "select ((k, v), k) from (k, v) in xs order by k, v"
BY_VALUE = "select ((k, v), v) from (k, v) in xs order by k desc, v"
QUERIES = (
    *(f"{name}({BY_KEY})" for name in ("rank", "lag")),
    *(f"{name}({BY_VALUE})" for name in ("running_sum", "running_avg", "running_max")),
    f"ntile(({BY_KEY}), 7)",
    "histogram(select v from (k, v) in xs)",
    "(select distinct x from x in xs)",
    "((select x from x in xs where x#1 > 0.0) intersect (select x from x in xs where x#0 < 100))",
    "unique(select x from x in xs order by x)",
)


def test_long_lists(spark: SparkSession) -> None:
    """Each function has the reference's value for a long list with equal keys and missing values."""
    random = Random(2026)
    values = (None, 0.1, -0.5, 1e15, 7.25)
    rows = [(random.choice((None, *range(200))), random.choice(values)) for _ in range(LONG)]
    query = mrql.compile(f"select ({', '.join(QUERIES)}) from xs in S", S="bag(bag((int, double)))")
    data = to_dataframe(spark, [Bag(rows)], query.streams["S"])
    (found,) = collect_value(query.batch(spark, S=data), query.type)
    (expected,) = evaluate(query.term, {"S": Bag([Bag(rows)])})
    for text, one, other in zip(QUERIES, found, expected, strict=True):
        assert close(one, other, largest=1e19), text
