"""Window functions over all rows run as those of Spark, and have the values that they have of a list."""

from __future__ import annotations

import re
from collections.abc import Iterable
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.values import Bag, Record, Value, close
from mrql.runtime.spark.compiler import compiler
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.jvm import executed_plan
from tests.support.strategies import present

pytestmark = pytest.mark.spark

S = ty.BagType(ty.RecordType((("k", ty.STRING), ("v", ty.LONG), ("w", ty.DOUBLE))))
ROWS = "select x from x in S order by x.k desc, x.v"
KEYED, NUMBERED, MEASURED = (
    f"select (x, x.{name}) from x in S order by x.{'w desc' if name == 'w' else name}, x.k" for name in "kvw"
)
FUNCTIONS = {
    "row_number": f"row_number({ROWS})",
    "lag": f"lag({ROWS})",
    "lag of many": f"lag(({ROWS}), 3)",
    "lag of more than there are": f"lag(({ROWS}), 9223372036854775807)",
    "lag of a negative number": f"lag(({ROWS}), -2)",
    "lead": f"lead({ROWS})",
    "lead of none": f"lead(({ROWS}), 0)",
    "ntile": f"ntile(({ROWS}), 3)",
    "ntile of more than there are": f"ntile(({ROWS}), 99)",
    "rolling": f"rolling(({ROWS}), 3)",
    "rolling of more than there are": f"rolling(({ROWS}), 9223372036854775807)",
    "rolling of what is missing": "rolling((select x.v from x in S order by x.k), 2)",
    **{name: f"{name}({KEYED})" for name in ("rank", "dense_rank", "percent_rank", "cume_dist")},
    **{f"{name} of doubles": f"{name}({MEASURED})" for name in ("rank", "dense_rank", "percent_rank", "cume_dist")},
    "rank of what is not ordered by": "rank(select (x, x.w) from x in S order by x.v)",
    **{name: f"{name}({NUMBERED})" for name in ("running_sum", "running_min", "running_max")},
    **{f"{name} of doubles": f"{name}({MEASURED})" for name in ("running_sum", "running_avg", "running_max")},
    "running_min of texts": f"running_min({KEYED})",
    "running_sum of decimals": "running_sum(select (x.k, x.v as decimal(20, 2)) from x in S order by x.v, x.k)",
    "running_avg of decimals": "running_avg(select (x.k, x.v as decimal(20, 2)) from x in S order by x.v, x.k)",
    "of pairs that are missing": "running_max(select if x.v > 3 then (x, x.w) else null from x in S order by x.w, x.k)",
    "of the numbers of rows": f"running_sum(row_number({ROWS}))",
    "of the rows before": f"rolling(lag({ROWS}), 2)",
    "of atoms": "row_number(select x.v from x in S order by x.v)",
    "of units": "row_number(select () from x in S order by x.v)",
}


def row(k: str | None, v: int | None, w: float | None) -> Value:
    return Record({"k": k, "v": v, "w": w})


FEW = [
    *[row("a", 1, 0.5), row("b", 2, 1.5)] * 2,
    row("a", 7, -0.0), row("c", 3, 0.0), row("c", None, float("nan")), row(None, 3, float("inf")),
    row(None, None, None), row("b", 2, 1e308), row("d", 5, 1e308), row("", -4, -1e308), row("d", 5, 5e-324),
]  # fmt: skip


def query_of(function: str) -> mrql.Query:
    return mrql.compile(f"select (p, q) from (p, q) in {function}", S=S)


def in_spark(spark: SparkSession, query: mrql.Query, rows: Iterable[Value]) -> Value:
    return collect_value(query.batch(spark, S=to_dataframe(spark, rows, S)), query.type)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_what_they_are_of_a_list(spark: SparkSession, name: str) -> None:
    query = query_of(FUNCTIONS[name])
    frame = to_dataframe(spark, FEW, S)
    answer = query.batch(spark, S=frame)
    assert "Window [" in executed_plan(answer)
    assert "ObjectHashAggregate" not in executed_plan(answer), "all rows in one"
    assert executed_plan(answer).count("Sort [") == (2 if "cume_dist" in name else 1)
    assert close(collect_value(answer, query.type), evaluate(query.term, {"S": Bag(FEW)}))


