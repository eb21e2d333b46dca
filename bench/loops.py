"""Loops over streams: k-means and PageRank as in [MRQL] §13, and transitive closure under changes of single edges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import mrql
from bench.contender import Answer, Clock, alone, collected, consume, spark_session
from bench.outcome import Outcome, Target, check
from queries.loops.generate import Batch, Row, Rows, Size, chains, dependencies, history, points, rmat

QUERIES = Path(__file__).parent.parent / "queries" / "loops"

STEPS = 10
"""The number of steps of loops with a limit."""

WARM_UP = 120.0
"""The seconds for which each contender processes its batches again and again before it is measured: the JVM compiles
for some minutes, and a loop is many short jobs."""

COUNTED = 4
"""The number of last batches that are measured."""

FROM_FILES = "Spark, recomputing from the files"
CACHED = "Spark, recomputing from a cached frame"


# --- data -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """The files with the rows that a batch inserts and deletes, and those that hold all rows after it."""

    insert: Path | None
    delete: Path | None
    present: tuple[Path, ...]


def write_files(directory: Path, batches: Sequence[Batch]) -> list[Files]:
    """Writes the files of each batch; after a deletion, the remaining rows are written as one file."""
    directory.mkdir(parents=True)
    rows: dict[Row, None] = {}
    present: tuple[Path, ...] = ()
    written = []
    for number, batch in enumerate(batches):
        insert = _file(directory / f"{number:06}-insert.csv", batch.inserted) if batch.inserted else None
        delete = _file(directory / f"{number:06}-delete.csv", batch.deleted) if batch.deleted else None
        rows.update(dict.fromkeys(batch.inserted))
        for row in batch.deleted:
            del rows[row]
        if delete is not None:
            present = (_file(directory / f"{number:06}-present.csv", rows),)
        elif insert is not None:
            present = (*present, insert)
        written.append(Files(insert, delete, present))
    return written


def _file(path: Path, rows: Sequence[Row] | Mapping[Row, None]) -> Path:
    path.write_text("".join(f"{','.join(map(str, row))}\n" for row in rows), encoding="utf-8")
    return path


def growing(rows: Rows, initial: int, changes: Sequence[int]) -> list[Batch]:
    """The initial rows, and batches of new rows, whose numbers are in `changes`."""
    (whole,) = history(rows, Size(initial + sum(changes)), seed=1)
    ends = [initial]
    for count in changes:
        ends.append(ends[-1] + count)
    return [Batch(whole.inserted[start:end], []) for start, end in zip([0, *ends], ends, strict=False)]


def one_by_one(rows: Rows, initial: int, changes: int) -> list[Batch]:
    """The initial rows, and batches that insert and delete one row in turn."""
    first, *later = history(rows, Size(initial, batches=changes // 2, changes=2, deleted=0.5), seed=1)
    single = (one for batch in later for one in (Batch(batch.inserted, []), Batch([], batch.deleted)))
    return [first, *single]


# --- mrql -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ours:
    """A way in which mrql keeps a loop up to date: the arguments of its view, and its target."""

    name: str
    view: Mapping[str, Any]
    limit: float | None = None
    """The share of the time of recomputing the loop with Spark from the files that it may take."""
    within: float = 1e-9
    """The relative tolerance of its answer."""


@dataclass(frozen=True)
class Measured:
    """Milliseconds of the last batches, and the answer after the last one."""

    milliseconds: list[float]
    answer: Answer


def until_warm(warm_up: float) -> Iterator[Clock]:
    """A clock for each pass of a contender through its batches; in the last pass, the JVM is warm."""
    end = perf_counter() + warm_up
    is_warm = False
    while not is_warm:
        is_warm = perf_counter() >= end
        yield Clock()


def ours(case: Case, view: Mapping[str, Any], files: Sequence[Files], warm_up: float) -> Measured:
    """Measures mrql, from the files of a batch to the complete new answer. Each pass begins with the first rows."""
    query = mrql.compile(case.query, max_steps=10_000, **{case.stream: case.type})
    with spark_session() as spark:
        for clock in until_warm(warm_up):
            with query.view(spark, insert_only=case.insert_only, **view) as kept:
                for number, batch in enumerate(files):
                    with clock.time(number):
                        insert, delete = (
                            None if file is None else read(spark, case, [file]) for file in (batch.insert, batch.delete)
                        )
                        kept.apply(**{case.stream: mrql.Delta(insert, delete)})
                        consume(kept.answer())
                answer = case.answer(kept.answer())
    return Measured(_counted(clock), answer)


def _counted(clock: Clock) -> list[float]:
    return [times[-1] for _, times in sorted(clock.milliseconds.items())][-COUNTED:]


def read(spark: SparkSession, case: Case, files: Sequence[Path]) -> DataFrame:
    """The rows of csv files."""
    return spark.read.schema(case.schema).csv([str(file) for file in files])


# --- Spark ------------------------------------------------------------------------------------------------------------


def recomputed(case: Case, cached: bool, files: Sequence[Files], warm_up: float) -> Measured:
    """Measures the loop in Spark, from its start over all rows, from the files or a frame cached in advance."""
    with spark_session() as spark:
        for clock in until_warm(warm_up):
            for number, batch in enumerate(files[-COUNTED:]):
                rows = read(spark, case, batch.present)
                if cached:
                    rows = rows.coalesce(spark.sparkContext.defaultParallelism).cache()
                    rows.count()
                with clock.time(number):
                    answer = case.spark(rows)
                    consume(answer)
                last = case.answer(answer)
                spark.catalog.clearCache()
    return Measured(_counted(clock), last)


def spark_kmeans(rows: DataFrame) -> DataFrame:
    """k-means in Spark: the driver keeps the centres; the points are cached for all steps."""
    rows = rows.cache()
    centres = [(0.0, 0.0), (10.0, 0.0), (0.0, 10.0), (10.0, 10.0)]
    for _ in range(STEPS):
        distances = F.array(*(F.expr(f"pow(_1 - {x!r}D, 2) + pow(_2 - {y!r}D, 2)") for x, y in centres))
        nearest = F.array_position(distances, F.array_min(distances))
        groups = rows.groupBy(nearest.alias("nearest")).agg(F.avg("_1"), F.avg("_2"))
        centres = [(row[1], row[2]) for row in groups.collect()]
    values = ", ".join(f"({x!r}D, {y!r}D)" for x, y in centres)
    return rows.sparkSession.sql(f"SELECT * FROM VALUES {values} AS centres (_1, _2)")


def spark_pagerank(rows: DataFrame) -> DataFrame:
    """PageRank in Spark: links with the degree of their page are cached, with a checkpoint after each step."""
    degrees = rows.groupBy("_1").agg(F.count("_2").alias("links"))
    links = rows.join(degrees, "_1").select("_1", "_2", "links").cache()
    ranks = degrees.select("_1", F.lit(1.0).alias("rank"))
    for _ in range(STEPS):
        shares = links.join(ranks, "_1").selectExpr("_2 AS _1", "rank / links AS share")
        zeros = ranks.selectExpr("_1", "0D AS share")
        rank = F.lit(0.15) + 0.85 * F.sum("share")
        ranks = zeros.union(shares).groupBy("_1").agg(rank.alias("rank")).localCheckpoint()
    return ranks


def spark_closure(rows: DataFrame) -> DataFrame:
    """Transitive closure in Spark: paths are joined, with a checkpoint after each step, until there are no new ones."""
    ways = rows.distinct().localCheckpoint()
    known, found = -1, ways.count()
    while found > known:
        longer = ways.toDF("a", "b").join(ways.toDF("c", "d"), F.expr("b = c")).selectExpr("a AS _1", "d AS _2")
        ways = ways.union(longer).distinct().localCheckpoint()
        known, found = found, ways.count()
    return ways


# --- cases ------------------------------------------------------------------------------------------------------------


def centres(answer: DataFrame) -> Answer:
    """The coordinates of all centres, in order."""
    numbers = [number for row in sorted(map(tuple, answer.collect())) for number in row]
    return dict(enumerate(numbers))


def pairs(answer: DataFrame) -> Answer:
    """The number of pairs, and a checksum of them."""
    row = answer.toDF("a", "b").selectExpr("count(1)", "CAST(sum((a * 7919 + b * 104729) % 1000003) AS DOUBLE)").head()
    assert row is not None
    return {0: float(row[0]), 1: row[1]}


@dataclass(frozen=True)
class Case:
    """A loop over a stream, its data, and the ways to keep it up to date."""

    name: str
    stream: str
    type: str
    schema: str
    query: str
    spark: Callable[[DataFrame], DataFrame]
    answer: Callable[[DataFrame], Answer]
    batches: Callable[[int], list[Batch]]
    """The data, reduced by a divisor."""
    ways: tuple[Ours, ...]
    insert_only: bool = True


def over_a_frame(name: str) -> str:
    """The text of a query file without its sources; a limit of steps is set to `STEPS`."""
    text = (QUERIES / f"{name}.mrql").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^\w+ = stream\(.*;$", "", text)
    return re.sub(r"(?m)^steps = .*;$", f"steps = {STEPS};", text)


KMEANS = f"""
function distance(a: (double, double), b: (double, double)): double {{
  sqrt(pow(a#0 - b#0, 2) + pow(a#1 - b#1, 2))
}};

repeat centres = {{(0.0, 0.0), (10.0, 0.0), (0.0, 10.0), (10.0, 10.0)}}
  step select (avg(p#0), avg(p#1))
         from p in points
        group by k: (select c from c in centres order by distance(c, p))[0]
 limit {STEPS}
"""
"""The query of [MRQL] §13: ten steps, whether or not a centre still moves."""

GRAPH = ("edges", "bag((long, long))", "_1 long, _2 long")
PAGERANK = over_a_frame("pagerank")

RECOMPUTE = Ours("recompute", {"loop": "recompute"})
DIFFUSE = Ours("diffuse", {"loop": "diffuse"}, limit=0.2, within=0.05)
"""It continues from its previous value, and so gets nearer to the limit of the loop than the measured steps do."""

FIXPOINT = Ours("fixpoint", {"loop": "fixpoint"}, limit=0.1)

MILLIONTH = {"abs_epsilon": 0.1}
"""For 100,000 ranks, which are relative to that of the average page, a millionth of their sum."""
NEARLY_EXACT = Ours("exact, but for 1e-6 of all rank", {"loop": "exact", **MILLIONTH}, limit=1 / 3, within=0.1)
"""Changes of a step's values of at most this size are held back from the next step."""
NEARLY_DIFFUSE = Ours("diffuse, but for 1e-6 of all rank", {"loop": "diffuse", **MILLIONTH}, limit=0.2, within=0.2)


def more_points(initial: int, divided: int) -> list[Batch]:
    """Points in four squares, and batches of 10,000 to 40,000 more."""
    return growing(points, initial // divided, [n * 10_000 // divided for n in (1, 2, 3, 4)])


def more_edges(nodes: int, edges: int, changes: Sequence[int], divided: int) -> list[Batch]:
    """An R-MAT graph, and batches of more edges."""
    return growing(rmat(nodes // divided), edges // divided, [count // divided for count in changes])


def links(edges: int) -> Rows:
    """Chains with about 2 % more edges than are present at a time."""
    return chains(edges * 11 // 10)


def packages(edges: int) -> Rows:
    """Packages that depend on others, with some dozens of edges more than are present at a time."""
    return dependencies(edges // 2 + 30)


def single_edges(graph: Callable[[int], Rows], edges: int, changes: int, divided: int) -> list[Batch]:
    """A graph, and batches that insert and delete single edges in turn."""
    return one_by_one(graph(edges // divided), edges // divided, changes)


def kmeans(initial: int, ways: tuple[Ours, ...]) -> Case:
    """Ten steps of k-means."""
    return Case(
        f"k-means, {initial:,} points",
        *("points", "bag((double, double))", "_1 double, _2 double"),
        KMEANS,
        spark_kmeans,
        centres,
        partial(more_points, initial),
        ways,
    )


def pagerank(nodes: int, edges: int, changes: Sequence[int], ways: tuple[Ours, ...]) -> Case:
    """Ten steps of PageRank."""
    return Case(
        f"PageRank, {nodes:,} nodes and {edges:,} edges",
        *GRAPH,
        PAGERANK,
        spark_pagerank,
        collected,
        partial(more_edges, nodes, edges, changes),
        ways,
    )


def closure(name: str, graph: Callable[[int], Rows], edges: int, changes: int, ways: tuple[Ours, ...]) -> Case:
    """Transitive closure of a graph."""
    return Case(
        f"transitive closure, {edges:,} edges of {name}",
        *GRAPH,
        over_a_frame("closure"),
        spark_closure,
        pairs,
        partial(single_edges, graph, edges, changes),
        ways,
        insert_only=False,
    )


CASES = (
    kmeans(1_000_000, (RECOMPUTE, DIFFUSE)),
    kmeans(10_000_000, (replace(DIFFUSE, limit=1 / 20),)),
    pagerank(5_000, 50_000, (100, 200, 300, 400), (RECOMPUTE, Ours("exact", {"loop": "exact"}), DIFFUSE)),
    # Without a threshold, the ranks of each step are a state that changes as a whole: the small graph measures that.
    pagerank(100_000, 1_000_000, (1_000,) * 4, (RECOMPUTE, NEARLY_EXACT, NEARLY_DIFFUSE, DIFFUSE)),
    closure("chains", links, 20_000, 10, (RECOMPUTE, FIXPOINT)),
    closure("packages", packages, 20_000, 10, (FIXPOINT,)),
)
"""To measure another way, add an `Ours` to the `ways` of its cases, with its limit."""


def run_benchmark(quick: bool, directory: Path, rounds: int, report: Callable[[str], None]) -> Outcome:
    """Measures each way of each loop, and recomputing it with Spark.

    Raises: WrongAnswer when the answers differ.
    """
    lines = ["| | | ms | of recomputing from the files |", "|---|---|---:|---:|"]
    targets: list[Target] = []
    for number, case in enumerate(CASES):
        files = write_files(directory / str(number), case.batches(10 if quick else 1))
        outcome = _measure(case, files, 0.0 if quick else WARM_UP, rounds, report)
        lines += outcome.lines
        targets += outcome.targets
    return Outcome(lines, targets)


def _measure(case: Case, files: list[Files], warm_up: float, rounds: int, report: Callable[[str], None]) -> Outcome:
    contenders: dict[str, Callable[[], Measured]] = {
        FROM_FILES: partial(alone, recomputed, case, False, files, warm_up),
        CACHED: partial(alone, recomputed, case, True, files, warm_up),
        **{f"mrql, {way.name}": partial(alone, ours, case, way.view, files, warm_up) for way in case.ways},
    }
    within = {f"mrql, {way.name}": way.within for way in case.ways}
    found: dict[str, list[Measured]] = {}
    for who, measure in contenders.items():
        report(f"{case.name}: {who}")
        found[who] = [measure() for _ in range(rounds)]
        for measured in found[who]:
            check(f"{case.name}: {who}", measured.answer, found[FROM_FILES][0].answer, within.get(who, 1e-9))
    medians = {who: median(ms for m in all_of for ms in m.milliseconds) for who, all_of in found.items()}
    return Outcome([*_lines(case, medians)], [*_targets(case, medians)])


def _lines(case: Case, medians: Mapping[str, float]) -> Iterator[str]:
    for who, milliseconds in medians.items():
        ratio = "" if who == FROM_FILES else f"{milliseconds / medians[FROM_FILES]:.2f} ×"
        yield f"| {case.name} | {who} | {milliseconds:.0f} | {ratio} |"


def _targets(case: Case, medians: Mapping[str, float]) -> Iterator[Target]:
    for way in case.ways:
        if way.limit is not None:
            ratio = medians[f"mrql, {way.name}"] / medians[FROM_FILES]
            yield Target(f"{case.name}: {way.name} at most {way.limit:.2g} of {FROM_FILES}", ratio, way.limit)
