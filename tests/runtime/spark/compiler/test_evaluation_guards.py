"""What may fail is computed on Spark only where the query has it, although Spark's optimizer would move it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.values import Bag
from mrql.runtime.spark.io.collect import collect_value
from tests.support.on_spark import assert_on_spark

pytestmark = pytest.mark.spark

TYPES = {"S": parse_type("{(long, long)}"), "T": parse_type("{(long, long)}"), "W": parse_type("{(string, long)}")}
CONTENTS = {
    "S": Bag([(1, 2), (2, 3), (3, 2)]),
    "T": Bag([(1, 0), (2, 3), (3, 2), (0, 6)]),
    "W": Bag([("x", 1), ("1", 2), ("2", 3)]),
}


@pytest.mark.parametrize(
    "text",
    [
        "select (a, d) from (a, b) in S, (c, d) in T where (d <> 0 or a = 5) and 6 / d = a",
        'select (b, d) from (a, b) in S, (s, d) in W where b = d and (d = 1 or s <> "x") and (s as long) = a',
        "select (a, d, f) from (a, b) in S, (c, d) in T, (e, f) in S where a = c and d >= b and 6 / d = f",
        "select (a, d) from (a, b) in S, (c, d) in T where a = c and d >= b and 6 / d > 1",
        "select a from (a, b) in S where exists(select d from (c, d) in T where d <> 0 and 6 / d = a)",
        "select (c, if d <> 0 then count(select b from (a, b) in S where b = 6 / d) else 0) from (c, d) in T",
        "select (c, sum(6 / d)) from (c, d) in T group by c having min(d) > 0",
        "sum(select b * (6 / d) from (a, b) in S, (c, d) in T where b = d)",
        "(if min(select d from (c, d) in T) > 0 then sum(select 6 / d from (c, d) in T) else 0, count(T))",
        "select (a, if b > 5 then 6 / (count(T) - 4) else 0) from (a, b) in S",
    ],
)
def test_what_is_guarded_does_not_fail_on_spark(spark: SparkSession, text: str) -> None:
    """Each query would divide by zero, or read "x" as a number, for rows that its conditions exclude."""
    assert_on_spark(spark, text, CONTENTS, TYPES)


@pytest.mark.wide(keep=3)
@pytest.mark.parametrize(
    "text",
    [
        "select (a, d) from (a, b) in S, (c, d) in T where a < 3 and c = a + 1",
        "select a from (a, b) in S where exists(select d from (c, d) in T where a < 3 and c < 3 and c + 1 = a + 1)",
        "select (a, if a > 2 then 0 else count(select d from (c, d) in T where c = a + 1)) from (a, b) in S",
        "select (a, sum(select c + d from (c, d) in T where d = a)) from (a, b) in S where a < 3",
        "select (k, sum(a * b), avg(a - -2)) from (a, b) in S group by k: b having max(a) < 3",
        "select (a, max(select c * d from (c, d) in T where d = a and c + 1 > 2)) from (a, b) in S where a < 3",
        "select (a, (select c + d from (c, d) in T where d = a)) from (a, b) in S where a < 3",
        "select (a, count(select c from (c, d) in T where d = a and c + 2 > 4)) from (a, b) in S where a < 3",
        # the sum itself leaves the range
        "select (a, sum(select c from (c, d) in T where d = a)) from (a, b) in S where a < 3",
        "select (k, sum(a)) from (a, b) in S group by k: b having max(a) < 3",
        "select (k, sum(c)) from (a, b) in S, (c, d) in T where b = d group by k: b having max(a) < 3",
        # a value over all rows
        "if max(select a from (a, b) in S) < 3 then sum(select a + b from (a, b) in S) else 0",
        "if max(select a from (a, b) in S) < 3 then max(select a * b from (a, b) in S) else 0",
        "select (a, sum(select c + d from (c, d) in T)) from (a, b) in S where a > 3 and b < 3",
        "select (a, if b < 5 then 0 else count(select d from (c, d) in T where c + d > 2)) from (a, b) in S",
    ],
)
def test_what_leaves_its_range_does_so_only_where_it_is_asked_for_on_spark(spark: SparkSession, text: str) -> None:
    """Each query would leave the range of a long for rows that its conditions exclude."""
    greatest = Bag([(1, 2), (2, 3), (9223372036854775807, 3)])
    assert_on_spark(spark, text, {"S": greatest, "T": greatest}, TYPES)


@pytest.mark.parametrize("t", ["long", "decimal(38, 0)"])
@pytest.mark.parametrize(
    "text",
    [
        "select (a, if count(b) = 1 then (V, V + 1) else (null, null)) from (a, b) in S group by a",
        "select (a, if count(d) = 1 then [V, V] else []) from (a, b) in S, (c, d) in T where a = c group by a",
        "select a from (a, b) in S group by a having count(b) = 2 or V > 3",
        "select a from (a, b) in S group by a having count(b) = 1 and V > 3 and V < 7",
        "select (a, count(b) = 1 and V > 3 and V < 7, count(b) = 2 or V > 3 or V < 1) from (a, b) in S group by a",
        "select (a, (if count(b) = 2 then false else null) and V > 3) from (a, b) in S group by a",
        "select (a, (if count(b) = 2 then true else null) or V > 7) from (a, b) in S group by a",
    ],
)
@pytest.mark.parametrize("aggregate", ["sum(b)", "avg(b)"])
def test_a_sum_of_a_group_is_made_where_it_is_asked_for(spark: SparkSession, text: str, t: str, aggregate: str) -> None:
    """A sum that is out of range fails only where it is read, however often: Spark computes what is read twice before
    it is known whether it is read."""
    large = 2**62 if t == "long" else Decimal(9 * 10**37)
    rows = Bag([(1, large), (1, large), (2, 5 if t == "long" else Decimal(5))])
    types = {name: parse_type(f"{{(int, {t})}}") for name in "ST"}
    assert_on_spark(spark, text.replace("V", aggregate), {"S": rows, "T": Bag([(1, large), (2, large)])}, types)


def test_what_cannot_fail_is_moved_by_spark(spark: SparkSession) -> None:
    """A condition on one side of a join is evaluated before it, unless it may fail."""
    text = "select (a, d) from (a, b) in S, (c, d) in T where a = c and {}"
    frames = {name: spark.createDataFrame([], "_1 long, _2 long") for name in ("S", "T")}
    plans = []
    for condition in ("d > 1", "6 / d > 1"):
        batch = mrql.compile(text.format(condition), S=TYPES["S"], T=TYPES["T"]).batch(spark, **frames)
        plans.append(batch._jdf.queryExecution().optimizedPlan().toString().lower())
    assert ["spark_partition_id" in plan[: plan.index("join")] for plan in plans] == [False, True]
    assert ["> 1)" in plan[plan.index("join") :] for plan in plans] == [True, False]


@pytest.mark.parametrize("low", [2**63 - 1 - 20_000, 2**63 - 1 - 20])
def test_a_range_up_to_the_last_long(spark: SparkSession, low: int) -> None:
    """Whether it is made as rows or as an array."""
    query = mrql.compile(f"(max(select i from i in {low}..{2**63 - 1} where i mod 7 = 0), count({low}..{2**63 - 1}))")
    assert collect_value(query.batch(spark), query.type) == (2**63 - 1, 2**63 - low)
