"""Functions of groups, as terms, on Spark: keys that are missing as a whole beside keys of missing parts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from pyspark.sql import SparkSession

import mrql
from mrql.algebra import build as b
from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import stream_names
from mrql.algebra.build import Expr
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import Stream, Term
from mrql.algebra.values.values import Bag, Value, close
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from tests.support.histories import Batch, net
from tests.support.on_spark import deltas_of
from tests.support.strategies import Streams, contents, group_functions, value_of

pytestmark = pytest.mark.spark

KEYED = ty.BagType(ty.TupleType((ty.TupleType((ty.LONG, ty.LONG)), ty.LONG)))
TYPES = {"S": KEYED, "T": KEYED}
ROWS: Sequence[Value] = ((None, 1), ((None, None), 2), ((1, None), 3), ((1, 1), 4))


def assert_kept(spark: SparkSession, term: Term, arrived: Sequence[Batch], types: dict[str, ty.Type]) -> None:
    """Evaluated once and kept up to date, the term has the value that the reference evaluator gives it."""
    query = mrql.compile(term)
    types = {name: t for name, t in types.items() if name in stream_names(term)}
    own = [Batch({s: each.inserted[s] for s in types}, {s: each.deleted.get(s, ()) for s in types}) for each in arrived]
    with query.view(spark) as view:
        for n, batch in enumerate(own, start=1):
            view.apply(**deltas_of(spark, batch, types))
            expected = evaluate(term, net(own[:n], types))
            found = collect_value(view.answer(), query.type)
            assert close(found, expected), f"batch {n}: {found!r}, not {expected!r}"
    rows = net(own, types)
    expected = evaluate(term, rows)
    found = collect_value(
        query.batch(spark, **{s: to_dataframe(spark, rows[s], t) for s, t in types.items()}), query.type
    )
    assert close(found, expected), f"batch: {found!r}, not {expected!r}"


def joined(k: Expr, groups: Expr) -> Expr:
    xs, ys = b.nth(groups, 0), b.nth(groups, 1)
    return b.cmap(lambda x: b.cmap(lambda y: b.single((k, x, y)), ys), xs)


S, T = b.stream("S", KEYED), b.stream("T", KEYED)
TERMS = {
    "a join": b.cmap(joined, b.co_group(S, T)),
    "a join with a union": b.cmap(joined, b.co_group(S, b.union(T, S))),
    "a join under a group": b.group_by(
        b.cmap(lambda k, g: b.cmap(lambda k, x, y: b.single((k, x + y)), joined(k, g)), b.co_group(S, b.union(T, T)))
    ),
    "counts of both sides": b.cmap(
        lambda k, g: b.single((k, b.count(b.nth(g, 0)), b.count(b.nth(g, 1)))), b.co_group(S, T)
    ),
    "groups of a union": b.cmap(lambda k, s: b.single((k, b.sum(s))), b.group_by(b.union(S, T))),
    "groups": b.group_by(S),
}


@pytest.mark.parametrize("case", TERMS)
def test_a_missing_key_is_not_one_of_missing_parts(spark: SparkSession, case: str) -> None:
    """In each of a view's batches, and evaluated once."""
    first, second = ROWS[:2], ROWS[2:]
    batches = [
        Batch({"S": first, "T": second}),
        Batch({"S": second, "T": first}),
        Batch({"S": (), "T": ()}, {"S": first}),
    ]
    assert_kept(spark, TERMS[case].term, batches, TYPES)


STREAMS: Streams = {
    "S": KEYED,
    "T": ty.BagType(ty.TupleType((ty.INT, ty.STRING))),
    "U": ty.BagType(ty.TupleType((ty.INT, ty.LONG))),
}
ROWS_OF_STREAMS = contents(STREAMS).map(
    lambda held: {name: Bag(row for row in rows if row is not None) for name, rows in held.items()}
)
"""Contents without rows that are missing as a whole, which a DataFrame cannot hold."""


@seed(2026)
@settings(
    max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None
)
@given(group_functions(STREAMS), ROWS_OF_STREAMS, ROWS_OF_STREAMS)
def test_generated_functions_of_groups(
    spark: SparkSession, term: Term, first: dict[str, Bag], second: dict[str, Bag]
) -> None:
    """Generated ones, over rows any part of which may be missing, in two batches and a third that deletes."""
    batches = [Batch(first), Batch(second), Batch(dict.fromkeys(first, ()), first)]
    for n in range(1, 4):
        value_of(term, net(batches[:n], list(STREAMS)))
    types = {name: t.type if isinstance(t, Stream) else t for name, t in STREAMS.items()}
    assert_kept(spark, term, batches, types)
