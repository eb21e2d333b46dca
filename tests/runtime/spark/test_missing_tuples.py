"""Tuples and records that are missing as a whole, beside those of missing parts, on Spark.

Both are kept in columns, and the columns of a state are those of its first batch: whichever comes first, the other must
find its place in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from pyspark.sql import SparkSession

import mrql
from mrql.algebra import build as b
from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import stream_names
from mrql.algebra.build import Expr
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.monoids import Keyed
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.terms import Reduce, Stream, Term
from mrql.algebra.values.values import Bag, Record, Value, close
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from tests.support.histories import Batch, net
from tests.support.on_spark import deltas_of
from tests.support.strategies import Streams, contents, group_functions, value_of

pytestmark = pytest.mark.spark

KEYED = ty.BagType(ty.TupleType((ty.TupleType((ty.LONG, ty.LONG)), ty.LONG)))
TYPES = {"S": KEYED, "T": KEYED}
ROWS: Sequence[Value] = ((None, 1), ((None, None), 2), ((1, None), 3), ((1, 1), 4))


def assert_kept(spark: SparkSession, term: Term, arrived: Sequence[Batch], types: Mapping[str, ty.Type]) -> None:
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
    "a key of one side that is there": b.cmap(
        lambda k, g: b.single((k > 0, b.count(b.nth(g, 0)), b.count(b.nth(g, 1)))),
        b.co_group(b.cmap(lambda k, v: b.single((b.lit(1, "long"), v)), S), b.cmap(lambda k, v: b.single((v, v)), T)),
    ),
    "a pair of one side that is there": b.cmap(
        lambda k, g: b.single((k < (5, 5), b.count(b.nth(g, 0)), b.count(b.nth(g, 1)))),
        b.co_group(b.cmap(lambda k, v: b.single(((b.lit(1, "long"), b.lit(1, "long")), v)), S), T),
    ),
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


NESTED = {
    "S": parse_type("{(long, (long, long))}"),
    "T": parse_type("{(long, long, long)}"),
    "N": parse_type("{<K: long, R: <U: long>>}"),
}
FIRST = Batch(
    {
        "S": ((1, (1, 2)), (5, None)),
        "T": ((1, 1, 2), (5, None, None)),
        "N": (Record({"K": 1, "R": Record({"U": None})}), Record({"K": 2, "R": None})),
    }
)
SECOND = Batch(
    {
        "S": ((6, (None, None)), (1, None), (1, (None, None))),
        "T": ((6, None, 1),),
        "N": (Record({"K": 1, "R": None}), Record({"K": 2, "R": Record({"U": None})})),
    }
)
KEPT = [
    "select (p, count(a)) from (a, p) in S where a > count(T) group by p",
    "select (k, n.R) from n in N where n.K >= count(T) group by k: n.K",
    "select (k, p) from (k, p) in ((select (a, (b, c)) from (a, b, c) in T) union S) group by k",
    "select (k, p) from (k, p) in (S union (select (a, (b, c)) from (a, b, c) in T)) group by k",
    "select (p, 1) from p in (select distinct p from (a, p) in S where a >= avg(select b from (b, c, d) in T))",
    "select (k, count(p)) from (a, p) in (select (x, y) from (x, y) in S order by x limit 3) group by k: p",
    "select <r: r> from r in ((select n.R from n in N) except (select <U: b> from (a, b, c) in T))",
    "select (k, max(a), p) from (a, p) in S group by p, k: a = 1",
    "select (x.R, y.R) from x in N, y in N where x.K = y.K and x.K <= count(T)",
    "select (k, select p from (b, p) in S where b = k) from (k, b, c) in T",
]


@pytest.mark.parametrize("text", KEPT)
@pytest.mark.parametrize("batches", [(FIRST, SECOND), (SECOND, FIRST)], ids=["in order", "the other first"])
def test_queries(spark: SparkSession, text: str, batches: Sequence[Batch]) -> None:
    """In stages over streams, and over what other stages have made of them, of which the first rows come later."""
    term = mrql.compile(text, **NESTED).term
    assert_kept(spark, term, [*batches, Batch(dict.fromkeys(NESTED, ()), batches[0].inserted)], NESTED)


ORDERED = parse_type("{<K: long, B: {((long), long)}>}")
PAIRS = Bag([(None, 5), ((None,), 3), ((1,), 2), None])


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_a_missing_key_of_an_order(spark: SparkSession, direction: Literal["asc", "desc"]) -> None:
    """A list in a row is ordered as one over all rows is: a missing key as one of missing parts."""
    rows = b.stream("N", ORDERED)
    lists = b.cmap(lambda x: b.single(b.order_by(x.B, direction)), rows)
    first = b.cmap(lambda x: b.single(b.call(fn.AT, b.order_by(x.B, direction), 0)), rows)
    held = Bag([Record({"K": 1, "B": PAIRS})])
    for term in (lists.term, first.term):
        assert_kept(spark, term, [Batch({"N": (*held,)}), Batch({"N": ()}, {"N": (*held,)})], {"N": ORDERED})


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
    # A reduction by key is a form of states, which no query has inside a function.
    assume(not any(isinstance(part, Reduce) and isinstance(part.monoid, Keyed) for part in subterms(term)))
    batches = [Batch(first), Batch(second), Batch(dict.fromkeys(first, ()), first)]
    for n in range(1, 4):
        value_of(term, net(batches[:n], list(STREAMS)))
    types = {name: t.type if isinstance(t, Stream) else t for name, t in STREAMS.items()}
    assert_kept(spark, term, batches, types)
