"""Streams with a checkpoint, run in this process: their data, their answers, and file operations that fail."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from enum import Enum
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import attrs
from pyspark.sql import SparkSession

from mrql.algebra.values.values import Bag, Value
from mrql.cli.query_files import planned
from mrql.jobs.batch import ReferenceBatchJob
from mrql.jobs.stream import run_stream
from mrql.jobs.stream_job import StreamJob
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.threshold import Threshold
from mrql.runtime.checkpoint.restore import found_rows, found_versions
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.sinks.directory import DirectoryPlace
from mrql.runtime.sinks.places import Place, place_at
from mrql.runtime.streaming.stream_loop import Emit, Options

GROUPS = """
edges = stream(csv, "edges", ",", type((long, long)), deletions("removed"));
select (x, sum(y), max(y)) from (x, y) in edges group by x;
"""
JOIN = """
edges = stream(csv, "edges", ",", type((long, long)), deletions("removed"));
names = source(csv, "names", ",", type((long, string)));
select (n, count(k), sum(k))
from (n, k) in (select (m, c) from (x, y) in edges, (a, c) in edges, (b, m) in names where y = a and b = x)
group by n;
"""

UPSERTS = """
edges = stream(csv, "edges", ",", type((long, decimal(5, 1))), key(_1), version(_2), deletions("gone"));
select (y as long, count(x), sum(x)) from (x, y) in edges group by y;
"""
"""A query over rows that replace each other; two rows with the same key and version are equal. Keys are deleted again,
each with a version of its own."""


def write(file: Path, text: str, age: int) -> None:
    """Writes a file with a modification time given by `age`, so that the files are in the order in which they were
    written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (1_000_000 + age, 1_000_000 + age))


def rows(pairs: list[tuple[int, int]]) -> str:
    return "".join(f"{x},{y}\n" for x, y in pairs)


