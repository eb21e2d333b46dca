"""The first elements of an order are kept up to date from batch to batch, and equal those of the whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, Record, Value, close
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.plan.delta_rules import first_elements
from mrql.runtime.spark.io.collect import collect_changes, collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.maintenance import prefixes
from mrql.runtime.spark.maintenance.deltas import Deltas
from mrql.runtime.spark.maintenance.prefixes import BOUND, is_before
from tests.support.histories import Batch, histories, net
from tests.support.on_spark import deltas_of
from tests.support.partitions import DRAWN, SHORT_PREFIXES, states
from tests.support.planning import planned

STREAMS = {
    "S": parse_type("{(long, double)}"),
    "T": parse_type("{(long, long)}"),
    "P": parse_type("{<K: long, V: string, I: {long}>}"),
}

FOLLOWED = {
    "groups": "select (a, sum(b)) from (a, b) in S group by a order by sum(b) desc, a limit 2",
    "groups that are alike": "select count(b) from (a, b) in S group by a order by count(b) limit 3",
    "groups of some": "select (a, max(b)) from (a, b) in S group by a having count(b) > 1 order by max(b) limit 2",
    "groups of a join": "select (a, sum(d)) from (a, b) in S, (c, d) in T where a = c group by a order by a limit 2",
    "what is nested": "select (p.K, count(p.I)) from p in P group by p.K order by p.K desc limit 2",
    "rows": "select (a, b) from (a, b) in S order by b desc, a limit 3",
    "rows that are alike": "select b from (a, b) in S where a > 0 order by b limit 2",
    "rows of a join": "select (b, d) from (a, b) in S, (c, d) in T where a = c order by d desc, b limit 2",
    "rows with bags": "select p from p in P order by p.V limit 2",
    "none": "select a from (a, b) in S order by a limit 0",
}
OTHERWISE = {
    "all": "select (a, sum(b)) from (a, b) in S group by a order by a",
    "so many as there are of others": "select a from (a, b) in S order by a limit count(T)",
    "two": "select x from g in (select (a, sum(b)) from (a, b) in T group by a), x in {1, 2} order by x limit 1",
    "beside a total": "select (a, sum(b) / count(T)) from (a, b) in S group by a order by a limit 2",
    "a part of it": "(select a from (a, b) in S order by a limit 5)[1:2]",
}

few = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None)


@contextmanager
def short() -> Iterator[list[str]]:
    """A block in which prefixes are short; yields how each was made: `followed`, `too short`, or from the `whole`."""
    made: list[str] = []
    followed, of_whole = prefixes.Prefixes._followed, prefixes.Prefixes._of_whole

    def noted(self: Any, *arguments: Any) -> Any:
        found = followed(self, *arguments)
        made.append("too short" if found is None else "followed")
        return found

    def noted_whole(self: Any, *arguments: Any) -> Any:
        made.append("whole")
        return of_whole(self, *arguments)

    with (
        patch.multiple(prefixes, **SHORT_PREFIXES),
        patch.object(prefixes.Prefixes, "_followed", noted),
        patch.object(prefixes.Prefixes, "_of_whole", noted_whole),
    ):
        yield made


def assert_follows(spark: SparkSession, text: str, arrived: list[Batch]) -> None:
    """After each batch the answer is the reference's, and so are the changes so far."""
    query = mrql.compile(text, **STREAMS)
    item = query.type.item  # type: ignore[union-attr]
    with query.view(spark) as view:
        accumulated = ZSet.of(evaluate(query.term, net([], query.streams)))
        for number, batch in enumerate(arrived, start=1):
            changes = view.apply(**deltas_of(spark, batch, STREAMS))
            expected = evaluate(query.term, net(arrived[:number], query.streams))
            found = collect_value(view.answer(), query.type)
            assert close(found, expected), f"batch {number}: {show_value(found)}, not {show_value(expected)}"
            accumulated = accumulated + ZSet.weighted(collect_changes(changes, item))
            assert close(accumulated.bag(), Bag(expected)), f"changes of batch {number}"


def test_which_are_followed() -> None:
    """First elements are followed if each row of one state makes one of them at most, or they are linear in it."""
    found = set()
    for name, text in (FOLLOWED | OTHERWISE).items():
        query = mrql.compile(text, **STREAMS)
        plan = planned(query.term, shrinking=frozenset(query.streams)).plan
        found |= {name} if first_elements(plan.answer, plan.stages) is not None else set()
    assert found == {*FOLLOWED}


