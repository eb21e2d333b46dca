"""Large states: the time to restore one, and the memory that one takes.

    python -m bench.states restore --keys 5000000
    python -m bench.states memory --keys 20000000 --memory 2g

`restore` prints the seconds that a stream takes to start from its checkpoint and process one more batch, the seconds to
process all data again, and the seconds that Spark alone takes to start and answer one query. `memory` runs a stream
through the data batch by batch with little memory, compares its answer with one computed by NumPy from all of the data,
and prints the peak memory of Java.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

QUERY = """
s = stream(parquet, "s", type(<K: long, V: long>));
select (m, count(k)) from (m, k) in (select (sum(r.V) mod 10, k) from r in s group by k: r.K) group by m;
"""
"""A sum for each key, and the number of keys by the last digit of their sums: a large state with a small answer."""


@attrs.define
class Data:
    """Files with rows of random values, and the expected sums by key."""

    home: Path
    sums: np.ndarray[tuple[int], np.dtype[np.int64]]
    random: np.random.Generator
    files: int = 0

    @staticmethod
    def empty(home: Path, keys: int) -> Data:
        (home / "s").mkdir()
        (home / "q.mrql").write_text(QUERY)
        return Data(home, np.zeros(keys, np.int64), np.random.default_rng(7))

    def add(self, keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        """Writes a file with one row for each of the given keys."""
        values = self.random.integers(0, 100, len(keys))
        np.add.at(self.sums, keys, values)
        pq.write_table(pa.table({"K": keys, "V": values}), self.home / "s" / f"{self.files:04d}.parquet")
        self.files += 1

    def all_keys(self) -> None:
        self.add(self.random.permutation(len(self.sums)))

    def answer(self) -> dict[int, int]:
        digits, counts = np.unique(self.sums % 10, return_counts=True)
        return dict(zip(digits.tolist(), counts.tolist(), strict=True))


def command(home: Path, name: str, *more: str) -> list[str]:
    """The command of a stream over the data, with the checkpoint and output directories of a name."""
    said = [sys.executable, "-m", "mrql", "stream", str(home / "q.mrql"), "--data", str(home), "--once"]
    return [*said, "--checkpoint", str(home / f"{name}-state"), "--output", str(home / f"{name}-out"), *more]


def one_query(home: Path, memory: str) -> list[str]:
    """The command that answers a query without data."""
    (home / "one.mrql").write_text("select x + 1 from x in {1};")
    return [sys.executable, "-m", "mrql", "run", str(home / "one.mrql"), "--engine", "spark", "--memory", memory]


def seconds(command: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start


def last_answer(out: Path) -> dict[int, int]:
    """The answer written by the last batch."""
    batch = max(out.glob("batch-*"))
    lines = [json.loads(line) for part in batch.glob("part-*.json") for line in part.read_text().splitlines()]
    return {line["_1"]: line["_2"] for line in lines}


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary directory that is removed at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="mrql-states-") as home:
        yield Path(home)


def require(found: dict[int, int], expected: dict[int, int]) -> None:
    if found != expected:
        raise click.ClickException(f"the answer is {found}, and should be {expected}")


@click.group()
def main() -> None:
    """Large states."""


@main.command()
@click.option("--keys", default=5_000_000, show_default=True)
@click.option("--rows", default=8, show_default=True, help="Rows of a key.")
@click.option("--memory", default="6g", show_default=True)
def restore(keys: int, rows: int, memory: str) -> None:
    """Seconds to go on from a checkpoint, and to start over."""
    with scratch() as home:
        data = Data.empty(home, keys)
        for _ in range(rows):
            data.all_keys()
        built = seconds(command(home, "kept", "--memory", memory))
        data.add(np.arange(1000))
        restored = seconds(command(home, "kept", "--memory", memory))
        rebuilt = seconds(command(home, "anew", "--memory", memory))
        for name in ("kept", "anew"):
            require(last_answer(home / f"{name}-out"), data.answer())
        click.echo(f"{keys:,} keys, {rows} rows each: built in {built:.1f} s")
        click.echo(f"restored, with a batch, in {restored:.1f} s; rebuilt in {rebuilt:.1f} s: {restored / rebuilt:.2f}")
        idle = seconds(one_query(home, memory))
        ratio = (restored - idle) / (rebuilt - idle)
        click.echo(f"Spark alone takes {idle:.1f} s to start and to answer a query; without these: {ratio:.2f}")


@main.command()
@click.option("--keys", default=20_000_000, show_default=True)
@click.option("--batches", default=10, show_default=True)
@click.option("--memory", default="2g", show_default=True)
@click.option("--partitions", default=32, show_default=True)
def memory(keys: int, batches: int, memory: str, partitions: int) -> None:
    """A state that is larger than the memory."""
    with scratch() as home:
        data = Data.empty(home, keys)
        for some in np.array_split(data.random.permutation(keys), batches):
            data.add(some)
        data.add(data.random.integers(0, keys, keys // batches))
        options = ["--memory", memory, "--partitions", str(partitions), "--max-files", "1"]
        start = time.perf_counter()
        with subprocess.Popen(command(home, "large", *options)) as process:
            peak = Peak(process)
            peak.start()
        if process.returncode:
            raise click.ClickException(f"the stream has ended with code {process.returncode}")
        require(last_answer(home / "large-out"), data.answer())
        took = time.perf_counter() - start
        click.echo(f"{keys:,} keys in {batches + 1} batches, --memory {memory}, {partitions} partitions: {took:.0f} s")
        click.echo(f"equal to the answer from scratch; Java took {peak.bytes / 2**20:,.0f} MB at most")


class Peak(threading.Thread):
    """Records the peak memory of the Java process of a stream until the stream ends."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        self.process = process
        self.bytes = 0

    def run(self) -> None:
        while self.process.returncode is None:
            told = subprocess.run(["pgrep", "-P", str(self.process.pid), "java"], capture_output=True, check=False)
            for java in told.stdout.split():
                self.bytes = max(self.bytes, resident(int(java)))
            time.sleep(0.5)


def resident(process: int) -> int:
    """The peak memory of a process, in bytes; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


if __name__ == "__main__":
    main()
