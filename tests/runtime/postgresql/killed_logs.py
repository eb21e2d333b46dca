"""Streams of the log of a table of PostgreSQL that are killed, and servers that are killed while a stream follows
them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path
from random import Random

import attrs

from mrql.algebra.errors import EngineError
from mrql.algebra.values.values import Bag
from tests.runtime.checkpoint.crashes import KilledStream, is_whole
from tests.runtime.checkpoint.streams import Stream
from tests.support.postgresql import Server
from tests.support.table_history import TableHistory, make_table

ROW = "<k: long, who: int, what: string, price: double>"
MOST_ROUNDS = 20


def text_of(server: Server, table: str) -> str:
    source = f'stream(postgresql_cdc, "{server.address(table)}", type({ROW}))'
    return f"t = {source}; select (w, count(x), sum(x.price), max(x.k)) from x in t group by w: x.what;"


def log_survives(
    server: Server,
    table: str,
    home: Path,
    random: Random,
    *,
    kills: int,
    delay: float,
    steps: int = 60,
    engine: str = "reference",
) -> int:
    """Kills a stream of the log of a table at random moments, about `kills` times, and returns the number of kills.

    In between, the table is changed; then the answer must be that of SQL, here and in a table that the stream writes
    to.
    """
    stream = begun(server, table, home, random, steps, engine)
    killed = rounds = 0
    while killed < kills and rounds < MOST_ROUNDS:
        change(server, table, random, steps)
        killed += KilledStream(random, delay, stream).until_done(min(2, kills - killed))
        assert_answers(server, table, stream)
        rounds += 1
    return killed


def begun(server: Server, table: str, home: Path, random: Random, steps: int, engine: str = "reference") -> Stream:
    """A stream with small batches that has read the initial rows of a table, and also writes its answer to another
    table."""
    make_table(server, table)
    change(server, table, random, steps)
    stream = Stream(home, text_of(server, table), engine)
    stream.address, stream.max_rows = server.address(f"{table}_kept"), 30
    assert stream.job.query is not None  # this writes the query file
    KilledStream(random, 0, stream).until_done(0)
    return stream


def change(server: Server, table: str, random: Random, steps: int) -> None:
    """Executes statements of several transactions, all of which have ended when it returns."""
    with closing(TableHistory(server, table, random)) as history:
        for _ in range(steps):
            history.step()
        history.settle()
    with server.connect() as connection:  # something to read, even if all else was rolled back
        connection.execute(f"INSERT INTO {table} (k, who, what, price) VALUES (1, 9, 'a', 1.5)".encode())


def assert_answers(server: Server, table: str, stream: Stream) -> None:
    """Asserts that the last answer is that over the table as it is, and that no hidden or temporary files are left."""
    last = stream.answers()[max(stream.answers())]
    query = f"SELECT what, count(*), sum(price), max(k) FROM {table} GROUP BY what"
    with server.connect() as connection:
        expected = Bag((*row[:2], float(row[2] or 0), row[3]) for row in connection.execute(query.encode()))
    assert last == expected, f"{last}, not {expected}"
    assert Bag(server.rows(f"{table}_kept")) == expected
    assert is_whole(stream)
    assert not [*(stream.checkpoint / "incoming").rglob("*.parquet")]


# --- servers that are killed --------------------------------------------------------------------


@attrs.define
class FollowingStream(KilledStream):
    """A process of `mrql stream` that runs until it is told to stop."""

    def command(self) -> list[str]:
        return [part for part in KilledStream.command(self) if part != "--once"] + ["--interval", "0.05"]


def server_survives(
    server: Server, table: str, home: Path, random: Random, *, crashes: int, delay: float, steps: int = 40
) -> int:
    """Kills the server while a stream follows the log of one of its tables and writes to another one; returns how often
    the stream had ended because of that.

    Each transaction must count once.
    """
    stream = begun(server, table, home, random, steps)
    lost = 0
    for _ in range(crashes):
        following = FollowingStream(random, delay, stream)
        process = following._start()
        before = following._commits()
        change(server, table, random, steps)
        until = time.monotonic() + following.patience
        while following._commits() == before and process.poll() is None:
            assert time.monotonic() < until, "the stream does not begin"
            time.sleep(0.01)
        change(server, table, random, steps)
        time.sleep(random.uniform(0, delay))
        server.crash()
        change(server, table, random, steps)
        lost += _ended(process, following)
        KilledStream(random, delay, stream).until_done(0)
        assert_answers(server, table, stream)
    return lost


def _ended(process: subprocess.Popen[str], following: FollowingStream) -> bool:
    """Whether a stream has ended with an error since it lost the server; one that still runs is stopped."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(2)
    process.send_signal(signal.SIGTERM)
    code, said = process.wait(following.patience), following.said.read_text()
    if code == 0:
        return False
    # It may have been about to end by itself when it was told to stop.
    assert code in (EngineError.exit_code, -signal.SIGTERM), f"{code}: {said}"
    assert "was lost" in said or "cannot connect to" in said, said
    assert "Traceback" not in said, said
    return True