def fill(home: Path, batches: int, random: Random, *, start: int = 0, first: int = 6) -> None:
    """Writes a file for each batch; every third one deletes rows, or for `UPSERTS` their keys, with versions right
    after theirs."""
    present: list[tuple[int, int]] = []
    for number in range(start, start + batches):
        if number % 3 == 2 and len(present) > 2:
            gone = random.sample(present, random.randint(1, min(5, len(present) // 2)))
            for row in gone:
                present.remove(row)
            write(home / "removed" / f"{number:04d}.csv", rows(gone), number)
            write(home / "gone" / f"{number:04d}.csv", "".join(f"{x},{y}.5\n" for x, y in gone), number)
        else:
            count = first if number == start else random.randint(1, 6)
            new = [(random.randint(0, 9) if n < 20 else n, random.randint(0, 9)) for n in range(count)]
            present += new
            write(home / "edges" / f"{number:04d}.csv", rows(new), number)
    write(home / "names" / "names.csv", "".join(f"{n},n{n % 3}\n" for n in range(10)), 0)


def answers(directory: Path) -> dict[str, Bag]:
    """The rows of each published batch, by its name."""
    return {
        batch.name: Bag(
            value(json.loads(line))
            for part in sorted(batch.glob("part-*.json"))
            for line in part.read_text().splitlines()
        )
        for batch in sorted(directory.glob("batch-*"))
    }


def batch_answer(stream: Stream) -> Bag:
    """The answer to all data, evaluated from scratch."""
    job = ReferenceBatchJob(stream.job.program)
    answer = job.answer(stream.job.query)
    assert isinstance(answer, Bag)
    return answer


def value(plain: Any) -> Value:
    """The value that was written as JSON: tuples are objects, and the collections of these queries are bags."""
    match plain:
        case dict():
            return tuple(map(value, plain.values()))
        case list():
            return Bag(map(value, plain))
        case _:
            return plain


@attrs.define(slots=False)
class Stream:
    """A stream over the data in a directory, with its checkpoint and its output there too."""

    home: Path
    text: str = GROUPS
    engine: str = "reference"
    emit: Emit = Emit.SNAPSHOT
    max_files: int | None = 1
    spark: SparkSession | None = None
    output: str = "out"
    quarantine: str | None = None
    address: str | None = None
    """The address of a table that the stream also writes to."""
    checkpoint_name: str = "checkpoint"
    rewritable: bool = False
    strategy: LoopStrategy = LoopStrategy.AUTO
    threshold: Threshold | None = None
    partitions: int | None = None
    may_go: bool = False
    """Whether files may be removed after they were read."""
    max_rows: int | None = None
    """The approximate number of rows of an adapter in a batch."""

    @property
    def outputs(self) -> tuple[Place, ...]:
        address = None if self.address is None else place_at(self.address)
        return (DirectoryPlace(self.out), *([] if address is None else [address]))

    @cached_property
    def job(self) -> StreamJob:
        file = self.home / "q.mrql"
        file.write_text(self.text)
        typed = planned(
            file,
            self.home,
            strategy=self.strategy,
            threshold=self.threshold,
            rewritable=self.rewritable,
            versions=found_versions(self.checkpoint),
        )
        rows = found_rows(self.checkpoint)
        program, query, plan = typed(rows)
        options = Options(
            once=True, max_files=self.max_files, max_rows=self.max_rows, emit=self.emit, may_go=self.may_go
        )
        return StreamJob(
            program,
            query,
            plan,
            self.engine,
            self._session,
            options,
            typed,
            rows,
            outputs=() if query.target is not None else self.outputs,
            quarantine=None if self.quarantine is None else self.home / self.quarantine,
            checkpoint=self.checkpoint,
            rewritable=self.rewritable,
            partitions=self.partitions,
        )

    def _session(self) -> SparkSession:
        assert self.spark is not None
        return self.spark

    @property
    def out(self) -> Path:
        return self.home / self.output

    @property
    def checkpoint(self) -> Path:
        return self.home / self.checkpoint_name

    def run(self, files: DurableFiles | None = None) -> None:
        """Runs the stream over the data that are there."""
        run_stream(self.job, Counting() if files is None else files)

    def answers(self) -> dict[str, Bag]:
        """The rows of each batch that it has published."""
        return answers(self.out)

    def uninterrupted(self) -> dict[str, Bag]:
        """The output of an uninterrupted run in the reference engine, without a checkpoint."""
        alone = self.home / "alone"
        shutil.rmtree(alone, ignore_errors=True)
        run_stream(attrs.evolve(self.job, engine="reference", outputs=(DirectoryPlace(alone),), checkpoint=None))
        return answers(alone)

    def clear(self) -> None:
        """Removes its checkpoint, output and quarantine."""
        for path in (self.checkpoint, self.out, *self.home.glob("kept")):
            shutil.rmtree(path, ignore_errors=True)


# --- file operations that fail ------------------------------------------------------------------


class Crash(BaseException):
    """The process dies here."""


class Moment(Enum):
    """When a crash happens, relative to a file operation."""

    BEFORE = "before"
    HALF = "half"
    AFTER = "after"
    POWER = "power"
    """Before the operation, and everything that was not synced is lost, as in a power failure."""


@attrs.define
class Counting(DurableFiles):
    """Counts the file operations, and does not wait for the disk."""

    count: int = 0

    def make_directory(self, path: Path) -> None:
        self.do(lambda: DurableFiles.make_directory(self, path))

    def write(self, path: Path, data: bytes) -> None:
        self.do(
            lambda: DurableFiles.write(self, path, data), lambda: DurableFiles.write(self, path, data[: len(data) // 2])
        )

    def sync(self, path: Path) -> None:
        # No power fails in a test, and waiting for the disk takes most of the time.
        self.do(lambda: path.stat() and None)

    def rename(self, path: Path, to: Path) -> None:
        self.do(lambda: DurableFiles.rename(self, path, to))

    def remove(self, path: Path) -> None:
        self.do(lambda: DurableFiles.remove(self, path), lambda: remove_half(path))

    def do(self, operation: Callable[[], None], half: Callable[[], None] = lambda: None) -> None:
        self.count += 1
        operation()


@attrs.define
class Failing(Counting):
    """Raises an error at one of the file operations."""

    at: int = 1
    moment: Moment = Moment.BEFORE
    error: BaseException = attrs.Factory(Crash)
    unsynced: list[Path] = attrs.Factory(list)
    renamed: list[tuple[Path, Path]] = attrs.Factory(list)

    def do(self, operation: Callable[[], None], half: Callable[[], None] = lambda: None) -> None:
        self.count += 1
        if self.count != self.at:
            operation()
            return
        if self.moment is Moment.HALF:
            half()
        if self.moment is Moment.AFTER:
            operation()
        if self.moment is Moment.POWER:
            self.lose()
        raise self.error

    def write(self, path: Path, data: bytes) -> None:
        super().write(path, data)
        self.unsynced.append(path)

    def sync(self, path: Path) -> None:
        super().sync(path)
        self.unsynced = [other for other in self.unsynced if other != path]
        self.renamed = [(a, b) for a, b in self.renamed if b.parent != path]

    def rename(self, path: Path, to: Path) -> None:
        super().rename(path, to)
        self.renamed.append((path, to))
        moved = ((other, other.is_relative_to(path)) for other in self.unsynced)
        self.unsynced = [to / other.relative_to(path) if inside else other for other, inside in moved]

    def lose(self) -> None:
        """Loses what is not on disk: renames that were not synced are undone, and files that were not synced are
        truncated."""
        for path, to in reversed(self.renamed):
            if to.exists():
                to.rename(path)
        for path in self.unsynced:
            if path.exists():
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def remove_half(path: Path) -> None:
    """Removes one file of a directory."""
    found = sorted(inner for inner in path.rglob("*") if inner.is_file()) if path.is_dir() else []
    if found:
        found[0].unlink()