def rows(name: str) -> st.SearchStrategy[Value]:
    """Rows, many of them equal, with missing, infinite and NaN values to order by."""
    keys = st.sampled_from([None, -1, 0, 1, 2])
    match name:
        case "S":
            return st.tuples(keys, st.sampled_from([None, 0.5, -0.0, 0.0, float("inf"), float("nan"), -1.0]))
        case "T":
            return st.tuples(keys, keys)
        case _:
            names = st.sampled_from([None, "", "a", "\U0001f600", "é"])
            return st.builds(lambda key, name: Record({"K": key, "V": name, "I": Bag([1])}), keys, names)


@pytest.mark.wide(keep=3)
@pytest.mark.spark
@pytest.mark.parametrize("how", DRAWN)
@pytest.mark.parametrize("name", FOLLOWED)
def test_the_first_are_those_of_the_whole(name: str, how: str, spark: SparkSession) -> None:
    """The first elements are those of the whole, over batches that may delete them, in any number of partitions."""
    text = FOLLOWED[name]
    streams = {stream: rows(stream) for stream in STREAMS if f" in {stream}" in text}

    @seed(2026)
    @settings(few, max_examples=2)
    @given(histories(streams, deletions=True, fewest=3, most=4, largest=5))
    def follows(arrived: list[Batch]) -> None:
        with states(how), short():
            assert_follows(spark, text, arrived)

    follows()


@pytest.mark.spark
def test_a_prefix_is_followed_until_it_is_too_short(spark: SparkSession) -> None:
    """Deleted elements are replaced by those that were kept beyond the first; when these are used up, the whole is read
    again."""
    text = FOLLOWED["groups"]
    there = Batch({"S": tuple((a, float(a)) for a in range(9))}, {})
    later = [
        Batch({"S": ((8, 1.0),)}, {}),
        Batch({}, {"S": ((8, 8.0), (8, 1.0))}),
        Batch({"S": ((20, 20.0), (0, 0.5))}, {"S": ((7, 7.0),)}),
        Batch({}, {"S": ((20, 20.0), (6, 6.0))}),
        Batch({"S": ((1, 0.5),)}, {"S": ((5, 5.0),)}),
    ]
    with short() as made:
        assert_follows(spark, text, [there, *later])
    assert made[0] == "whole"
    assert {"followed", "too short"} <= {*made}


@pytest.mark.spark
def test_nothing_else_is_read(spark: SparkSession) -> None:
    """The whole is not read after a batch that leaves enough of the prefix, or that changes nothing of it."""
    query = mrql.compile(FOLLOWED["groups"], **STREAMS)
    first = to_dataframe(spark, [(a, float(a)) for a in range(9)], STREAMS["S"])
    with patch.multiple(prefixes, STATE_MIN_ROWS=0), query.view(spark) as view:
        view.apply(S=first)
        view.answer()
        with patch.object(Deltas, "all_of", side_effect=AssertionError), patch.object(Deltas, "answer", None):
            for row, expected in (((3, 9.0), [(3, 12.0), (8, 8.0)]), ((None, None), [(3, 12.0), (8, 8.0)])):
                view.apply(S=to_dataframe(spark, [row], STREAMS["S"]))
                assert collect_value(view.answer(), query.type) == expected
                assert collect_value(view.answer(), query.type) == expected
            view.apply(S=to_dataframe(spark, [], STREAMS["S"]))
            assert collect_value(view.answer(), query.type) == expected


@pytest.mark.spark
def test_a_batch_that_is_taken_back(spark: SparkSession) -> None:
    """The prefix of a batch that is rolled back is not used after it, and that of the batch before it is."""
    query = mrql.compile(FOLLOWED["groups"], **STREAMS)

    with short(), query.view(spark) as view:
        view.apply(S=to_dataframe(spark, [(a, float(a)) for a in range(5)], STREAMS["S"]))
        assert collect_value(view.answer(), query.type) == [(4, 4.0), (3, 3.0)]
        more = {"S": mrql.Delta(to_dataframe(spark, [(0, 90.0)], STREAMS["S"]))}
        with pytest.raises(UserError, match="a row is deleted from `S`"):
            view.apply(S=mrql.Delta(delete=to_dataframe(spark, [(0, 7.5)], STREAMS["S"])))
        assert collect_value(view.answer(), query.type) == [(4, 4.0), (3, 3.0)]
        view.apply(**more)
        assert collect_value(view.answer(), query.type) == [(0, 90.0), (4, 4.0)]
        assert collect_value(view.before(), query.type) == [(4, 4.0), (3, 3.0)]


