"""The join-groupBy query of [MRQL] §13, with 10,000-row batches on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import mrql
from bench.contender import Answer, alone, collected, consume, read_csv, spark_session
from bench.data import Scale, write_files
from bench.outcome import Outcome, Target, check
from bench.phases import Phases, states

QUERY = "select (a, avg(d)) from (a, b) in left, (c, d) in right where b = c group by a"

BATCHES = 10
"""The number of batches after the initial data; batch 9 is the one that [MRQL] §13 shows."""

PASSES = 12
"""How often mrql processes all batches, from the start each time: until about the tenth pass, the JVM compiles.

The rivals run for about as long.
"""

WINDOW = 3
"""The number of last batches of a pass that are measured."""


@dataclass(frozen=True)
class Files:
    """The files of both sides, oldest first."""

    left: tuple[Path, ...]
    right: tuple[Path, ...]


@dataclass(frozen=True)
class Measured:
    """Milliseconds by phase, the rows of the states, and the answer after the last batch."""

    milliseconds: dict[str, float]
    rows: dict[str, int]
    answer: Answer


def ours(files: Files) -> Measured:
    """Measures mrql, from the files of a batch to the complete new answer."""
    query = mrql.compile(QUERY, left="bag((long, long))", right="bag((long, long))")
    phases = Phases()
    with spark_session() as spark:
        for _ in range(PASSES):
            with query.view(spark, insert_only=True) as view:
                for left, right in zip(files.left, files.right, strict=True):
                    with phases.batch():
                        view.apply(left=read_csv(spark, [left]), right=read_csv(spark, [right]))
                        with phases.phase("the answer"):
                            consume(view.answer())
                rows, answer = states(view), collected(view.answer())
    return Measured(phases.last(WINDOW), rows, answer)


def recomputed(files: Files, cached: bool, runs: int) -> Measured:
    """Measures the query in Spark over all rows, from the csv files or from cached frames."""

    def answer(left: DataFrame, right: DataFrame) -> DataFrame:
        joined = left.toDF("a", "b").join(right.toDF("c", "d"), F.expr("b = c"))
        return joined.groupBy("a").agg(F.avg("d"))

    def side(spark: SparkSession, paths: tuple[Path, ...]) -> DataFrame:
        rows = read_csv(spark, paths)
        if cached:
            rows = rows.coalesce(spark.sparkContext.defaultParallelism).cache()
            rows.count()
        return rows

    phases = Phases()
    with spark_session() as spark:
        left, right = side(spark, files.left), side(spark, files.right)
        for _ in range(runs):
            with phases.batch(), phases.phase("the answer"):
                consume(answer(left, right))
        return Measured(phases.last(WINDOW), {}, collected(answer(left, right)))


@dataclass(frozen=True)
class Size:
    """The initial rows of a side, and the share of the time of recomputing from the files that mrql may take."""

    initial: int
    limit: float
    runs: int
    """How often the rivals recompute."""

    @property
    def name(self) -> str:
        """The name in the table."""
        return f"{self.initial:,} rows a side"


BATCH = 10_000
SIZES = (Size(100_000, 0.5, 40), Size(1_000_000, 0.1, 12))

FROM_FILES = "Spark, recomputing from the files"


def run_benchmark(quick: bool, directory: Path, rounds: int, report: Callable[[str], None]) -> Outcome:
    """Measures both sizes of [MRQL] §13's query, and where the time of a batch goes.

    Raises: WrongAnswer when the answers differ.
    """
    outcomes = [_measure(size, 10 if quick else 1, directory, rounds, report) for size in SIZES]
    lines = [line for outcome in outcomes for line in outcome.lines]
    table = [line for line in lines if line.startswith("|")]
    rest = [line for line in lines if not line.startswith("|")]
    targets = [target for outcome in outcomes for target in outcome.targets]
    return Outcome(["| | | ms | mrql takes |", "|---|---|---:|---:|", *table, "", *rest], targets)


def _measure(size: Size, divided: int, directory: Path, rounds: int, report: Callable[[str], None]) -> Outcome:
    files = _files(size, divided, directory / str(size.initial))
    contenders: dict[str, Callable[[Files], Measured]] = {
        "mrql": ours,
        FROM_FILES: partial(recomputed, cached=False, runs=size.runs),
        "Spark, recomputing from cached frames": partial(recomputed, cached=True, runs=size.runs),
    }
    found: dict[str, list[Measured]] = {}
    for who, contender in contenders.items():
        report(f"{size.name}: {who}")
        found[who] = [alone(contender, files) for _ in range(rounds)]
        for measured in found[who]:
            check(f"{size.name}: {who}", measured.answer, found["mrql"][0].answer)
    medians = {who: median(m.milliseconds["all"] for m in all_of) for who, all_of in found.items()}
    lines = []
    for who, milliseconds in medians.items():
        ratio = "" if who == "mrql" else f"{medians['mrql'] / milliseconds:.2f} ×"
        lines.append(f"| {size.name} | {who} | {milliseconds:.0f} | {ratio} |")
    promise = f"{size.name}: at most {size.limit} of the time of {FROM_FILES}"
    targets = [Target(promise, medians["mrql"] / medians[FROM_FILES], size.limit)]
    return Outcome([*lines, *_shares(size.name, found["mrql"][0])], targets)


def _files(size: Size, divided: int, directory: Path) -> Files:
    scale = Scale(size.initial // divided, BATCH // divided, range(1, 2), range(BATCHES, BATCHES + 1))
    left, right = (tuple(write_files(directory / side, scale, seed)) for seed, side in enumerate(("left", "right"), 1))
    return Files(left, right)


def _shares(name: str, measured: Measured) -> Iterator[str]:
    parts = ", ".join(f"{phase} {ms:.0f} ms" for phase, ms in measured.milliseconds.items() if phase != "all")
    rows = ", ".join(f"{state} {count:,}" for state, count in measured.rows.items())
    yield f"- Where the time of a batch goes with {name}: {parts}. Rows of the states, which a batch reads: {rows}."
