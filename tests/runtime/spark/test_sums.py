"""The guarantees for sums, on Spark: the cases of the reference engine, and generated ones."""

from __future__ import annotations

from collections.abc import Mapping
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.errors import TooFewDigits
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Value
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.session.errors import translated
from mrql.runtime.spark.state import compaction
from tests.rewrite.incremental.test_sums import (
    CASES,
    ROWS,
    SIZES,
    SOURCES,
    TYPES,
    Case,
    assert_kept,
    attempt,
    come,
    go,
    is_as,
    queries,
)
from tests.support.histories import Batch, histories, net
from tests.support.partitions import READ_APART

pytestmark = pytest.mark.spark


def types_of(plain: Mapping[str, str]) -> dict[str, Type]:
    """The types of bags, written `bag((long, long))`."""
    return {name: parse_type("{" + text.removeprefix("bag(").removesuffix(")") + "}") for name, text in plain.items()}


class Followed:
    """A query on Spark that is kept up to date over a history."""

    def __init__(self, spark: SparkSession, query: mrql.Query, types: Mapping[str, Type]) -> None:
        self.spark, self.query, self.types = spark, query, types
        self.view = query.view(spark)

    def frame(self, rows: Mapping[str, Value], name: str) -> DataFrame | None:
        return to_dataframe(self.spark, [*rows[name]], self.types[name]) if rows.get(name) else None

    def after(self, batch: Batch) -> Value:
        """Applies one more batch, and returns the answer."""
        names = {name for rows in (batch.inserted, batch.deleted) for name in rows if rows[name]}
        deltas = {n: mrql.Delta(self.frame(batch.inserted, n), self.frame(batch.deleted, n)) for n in sorted(names)}
        self.view.apply(**deltas)
        with translated(None):
            return collect_value(self.view.answer(), self.query.type)

    def at_once(self, contents: Mapping[str, Value]) -> Value:
        """The answer over all rows, evaluated once."""
        frames = {name: to_dataframe(self.spark, [*rows], self.types[name]) for name, rows in contents.items()}
        with translated(None):
            return collect_value(self.query.batch(self.spark, **frames), self.query.type)


WAYS = [
    pytest.param(case, whole, id=f"{case.name}, {way}")
    for case in CASES
    for whole, way in ((compaction.MERGED_WHOLE_MAX_ROWS, "merged whole"), (0, "in runs"))
    if whole or len(case.history) > 1
]


@pytest.mark.wide(keep=3)
@pytest.mark.parametrize(("case", "whole"), WAYS)
def test_the_answer_is_that_of_the_query(spark: SparkSession, case: Case, whole: int) -> None:
    """The answer after each batch is that of the query, whether groups are merged whole or looked up in runs, and also
    if it is evaluated once. In runs, a deleted huge number may leave too few digits until they are merged."""
    with patch.multiple(compaction, MERGED_WHOLE_MAX_ROWS=whole, **READ_APART):
        assert_case(spark, case, once=whole > 0)


def assert_case(spark: SparkSession, case: Case, *, once: bool) -> None:
    types = dict(zip("ST", case.types, strict=True))
    query = mrql.compile(case.query, **types)
    followed = Followed(spark, query, types_of(types))
    with followed.view:
        for batch, expected in zip(case.history, case.answers, strict=True):
            found = attempt(lambda batch=batch: followed.after(batch))
            if once or found != TooFewDigits().message:
                assert is_as(found, expected), f"{case.name}: {found}"
    if once:
        streams = sorted(query.trace().plan.streams)
        found = attempt(lambda: followed.at_once(net(case.history, streams)))
        assert is_as(found, case.answers[-1]), f"{case.name}: {found}"


@pytest.mark.parametrize(
    "query",
    [
        "select (k, sum(x)) from (k, x) in S group by k",
        "select (k, avg(x)) from (k, x) in S group by k",
        "select (k, sum(x * y)) from (k, x) in S, (l, y) in T where k = l group by k",
    ],
)
def test_a_sum_with_too_few_digits_left_is_an_error(spark: SparkSession, query: str) -> None:
    """1e300 + 1e40 has no digit of 1e40, so the sum is an error once 1e300 is deleted. Once 1e40 is deleted, too, the
    sum is known."""
    types = {"S": "bag((long, double))", "T": "bag((long, double))"}
    followed = Followed(spark, mrql.compile(query, **types), types_of(types))
    with followed.view:
        followed.after(come(S=[(1, 1e300), (1, 1e40), (2, 3e40)], T=[(1, 1.0), (2, 1.0)]))
        assert attempt(lambda: followed.after(go(S=[(1, 1e300)]))) == TooFewDigits().message
        assert is_as(followed.after(go(S=[(1, 1e40)])), Bag([(2, 3e40)]))
        assert is_as(followed.after(come(S=[(1, 5.0)])), Bag([(1, 5.0), (2, 3e40)]))


@seed(2026)
@settings(
    max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
@given(data=st.data())
def test_generated_sums_keep_the_promise(spark: SparkSession, data: st.DataObject) -> None:
    """Generated sums over one, two and three streams, with deletions, are as exact as promised for all kinds of
    numbers."""
    source = data.draw(st.sampled_from([*SOURCES]))
    numbers = data.draw(st.lists(st.sampled_from(SOURCES[source]), min_size=2, max_size=3))
    streams = [name for name in ROWS if f"in {name}" in source]
    text = queries(source, numbers, "k")
    query, sized = (mrql.compile(q, **TYPES) for q in (text, queries(source, numbers, "k", SIZES)))
    history = data.draw(histories({name: ROWS[name] for name in streams}, deletions=True, most=3, largest=3))
    followed = Followed(spark, query, types_of(TYPES))
    with followed.view:
        for n, batch in enumerate(history, start=1):
            contents = net(history[:n], streams)
            expected = attempt(lambda contents=contents: evaluate(query.term, contents))
            sizes = None if isinstance(expected, str) else evaluate(sized.term, contents)
            found = attempt(lambda batch=batch: followed.after(batch))
            if found == TooFewDigits().message:
                assert any(any(before.deleted.values()) for before in history[:n])
                return
            assert_kept(found, expected, sizes)
            if isinstance(found, str):
                return
    assert_kept(attempt(lambda: followed.at_once(contents)), expected, sizes)
