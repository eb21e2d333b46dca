"""What hundreds of batches with commits leave in memory and on disk: `python -m tests.soak.hundreds --batches 500`.

A window of rows moves on with each batch, so that the state always has the same size: growth is a leak.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from unittest.mock import patch

import attrs
import click
from pyspark.sql import SparkSession

from mrql.algebra.values.values import close
from mrql.monitoring.watch import Watch
from mrql.runtime.spark import jvm
from mrql.runtime.streaming.report import Report
from tests.runtime.checkpoint.streams import Stream, answers, batch_answer, rows, write
from tests.soak.loop_memory import heap

WINDOW = 10
"""The number of batches that a row stays."""
ROWS = 40
"""The number of new rows in a batch."""


@attrs.frozen
class Sample:
    """The memory and files after a batch, and the median time of the batches since the last sample."""

    batch: int
    milliseconds: float
    rdds: int
    megabytes: float
    open_files: int
    """Those of this process and of Java's."""
    checkpoint_bytes: int
    checkpoint_files: int

    def __str__(self) -> str:
        return (
            f"batch {self.batch}: {self.milliseconds:.0f} ms, {self.rdds} RDDs, {self.megabytes:.1f} MB of heap,"
            f" {self.open_files} open files, checkpoint {self.checkpoint_bytes / 1024:.0f} KB in"
            f" {self.checkpoint_files} files"
        )


def fill(home: Path, batches: int) -> None:
    """Writes a file of new rows for each batch, and one that deletes those that leave the window."""
    for number in range(batches):
        write(home / "edges" / f"{number:04d}.csv", _rows_of(number), number)
        if number >= WINDOW:
            write(home / "removed" / f"{number:04d}.csv", _rows_of(number - WINDOW), number)
    (home / "removed").mkdir(exist_ok=True)


def _rows_of(number: int) -> str:
    return rows([((number * 7 + n) % 1000, n) for n in range(ROWS)])


def samples(spark: SparkSession, home: Path, batches: int, every: int) -> list[Sample]:
    """Runs the stream to its end, samples memory and files after each `every` of its batches, and compares the last
    answer with the one from scratch."""
    fill(home, batches)
    stream = Stream(home, engine="spark", spark=spark, max_files=2)
    before, found, times = jvm.persistent_rdds(spark), list[Sample](), list[float]()

    def tell(watch: Watch, report: Report) -> None:
        times.append(report.milliseconds)
        if (report.number + 1) % every == 0:
            found.append(_sample(spark, stream.checkpoint, report.number + 1, median(times), before))
            click.echo(f"  {found[-1]}")
            times.clear()

    with patch.object(Watch, "tell", tell):
        stream.run()
    last = max(answers(stream.out).items())
    assert close(last[1], batch_answer(stream)), f"{last[0]} is not the answer from scratch"
    return found


def _sample(spark: SparkSession, checkpoint: Path, batch: int, milliseconds: float, before: int) -> Sample:
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    opened = sum(len(os.listdir(f"/proc/{process}/fd")) for process in ("self", java))
    sizes = [file.stat().st_size for file in checkpoint.rglob("*") if file.is_file()]
    rdds = jvm.persistent_rdds(spark) - before
    return Sample(batch, milliseconds, rdds, heap(spark), opened, sum(sizes), len(sizes))


def growth(found: Sequence[Sample]) -> Iterator[str]:
    """The medians of each measure in the second and in the last third of the samples."""
    third = len(found) // 3
    for name in ("milliseconds", "rdds", "megabytes", "open_files", "checkpoint_bytes", "checkpoint_files"):
        second, last = (
            median(getattr(sample, name) for sample in part) for part in (found[third : 2 * third], found[2 * third :])
        )
        yield f"{name}: {second:,.1f}, then {last:,.1f}"


@click.command()
@click.option("--batches", type=click.IntRange(30), default=500, show_default=True)
def main(batches: int) -> None:
    """Prints what is there every now and then, and the medians of the second and of the last third."""
    from tests.conftest import local_spark

    spark = local_spark()
    try:
        with TemporaryDirectory() as home:
            found = samples(spark, Path(home), batches, max(1, batches // 30))
    finally:
        spark.stop()
    for line in growth(found):
        click.echo(line)


if __name__ == "__main__":
    main()
