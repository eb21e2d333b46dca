"""The lag of a stream over three tables that are written to, and that it follows by their logs.

    python -m bench.cdc --rate 2000 --seconds 120

`pgbench` makes the given number of changes a second in three of its tables, with 1,000,000 accounts by default; a
stream, by default on Spark, follows the three by their logs, and joins them. The output is the lag of the batches when
they are committed, the number of changes a second, and how long after the last change the answer equals that of SQL.
"""

from __future__ import annotations

import bisect
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import click

from mrql.algebra.errors import UserError
from mrql.runtime.checkpoint.inspect import committed
from mrql.runtime.postgresql.pgoutput import parse_lsn
from tests.support.postgresql import PASSWORD, USER, Server, binaries

TABLES: Mapping[str, str] = {
    "pgbench_accounts": "<aid: int, bid: int, abalance: int>",
    "pgbench_tellers": "<tid: int, bid: int, tbalance: int>",
    "pgbench_history": "<tid: int, aid: int, delta: int>",
}
QUERY = """
select (branch, teller, count(h), sum(h.delta), sum(a.abalance), max(t.tbalance))
from h in pgbench_history, a in pgbench_accounts, t in pgbench_tellers
where h.aid = a.aid and h.tid = t.tid
group by branch: a.bid, teller: t.tid;
"""
SQL = """
SELECT a.bid, t.tid, count(*), sum(h.delta), sum(a.abalance), max(t.tbalance)
FROM pgbench_history h JOIN pgbench_accounts a ON h.aid = a.aid JOIN pgbench_tellers t ON h.tid = t.tid
GROUP BY a.bid, t.tid
"""
CHANGES = len(TABLES)
"""The changes of one transaction of pgbench in the followed tables, one each; one in a fourth table is not counted."""
PATIENCE = 600


class Log(threading.Thread):
    """Records the position of the server's log, with the time, every 20 milliseconds."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.places: list[int] = []
        self.times: list[float] = []
        self.ended = False

    def run(self) -> None:
        with self.server.connect() as connection:
            while not self.ended:
                row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
                assert row is not None
                self.places.append(parse_lsn(row[0]))
                self.times.append(time.monotonic())
                time.sleep(0.02)

    def when(self, place: int) -> float:
        """The time at which the log had reached a position."""
        return self.times[min(bisect.bisect_left(self.places, place), len(self.times) - 1)]


def pgbench(server: Server, *options: str) -> subprocess.Popen[bytes]:
    programs = binaries()
    assert programs is not None
    command = [str(programs / "pgbench"), "-h", "127.0.0.1", "-p", str(server.port), "-U", USER, *options, "db"]
    environment = {**os.environ, "PGPASSWORD": PASSWORD}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def stream(server: Server, home: Path, engine: str, memory: str) -> subprocess.Popen[bytes]:
    """Starts the stream, which runs until it is stopped."""
    sources = [
        f'{name} = stream(postgresql_cdc, "{server.address(name)}", type({row}));' for name, row in TABLES.items()
    ]
    (home / "q.mrql").write_text("\n".join([*sources, QUERY]))
    command = [sys.executable, "-m", "mrql", "stream", str(home / "q.mrql"), "--interval", "0.05", "--memory", memory]
    command += ["--engine", engine]
    return subprocess.Popen([*command, "--checkpoint", str(home / "state"), "--output", str(home / "out")])


@contextmanager
def running(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process, which is killed at the end of the block if it is still running."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def offsets(home: Path) -> tuple[int, int] | None:
    """The last committed batch, and the position up to which it has read the logs of all tables; None without one."""
    try:
        manifest = committed(home / "state")
    except UserError:
        return None
    return manifest.batch, min(parse_lsn(source.offset["lsn"]) for source in manifest.sources.values())


def answer(home: Path) -> list[tuple[int, ...]]:
    """The answer written by the last batch, sorted."""
    batch = max((home / "out").glob("batch-*"))
    lines = [json.loads(line) for part in batch.glob("part-*.json") for line in part.read_text().splitlines()]
    return sorted(tuple(line.values()) for line in lines)


def follow(home: Path, log: Log, process: subprocess.Popen[bytes], seconds: float) -> list[float]:
    """The lag of each batch after the first one, in seconds, when it was committed."""
    behind: dict[int, float] = {}
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        found = offsets(home)
        if found is not None and found[0] not in behind:
            behind[found[0]] = time.monotonic() - log.when(found[1])
        time.sleep(0.01)
    return list(behind.values())[1:]


@click.command()
@click.option("--scale", default=10, show_default=True, help="So many times 100,000 accounts.")
@click.option("--rate", default=2000, show_default=True, help="Changes of these tables a second.")
@click.option("--seconds", default=120, show_default=True)
@click.option("--memory", default="3g", show_default=True)
@click.option("--engine", default="spark", show_default=True)
def main(scale: int, rate: int, seconds: int, memory: str, engine: str) -> None:
    """A view of three tables that are written to."""
    server = Server.start()
    try:
        with tempfile.TemporaryDirectory(prefix="bench-cdc-") as directory:
            measure(server, Path(directory), scale, rate, seconds, engine, memory)
    finally:
        server.stop()


def measure(server: Server, home: Path, scale: int, rate: int, seconds: int, engine: str, memory: str) -> None:
    """Runs pgbench and the stream, and prints the figures.

    Raises: ClickException if pgbench or the stream fails, or the answer differs from that of SQL.
    """
    require(pgbench(server, "-i", "-q", "-s", str(scale)).wait() == 0, "pgbench cannot make its tables")
    with server.connect() as connection:
        for name in TABLES:
            connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL".encode())
    log = Log(server)
    log.start()
    began = time.monotonic()
    with running(stream(server, home, engine, memory)) as view:
        while offsets(home) is None:
            require(view.poll() is None and time.monotonic() - began < PATIENCE, "the stream has not begun")
            time.sleep(0.1)
        click.echo(f"{scale * 100_000:,} accounts: the first batch is there after {time.monotonic() - began:.1f} s")
        with running(pgbench(server, "-c", "4", "-T", str(seconds), "-R", str(rate / CHANGES), "-n")) as writing:
            behind = follow(home, log, view, seconds)
            writing.wait()
        require(writing.returncode == 0, "pgbench has failed")
        with server.connect() as connection:
            expected = sorted(connection.execute(SQL.encode()).fetchall())
            row = connection.execute("SELECT count(*) FROM pgbench_history").fetchone()
        ended = time.monotonic()
        while answer(home) != expected:
            require(view.poll() is None, "the stream has ended")
            require(time.monotonic() - ended < PATIENCE, "the answer is another one than that of SQL")
            time.sleep(0.1)
        caught_up = time.monotonic() - ended
        view.send_signal(signal.SIGTERM)
        require(view.wait() == 0, "the stream has failed")
    log.ended = True
    assert row is not None
    changes = row[0] * CHANGES
    ordered = sorted(behind)
    click.echo(f"{changes:,} changes in {seconds} s, {changes / seconds:,.0f} a second, in {len(behind)} batches")
    if ordered:
        last = ordered[int(len(ordered) * 0.95)]
        click.echo(
            f"behind when committed: median {median(ordered):.2f} s, 95 % {last:.2f} s, most {ordered[-1]:.2f} s"
        )
    click.echo(f"equal to SQL {caught_up:.1f} s after the last change")


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise click.ClickException(otherwise)


if __name__ == "__main__":
    main()
