"""Groups that are neither few nor many are looked up while batches touch few of them, and otherwise merged whole."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.values import Bag
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.jvm import persistent_rdds
from mrql.runtime.spark.state import compaction
from tests.runtime.spark.test_plan_shape import groups

pytestmark = pytest.mark.spark

SCHEMA = "_1 long, _2 long"
GROUPS = 40


@pytest.fixture(autouse=True)
def neither_few_nor_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts all tables between the two limits; after a batch that touches many groups, two are merged whole."""
    monkeypatch.setattr(compaction, "SPARSE_MERGED_WHOLE_MAX_ROWS", 5)
    monkeypatch.setattr(compaction, "MERGED_WHOLE_MAX_BATCHES", 2)
    monkeypatch.setattr(compaction, "FEW_TOUCHED_MIN_RATIO", 4)


def apply(spark: SparkSession, view: mrql.View, come: list[tuple[int, int]], gone: list[tuple[int, int]]) -> bool:
    """Applies a batch; returns whether groups were looked up in it."""
    frames = [spark.createDataFrame(rows, SCHEMA) if rows else None for rows in (come, gone)]
    view.apply(S=mrql.Delta(*frames))
    looked_up = groups(view._view).batch.by_runs
    assert looked_up is not None
    return looked_up


def test_batches_that_touch_many_are_merged_whole(spark: SparkSession) -> None:
    """Groups are looked up in a batch that touches many, which is not known before, merged whole in the next two, and
    then looked up again."""
    query = mrql.compile("select (x, sum(y)) from (x, y) in S group by x", S="bag((long, long))")
    many, few = [(x, 1) for x in range(GROUPS)], [(3, 1), (5, 1)]
    with query.view(spark) as view:
        looked_up = [apply(spark, view, rows, []) for rows in (many, few, few, many, few, few, few, many, few)]
    assert looked_up == [False, True, True, True, False, False, True, True, False]


def test_a_batch_that_is_taken_back_says_nothing(spark: SparkSession) -> None:
    query = mrql.compile("select (x, sum(y)) from (x, y) in S group by x", S="bag((long, long))")
    many = [(x, 1) for x in range(GROUPS)]
    with query.view(spark) as view:
        apply(spark, view, many, [])
        with pytest.raises(mrql.UserError, match="deleted"):
            apply(spark, view, many, [(1000, 1)])
        assert apply(spark, view, [(3, 1)], [])


@pytest.mark.wide(keep=2)
@pytest.mark.parametrize(
    "text",
    [
        "select (x, sum(y), max(y)) from (x, y) in S group by x",
        "select (n, count(x)) from (x, n) in (select (x, count(y)) from (x, y) in S group by x) group by n",
        "select x from (x, y) in S group by x having sum(y) > 3",
    ],
)
def test_both_are_exact(spark: SparkSession, text: str) -> None:
    """Both ways have the reference's answer after each batch, of few rows and of many, with deletions."""
    drawn, query, before = random.Random(text), mrql.compile(text, S="bag((long, long))"), persistent_rdds(spark)
    there: Counter[tuple[int, int]] = Counter()
    seen = set()
    with query.view(spark) as view:
        for batch in range(10):
            few = batch and drawn.random() < 0.6
            come = [(drawn.randrange(GROUPS), drawn.randrange(4)) for _ in range(3 if few else 2 * GROUPS)]
            gone = drawn.sample([*there.elements()], min(len(come) // 2, there.total()))
            there.update(come)
            there.subtract(gone)
            seen.add(apply(spark, view, come, gone))
            expected = evaluate(query.term, {"S": Bag(there.elements())})
            assert collect_value(view.answer(), query.type) == expected
    assert seen == {False, True}
    assert persistent_rdds(spark) <= before