@pytest.mark.spark
def test_where_most_are_alike(spark: SparkSession) -> None:
    """If most elements are equal there is no bound: the whole is read, and prefixes are not tried in each batch."""
    query = mrql.compile("select count(b) from (a, b) in S group by a order by count(b) desc limit 3", **STREAMS)
    with short() as made, query.view(spark) as view:
        for number in range(6):
            view.apply(S=to_dataframe(spark, [(10 * number + a, 1.0) for a in range(9)], STREAMS["S"]))
            assert collect_value(view.answer(), query.type) == [1, 1, 1]
    assert 0 < len(made) < 5


@pytest.mark.spark
def test_is_before_as_spark_sorts(spark: SparkSession) -> None:
    """`is_before` agrees with Spark's order on any two rows, with missing, infinite, NaN and negative zero values, in
    both directions."""
    df = spark.sql(
        "SELECT a, b, c FROM VALUES (NULL), (-0.0D), (0.0D), (1.5D), (double('NaN')), (double('inf')) AS t(a), "
        "VALUES (NULL), (''), ('a') AS u(b), VALUES (array(1, NULL)), (array(1)), (NULL) AS v(c)"
    ).localCheckpoint()
    bounds = df.selectExpr(*(f"{name} AS {BOUND}{i}" for i, name in enumerate("abc")))
    for descending in ((False, False, False), (True, False, True), (False, True, True), (True, True, False)):
        sort = list(zip("abc", descending, strict=True))
        order = ", ".join(f"{name} {'DESC' if down else 'ASC'}" for name, down in sort)
        bound_order = ", ".join(f"{BOUND}{i} {'DESC' if down else 'ASC'}" for i, (_, down) in enumerate(sort))
        ranked = df.selectExpr("*", f"dense_rank() OVER (ORDER BY {order}) AS rank")
        beside = bounds.selectExpr("*", f"dense_rank() OVER (ORDER BY {bound_order}) AS bound_rank")
        wrong = ranked.crossJoin(beside).where(f"({is_before(sort)}) <> (rank < bound_rank)")
        assert wrong.count() == 0, descending


OTHERS = parse_type("{<K: long, M: decimal(10, 2), D: date, B: binary, L: [long], T: (long, string)>}")


def other(number: int) -> Record:
    """A row by its number; among several, each column but `K` has missing values and equal ones."""
    n = number % 7
    parts: dict[str, Value] = {
        "K": number,
        "M": None if n == 0 else Decimal(n % 5) / 4 - 1,
        "D": None if n == 1 else date(1, 1, 1 + n % 3),
        "B": None if n == 2 else bytes([n % 3]),
        "L": None if n == 3 else [n % 2, None, n],
        "T": None if n == 4 else (n % 2, "x" * (n % 3)),
    }
    return Record(parts)


@pytest.mark.spark
@pytest.mark.parametrize("by", ["M, D desc", "B desc", "L", "L desc", "T desc, M"])
def test_orders_of_values_of_other_types(spark: SparkSession, by: str) -> None:
    """Missing values come first, or last in descending order, for a bound as in Spark's order."""
    order = ", ".join(f"o.{column}" for column in by.split(", "))
    query = mrql.compile(f"select (o.K, o.M, o.T) from o in O order by {order} limit 3", O=OTHERS)
    there: list[Value] = []
    with short() as made, query.view(spark) as view:
        for batch in range(5):
            come, gone = [other(n) for n in range(6 * batch, 6 * batch + 6)], there[: 3 * (batch > 1)]
            there = there[len(gone) :] + come
            deleted = to_dataframe(spark, gone, OTHERS) if gone else None
            view.apply(O=mrql.Delta(to_dataframe(spark, come, OTHERS), deleted))
            found, expected = collect_value(view.answer(), query.type), evaluate(query.term, {"O": Bag(there)})
            assert close(found, expected), f"batch {batch}: {show_value(found)}, not {show_value(expected)}"
    assert "followed" in made
