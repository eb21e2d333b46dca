"""TPC-H as a refresh stream: each batch inserts and deletes a few orders with their line items.

The tables are made by the generator of the specification (`tpchgen-cli`, a development dependency). A batch inserts a
share of the orders and deletes as many others; deleted rows are looked up. For comparison, the query in SQL is computed
again by Spark from cached frames, as one would do without a view, and by DuckDB from its tables.
"""

from __future__ import annotations

import random
import subprocess
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

import duckdb
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import mrql
from bench.contender import alone, fast_directory, spark_session
from bench.outcome import Outcome, Target, check_rows
from bench.phases import WAITING, Phases, WorkLog
from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.jobs.loading import compile_over_files
from mrql.runtime.spark.expressions.layout import sql_type

ROOT = Path(__file__).parent.parent
QUERIES = ROOT / "queries" / "tpch"
SQL = ROOT / "tests" / "tpch"
KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
"""The tables that change, and the column with the key of the order."""


@dataclass(frozen=True)
class Setting:
    """The amount of data, and the batches and runs that are measured."""

    scale: float
    share: float
    """The share of all orders that a batch inserts, and deletes."""
    batches: int
    warm: int
    """The number of batches before the first measured one."""
    runs: int
    """How often a rival computes the query; the second half is measured."""


SMALL = Setting(0.1, 0.002, batches=40, warm=30, runs=15)
LARGE = Setting(1, 0.001, batches=24, warm=14, runs=7)
QUICK = Setting(0.01, 0.002, batches=6, warm=1, runs=4)


@dataclass(frozen=True)
class Measured:
    """Milliseconds of each batch, or of each run of the query, the last answer, and the bytes of the data that is
    kept."""

    milliseconds: tuple[float, ...]
    answer: tuple[tuple[Any, ...], ...]
    stored: int
    profile: Profile | None = None


@dataclass(frozen=True)
class Profile:
    """Where the time of the measured batches goes: median milliseconds by phase, and per batch the mean number of Spark
    stages and CPU milliseconds of their tasks."""

    planning: float
    waiting: float
    answering: float
    stages: float
    tasks: float

    @staticmethod
    def of(phases: Phases, log: WorkLog, batches: int) -> Profile:
        spent, work = phases.last(batches), log.work()
        stages, tasks = work.stages / batches, work.milliseconds / batches
        return Profile(spent["planning"], spent[WAITING], spent[ANSWER], stages, tasks)

    @property
    def line(self) -> str:
        return f"{self.planning:.0f} | {self.waiting:.0f} | {self.answering:.0f} | {self.stages:.1f} | {self.tasks:.0f}"


ANSWER = "the answer"


class Query:
    """A query of TPC-H, with the tables that it reads."""

    def __init__(self, name: str) -> None:
        self.sql = (SQL / f"{name}.sql").read_text(encoding="utf-8")
        self._program = compile_over_files((QUERIES / f"{name}.mrql").read_text(encoding="utf-8"), f"{name}.mrql")

    @cached_property
    def compiled(self) -> mrql.api.Query:
        types = {table: source.type for table, source in self._program.sources.items()}
        return mrql.api.Query(self._program.queries[0], types)

    @property
    def rows(self) -> dict[str, Type]:
        """The type of a row of each table."""
        return {table: source.row for table, source in self._program.sources.items()}

    @property
    def streams(self) -> set[str]:
        return {table for table, source in self._program.sources.items() if source.stream}


def ours(name: str, data: Path, setting: Setting) -> Measured:
    """Measures mrql, from the changed rows of a batch to the complete new answer."""
    query = Query(name)
    rows, streams = query.rows, query.streams
    with spark_session() as spark:
        tables = {table: spark.read.parquet(str(data / f"{table}.parquet")) for table in rows}
        come, go = _batches(spark, data, setting)
        fixed: dict[str, Any] = {table: _fitted(tables[table], rows[table]) for table in rows.keys() - streams}
        moving = [table for table in rows if table in KEYS]
        inserted = {table: _parts(tables[table], KEYS[table], come, rows[table]) for table in moving}
        deleted = {table: _parts(tables[table], KEYS[table], go, rows[table]) for table in moving}
        later = [key for keys in come for key in keys]
        first = {t: _without(tables[t], KEYS[t], later) if t in KEYS else tables[t] for t in streams}
        prepared, phases = _stored(spark), Phases()
        with query.compiled.view(spark, **fixed) as view:
            view.apply(**{table: mrql.Delta(_fitted(df, rows[table])) for table, df in first.items()})
            view.answer().collect()
            for batch in range(setting.batches):
                if batch == setting.warm:
                    log = WorkLog(spark)
                deltas = {table: mrql.Delta(inserted[table][batch], deleted[table][batch]) for table in moving}
                with phases.batch():
                    view.apply(**deltas)
                    with phases.phase(ANSWER):
                        answer = view.answer().collect()
            profile = Profile.of(phases, log, setting.batches - setting.warm)
            stored = _stored(spark) - prepared
            return Measured(tuple(phases.milliseconds["all"]), tuple(map(tuple, answer)), stored, profile)


