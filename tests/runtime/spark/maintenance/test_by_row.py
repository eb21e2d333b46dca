"""Terms that give at most one element for each row of a bag, beside other states: they are compared row by row, in
place."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.json_values import of_value
from mrql.algebra.values.values import Bag, Record, Value, close
from mrql.algebra.values.zset import ZSet
from mrql.api.frames import StreamRows
from mrql.rewrite.plan.delta_rules import row_by_row
from mrql.runtime.spark.io.collect import collect_changes, collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.jvm import executed_plan
from mrql.runtime.spark.maintenance.snapshot import StatesBefore
from mrql.runtime.spark.session.session import settings
from tests.runtime.spark.test_plan_shape import NODE
from tests.support.histories import Batch
from tests.support.planning import planned

STREAMS = {
    "S": parse_type("{(long, double)}"),
    "T": parse_type("{(long, double)}"),
    "P": parse_type("{<K: long, V: double, I: {<U: long>}>}"),
    "J": parse_type("{<K: long, V: any>}"),
    "N": parse_type("{<K: long, R: <U: long>>}"),
    "L": parse_type("{(long, long)}"),
    "M": parse_type("{(long, long)}"),
}

BY_ROW = {
    "a condition": "select (a, b) from (a, b) in S where b > avg(select d from (c, d) in T)",
    "a value": "select (a, b + sum(select d from (c, d) in T)) from (a, b) in S",
    "a value and a condition": "select (a, b / count(T)) from (a, b) in S where a < max(select c from (c, d) in T)",
    "the nearest": "select (a, (select c from (c, d) in T order by (d - b) * (d - b), c)[0]) from (a, b) in S",
    "an inequality": "select (a, sum(select d from (c, d) in T where c < a)) from (a, b) in S",
    "bags": "select (p.I, p.V > avg(select d from (c, d) in T)) from p in P",
    "json": "select j.V from j in J where j.K < count(T)",
    "its own average": "select (a, b) from (a, b) in S where b > avg(select d from (c, d) in S)",
    "one of two": "select if b > avg(select d from (c, d) in T) then (a, 1.0) else (0, b) from (a, b) in S",
    "nothing of the row": "select count(T) from (a, b) in S where sum(select d from (c, d) in T) > 5",
    "records": "select (n.K, n.R) from n in N where n.K > count(T)",
}
OTHERWISE = {
    "several elements": "select i.U + count(T) from p in P, i in p.I",
    "keys": "select (a, sum(b), count(T)) from (a, b) in S group by a",
    "python": 'import "builtins:abs" as size(long): long; select size(a) from (a, b) in S where b > count(T)',
    "nothing else": "select (a, b) from (a, b) in S where b > 1",
}

INF, NAN = float("inf"), float("nan")


def p(key: int, value: float | None, *us: int | None) -> Record:
    return Record({"K": key, "V": value, "I": Bag(Record({"U": u}) for u in us)})


def j(key: int, value: Value) -> Record:
    return Record({"K": key, "V": of_value(value)})


def n(key: int, u: int | None) -> Record:
    """A row whose inner record is missing if `u` is."""
    return Record({"K": key, "R": None if u is None else Record({"U": u})})


HISTORY = (
    Batch({
        "T": ((1, 1.0), (2, 4.0)),
        "S": ((1, 2.0), (1, 2.0), (2, 3.0), (3, None), (4, INF), (5, NAN), (6, -0.0), (None, 9.0)),
        "P": (p(1, 2.0, 1, 2), p(2, 2.0, 2, 1), p(3, None), p(4, NAN, None)),
        "J": (j(1, 1), j(2, "1"), j(3, 2.5), j(2, Record({"A": [1.0]}))),
        "N": (n(2, None), n(3, 1), n(4, None), n(5, None)),
    }),
    Batch({"T": ((3, 4.0),), "N": (Record({"K": 4, "R": Record({"U": None})}),)}),
    Batch({"T": ((0, None), (0, -0.0)), "S": ((7, 2.5), (1, 2.0))}, {"S": ((2, 3.0),), "P": (p(1, 2.0, 1, 2),)}),
    Batch({"P": (p(1, 2.0, 2, 1),)}, {"T": ((3, 4.0), (1, 1.0))}),
    Batch({"S": ((2, 3.0),), "T": ((1, 1.0), (9, 1.0), (8, 8.0))}, {"S": ((1, 2.0),), "J": (j(1, 1),)}),
)  # fmt: skip
"""What is read beside the bag changes alone, and together with the bag; rows repeat, are deleted, and return."""


def is_by_row(text: str) -> bool:
    """Whether the answer, or a derived stream, is compared row by row."""
    query = mrql.compile(text, **STREAMS)
    plan = planned(query.term, shrinking=frozenset(query.streams)).plan
    return any(row_by_row(term, plan.stages) is not None for term in (plan.answer, *(d.term for d in plan.derived)))


def test_which_are_compared_row_by_row() -> None:
    """Terms are compared row by row if each row gives one element at most, which depends on more than the row."""
    assert {name for name, text in (BY_ROW | OTHERWISE).items() if is_by_row(text)} == {*BY_ROW}


def test_explain_says_so() -> None:
    """The explanation says that the elements of the bag are compared in place."""
    told = " ".join(mrql.compile(BY_ROW["a condition"], **STREAMS).explanation().split())
    assert "what each element of X1 gives is compared with what it gave, where it lies" in told


@pytest.mark.wide(keep=6)
@pytest.mark.spark
@pytest.mark.parametrize("name", BY_ROW)
def test_changes_are_those_of_the_reference(name: str, spark: SparkSession) -> None:
    """After each batch the changes so far, and the answer, are the reference's."""
    assert_follows(spark, BY_ROW[name], HISTORY)


