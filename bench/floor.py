"""The floor: the cost of a batch of one row, whatever the size of the states.

A row is inserted, and deleted again in the next batch, with the check that it was there. The rest of the time is what
Spark and mrql take for any batch: plans, a job, an answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import mrql
from bench.contender import alone, spark_session
from bench.outcome import Outcome, Target, check_rows

PAIRS = "bag((long, long))"


@dataclass(frozen=True)
class Case:
    """A query whose answer stays small, and the same in SQL."""

    query: str
    sql: str
    streams: tuple[str, ...] = ("s",)


CASES: Mapping[str, Case] = {
    "a total": Case("sum(select v from (k, v) in s)", "SELECT sum(v) FROM s"),
    "a filtered total": Case("sum(select v from (k, v) in s where k % 7 = 1)", "SELECT sum(v) FROM s WHERE k % 7 = 1"),
    "a few groups": Case(
        "select (g, sum(v), count(v)) from (k, v) in s group by g: k % 10",
        "SELECT k % 10, sum(v), count(1) FROM s GROUP BY k % 10",
    ),
    "averages": Case(
        "select (g, avg(v)) from (k, v) in s group by g: k % 10", "SELECT k % 10, avg(v) FROM s GROUP BY k % 10"
    ),
    "a minimum": Case(
        "select (g, min(v)) from (k, v) in s group by g: k % 10", "SELECT k % 10, min(v) FROM s GROUP BY k % 10"
    ),
    "a group for each key": Case(
        "count(select k from (k, v) in s group by k having sum(v) > 100000)",
        "SELECT count(1) FROM (SELECT k FROM s GROUP BY k HAVING sum(v) > 100000)",
    ),
    "different values": Case(
        "count(select distinct v from (k, v) in s)", "SELECT count(DISTINCT v) FROM s WHERE v IS NOT NULL"
    ),
    "the greatest ten": Case(
        "select (k, sum(v)) from (k, v) in s group by k order by sum(v) desc, k limit 10",
        "SELECT k, sum(v) t FROM s GROUP BY k ORDER BY t DESC, k LIMIT 10",
    ),
    "a join": Case(
        "select (g, sum(v * w)) from (k, v) in s, (j, w) in t where k = j group by g: k % 10",
        "SELECT s.k % 10, sum(s.v * t.v) FROM s JOIN t ON s.k = t.k GROUP BY s.k % 10",
        ("s", "t"),
    ),
    "rows without a partner": Case(
        "count(select k from (k, v) in s where not exists(select j from (j, w) in t where j = k))",
        "SELECT count(1) FROM s LEFT ANTI JOIN t ON s.k = t.k",
        ("s", "t"),
    ),
}


LONG = ("a few groups", "a group for each key", "a join")
"""The cases that run for so many batches that an accumulation would show."""


@dataclass(frozen=True)
class Size:
    """The initial number of rows, and the numbers of batches: `number`, or `for_long` in the cases of `LONG`. Measured
    are the `counted` last batches of the first `number`, and of the first `for_long`."""

    rows: int
    counted: int
    number: int
    for_long: int


WHOLE, QUICK = Size(1_000_000, 40, 80, 500), Size(20_000, 6, 12, 24)


@dataclass(frozen=True)
class Floor:
    """Milliseconds of each batch, and of the same query in SQL from cached rows, with both answers."""

    ours: tuple[float, ...]
    recomputed: tuple[float, ...]
    answer: tuple[tuple[Any, ...], ...]
    expected: tuple[tuple[Any, ...], ...]

    def early(self, size: Size) -> tuple[float, ...]:
        """The measured ones of the first `number` batches."""
        return self.ours[size.number - size.counted : size.number]


def measured(name: str, rows: int, batches: int, recomputations: int) -> Floor:
    """Measures batches that insert or delete one row, from the row to the complete new answer."""
    case = CASES[name]
    pairs: dict[str, Any] = dict.fromkeys(case.streams, PAIRS)
    query = mrql.compile(case.query, **pairs)
    with spark_session() as spark:
        there = {stream: _rows(spark, rows).localCheckpoint() for stream in case.streams}
        ours = []
        with query.view(spark) as view:
            view.apply(**there)
            view.answer().collect()
            for number in range(batches):
                row = spark.sql(f"SELECT {number // 2 * 101 % rows}L AS _1, {number // 2}L AS _2").localCheckpoint()
                delta = mrql.Delta(delete=row) if number % 2 else mrql.Delta(insert=row)
                start = time.perf_counter()
                view.apply(s=delta)
                answer = view.answer().collect()
                ours.append((time.perf_counter() - start) * 1000)
        for stream, df in there.items():
            df.toDF("k", "v").cache().createOrReplaceTempView(stream)
        again = []
        for _ in range(recomputations):
            start = time.perf_counter()
            expected = spark.sql(case.sql).collect()
            again.append((time.perf_counter() - start) * 1000)
    warm = tuple(again[len(again) // 2 :])
    return Floor(tuple(ours), warm, tuple(map(tuple, answer)), tuple(map(tuple, expected)))


def _rows(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(rows).selectExpr("id AS _1", "id * 7919 % 1000 AS _2")


def run_benchmark(quick: bool, directory: Path, rounds: int, report: Callable[[str], None]) -> Outcome:
    """Measures each case. After an even number of batches, the rows are the initial ones."""
    size = QUICK if quick else WHOLE
    lines = [
        f"| a batch of one row, over {size.rows:,} | mrql, ms | 99 % within, ms | after {size.for_long} batches, ms | "
        "Spark, from cached rows, ms |",
        "|---|---:|---:|---:|---:|",
    ]
    medians, tails, growths = {}, {}, {}
    for name in CASES:
        report(name)
        batches, warm = size.for_long if name in LONG else size.number, max(6, size.number // 4)
        found: list[Floor] = [alone(measured, name, size.rows, batches, warm) for _ in range(rounds)]
        for each in found:
            check_rows(name, each.answer, each.expected)
        spent = sorted(ms for each in found for ms in each.early(size))
        medians[name], late = median(spent), spent[min(len(spent) - 1, int(len(spent) * 0.99))]
        tails[name] = late / medians[name]
        again = median(ms for each in found for ms in each.recomputed)
        at_last = ""
        if name in LONG:
            last = median(ms for each in found for ms in each.ours[-size.counted :])
            growths[name], at_last = last / medians[name], f"{last:.0f}"
        lines.append(f"| {name} | {medians[name]:.0f} | {late:.0f} | {at_last} | {again:.0f} |")
    return Outcome(
        lines,
        [
            Target("one row into a group by of a million keys, of 60 ms", medians["a group for each key"] / 60, 1.0),
            Target("99 % of the batches within three times the median", max(tails.values()), 3.0),
            Target(f"{size.for_long} batches as {size.number} (but for a scatter of 10 %)", max(growths.values()), 1.1),
        ],
    )
