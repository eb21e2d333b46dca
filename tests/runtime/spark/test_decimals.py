"""Queries of decimals on Spark, over insertions and deletions: after each batch the answer is that of the query, to the
last digit."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.terms import element_type
from mrql.algebra.values.decimals import EXACT, of_type, times
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Value, same
from tests.rewrite.incremental.test_sums import attempt
from tests.runtime.spark.test_sums import Followed
from tests.support.function_calls import value
from tests.support.histories import Batch, histories, net

pytestmark = pytest.mark.spark

MONEY, MANY, FRACTION = ty.DecimalType(12, 2), ty.DecimalType(38, 10), ty.DecimalType(38, 30)
ROW = ty.TupleType((ty.INT, MONEY, MANY, FRACTION))
ROWS = (
    st.integers(0, 2**32)
    .map(lambda n: value(random.Random(n), ROW, nulls=0.0))
    .map(lambda r: ((r[0] or 0) % 2, *r[1:]))
)
TYPES: dict[str, ty.Type] = {"S": ty.BagType(ROW), "T": ty.BagType(ROW)}
OVER_A_JOIN = (
    "select (k, sum(a), sum(b), sum(c), sum(a as decimal(18, 8)), avg(a), sum(if d > 0m then b else 0m))"
    " from (k, a, b, c) in S, (l, d, e, f) in T where k = l and f < e group by k: k"
)
QUERIES = [
    # Sums of few digits and of many, which may leave the range of 38 digits in between.
    "select (k, sum(a), sum(b), sum(c), avg(a), min(b), max(c), count(a)) from (k, a, b, c) in S group by k: k",
    "(sum(select b from (k, a, b, c) in S), avg(select a from (k, a, b, c) in S),"
    " count_distinct(select a from (k, a, b, c) in S))",
    # Decimals as keys of groups and of joins, and a product over a join.
    "select (a, count(b)) from (k, a, b, c) in S group by a: a",
    "select (k, sum(x.A * y.A), sum(x.A)) from x in (select <K: k, A: a> from (k, a, b, c) in S),"
    " y in (select <K: k, A: a> from (k, a, b, c) in T) where x.K = y.K group by k: x.K",
    # Sums of one side over a join, of few digits and of many, and two for which there is no common type.
    OVER_A_JOIN,
    "select (a, d) from (k, a, b, c) in S, (j, d, e, f) in T where a = d and b <= e order by a, d desc limit 3",
    "select x.T from x in (select <K: k, T: sum(a)> from (k, a, b, c) in S group by k: k) where x.T > 0.5m",
]


@seed(2026)
@settings(
    max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
@given(data=st.data())
def test_decimals_follow_rows_that_come_and_go(spark: SparkSession, data: st.DataObject) -> None:
    """After each batch the answer is the reference's, and if one is an error, so is the other."""
    text = data.draw(st.sampled_from(QUERIES))
    query = mrql.compile(text, **TYPES)
    streams = sorted(query.trace().plan.streams)
    history = data.draw(histories(dict.fromkeys(streams, ROWS), deletions=True, most=3, largest=4))
    followed = Followed(spark, query, TYPES)
    with followed.view:
        for n, batch in enumerate(history, start=1):
            contents = net(history[:n], streams)
            expected = attempt(lambda contents=contents: evaluate(query.term, contents))
            found = attempt(lambda batch=batch: followed.after(batch))
            assert_same(found, expected)
            if isinstance(found, str):
                return
    assert_same(attempt(lambda: followed.at_once(contents)), expected)