@pytest.mark.wide
@pytest.mark.spark
def test_groups_of_what_is_compared(spark: SparkSession) -> None:
    """What an element gives again after a batch is neither taken from its group nor added to it: an infinite value has
    no inverse, so the sum would be lost."""
    text = "select (a, sum(b), count(b)) from (a, b) in S where b > avg(select d from (c, d) in T) group by a"
    assert is_by_row(text)
    assert_follows(spark, text, HISTORY)


CANCELLING = {
    "equal elements of others": (
        "select (k, sum(b)) from (a, b) in S where a >= count(T) and a <= count(T) group by k: 1",
        (Batch({"S": ((1, INF), (2, INF)), "T": ((0, 0.0),)}), Batch({"T": ((5, 5.0),)})),
    ),
    "rows that are gone": (
        "select (a, sum(b)) from (a, b) in S where a < count(T) group by a",
        (
            Batch({"S": ((1, 1e300), (1, 2.0), (1, INF))}),
            Batch({}, {"S": ((1, 1e300), (1, INF))}),
            Batch({"T": ((0, 0.0), (1, 1.0))}),
        ),
    ),
    "rows that go in the same batch": (
        "select (a, sum(b)) from (a, b) in S where a < count(T) group by a",
        (
            Batch({"S": ((1, 1e300), (1, 2.0), (1, INF))}),
            Batch({"S": ((1, -INF),), "T": ((0, 0.0), (1, 1.0))}, {"S": ((1, 1e300), (1, INF), (1, -INF))}),
        ),
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("name", CANCELLING)
def test_what_cancels_is_not_added_up(name: str, spark: SparkSession) -> None:
    """Changes that cancel are not added up: sums would be rounded or lost if all that is found row by row were added to
    them and taken away."""
    text, history = CANCELLING[name]
    assert is_by_row(text)
    assert_follows(spark, text, history)


def assert_follows(spark: SparkSession, text: str, history: Sequence[Batch]) -> None:
    query = mrql.compile(text, **STREAMS)
    assert isinstance(query.type, ty.BagType)
    read = sorted(query.trace().plan.streams)
    there = {name: ZSet() for name in read}
    found = ZSet()
    with query.view(spark) as view:
        for number, batch in enumerate(history):
            deltas = {}
            for name in read:
                come, gone = batch.inserted.get(name, ()), batch.deleted.get(name, ())
                there[name] = there[name] + ZSet.of(come) - ZSet.of(gone)
                frames = [to_dataframe(spark, rows, STREAMS[name]) if rows else None for rows in (come, gone)]
                deltas[name] = mrql.Delta(*frames)
            found = found + ZSet.weighted(collect_changes(view.apply(**deltas), query.type.item))
            expected = evaluate(query.term, {name: rows.bag() for name, rows in there.items()})
            assert close(found.bag(), expected), f"changes of batch {number}: {found.bag()!r}, not {expected!r}"
            answer = collect_value(view.answer(), query.type)
            assert close(answer, expected), f"batch {number}: {answer!r}, not {expected!r}"


@pytest.mark.spark
def test_no_row_is_moved(spark: SparkSession) -> None:
    """To find the points whose nearest centre has changed, only the centres are moved, and nothing is aggregated, since
    no change of one point cancels that of another. For the rows above an average, only the changes are aggregated."""
    nearest = "select (k, sum(a), sum(b)) from (a, b) in S group by k: (select c from (c, d) in T order by d * a)[0]"
    passing = "select (a, count(b)) from (a, b) in S where b > avg(select d from (c, d) in T) group by a"
    moving = ("Exchange", "HashAggregate", "Sort")
    assert not [node for node in above_first_scan(plan_of_change(spark, nearest)) if node.startswith(moving)]
    path = above_first_scan(plan_of_change(spark, passing))
    compared = next(i for i, node in enumerate(path) if node.startswith("Generate inline"))
    assert not [node for node in path[compared:] if node.startswith(moving)]


def above_first_scan(plan: str) -> list[str]:
    """The nodes of a plan above its first scan of rows, from the top."""
    path: list[tuple[int, str]] = []
    for line in plan.splitlines():
        tree, node = NODE.match(line).groups()  # type: ignore[union-attr]
        path = [(depth, above) for depth, above in path if depth < len(tree)]
        if node.startswith("Scan ExistingRDD"):
            break
        path.append((len(tree), node))
    return [node for _, node in path]


def plan_of_change(spark: SparkSession, text: str) -> str:
    """The physical plan for the change of the derived stream, after a change of T."""
    query = mrql.compile(text, **dict.fromkeys("ST", "bag((long, long))"))
    rows = spark.range(10).selectExpr("id % 3 AS _1", "id AS _2")
    with query.view(spark, insert_only=True) as view:
        view.apply(S=rows, T=rows)
        (derived,) = view._view.plan.derived
        step = view._view.advance({"T": StreamRows(query.streams).frame("T", rows.where("_2 > 5"), spark)})
        with settings(spark, view._view.settings):
            change = view._view.states.deltas.since(
                view._view.circuit.derived[derived.name], StatesBefore(step._before)
            )
            plan = executed_plan(change.df.dataframe(spark))
        view._view.rollback()
    return plan