def test_of_no_rows(spark: SparkSession) -> None:
    query = mrql.compile(f"({', '.join(f'count({function})' for function in FUNCTIONS.values())})", S=S)
    assert set(in_spark(spark, query, [])) == {0}


@pytest.mark.wide(keep=4)
@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(present(S.item), max_size=9).map(Bag))
def test_of_any_rows(spark: SparkSession, name: str, rows: Bag) -> None:
    query = query_of(FUNCTIONS[name])
    try:
        expected = evaluate(query.term, {"S": rows})
    except UserError as error:
        with pytest.raises(UserError, match=re.escape(str(error))):
            in_spark(spark, query, rows)
    else:
        assert close(in_spark(spark, query, rows), expected)


def test_they_follow_rows_that_come_and_go(spark: SparkSession) -> None:
    """In a view, window functions are computed over a state, whose rows have weights."""
    names = ("row_number", "rank", "cume_dist", "lag", "rolling", "running_sum")
    query = mrql.compile(f"({', '.join(f'(select p from p in {FUNCTIONS[name]})' for name in names)})", S=S)
    with query.view(spark) as view, patch.object(compiler, "over_rows", wraps=compiler.over_rows) as used:
        there: list[Value] = []
        for come, gone in ((FEW[:6], []), (FEW[4:], FEW[:3]), ([FEW[0]] * 3, FEW[5:8])):
            there += come
            for each in gone:
                there.remove(each)
            deltas = [to_dataframe(spark, rows, S) if rows else None for rows in (come, gone)]
            view.apply(S=mrql.Delta(*deltas))
            assert close(collect_value(view.answer(), query.type), evaluate(query.term, {"S": Bag(there)}))
        assert used.call_count >= len(names)


def test_a_sum_on_the_way_that_is_no_long_is_an_error(spark: SparkSession) -> None:
    query = query_of(FUNCTIONS["running_sum"])
    greatest = 2**63 - 1
    with pytest.raises(UserError, match="integer overflow"):
        in_spark(spark, query, [row("a", 1, None), row("b", greatest, None)])
    kept = mrql.compile(f"select (p, q) from (p, q) in {FUNCTIONS['running_sum']} where p.v < 1", S=S)
    rows = [row("a", -1, None), row("b", greatest, None)]
    assert close(in_spark(spark, kept, rows), evaluate(kept.term, {"S": Bag(rows)}))


@pytest.mark.parametrize(("number", "message"), [("0", "1 or more"), ("-1", "1 or more")])
def test_rows_are_parted_in_some(spark: SparkSession, number: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        in_spark(spark, query_of(f"ntile(({ROWS}), {number})"), FEW)


@pytest.mark.parametrize("function", [f"rolling(({ROWS}), 0)", f"lag(({ROWS}), count(S))", "row_number([1, 2])"])
def test_others_are_functions_of_a_list(spark: SparkSession, function: str) -> None:
    query = query_of(function)
    assert close(in_spark(spark, query, FEW), evaluate(query.term, {"S": Bag(FEW)}))


@pytest.mark.parametrize("name", ["row_number", "cume_dist", "running_sum", "of the rows before"])
def test_a_list_as_the_answer_has_its_order(spark: SparkSession, name: str) -> None:
    query = mrql.compile(FUNCTIONS[name], S=S)
    answer = query.batch(spark, S=to_dataframe(spark, FEW, S))
    assert "Window [" in executed_plan(answer)
    assert close(collect_value(answer, query.type), evaluate(query.term, {"S": Bag(FEW)}))


def test_the_first_rows_are_a_limit(spark: SparkSession) -> None:
    """A condition on the number of a row is a limit: of all rows, only the first two are sorted."""
    query = mrql.compile(f"select (p, q) from (p, q) in row_number({ROWS}) where q <= 2", S=S)
    answer = query.batch(spark, S=to_dataframe(spark, FEW, S))
    assert "TakeOrderedAndProject(limit=2" in executed_plan(answer)
    assert close(collect_value(answer, query.type), evaluate(query.term, {"S": Bag(FEW)}))