def recomputed(name: str, data: Path, setting: Setting) -> Measured:
    """Measures the SQL query in Spark, over all rows that are left, from cached frames."""
    query = Query(name)
    with spark_session() as spark:
        _, go = _batches(spark, data, setting)
        gone = [key for keys in go for key in keys]
        for table in query.rows:
            df = spark.read.parquet(str(data / f"{table}.parquet"))
            df = _without(df, KEYS[table], gone) if table in KEYS else df
            df = df.coalesce(spark.sparkContext.defaultParallelism).cache()
            df.count()
            df.createOrReplaceTempView(table)
        spent = []
        for _ in range(setting.runs):
            started = perf_counter()
            answer = spark.sql(query.sql).collect()
            spent.append((perf_counter() - started) * 1000)
        return Measured(tuple(spent), tuple(map(tuple, answer)), _stored(spark))


def in_duckdb(name: str, data: Path, setting: Setting) -> Measured:
    """Measures the SQL query in DuckDB, over all rows that are left, from its own tables."""
    query = Query(name)
    with spark_session() as spark:
        _, go = _batches(spark, data, setting)
    gone = [key for keys in go for key in keys]
    with fast_directory() as directory, duckdb.connect(directory / "tpch.duckdb") as connection:
        for table in query.rows:
            connection.execute(f"create table {table} as select * from read_parquet('{data / table}.parquet')")
            if table in KEYS:
                connection.execute(f"delete from {table} where {KEYS[table]} in (select unnest($1))", [gone])
        connection.execute("checkpoint")
        stored = connection.execute("select block_size * used_blocks from pragma_database_size()").fetchall()[0][0]
        spent = []
        for _ in range(setting.runs):
            started = perf_counter()
            answer = connection.execute(query.sql).fetchall()
            spent.append((perf_counter() - started) * 1000)
        return Measured(tuple(spent), tuple(answer), stored)


def _batches(spark: SparkSession, data: Path, setting: Setting) -> tuple[list[list[int]], list[list[int]]]:
    """The keys of the orders that each batch inserts, and of those that it deletes."""
    keys = [row[0] for row in spark.read.parquet(str(data / "orders.parquet")).select("o_orderkey").collect()]
    random.Random(1).shuffle(keys)
    few = max(1, int(len(keys) * setting.share))
    parts = [keys[i * few : (i + 1) * few] for i in range(2 * setting.batches)]
    return parts[: setting.batches], parts[setting.batches :]


def _fitted(df: DataFrame, row: Type) -> DataFrame:
    """The columns that a query reads, cast to the types that it declares."""
    assert isinstance(row, ty.RecordType)
    return df.select(*(F.col(name).cast(sql_type(t)).alias(name) for name, t in row.fields))


def _without(df: DataFrame, key: str, keys: Sequence[int]) -> DataFrame:
    those = F.broadcast(df.sparkSession.createDataFrame([(key,) for key in keys], "key long"))
    return df.join(those, F.col(key) == F.col("key"), "left_anti")


def _parts(df: DataFrame, key: str, batches: Sequence[Sequence[int]], row: Type) -> list[DataFrame]:
    """The rows of the orders of each batch, computed in advance."""
    numbered = [(key, number) for number, keys in enumerate(batches) for key in keys]
    those = F.broadcast(df.sparkSession.createDataFrame(numbered, "key long, batch int"))
    moving = df.join(those, F.col(key) == F.col("key")).coalesce(1).cache()
    parts = [_fitted(moving.where(F.col("batch") == number), row).localCheckpoint() for number in range(len(batches))]
    moving.unpersist(blocking=True)
    return parts


def _stored(spark: SparkSession) -> int:
    """The bytes of all rows that Spark has persisted."""
    kept = spark.sparkContext._jsc.sc().getRDDStorageInfo()
    return sum(int(each.memSize()) + int(each.diskSize()) for each in kept)


# --- the benchmark ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """The median milliseconds of a query, and the bytes kept per row of its tables, for mrql, Spark and DuckDB."""

    milliseconds: tuple[float, float, float]
    bytes_a_row: tuple[float, float, float]
    profile: Profile

    @property
    def of_spark(self) -> float:
        """The time of a batch, as a multiple of Spark's time."""
        ours, spark, _ = self.milliseconds
        return ours / spark

    @property
    def of_duckdb(self) -> float:
        """The time of a batch, as a multiple of DuckDB's time."""
        ours, _, duck = self.milliseconds
        return ours / duck

    @property
    def line(self) -> str:
        ours, spark, duck = self.milliseconds
        kept = " | ".join(f"{each:.0f}" for each in self.bytes_a_row)
        return f"{ours:.0f} | {spark:.0f} | {self.of_spark:.2f} × | {duck:.0f} | {self.of_duckdb:.2f} × | {kept}"


