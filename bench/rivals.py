"""The average by key, kept up to date by other systems.

If a Spark rival keeps the data in a form of its own (parquet files, a cached frame), the time to update that form is
not measured, only the query over it and the new file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.contender import (
    PASSES,
    SCHEMA,
    Answer,
    Clock,
    Contender,
    Job,
    Result,
    collected,
    consume,
    fast_directory,
    read_csv,
    spark_session,
)

STREAMING = "Structured Streaming"
SPARK = "Spark, recomputing"
DUCKDB = "DuckDB, recomputing"

WARM_UP = 10
"""The number of runs before the first measured one, for rivals that do not process the batches before it."""


def average(rows: DataFrame) -> DataFrame:
    """The query: the average by key."""
    return rows.groupBy("_1").agg(F.avg("_2"))


# --- Structured Streaming ------------------------------------------------------------------------

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
CHANGELOG = {**ROCKSDB, "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}


def streaming(job: Job, conf: Mapping[str, str]) -> Result:
    """Structured Streaming: one file per trigger, complete answers to a sink that drops them, checkpoints in memory."""
    progress = {"spark.sql.streaming.numRecentProgressUpdates": str(len(job.files) + 1)}
    with spark_session(**conf, **progress) as spark:
        for number in range(PASSES):
            result = _streaming_pass(spark, job.watched(f"in{number}"))
    return result


def _streaming_pass(spark: SparkSession, source: Path) -> Result:
    with fast_directory() as checkpoint:
        events = _stream(spark, source, checkpoint, "noop")
        milliseconds = {event["batchId"]: [float(event["durationMs"]["triggerExecution"])] for event in events}
        # The sink has dropped the answers. A batch without rows, from the same checkpoint, outputs the last one again.
        (source / "no-rows.csv").touch()
        _stream(spark, source, checkpoint, "memory")
        return Result(collected(spark.table("answer")), milliseconds)


def _stream(spark: SparkSession, source: Path, checkpoint: Path, sink: str) -> list[dict[str, Any]]:
    """Runs the query over the files that are new since the checkpoint, and returns the events of its batches."""
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).csv(str(source))
    writer = average(rows).writeStream.format(sink).queryName("answer").outputMode("complete")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return [event for event in query.recentProgress if event["durationMs"].get("addBatch")]


# --- Spark over all data -------------------------------------------------------------------------


def recompute(job: Job, stored: Callable[[SparkSession, Job, int], DataFrame | None]) -> Result:
    """Runs the query over all rows so far: those before the batch in the form of `stored`, the batch from its file."""
    clock = Clock()
    with spark_session() as spark:
        for _ in range(WARM_UP):
            consume(average(read_csv(spark, job.files[: job.measured[0]])))
        for batch in job.measured:
            before = stored(spark, job, batch)
            with clock.time(batch):
                consume(average(_all_rows(spark, job, batch, before)))
        last = job.scale.batches
        return Result(collected(average(_all_rows(spark, job, last, stored(spark, job, last)))), clock.milliseconds)


def _all_rows(spark: SparkSession, job: Job, batch: int, before: DataFrame | None) -> DataFrame:
    if before is None:
        return read_csv(spark, job.files[: batch + 1])
    return before.union(read_csv(spark, [job.files[batch]]))


def in_csv(spark: SparkSession, job: Job, batch: int) -> DataFrame | None:
    """Rows before a batch read from the original files."""
    return None


def in_parquet(spark: SparkSession, job: Job, batch: int) -> DataFrame | None:
    """Rows before a batch in parquet files, at most one for each core."""
    path = str(job.scratch / f"{batch}.parquet")
    read_csv(spark, job.files[:batch]).coalesce(spark.sparkContext.defaultParallelism).write.parquet(
        path, mode="overwrite"
    )
    return spark.read.parquet(path)


def in_memory(spark: SparkSession, job: Job, batch: int) -> DataFrame | None:
    """Rows before a batch in one cached frame."""
    spark.catalog.clearCache()
    rows = read_csv(spark, job.files[:batch]).coalesce(spark.sparkContext.defaultParallelism).cache()
    rows.count()
    return rows


# --- DuckDB over all data ------------------------------------------------------------------------

COLUMNS = "columns = {'x': 'BIGINT', 'y': 'BIGINT'}"


def duckdb_csv(job: Job) -> Result:
    """Reads all files again for each batch."""
    clock = Clock()
    query = f"select x, avg(y) from read_csv($files, {COLUMNS}) group by x"
    with duckdb.connect() as connection:

        def answer(batch: int) -> pa.Table:
            files = [str(file) for file in job.files[: batch + 1]]
            return connection.sql(query, params={"files": files}).to_arrow_table()

        for _ in range(WARM_UP):
            answer(job.measured[0])
        for batch in job.measured:
            with clock.time(batch):
                answer(batch)
        return Result(_answer(answer(job.scale.batches)), clock.milliseconds)


def duckdb_table(job: Job) -> Result:
    """Appends each batch to a table in memory, which is measured, too, and runs the query over the table."""
    clock = Clock()
    with duckdb.connect() as connection:
        connection.execute("create table points (x bigint, y bigint)")
        for batch, file in enumerate(job.files):
            with clock.time(batch):
                connection.execute(f"insert into points select * from read_csv($file, {COLUMNS})", {"file": str(file)})
                answer = connection.sql("select x, avg(y) from points group by x").to_arrow_table()
        return Result(_answer(answer), clock.milliseconds)


def _answer(table: pa.Table) -> Answer:
    return dict(zip(*table.to_pydict().values(), strict=True))


SPARK_FILES = Contender("csv files", SPARK, partial(recompute, stored=in_csv))
"""Recomputes from the csv files that all contenders are given, and not from a prepared form."""

RIVALS = (
    Contender("default state store", STREAMING, partial(streaming, conf={})),
    Contender("RocksDB", STREAMING, partial(streaming, conf=ROCKSDB)),
    Contender("RocksDB with a changelog", STREAMING, partial(streaming, conf=CHANGELOG)),
    SPARK_FILES,
    Contender("parquet files", SPARK, partial(recompute, stored=in_parquet)),
    Contender("cached", SPARK, partial(recompute, stored=in_memory)),
    Contender("csv files", DUCKDB, duckdb_csv),
    Contender("table in memory", DUCKDB, duckdb_table),
)
