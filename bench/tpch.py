"""TPC-H as a refresh stream: orders come and go with their line items, a few in each batch.

The tables are those of the specification's generator (`tpchgen-cli`, a development dependency). A batch inserts a share
of the orders and deletes as many others; what is deleted is looked up. Beside mrql, Spark computes the query in SQL
anew from frames that it has cached, which is what one would do without a view.
"""

from __future__ import annotations

import random
import subprocess
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import mrql
from bench.contender import alone, spark_session
from bench.outcome import Outcome, Target, check_rows
from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.jobs.loading import compile_over_files
from mrql.runtime.spark.expressions.layout import sql_type

ROOT = Path(__file__).parent.parent
QUERIES = ROOT / "queries" / "tpch"
SQL = ROOT / "tests" / "tpch"
KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
"""What comes and goes, and the key of its order."""
SHARE = 0.002
"""Of all orders so many come in a batch, and as many go."""
BATCHES, WARM = 40, 30
"""Batches in all, and those before the ones that count."""


@dataclass(frozen=True)
class Measured:
    """Milliseconds of each batch, or of each time that a query was computed, and the last answer."""

    milliseconds: tuple[float, ...]
    answer: tuple[tuple[Any, ...], ...]


def ours(name: str, data: Path, batches: int) -> Measured:
    """From the changed rows of a batch to the complete new answer."""
    program = compile_over_files((QUERIES / f"{name}.mrql").read_text(encoding="utf-8"), f"{name}.mrql")
    query = mrql.api.Query(program.queries[0], {table: source.type for table, source in program.sources.items()})
    rows = {table: source.row for table, source in program.sources.items()}
    with spark_session() as spark:
        tables = {table: spark.read.parquet(str(data / f"{table}.parquet")) for table in rows}
        moving = [table for table in rows if table in KEYS]
        come, go = _batches(spark, data, batches)
        streams = {table for table, source in program.sources.items() if source.stream}
        fixed: dict[str, Any] = {table: _fitted(tables[table], rows[table]) for table in rows.keys() - streams}
        spent = []
        with query.view(spark, **fixed) as view:
            later = [key for keys in come for key in keys]
            first = {t: _without(tables[t], KEYS[t], later) if t in KEYS else tables[t] for t in streams}
            view.apply(**{table: mrql.Delta(_fitted(df, rows[table])) for table, df in first.items()})
            view.answer().collect()
            for inserted, deleted in zip(come, go, strict=True):
                deltas = {
                    table: mrql.Delta(
                        *(_part(tables[table], KEYS[table], keys, rows[table]) for keys in (inserted, deleted))
                    )
                    for table in moving
                }
                started = perf_counter()
                view.apply(**deltas)
                answer = view.answer().collect()
                spent.append((perf_counter() - started) * 1000)
        return Measured(tuple(spent), tuple(map(tuple, answer)))


def recomputed(name: str, data: Path, batches: int, runs: int) -> Measured:
    """The query in SQL over all rows that are left, from cached frames."""
    text = (SQL / f"{name}.sql").read_text(encoding="utf-8")
    with spark_session() as spark:
        _, go = _batches(spark, data, batches)
        gone = [key for keys in go for key in keys]
        for file in data.glob("*.parquet"):
            df = spark.read.parquet(str(file))
            df = _without(df, KEYS[file.stem], gone) if file.stem in KEYS else df
            df = df.coalesce(spark.sparkContext.defaultParallelism).cache()
            df.count()
            df.createOrReplaceTempView(file.stem)
        spent = []
        for _ in range(runs):
            started = perf_counter()
            answer = spark.sql(text).collect()
            spent.append((perf_counter() - started) * 1000)
        return Measured(tuple(spent), tuple(map(tuple, answer)))


def _batches(spark: SparkSession, data: Path, batches: int) -> tuple[list[list[int]], list[list[int]]]:
    """The keys of the orders that each batch inserts, and of those that it deletes."""
    keys = [row[0] for row in spark.read.parquet(str(data / "orders.parquet")).select("o_orderkey").collect()]
    random.Random(1).shuffle(keys)
    few = max(1, int(len(keys) * SHARE))
    parts = [keys[i * few : (i + 1) * few] for i in range(2 * batches)]
    return parts[:batches], parts[batches:]


def _fitted(df: DataFrame, row: Type) -> DataFrame:
    """The columns that a query reads, of the types that it has for them."""
    assert isinstance(row, ty.RecordType)
    return df.select(*(F.col(name).cast(sql_type(t)).alias(name) for name, t in row.fields))


def _keys(df: DataFrame, keys: Sequence[int]) -> DataFrame:
    return F.broadcast(df.sparkSession.createDataFrame([(key,) for key in keys], "key long"))


def _without(df: DataFrame, key: str, keys: Sequence[int]) -> DataFrame:
    return df.join(_keys(df, keys), F.col(key) == F.col("key"), "left_anti")


def _part(df: DataFrame, key: str, keys: Sequence[int], row: Type) -> DataFrame:
    """The rows of some orders, computed beforehand."""
    found = df.join(_keys(df, keys), F.col(key) == F.col("key"), "left_semi")
    return _fitted(found, row).coalesce(1).localCheckpoint()


# --- the benchmark ------------------------------------------------------------------------------


def run_benchmark(quick: bool, directory: Path, rounds: int, report: Callable[[str], None]) -> Outcome:
    """Measures each query, after so many batches that the JVM has compiled what it will.

    Raises: WrongAnswer when the answers differ.
    """
    scale, batches = (0.01, 6) if quick else (0.1, BATCHES)
    data = generated(directory / "tpch", scale)
    lines = ["| query | mrql, a batch, ms | Spark, from cached frames, ms | mrql takes |", "|---|---:|---:|---:|"]
    ratios = {}
    for name in names():
        report(f"{name}, at a scale of {scale}")
        found = [alone(ours, name, data, batches) for _ in range(rounds)]
        rival = [alone(recomputed, name, data, batches, 4 if quick else 15) for _ in range(rounds)]
        for measured in found:
            check_rows(name, measured.answer, rival[0].answer)
        batch = median(ms for m in found for ms in m.milliseconds[WARM if len(m.milliseconds) > WARM else 1 :])
        again = median(ms for m in rival for ms in m.milliseconds[len(m.milliseconds) // 2 :])
        ratios[name] = batch / again
        lines.append(f"| {name} | {batch:.0f} | {again:.0f} | {ratios[name]:.2f} × |")
    mean = prod(ratios.values()) ** (1 / len(ratios))
    lines.append(f"| geometric mean | | | {mean:.2f} × |")
    worst = max(ratios, key=lambda name: ratios[name])
    return Outcome(
        lines,
        [
            Target("at a scale of 0.1, each query at most as long as Spark from cached frames", ratios[worst], 1.0),
            Target("the geometric mean at most half of that", mean, 0.5),
        ],
    )


def names() -> Iterator[str]:
    """The queries that there are."""
    return (file.stem for file in sorted(QUERIES.glob("*.mrql")))


def generated(directory: Path, scale: float) -> Path:
    """The tables, as Parquet files."""
    command = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    subprocess.run([command, "parquet", "-s", str(scale), f"--output-dir={directory}"], check=True)
    return directory