IN_SPARK = {
    "a + b": "a + b", "a - b": "a - b", "a * b": "a * b", "a / b": "a / b", "a mod b": "a % b",
    "a + i": "a + i", "i * a": "i * a", "l / a": "l / a", "a - l": "a - l", "a + 9.95m": "a + 9.95BD", "a * x": "a * x",
    "-a": "-a", "abs(a)": "abs(a)", "floor(a)": "floor(a)", "ceil(a)": "ceil(a)", "round(a)": "round(a)",
    "round(a, 2)": "round(a, 2)", "a as double": "CAST(a AS DOUBLE)",
    "sum(a)": "sum(a)", "min(a)": "min(a)", "max(a)": "max(a)", "sum(a * b)": "sum(a * b)",
}  # fmt: skip
"""Expressions of the language, and the same in Spark's SQL."""


def test_results_have_the_types_that_spark_gives_them(spark: SparkSession) -> None:
    """Results have the types that Spark's own analysis finds for the same expressions, whatever digits the operands
    have. Two differ: a common type without room for all digits is refused here, and cut off by Spark; an average has at
    most as many digits behind the point as the quotient that it is, where Spark adds zeros."""
    random_ = random.Random(7)
    refused = 0
    for _ in range(25):
        a, b = (ty.DecimalType(p, random_.randint(0, p)) for p in random_.choices(range(1, 39), k=2))
        rows = ty.BagType(ty.TupleType((a, b, ty.INT, ty.LONG, ty.DOUBLE)))
        table = f"(SELECT CAST(1 AS {a}) AS a, CAST(1 AS {b}) AS b, 1 AS i, 1L AS l, 1D AS x)"

        def ours(head: str, rows: ty.BagType = rows) -> ty.Type:
            by = " group by l" if head.startswith(("sum", "avg", "min", "max")) else ""
            return element_type(mrql.compile(f"select {head} from (a, b, i, l, x) in S{by}", S=rows).term)

        def theirs(expression: str, table: str = table) -> ty.Type:
            (field,) = spark.sql(f"SELECT {expression} AS r FROM {table}").schema
            return parse_type({"bigint": "long"}.get(t := field.dataType.simpleString(), t))

        for here, there in IN_SPARK.items():
            assert ours(here) == theirs(there), f"{here} of {a} and {b}"
        average, quotient = theirs("avg(a)"), theirs("sum(a) / CAST(count(a) AS DECIMAL(20, 0))")
        assert isinstance(average, ty.DecimalType)
        assert isinstance(quotient, ty.DecimalType)
        assert ours("avg(a)") == ty.DecimalType(average.precision, min(average.scale, quotient.scale))
        try:
            assert ours("if a > b then a else b") == theirs("if(a > b, a, b)")
        except UserError:
            refused += 1
            assert max(a.whole, b.whole) + max(a.scale, b.scale) > ty.MAX_PRECISION
    assert 0 < refused < 25


def test_sums_over_a_join_at_the_ends_of_the_range(spark: SparkSession) -> None:
    """The sum of a side may have more than 38 digits in between, and is right after deletions bring it back into the
    range."""
    query = mrql.compile(OVER_A_JOIN, **TYPES)
    most = (greatest(MANY), greatest(FRACTION))
    more, less = ((1, greatest(MONEY), *(times(number, sign) for number in most)) for sign in (1, -1))
    partner = (1, Decimal("0.01"), of_type(1, MANY), of_type(Decimal("0.5"), FRACTION))
    history = [
        Batch({"S": [more, more, less], "T": [partner]}),
        Batch({"S": [less], "T": [partner, partner]}),
        Batch({}, {"S": [less], "T": [partner, partner]}),
        Batch({"S": [more]}),
    ]
    followed = Followed(spark, query, TYPES)
    with followed.view:
        for n, batch in enumerate(history, start=1):
            contents = net(history[:n], ["S", "T"])
            expected = attempt(lambda contents=contents: evaluate(query.term, contents))
            assert_same(attempt(lambda batch=batch: followed.after(batch)), expected)


def greatest(t: ty.DecimalType) -> Decimal:
    return Decimal(10**t.precision - 1).scaleb(-t.scale, EXACT)


def assert_same(found: Value, expected: Value) -> None:
    assert same(found, expected), f"{show_value(found)}, not {show_value(expected)}"
