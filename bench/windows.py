"""A rolling sum over the last three hours: computed once over all rows, and kept up to date."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

import mrql
from bench.contender import Answer, alone, consume, spark_session
from bench.outcome import Outcome, Target, check

HOURS = 3
QUERIES = {
    "an inequality": (
        f"select (a.t, sum(select b.v from b in rows where b.t <= a.t and b.t > a.t - {HOURS})) from a in rows"
    ),
    "a range equality": (
        f"select (a.t, sum(select b.v from h in a.t - {HOURS - 1}..a.t, b in rows where b.t = h)) from a in rows"
    ),
    "`rolling`": (
        f"select (a.t, sum(select b.v from b in last where b.t > a.t - {HOURS})) "
        f"from (a, last) in rolling((select a from a in rows order by a.t), {HOURS})"
    ),
}
SPARK = f"sum(v) OVER (ORDER BY t RANGE BETWEEN {HOURS - 1} PRECEDING AND CURRENT ROW)"
TYPE = "bag(<t: long, v: double>)"

TIMES, BATCHES, COUNTED = 60, 40, 10
"""The number of passes over all rows, the number of batches, and how many of the last of each are measured: before,
the JVM compiles."""

DAY = 24
"""The number of rows in a batch."""

Measured = tuple[list[float], list[float], Answer]
"""Elapsed milliseconds, CPU milliseconds, and the answer."""


def rows(spark: SparkSession, first: int, last: int) -> DataFrame:
    """One row for each hour of a range."""
    return spark.range(first, last, numPartitions=1).selectExpr("id AS t", "cast(id * 7919 % 1000 AS double) / 8 AS v")


def over_all(name: str, size: int) -> Measured:
    """Measures all rows at once, by a query or by Spark's window function."""
    with spark_session() as spark:
        there = rows(spark, 0, size).cache()
        there.count()
        query = mrql.compile(QUERIES[name], rows=TYPE) if name in QUERIES else None
        clock, processors = [], []
        for _ in range(TIMES):
            begun, start = processor_ms(spark), time.perf_counter()
            answer = there.select("t", expr(SPARK)) if query is None else query.batch(spark, rows=there)
            consume(answer)
            clock.append((time.perf_counter() - start) * 1000)
            processors.append(processor_ms(spark) - begun)
        return clock[-COUNTED:], processors[-COUNTED:], {row[0]: row[1] for row in answer.collect()}


def kept(name: str, size: int) -> Measured:
    """Measures batches of one day each, with a view of the query."""
    query = mrql.compile(QUERIES[name], rows=TYPE)
    with spark_session() as spark, query.view(spark, insert_only=True) as view:
        begin = size - BATCHES * DAY
        view.apply(rows=rows(spark, 0, begin))
        clock, processors = [], []
        for number in range(BATCHES):
            batch = rows(spark, begin + number * DAY, begin + (number + 1) * DAY)
            begun, start = processor_ms(spark), time.perf_counter()
            consume(view.apply(rows=batch))
            clock.append((time.perf_counter() - start) * 1000)
            processors.append(processor_ms(spark) - begun)
        return clock[-COUNTED:], processors[-COUNTED:], {row[0]: row[1] for row in view.answer().collect()}


def processor_ms(spark: SparkSession) -> float:
    """The CPU time of Spark's process so far, in milliseconds over all processors."""
    pid = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def run_benchmark(quick: bool, directory: Path, rounds: int, report: Callable[[str], None]) -> Outcome:
    """Measures each form of the query, over all rows and batch by batch, and Spark's window function over all rows.

    Raises: WrongAnswer when answers differ.
    """
    size = 2_000 if quick else 20_000
    report("Spark's window")
    window = [alone(over_all, "a window", size) for _ in range(rounds)]
    all_at_once = {"a window of Spark": _medians(window)}
    by_batch = {}
    for name in QUERIES:
        report(name)
        whole, batches = ([alone(way, name, size) for _ in range(rounds)] for way in (over_all, kept))
        for found in (whole, batches):
            check(name, found[0][2], window[0][2])
        all_at_once[name], by_batch[name] = _medians(whole), _medians(batches)
    lines = [
        f"| the sum of the last {HOURS} hours, {size:,} rows | ms | of processors | a batch of {DAY} rows, ms |",
        "|---|---:|---:|---:|",
    ]
    for name, (clock, processors) in all_at_once.items():
        batch = f"{by_batch[name][0]:.0f}" if name in by_batch else ""
        lines.append(f"| {name} | {clock:.0f} | {processors:.0f} | {batch} |")
    spark = all_at_once["a window of Spark"]
    return Outcome(
        lines,
        [
            Target(f"{name}: at most twice the processors of Spark's window", all_at_once[name][1] / spark[1], 2)
            for name in QUERIES
        ],
    )


def _medians(found: list[Measured]) -> tuple[float, float]:
    return median(ms for clock, _, _ in found for ms in clock), median(ms for _, cpu, _ in found for ms in cpu)
