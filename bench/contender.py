"""The contenders: ways to get from the file of a batch to the complete new answer."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.data import Scale
from mrql.runtime.spark.session.session import START_SETTINGS, driver_memory

Answer = dict[int, float]
"""The average for each key."""

SCHEMA = "_1 long, _2 long"

PASSES = 2
"""How often a contender that keeps a state processes all batches, from the start each time; the last pass is measured.

A JVM spends the first twenty seconds of a stream compiling, on one of the cores.
"""


@dataclass(frozen=True)
class Job:
    """The files, oldest first, and a directory that a contender may write to."""

    files: tuple[Path, ...]
    scale: Scale
    scratch: Path

    @property
    def measured(self) -> tuple[int, ...]:
        """The batches that are measured for contenders that take about the same time for neighbouring batches."""
        few = (tuple(window)[len(window) // 2 - 2 :][:5] for window in (self.scale.early, self.scale.late))
        return tuple(batch for window in few for batch in window)

    def watched(self, name: str) -> Path:
        """Makes a directory with links to all files, for a contender that watches a directory."""
        directory = self.scratch / name
        directory.mkdir()
        for file in self.files:
            os.link(file, directory / file.name)
        return directory


@dataclass
class Result:
    """Milliseconds by batch, and the answer after the last batch."""

    answer: Answer
    milliseconds: dict[int, list[float]] = field(default_factory=dict)

    def median(self, window: range) -> float:
        """The median over the batches of a window that were measured."""
        return median(ms for batch in window for ms in self.milliseconds.get(batch, ()))

    def add(self, other: Result) -> None:
        """Adds the measurements of another round."""
        for batch, times in other.milliseconds.items():
            self.milliseconds.setdefault(batch, []).extend(times)


@dataclass(frozen=True)
class Contender:
    """A function that does the work, with its name in the table; `group` is the system that it belongs to."""

    name: str
    group: str
    run: Callable[[Job], Result]


class Clock:
    """Collects milliseconds by batch."""

    def __init__(self) -> None:
        self.milliseconds: dict[int, list[float]] = {}

    @contextmanager
    def time(self, batch: int) -> Iterator[None]:
        """Measures the block as part of a batch."""
        start = time.perf_counter()
        yield
        self.milliseconds.setdefault(batch, []).append((time.perf_counter() - start) * 1000)


def alone(run: Callable[..., Any], *args: object) -> Any:
    """Runs a function in a process of its own, so that no contender gets a JVM that another has warmed up or filled."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_run, run, args).result()


def _run(run: Callable[..., Any], args: tuple[object, ...]) -> Any:
    try:
        return run(*args)
    except Exception:
        # Spark's errors refer to the JVM, and cannot be passed to another process.
        raise RuntimeError(traceback.format_exc()) from None


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def spark_session(**conf: str) -> Iterator[SparkSession]:
    """The same session of Spark for all contenders: all cores, one shuffle partition per core, adaptive execution by
    default, and the settings with which mrql starts Spark."""
    builder = SparkSession.builder.master("local[*]").appName("bench")
    settings = {
        "spark.driver.memory": driver_memory(),
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(cores()),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **START_SETTINGS,
    }
    for key, value in {**settings, **conf}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def read_csv(spark: SparkSession, files: Iterable[Path]) -> DataFrame:
    """The rows of csv files."""
    return spark.read.schema(SCHEMA).csv([str(file) for file in files])


def consume(answer: DataFrame) -> None:
    """Computes every row of an answer, and discards it."""
    answer.write.format("noop").mode("overwrite").save()


def collected(answer: DataFrame) -> Answer:
    """The answer as a dictionary."""
    return {row[0]: row[1] for row in answer.collect()}


@contextmanager
def fast_directory() -> Iterator[Path]:
    """A temporary directory, in memory if the system has one there."""
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as directory:
        yield Path(directory)
