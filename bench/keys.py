"""Sums by key with many keys: each batch touches few of them, and reads the changes of the answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession

import mrql
from bench.contender import Answer, alone, consume, spark_session
from bench.outcome import Outcome, Target, check
from mrql.runtime.spark.state import compaction

QUERY = "select (k, sum(v)) from (k, v) in rows group by k"

TOUCHED = 40_000
"""The number of rows in a batch, each with a different key."""

BATCHES, COUNTED = 16, 8
"""The number of batches, and how many of the last ones are measured."""

PASSES = 2
"""How often all batches are processed, from the start each time. During the first pass, the JVM compiles."""


def changes(keys: int, touched: int, whole: bool) -> tuple[list[float], Answer]:
    """Milliseconds from the rows of a batch to all changes of the answer, which has `keys` rows; and its totals."""
    query = mrql.compile(QUERY, rows="bag((long, long))")
    limit = keys * 2 if whole else compaction.MERGED_WHOLE_MAX_ROWS
    with spark_session() as spark, patch.object(compaction, "MERGED_WHOLE_MAX_ROWS", limit):
        for _ in range(PASSES):
            result = _pass(spark, query, keys, touched)
    return result


def _pass(spark: SparkSession, query: mrql.Query, keys: int, touched: int) -> tuple[list[float], Answer]:
    times = []
    with query.view(spark, insert_only=True) as view:
        view.apply(rows=spark.range(keys).selectExpr("id AS _1", "id % 100 AS _2"))
        for number in range(BATCHES):
            rows = batch(spark, keys, touched, number)
            start = time.perf_counter()
            consume(view.apply(rows=rows))
            times.append((time.perf_counter() - start) * 1000)
        totals = view.answer().selectExpr("count(1)", "CAST(sum(_2) AS DOUBLE)").head()
    assert totals is not None
    return times[-COUNTED:], {0: float(totals[0]), 1: totals[1]}


def batch(spark: SparkSession, keys: int, touched: int, number: int) -> DataFrame:
    """The rows of a batch, with keys spread evenly over all keys."""
    return spark.range(touched).selectExpr(
        f"(id * {keys // touched} + {number}) % {keys} AS _1", f"id % {number + 2} AS _2"
    )


def run_benchmark(quick: bool, directory: Path, rounds: int, report: Callable[[str], None]) -> Outcome:
    """Measures a large state, the same merged as a whole in each batch, and a small state.

    Raises: WrongAnswer when the answers of the first two differ.
    """
    many, few, touched = (500_000, 50_000, 4_000) if quick else (5_000_000, 50_000, TOUCHED)
    cases = {
        f"{many:,} keys": (many, touched, False),
        f"{many:,} keys, merged whole": (many, touched, True),
        f"{few:,} keys": (few, touched, False),
    }
    medians, answers = {}, {}
    for name, case in cases.items():
        report(name)
        found = [alone(changes, *case) for _ in range(rounds)]
        medians[name] = median(ms for times, _ in found for ms in times)
        answers[name] = found[0][1]
    large, whole, small = medians
    check(whole, answers[whole], answers[large])
    lines = [f"| a batch of {touched:,} rows, each of another key | ms |", "|---|---:|"]
    lines += [f"| {name} | {milliseconds:.0f} |" for name, milliseconds in medians.items()]
    return Outcome(
        lines,
        [
            Target(f"{large}: at most a third of merging them whole", medians[large] / medians[whole], 1 / 3),
            Target(f"{large}: at most 4 times {small}", medians[large] / medians[small], 4),
        ],
    )
