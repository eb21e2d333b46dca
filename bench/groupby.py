"""The groupBy query of [MRQL] §13: an initial million rows, then batches of 40,000, into 10,000 keys."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import mrql
from bench.contender import (
    PASSES,
    Clock,
    Contender,
    Job,
    Result,
    alone,
    collected,
    consume,
    read_csv,
    spark_session,
)
from bench.data import FULL, QUICK, Scale, write_files
from bench.outcome import Outcome, Target, check
from bench.rivals import RIVALS, SPARK, SPARK_FILES, STREAMING
from mrql.jobs.loading import compile_over_files
from mrql.rewrite.pipeline import plan_query
from mrql.runtime.engine.answer import Answer
from mrql.runtime.sinks.sink import Passing, Several
from mrql.runtime.spark.engine import SparkEngine
from mrql.runtime.spark.io.answer import SparkRows
from mrql.runtime.streaming.stream_loop import Options, run

OURS = "mrql"
QUERY = "select (x, avg(y)) from (x, y) in points group by x"

SCATTER = 1.05
"""The ratio by which two medians of the same measurement differ from one run to the next."""


def view(job: Job) -> Result:
    """Measures a view, from the file of a batch to the complete new answer."""
    query = mrql.compile(QUERY, points="bag((long, long))")
    with spark_session() as spark:
        for _ in range(PASSES):
            clock = Clock()
            with query.view(spark, insert_only=True) as points:
                for batch, file in enumerate(job.files):
                    with clock.time(batch):
                        points.apply(points=mrql.Delta(insert=read_csv(spark, [file])))
                        consume(points.answer())
                answer = collected(points.answer())
    return Result(answer, clock.milliseconds)


def stream(job: Job) -> Result:
    """Measures `mrql stream --once --max-files 1` without its sink: a directory is watched, each file is a batch."""
    with spark_session() as spark:
        for number in range(PASSES):
            result = _stream_pass(spark, job.watched(f"in{number}"))
    return result


def _stream_pass(spark: SparkSession, directory: Path) -> Result:
    program = compile_over_files(f'points = stream(csv, "{directory}", ",", type((long, long))); {QUERY}', "bench")
    (query,) = program.queries
    engine = SparkEngine(plan_query(query.term).plan, program.sources, spark, query.span.source)
    last: list[DataFrame] = []

    def compute(answer: Answer) -> None:
        rows = answer.snapshot()
        assert isinstance(rows, SparkRows)
        last[:] = [rows.df]
        consume(last[0])

    reports = run(engine, program.sources, Options(once=True, max_files=1), Several((Passing(compute),)))
    milliseconds = {report.number: [report.milliseconds] for report in reports}
    answer = collected(last[0])
    engine.close()
    return Result(answer, milliseconds)


CONTENDERS = (Contender("view", OURS, view), Contender("stream", OURS, stream), *RIVALS)

Results = dict[Contender, Result]


def measure(scale: Scale, directory: Path, rounds: int, report: Callable[[str], None]) -> Results:
    """Runs every contender once a round, each in a process of its own, over the same files.

    Raises: WrongAnswer when the answers after the last batch are not the same.
    """
    report(f"writing {scale.batches + 1} files, {scale.rows(scale.batches):,} rows")
    files = tuple(write_files(directory / "files", scale))
    results: Results = {}
    for number in range(1, rounds + 1):
        for contender in CONTENDERS:
            report(f"round {number} of {rounds}: {contender.group}, {contender.name}")
            with tempfile.TemporaryDirectory(dir=directory) as scratch:
                result: Result = alone(contender.run, Job(files, scale, Path(scratch)))
            results.setdefault(contender, Result(result.answer))
            for expected in (results[contender], results[CONTENDERS[0]]):
                check(f"{contender.group}, {contender.name}", result.answer, expected.answer)
            results[contender].add(result)
    return results


def best(results: Results, group: str, window: range) -> float:
    """The median of the fastest contender of a group."""
    return min(result.median(window) for contender, result in results.items() if contender.group == group)


def targets(results: Results, scale: Scale) -> Iterator[Target]:
    """The targets of mrql; each ratio to a rival is that of the worse window."""

    def against(rival: Callable[[range], float]) -> float:
        return max(best(results, OURS, window) / rival(window) for window in (scale.early, scale.late))

    early, late = scale.middle(scale.early), scale.middle(scale.late)
    growth = best(results, OURS, scale.late) / best(results, OURS, scale.early)
    yield Target(
        f"at most 0.6 of the time of {STREAMING}", against(lambda window: best(results, STREAMING, window)), 0.6
    )
    yield Target(f"at most 0.2 of the time of {SPARK} from the files", against(results[SPARK_FILES].median), 0.2)
    yield Target(f"batch {late} no slower than batch {early} (but for a scatter of 5 %)", growth, SCATTER)


def run_benchmark(quick: bool, directory: Path, rounds: int, report: Callable[[str], None]) -> Outcome:
    """Measures all contenders, and returns the table and the targets of mrql.

    Raises: WrongAnswer when their answers differ.
    """
    scale = QUICK if quick else FULL
    results = measure(scale, directory, rounds, report)
    return Outcome([*table(results, scale)], [*targets(results, scale)])


def table(results: Results, scale: Scale) -> Iterator[str]:
    """The medians as a Markdown table; a ratio is the time of mrql as a share of that of a rival."""
    windows = (scale.early, scale.late)
    heads = [f"batch {scale.middle(w)} ({scale.rows(scale.middle(w)) / 1e6:.1f} M rows), ms" for w in windows]
    yield f"| | | {heads[0]} | mrql takes | {heads[1]} | mrql takes |"
    yield "|---|---|---:|---:|---:|---:|"
    for contender, result in results.items():
        cells = []
        for window in windows:
            own = result.median(window)
            ratio = "" if contender.group == OURS else f"{best(results, OURS, window) / own:.2f} ×"
            cells += [f"{own:.0f}", ratio]
        yield f"| {contender.group} | {contender.name} | {' | '.join(cells)} |"
