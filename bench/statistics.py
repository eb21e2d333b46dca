"""Statistics that need all elements of a group, compared with an average, which is kept as two numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

import mrql
from bench.contender import Answer, alone, consume, spark_session
from bench.outcome import Outcome, Target, check

AGGREGATIONS = {
    "avg": ("avg(v)", "avg(v)"),
    "median": ("median(v)", "percentile(v, 0.5D)"),
    "95th percentile": ("percentile(v, 0.95)", "percentile(v, 0.95D)"),
}
"""The aggregations, in mrql and in Spark SQL."""

GROUPS = 10_000
COME, GO = 500, 500
"""The numbers of rows that a batch inserts and deletes."""

WARM, COUNTED = 10, 20
"""The number of batches before the measured ones, and the number of measured ones."""


def rows(spark: SparkSession, first: int, last: int) -> DataFrame:
    """Rows that are all different, spread evenly over all groups."""
    return spark.range(first, last).selectExpr(
        f"id * 7919 % {GROUPS} AS k", "cast(id * 104729 % 1000003 AS double) / 8 AS v"
    )


def incremental(name: str, size: int) -> tuple[list[float], Answer]:
    """Milliseconds from the rows of a batch to all changes of the answer; and the last answer."""
    text, _ = AGGREGATIONS[name]
    query = mrql.compile(f"select (k, {text}) from (k, v) in rows group by k", rows="bag((long, double))")
    with spark_session() as spark, query.view(spark) as view:
        view.apply(rows=rows(spark, 0, size))
        times = []
        for number in range(WARM + COUNTED):
            come = rows(spark, size + number * COME, size + (number + 1) * COME)
            go = rows(spark, number * GO, (number + 1) * GO)
            start = time.perf_counter()
            consume(view.apply(rows=mrql.Delta(insert=come, delete=go)))
            times.append((time.perf_counter() - start) * 1000)
        return times[WARM:], {row[0]: row[1] for row in view.answer().collect()}


def from_scratch(name: str, size: int) -> tuple[list[float], Answer]:
    """Milliseconds of Spark over the final rows, from a cached frame each time; and the answer."""
    _, sql = AGGREGATIONS[name]
    batches = WARM + COUNTED
    with spark_session() as spark:
        there = rows(spark, batches * GO, size + batches * COME).cache()
        there.count()
        answer = there.groupBy("k").agg(expr(sql))
        times = []
        for _ in range(8):
            start = time.perf_counter()
            consume(answer)
            times.append((time.perf_counter() - start) * 1000)
        return times[3:], {row[0]: row[1] for row in answer.collect()}


def run_benchmark(quick: bool, directory: Path, rounds: int, report: Callable[[str], None]) -> Outcome:
    """Measures each aggregation kept up to date under deletions, and from scratch.

    Raises: WrongAnswer when the answers of the two differ.
    """
    size = 100_000 if quick else 1_000_000
    kept, anew = dict[str, float](), dict[str, float]()
    for name in AGGREGATIONS:
        report(name)
        found = [(alone(incremental, name, size), alone(from_scratch, name, size)) for _ in range(rounds)]
        (_, answer), (_, expected) = found[0]
        check(name, answer, expected)
        kept[name] = median(ms for (times, _), _ in found for ms in times)
        anew[name] = median(ms for _, (times, _) in found for ms in times)
    batch = f"a batch of {COME} insertions and {GO} deletions, {size:,} rows in {GROUPS:,} groups"
    lines = [
        f"| {batch} | mrql, ms | Spark, from a cached frame, ms |",
        "|---|---:|---:|",
        *(f"| {name} | {kept[name]:.0f} | {anew[name]:.0f} |" for name in AGGREGATIONS),
    ]
    others = [name for name in AGGREGATIONS if name != "avg"]
    return Outcome(lines, [Target(f"{name}: at most 2 times avg", kept[name] / kept["avg"], 2) for name in others])