def compared(name: str, data: Path, setting: Setting, rounds: int) -> Compared:
    """Measures one query.

    Raises: WrongAnswer when the answers differ.
    """
    found, spark, duck = (
        [alone(contender, name, data, setting) for _ in range(rounds)] for contender in (ours, recomputed, in_duckdb)
    )
    for measured in (*found, *duck):
        check_rows(name, measured.answer, spark[0].answer)
    batch = median(ms for m in found for ms in m.milliseconds[setting.warm :])
    again, elsewhere = (
        median(ms for m in rival for ms in m.milliseconds[setting.runs // 2 :]) for rival in (spark, duck)
    )
    rows = sum(pq.read_metadata(data / f"{table}.parquet").num_rows for table in Query(name).rows)
    kept = [each[-1].stored / rows for each in (found, spark, duck)]
    profile = found[-1].profile
    assert profile is not None
    return Compared((batch, again, elsewhere), (kept[0], kept[1], kept[2]), profile)


def run_small(quick: bool, directory: Path, rounds: int, report: Callable[[str], None]) -> Outcome:
    """Measures each query at a scale of 0.1, after enough batches for the JVM to finish compiling.

    Raises: WrongAnswer when the answers differ.
    """
    found = _measured(QUICK if quick else SMALL, directory, rounds, report)
    ratios = [each.of_spark for each in found.values()]
    return Outcome(
        _lines(found),
        [
            Target("at a scale of 0.1, each query at most as long as Spark from cached frames", max(ratios), 1.0),
            Target("the geometric mean at most half of that", geometric_mean(ratios), 0.5),
        ],
    )


def run_large(quick: bool, directory: Path, rounds: int, report: Callable[[str], None]) -> Outcome:
    """Measures each query at a scale of 1.

    Raises: WrongAnswer when the answers differ.
    """
    found = _measured(QUICK if quick else LARGE, directory, rounds, report)
    ratios = [each.of_spark for each in found.values()]
    slower = sum(each.of_duckdb > 1 for each in found.values())
    return Outcome(
        _lines(found),
        [
            Target("at a scale of 1, each query at most 0.4 of Spark from cached frames", max(ratios), 0.4),
            Target("the geometric mean at most a tenth of that", geometric_mean(ratios), 0.1),
            Target("the share of the queries that take longer than in DuckDB at most a half", slower / len(found), 0.5),
        ],
    )


def run_queries(
    queries: Sequence[str], setting: Setting, directory: Path, rounds: int, report: Callable[[str], None]
) -> list[str]:
    """Measures some queries, and returns the lines of their table.

    Raises: WrongAnswer when the answers differ.
    """
    return _lines(_measured(setting, directory, rounds, report, queries))


def _measured(
    setting: Setting, directory: Path, rounds: int, report: Callable[[str], None], queries: Sequence[str] = ()
) -> dict[str, Compared]:
    data = generated(directory / "tpch", setting.scale)
    found = {}
    for name in queries or names():
        report(f"{name}, at a scale of {setting.scale}")
        found[name] = compared(name, data, setting, rounds)
        report(found[name].line)
    return found


def _lines(found: Mapping[str, Compared]) -> list[str]:
    mean = geometric_mean(each.of_spark for each in found.values())
    beside = geometric_mean(each.of_duckdb for each in found.values())
    return [
        "| query | mrql, a batch, ms | Spark, from cached frames, ms | mrql takes | DuckDB, from its tables, ms "
        "| mrql takes | mrql keeps, bytes a row | Spark | DuckDB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        *(f"| {name} | {each.line} |" for name, each in found.items()),
        f"| geometric mean | | | {mean:.2f} × | | {beside:.2f} × | | | |",
        "",
        "Where the time of a batch goes:",
        "",
        "| query | planning, ms | waiting for the states, ms | the answer, ms | stages | CPU time of tasks, ms |",
        "|---|---:|---:|---:|---:|---:|",
        *(f"| {name} | {each.profile.line} |" for name, each in found.items()),
    ]


def names() -> Iterator[str]:
    """The names of all queries."""
    return (file.stem for file in sorted(QUERIES.glob("*.mrql")))


def generated(directory: Path, scale: float) -> Path:
    """Generates the tables as Parquet files."""
    command = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    subprocess.run([command, "parquet", "-s", str(scale), f"--output-dir={directory}"], check=True)
    return directory
