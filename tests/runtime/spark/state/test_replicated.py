"""A change that meets a state by another key than it lies by is a stage of the batch's job, and no broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Value, close
from mrql.runtime.spark.compiler import join
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.jvm.handles import items
from mrql.runtime.spark.relation import plan_cache
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.state import compaction, replicated
from tests.support.histories import Batch, histories, net
from tests.support.partitions import SEVERAL, states

pytestmark = pytest.mark.spark

STREAMS = dict.fromkeys("STU", parse_type("{(long, double)}")) | {"V": parse_type("{(string, long)}")}

BY_TWO_KEYS = {
    "of two keys": "select (a, b, f) from (a, b) in S, (c, d) in T, (e, f) in U where a = c and d = f",
    "of texts": "select (c, b, g) from (c, d) in V, (a, b) in S, (s, g) in V where d = a and s = c",
    "groups": "select (c, sum(b * g)) from (c, d) in V, (a, b) in S, (f, g) in U where d = a and g = b group by c",
    "of pairs": "select (a, e) from (a, b) in S, (c, d) in T, (e, f) in U where (a, 1) = (c, 1) and (d, 2) = (f, 2)",
}

few = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None)


def rows(name: str) -> st.SearchStrategy[Value]:
    keys = st.sampled_from([None, 0, 1, 2])
    values = st.sampled_from([None, -0.0, 0.0, 1.5, float("nan")])
    return st.tuples(st.sampled_from([None, "", "é"]), keys) if name == "V" else st.tuples(keys, values)


def assert_follows(spark: SparkSession, text: str, arrived: Sequence[Batch]) -> None:
    """After each batch the answer is the reference's."""
    query = mrql.compile(text, **STREAMS)
    with query.view(spark) as view:
        for number, batch in enumerate(arrived, start=1):
            frames: dict[str, Any] = {}
            for name in {*batch.inserted, *batch.deleted}:
                come, go = (
                    to_dataframe(spark, [*r.get(name, ())], STREAMS[name]) for r in (batch.inserted, batch.deleted)
                )
                frames[name] = mrql.Delta(come, go)
            view.apply(**frames)
            expected = evaluate(query.term, net(arrived[:number], query.streams))
            found = collect_value(view.answer(), query.type)
            assert close(found, expected), f"batch {number}: {show_value(found)}, not {show_value(expected)}"


@pytest.mark.wide(keep=2)
@pytest.mark.parametrize("name", BY_TWO_KEYS)
def test_partners_by_another_key(name: str, spark: SparkSession) -> None:
    """Over batches that insert and delete on all sides, in states that are never moved."""
    text = BY_TWO_KEYS[name]
    streams = {stream: rows(stream) for stream in STREAMS if f" in {stream}" in text}
    met: list[bool] = []

    def noted(*arguments: Any) -> tuple[Relation, Relation] | None:
        sides = replicated.replicated(*arguments)
        met.append(sides is not None)
        return sides

    @seed(2026)
    @settings(few, max_examples=3)
    @given(histories(streams, deletions=True, fewest=3, most=3, largest=5))
    def follows(arrived: list[Batch]) -> None:
        with (
            states(SEVERAL),
            patch.object(compaction, "MERGED_WHOLE_MAX_ROWS", 0),
            patch.object(plan_cache, "PLANNED_BEFORE_KEPT", 0),
            patch.object(join, "replicated", noted),
        ):
            assert_follows(spark, text, arrived)

    follows()
    assert any(met), "no change has met a state so"


def test_no_job_but_that_of_the_batch(spark: SparkSession) -> None:
    """Once its plans are made, a batch sends nothing to all tasks, where with a broadcast it does each time."""
    query = mrql.compile(BY_TWO_KEYS["of two keys"], **STREAMS)
    there = {name: to_dataframe(spark, [(n, float(n)) for n in range(50)], STREAMS[name]) for name in "STU"}

    def broadcasts(most: int) -> int:
        """How many a batch has."""
        with (
            states(SEVERAL),
            patch.object(compaction, "MERGED_WHOLE_MAX_ROWS", 0),
            patch.object(replicated, "REPLICATED_MAX_COPIES", most),
            query.view(spark) as view,
        ):
            view.apply(**there)
            for number in range(3):
                view.apply(S=to_dataframe(spark, [(number, 1.0)], STREAMS["S"]))
            before = _broadcasts(spark)
            view.apply(S=to_dataframe(spark, [(9, 9.0)], STREAMS["S"]), U=to_dataframe(spark, [(1, 1.0)], STREAMS["U"]))
            return len(_broadcasts(spark) - before)

    assert broadcasts(16) == 0
    assert broadcasts(0) > 0


def _broadcasts(spark: SparkSession) -> set[int]:
    """The jobs, of those that Spark remembers, that collect what is sent to all tasks."""
    jobs = list(items(spark.sparkContext._jsc.sc().statusStore().jobsList(None)))  # type: ignore[union-attr]
    return {job.jobId() for job in jobs if "broadcast exchange" in str(job.jobTags().toString())}
