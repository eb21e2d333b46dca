"""Streams of the log of a table, with a real server."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from urllib.parse import quote

import attrs
import psycopg
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.catalog import ADAPTER, SourceSpec
from mrql.algebra.errors import EngineError, UserError
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.values import Bag
from mrql.algebra.values.zset import ZSet
from mrql.cli.main import main
from mrql.jobs.batch import SparkBatchJob
from mrql.runtime.checkpoint import commits
from mrql.runtime.checkpoint.identity import identities
from mrql.runtime.checkpoint.store import latest
from mrql.runtime.postgresql import change_log
from mrql.runtime.postgresql.change_log import PostgresLog
from mrql.runtime.postgresql.published import in_sql
from mrql.runtime.postgresql.slot_notes import slot_notes
from mrql.runtime.postgresql.table import quoted
from mrql.runtime.sources.source import Offset, latest_of
from tests.runtime.checkpoint.streams import Stream, batch_answer
from tests.runtime.postgresql.killed_logs import log_survives, server_survives, text_of
from tests.support.postgresql import PASSWORD, Server
from tests.support.table_history import ROW, TableHistory, make_table


@pytest.fixture
def table(postgresql: Server) -> Iterator[str]:
    """The name of a table for the test; at the end the table is dropped, with all slots and publications of the
    server."""
    name = f"log_{secrets.token_hex(4)}"
    yield name
    clear(postgresql, name)


def clear(server: Server, name: str) -> None:
    with server.connect() as connection:
        for (slot,) in connection.execute("SELECT slot_name FROM pg_replication_slots WHERE NOT active").fetchall():
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
        connection.execute(f"DROP TABLE IF EXISTS {name} CASCADE".encode())
        for (publication,) in connection.execute("SELECT pubname FROM pg_publication").fetchall():
            connection.execute(f"DROP PUBLICATION {quoted(publication)}".encode())


def spec(server: Server, table: str, checkpoint: Path | None, row: str = ROW, **more: str) -> SourceSpec:
    address = server.address(table, **more)
    adapter = "postgresql_cdc"
    return SourceSpec(
        "t", True, ADAPTER, address, parse_type(row), tagged=True, is_log=True, adapter=adapter, checkpoint=checkpoint
    )


class Reader:
    """Reads a log batch by batch, and holds the resulting rows; it may be killed before a batch is committed."""

    def __init__(self, of: SourceSpec) -> None:
        self.spec = of
        self.log = PostgresLog(of)
        self.offset: Offset = None
        self.held = ZSet()

    def batch(self, most: int | None = None, *, is_lost: bool = False) -> bool:
        """Reads a batch, and returns whether there was one. A batch that `is_lost` is read, but not committed."""
        end = self.log.latest(self.offset, most)
        if end == self.offset:
            return False
        rows = ZSet.weighted(self.log.read(self.offset, end))
        if is_lost:
            self.again()
            return True
        self.held, self.offset = self.held + rows, json.loads(json.dumps(end))
        return True

    def again(self) -> None:
        self.log.close()
        self.log = PostgresLog(self.spec)

    def close(self) -> None:
        self.log.close()


@pytest.mark.parametrize("seed", range(2))
def test_histories(postgresql: Server, table: str, tmp_path: Path, seed: int) -> None:
    """With concurrent transactions, savepoints and rollbacks, the rows after each batch are those after one of the
    commits, in their order, and in the end those of the table. A process that dies reads again."""
    read_history(postgresql, table, tmp_path, Random(seed), 50)


def read_history(server: Server, table: str, checkpoint: Path, random: Random, steps: int) -> None:
    make_table(server, table)
    with closing(TableHistory(server, table, random)) as history:
        for _ in range(20):
            history.step()
        history.settle()  # taking a snapshot waits for open transactions
        history.states = history.states[-1:]
        with closing(Reader(spec(server, table, checkpoint))) as reader:
            reader.batch(is_lost=random.random() < 0.5)
            reader.batch()
            at = 0
            for _ in range(steps):
                for _ in range(random.randint(1, 4)):
                    history.step()
                while reader.batch(random.choice([1, 1, 3, None]), is_lost=random.random() < 0.2):
                    at = next(n for n in range(at, len(history.states)) if history.states[n] == reader.held.bag())
                assert reader.held.bag() == history.states[-1]
            history.settle()
            while reader.batch():
                pass
            assert reader.held.bag() == history.rows()
    assert [note.stream for note in slot_notes(checkpoint)] == ["t"]
    assert len(slots(server)) == 1


def slots(server: Server) -> list[str]:
    with server.connect() as connection:
        return [name for (name,) in connection.execute("SELECT slot_name FROM pg_replication_slots")]


def test_a_snapshot_of_a_table_that_is_written_to(postgresql: Server, table: str, tmp_path: Path) -> None:
    """Each transaction during the initial snapshot is either in the snapshot or in the log."""
    make_table(postgresql, table, columns="k int, who int")
    stop = threading.Event()

    def write(who: int) -> None:
        with psycopg.connect(postgresql.conninfo()) as writer:
            for n in range(10_000):
                writer.execute(f"INSERT INTO {table} VALUES ({n}, {who}), ({n}, {who})".encode())
                writer.execute(f"DELETE FROM {table} WHERE who = {who} AND k < {n - 20}".encode())
                writer.commit()
                if stop.is_set():
                    return

    writers = [threading.Thread(target=write, args=(who,)) for who in range(3)]
    for writer in writers:
        writer.start()
    try:
        for attempt in range(4):
            checkpoint = tmp_path / str(attempt)
            checkpoint.mkdir()
            with closing(Reader(spec(postgresql, table, checkpoint, "<k: int, who: int>"))) as reader:
                for _ in range(5):
                    reader.batch(50)
                    assert all(weight > 0 and weight % 2 == 0 for _, weight in reader.held)
                    time.sleep(0.01)
                if attempt == 3:
                    stop.set()
                    for writer in writers:
                        writer.join()
                    while reader.batch():
                        pass
                    held = sorted((row["k"], row["who"]) for row in reader.held.bag())
                    assert held == sorted(postgresql.rows(table))
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def test_tables_of_one_database(postgresql: Server, table: str, tmp_path: Path) -> None:
    """A transaction that changes two tables is in one batch of both, also in the first batch, and if the limit of one
    is reached."""
    for name in (table, f"{table}_2"):
        make_table(postgresql, name, columns="k int")
    stop = threading.Event()

    def write(who: int) -> None:
        random = Random(who)
        with psycopg.connect(postgresql.conninfo()) as writer:
            for n in range(who, 100_000, 2):
                for name in random.sample((table, f"{table}_2"), 2):
                    writer.execute(f"INSERT INTO {name} VALUES ({n})".encode())
                    if random.random() < 0.2:
                        writer.execute(f"UPDATE {name} SET k = k WHERE k > {n - 9} AND k % 2 = {who}".encode())
                writer.commit()
                if stop.is_set():
                    return

    writers = [threading.Thread(target=write, args=(who,)) for who in range(2)]
    for writer in writers:
        writer.start()
    specs = [spec(postgresql, name, tmp_path, "<k: int>") for name in (table, f"{table}_2")]
    readers = [Reader(attrs.evolve(one, name=f"t{number}")) for number, one in enumerate(specs)]
    try:
        for most in (None, 1, 3, 20, None, 50, None, None):
            if most is None:
                time.sleep(0.05)
            ends = latest_of([(reader.log, reader.offset) for reader in readers], most)
            for reader, end in zip(readers, ends, strict=True):
                if end != reader.offset:
                    reader.held += ZSet.weighted(reader.log.read(reader.offset, end))
                    reader.offset = end
            assert readers[0].held == readers[1].held
        assert len(readers[0].held) > 20
    finally:
        stop.set()
        for thread in writers:
            thread.join()
        for reader in readers:
            reader.close()
        clear(postgresql, f"{table}_2")


ODD = "%s\"';é 1a"


def test_odd_names(postgresql: Server, table: str, tmp_path: Path) -> None:
    """Schemas, tables and columns may have odd names; a table may be empty at first, and a column need not be read."""
    schema, column = f"{ODD}{table}"[:60], f'"{ODD}x"'.replace('"', '""')[1:-1]
    named = f'"{schema.replace(chr(34), chr(34) * 2)}"'
    with postgresql.connect() as connection:
        connection.execute(f"CREATE SCHEMA {named}".encode())
        connection.execute(f'CREATE TABLE {named}.{named} ({column} int, "X" int, x text)'.encode())
        connection.execute(f"ALTER TABLE {named}.{named} REPLICA IDENTITY FULL".encode())
    row = ty.RecordType(((f"{ODD}x", ty.INT), ("x", ty.STRING)))
    address = quote(f"{schema}.{schema}", safe="")
    with closing(Reader(attrs.evolve(spec(postgresql, address, tmp_path), row=row))) as reader:
        assert in_sql(reader.log.address) == f"{named}.{named}"
        assert (reader.batch(), reader.batch(), reader.held.bag()) == (True, False, Bag())
        with postgresql.connect() as connection:
            connection.execute(f"INSERT INTO {named}.{named} VALUES (1, 2, 'a'), (NULL, NULL, NULL)".encode())
        assert reader.batch()
        assert sorted(((r[f"{ODD}x"], r["x"]) for r in reader.held.bag()), key=repr) == [(1, "a"), (None, None)]
    clear(postgresql, f"{named}.{named}")


def test_a_partitioned_table(postgresql: Server, table: str, tmp_path: Path) -> None:
    """The rows of all partitions are read, also if they move; a truncated partition and a change of the partitions are
    errors."""
    make_table(postgresql, table, columns="k int, what text", more="PARTITION BY LIST (k)")
    with postgresql.connect() as connection:
        for n in range(3):
            columns = "what text, k int" if n == 2 else "k int, what text"
            connection.execute(f"CREATE TABLE {table}_{n} ({columns})".encode())
            connection.execute(f"ALTER TABLE {table}_{n} REPLICA IDENTITY FULL".encode())
            connection.execute(f"ALTER TABLE {table} ATTACH PARTITION {table}_{n} FOR VALUES IN ({n})".encode())
        connection.execute(f"INSERT INTO {table} VALUES (0, 'a'), (1, 'b'), (2, 'c')".encode())
        with closing(Reader(spec(postgresql, table, tmp_path, "<k: int, what: string>"))) as reader:
            reader.batch()
            connection.execute(f"UPDATE {table} SET k = (k + 1) % 3".encode())
            connection.execute(f"DELETE FROM {table} WHERE k = 0".encode())
            reader.batch()
            assert sorted((r["k"], r["what"]) for r in reader.held.bag()) == [(1, "a"), (2, "b")]
            connection.execute(f"TRUNCATE {table}_0".encode())  # no trigger of the table runs, and the rows stay
            with pytest.raises(UserError, match=f"the table {table} was truncated.*, 2 of them"):
                reader.batch()
            connection.execute(f"ALTER TABLE {table} DETACH PARTITION {table}_1".encode())
            with pytest.raises(UserError, match=f"the partitions of {table} have changed since the stream began"):
                reader.batch()


def test_a_truncated_table(postgresql: Server, table: str, tmp_path: Path) -> None:
    """Truncating a table is an error, as the log does not have its rows, unless it has none."""
    with postgresql.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (k int)".encode())
        connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL".encode())
        with closing(Reader(spec(postgresql, table, tmp_path, "<k: int>"))) as reader:
            reader.batch()
            connection.execute(f"INSERT INTO {table} VALUES (1); DELETE FROM {table}; TRUNCATE {table}".encode())
            connection.execute(f"INSERT INTO {table} VALUES (2)".encode())
            assert reader.batch()
            assert [row["k"] for row in reader.held.bag()] == [2]
            connection.execute(f"TRUNCATE {table}".encode())
            with pytest.raises(UserError, match="was truncated, and the log does not say which rows it had, 1 of them"):
                reader.batch()


def test_transactions_without_rows(postgresql: Server, table: str, tmp_path: Path) -> None:
    """Transactions without rows are passed over, even if they are as many as a batch has changes, and what follows is
    read: the truncation of an empty table is in the log, but changes no rows."""
    with postgresql.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (k int)".encode())
        connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL".encode())
        with closing(Reader(spec(postgresql, table, tmp_path, "<k: int>"))) as reader:
            reader.batch()
            for _ in range(3):
                connection.execute(f"TRUNCATE {table}".encode())
            connection.execute(f"INSERT INTO {table} VALUES (1)".encode())
            batches = 0
            while reader.batch(1, is_lost=batches == 1):
                batches += 1
            assert [row["k"] for row in reader.held.bag()] == [1]


CHANGED = {
    "ALTER TABLE {t} DROP COLUMN b": "has no column b",
    "ALTER TABLE {t} DROP COLUMN b; ALTER TABLE {t} ADD COLUMN b int DEFAULT 7": "the column b of {t} has changed",
    "ALTER TABLE {t} ALTER COLUMN b TYPE bigint USING b + 1": "the column b of {t} is of type bigint, and is not read",
    "ALTER TABLE {t} ALTER COLUMN a TYPE int USING a + 1": "the column a of {t} has changed",
    "ALTER TABLE {t} RENAME COLUMN b TO c": "has no column b",
    "ALTER TABLE {t} RENAME TO {t}_x": "there is no table {t}",
    "DROP TABLE {t}; CREATE TABLE {t} (a bigint, b int); ALTER TABLE {t} REPLICA IDENTITY FULL": "has no table {t}",
    "ALTER TABLE {t} REPLICA IDENTITY DEFAULT": "does not have the old rows of {t}: its REPLICA IDENTITY is not FULL",
    "ALTER PUBLICATION mrql_{t} SET (publish = 'insert')": "leaves out some kinds of changes",
    "ALTER PUBLICATION mrql_{t} DROP TABLE {t}; ALTER PUBLICATION mrql_{t} ADD TABLE {t}": "publication was changed",
    "DROP PUBLICATION mrql_{t}": "there is no publication mrql_{t}",
}
"""Statements that change a table while its log is read, and the error that follows."""


def test_what_the_log_does_not_say(postgresql: Server, table: str, tmp_path: Path) -> None:
    """A column that is not read may come and go; any other change of the rows that is not in the log is an error."""
    for number, (change, said) in enumerate(CHANGED.items()):
        with postgresql.connect() as connection:
            connection.execute(f"CREATE TABLE {table} (a bigint, b int)".encode())
            connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL".encode())
            connection.execute(f"INSERT INTO {table} VALUES (1, 2)".encode())
            home = tmp_path / str(number)
            home.mkdir()
            with closing(Reader(spec(postgresql, table, home, "<a: long, b: int>"))) as reader:
                reader.batch()
                connection.execute(
                    f"ALTER TABLE {table} ADD COLUMN more int DEFAULT 5; UPDATE {table} SET a = 2".encode()
                )
                assert reader.batch()
                connection.execute(change.format(t=table).encode())
                with pytest.raises(UserError) as caught:
                    reader.batch()
                assert said.format(t=table) in caught.value.message
                assert caught.value.hint or "has no column" in said or "no table" in said or "not read" in said
        clear(postgresql, table)
        clear(postgresql, f"{table}_x")


def test_what_is_done_to_the_slot(postgresql: Server, table: str, tmp_path: Path) -> None:
    """A slot that is gone, or is ahead of the stream, has lost changes: the error says which."""
    make_table(postgresql, table, columns="k int")
    with postgresql.connect() as connection, closing(Reader(spec(postgresql, table, tmp_path, "<k: int>"))) as reader:
        reader.batch()
        slot, place = reader.offset["slot"], reader.offset["lsn"]
        assert slots(postgresql) == [slot]
        connection.execute(f"INSERT INTO {table} VALUES (1)".encode())
        now = connection.execute("SELECT pg_current_wal_lsn()").fetchone()
        reader.again()
        connection.execute("SELECT pg_replication_slot_advance(%s, %s)", [slot, now[0] if now else ""])
        with pytest.raises(
            UserError, match=f"the replication slot {slot} is at .*, and changes since {place} are lost"
        ):
            reader.batch()
        connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
        with pytest.raises(UserError, match=f"the replication slot {slot} is gone, and changes since {place} are lost"):
            reader.batch()


def test_another_password_and_another_way_to_the_server(
    postgresql: Server, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stream goes on with its slot after the password or the name of the server in the address has changed."""
    make_table(postgresql, table, columns="k int, s text")
    text = (
        f't = stream(postgresql_cdc, "{postgresql.address(table)}"); select (x.s, count(x)) from x in t group by x.s;'
    )
    stream = Stream(tmp_path, text)
    stream.run()
    before = latest(stream.checkpoint)
    with postgresql.connect() as connection:
        connection.execute("CREATE ROLE bob LOGIN SUPERUSER PASSWORD 'another'")
        for n, (found, moved) in enumerate(
            [
                ("ann:secret@", "bob:another@"),
                ("bob:another@127.0.0.1", "ann:secret@localhost"),
                ("?", "?sslmode=prefer&"),
            ]
        ):
            connection.execute(f"INSERT INTO {table} VALUES ({n}, 'a')".encode())
            text = text.replace(found, moved)
            capsys.readouterr()
            Stream(tmp_path, text).run()
            said = capsys.readouterr().err
            assert said.startswith(f"going on after batch {n}\nbatch {n + 1}: ")
            assert "is not read any more" not in said
            assert stream.answers()[f"batch-{n + 1:06d}"] == Bag([("a", n + 1)])
        connection.execute("DROP ROLE bob")
    (note,) = slot_notes(stream.checkpoint)
    assert note.place.startswith("postgresql://ann@localhost:")
    after = latest(stream.checkpoint)
    assert before is not None
    assert after is not None
    assert before.states.keys() == after.states.keys()


def test_a_server_that_has_no_such_slot(postgresql: Server, table: str, tmp_path: Path) -> None:
    """An address that leads to a server without the slot is an error, and does not start the stream anew."""
    make_table(postgresql, table, columns="k int, s text")
    text = (
        f't = stream(postgresql_cdc, "{postgresql.address(table)}"); select (x.s, count(x)) from x in t group by x.s;'
    )
    Stream(tmp_path, text).run()
    with postgresql.connect() as connection:
        for (slot,) in connection.execute("SELECT slot_name FROM pg_replication_slots").fetchall():
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    with pytest.raises(UserError, match=r"the replication slot mrql_.* is gone, and changes since .* are lost"):
        Stream(tmp_path, text.replace("127.0.0.1", "localhost")).run()


@pytest.mark.parametrize("secret", [True, False])
def test_a_checkpoint_whose_states_are_known_by_a_whole_address(
    postgresql: Server,
    table: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    secret: bool,
) -> None:
    """A checkpoint whose states are identified by the whole address, as in earlier versions, goes on with that address,
    and from then on with another one; at once with another one if the first had no password."""
    make_table(postgresql, table, columns="k int, s text")
    text = (
        f't = stream(postgresql_cdc, "{postgresql.address(table)}"); select (x.s, count(x)) from x in t group by x.s;'
    )
    if not secret:
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        text = text.replace(f":{PASSWORD}@", "@")
    stream = Stream(tmp_path, text)
    with monkeypatch.context() as earlier:
        earlier.setattr(commits, "identities", lambda *given: identities(*given, address=lambda spec: spec.path))
        stream.run()
    moved = text.replace("127.0.0.1", "localhost")
    for now in (text, moved) if secret else (moved, moved):
        with postgresql.connect() as connection:
            connection.execute(f"INSERT INTO {table} VALUES (1, 'a')".encode())
        Stream(tmp_path, now).run()
        assert "built again" not in capsys.readouterr().err
    assert stream.answers()["batch-000002"] == Bag([("a", 2)])


def test_a_table_that_is_polled_at_another_server(postgresql: Server, table: str, tmp_path: Path) -> None:
    """A polled table at another server is another stream, which is read from its start and takes no state of the one
    before."""
    make_table(postgresql, table, columns="k int, s text")
    address = f"{postgresql.address(table)}&column=k".replace(f":{PASSWORD}@", "@")
    row = "type(<k: int, s: string>)"
    text = f't = stream(postgresql, "{address}", {row}); select (x.s, count(x)) from x in t group by x.s;'
    with pytest.MonkeyPatch.context() as environment, postgresql.connect() as connection:
        environment.setenv("PGPASSWORD", PASSWORD)
        connection.execute(f"INSERT INTO {table} VALUES (1, 'a')".encode())
        stream = Stream(tmp_path, text)
        stream.run()
        Stream(tmp_path, text.replace("127.0.0.1", "localhost")).run()
        assert stream.answers()["batch-000001"] == Bag([("a", 1)])


def test_a_log_that_has_nothing_of_the_table(
    postgresql: Server, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log without changes of the table advances by a batch without rows after a limit, so that the server can drop
    it."""
    monkeypatch.setattr(change_log, "UNREAD_BYTES", 4096)
    make_table(postgresql, table, columns="k int")
    with postgresql.connect() as connection, closing(Reader(spec(postgresql, table, tmp_path, "<k: int>"))) as reader:
        reader.batch()
        before = reader.offset["lsn"]
        assert not reader.batch()
        connection.execute(f"CREATE TABLE {table}_x AS SELECT g FROM generate_series(1, 1000) g".encode())
        assert (reader.batch(), reader.batch()) == (True, False)
        assert reader.offset["lsn"] != before
        connection.execute(f"DROP TABLE {table}_x".encode())


def test_a_connection_that_was_lost(postgresql: Server, table: str, tmp_path: Path) -> None:
    """After a restart of the server, the slot of a stream with a checkpoint is still there; a stream without one
    ends."""
    make_table(postgresql, table, columns="k int")
    with (
        closing(Reader(spec(postgresql, table, tmp_path, "<k: int>"))) as reader,
        closing(Reader(spec(postgresql, table, None, "<k: int>"))) as passing,
    ):
        for each in (reader, passing):
            each.batch()
        assert len(slots(postgresql)) == 2
        with postgresql.connect() as connection:
            connection.execute(f"INSERT INTO {table} VALUES (1)".encode())
        postgresql.restart()
        assert reader.batch()
        assert [row["k"] for row in reader.held.bag()] == [1]
        with pytest.raises(EngineError, match="was lost, and the replication slot with it"):
            passing.batch()
    assert len(slots(postgresql)) == 1


# --- as a stream --------------------------------------------------------------------------------


@pytest.mark.slow
def test_kills(postgresql: Server, table: str, tmp_path: Path) -> None:
    """A stream that is killed, while the table is changed in between, has the right answers and one slot."""
    assert log_survives(postgresql, table, tmp_path, Random(7), kills=4, delay=0.3) == 4
    assert len(slots(postgresql)) == 1


@pytest.mark.slow
def test_a_server_that_is_killed(postgresql: Server, table: str, tmp_path: Path) -> None:
    """When the server is killed while a stream follows it, committed transactions count once, and the slot is still
    there."""
    server_survives(postgresql, table, tmp_path, Random(9), crashes=2, delay=0.3)
    assert len(slots(postgresql)) == 1


@pytest.mark.spark
def test_bytes(postgresql: Server, table: str, tmp_path: Path, spark: SparkSession) -> None:
    """Bytes are read from a table and from its log, and written to another table; inside nested values as base64."""
    make_table(postgresql, table, columns="id int, raw bytea")

    def add(values: str) -> None:
        with postgresql.connect() as connection:
            connection.execute(f"INSERT INTO {table} VALUES {values}".encode())

    row = "type(<id: int, raw: binary>)"
    query = "select (r, count(x), collect(x.raw)) from x in t group by r: x.raw;"
    streams = []
    for name, source in (("log", "postgresql_cdc"), ("polled", "postgresql")):
        place = postgresql.address(table) + ("&column=id" if name == "polled" else "")
        text = f't = stream({source}, "{place}", {row}); {query}'
        for engine, more in (("reference", {}), ("spark", {"spark": spark})):
            home = tmp_path / f"{name}-{engine}"
            home.mkdir()
            streams.append(Stream(home, text, engine, address=postgresql.address(f"{table}_{name}_{engine}"), **more))
    add(r"(1, '\x'), (2, '\x00ff5c'), (3, 'a,\012'), (4, NULL), (5, '\x00ff5c')")
    for stream in streams:
        stream.run()
    add(r"(6, '\x80'), (7, '\x00ff5c')")
    with postgresql.connect() as connection:
        connection.execute(f"DELETE FROM {table} WHERE id = 0".encode())
    expected = [(b"", 1), (b"\0\xff\\", 3), (b"a,\n", 1), (b"\x80", 1)]
    for stream in streams:
        stream.run()
        assert stream.address is not None
        written = postgresql.rows(stream.address.partition("table=")[2])
        assert sorted(r[:2] for r in written if r[0] is not None) == expected
        assert {r[2] if r[0] is None else tuple(r[2]) for r in written if r[1] == 3} == {("AP9c",) * 3}


@pytest.mark.spark
def test_a_stream_on_spark(postgresql: Server, table: str, tmp_path: Path, spark: SparkSession) -> None:
    """A stream on Spark has the same rows as the reference engine, of all types, after batches and restarts."""
    make_table(postgresql, table)
    source = f'stream(postgresql_cdc, "{postgresql.address(table)}", type({ROW}))'
    keys = ", ".join(f"{name}: x.{name}" for name in ("k", "what", "price", "more"))
    text = (
        f"t = {source}; select (k, what, price, more, count(x), max(x.long), sum(x.who)) from x in t group by {keys};"
    )
    on_spark = Stream(tmp_path, text, "spark", spark=spark)
    with closing(TableHistory(postgresql, table, Random(3))) as history:
        for _ in range(4):
            for _ in range(25):
                history.step()
            history.settle()
            on_spark.run()
    reference = Stream(tmp_path, text, output="out2", checkpoint_name="other")
    reference.run()
    assert on_spark.answers()[max(on_spark.answers())] == reference.answers()["batch-000000"]
    once = SparkBatchJob(on_spark.job.program, lambda: spark)
    assert once.answer(on_spark.job.query) == batch_answer(reference)
    once.close()


def test_the_commands(postgresql: Server, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`run` reads the table without a slot, `explain` says that deletions are trusted, and `checkpoint` shows the slot
    and drops it."""
    make_table(postgresql, table)
    with closing(TableHistory(postgresql, table, Random(5))) as history:
        for _ in range(30):
            history.step()
        history.settle()
    stream = Stream(tmp_path, text_of(postgresql, table))
    assert isinstance(batch_answer(stream), Bag)
    assert slots(postgresql) == []
    stream.run()
    assert stream.answers()["batch-000000"] == batch_answer(stream)
    assert "deletions are trusted" in command("explain", str(tmp_path / "q.mrql")).output
    shown = command("checkpoint", "show", str(stream.checkpoint)).output
    (slot,) = slots(postgresql)
    assert f"slot {slot} at 0/" in shown
    assert f"slot {slot} of t at postgresql://ann@127.0.0.1" in shown
    other = Stream(tmp_path, stream.text.replace("t = stream", "orders = stream").replace("in t ", "in orders "))
    other.run()
    assert f"the replication slot {slot} at postgresql://ann@127.0.0.1" in capsys.readouterr().err
    denied = command("checkpoint", "release", str(stream.checkpoint))
    assert (denied.exit_code, "a password is taken from" in denied.stderr) == (1, True), denied.stderr
    dropped = command("checkpoint", "release", str(stream.checkpoint), "--address", postgresql.conninfo())
    assert (dropped.exit_code, f"dropped the slot {slot} of t\n" in dropped.output) == (0, True), dropped.stderr
    assert (slots(postgresql), slot_notes(stream.checkpoint)) == ([], [])
    with pytest.raises(UserError, match=r"the replication slot mrql_.* is gone"):
        Stream(tmp_path, other.text).run()


def command(*words: str) -> Result:
    return CliRunner().invoke(main, [*words])


# --- what is refused at the start ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "row", "said", "hint"),
    [
        ("CREATE TABLE {t} (k int PRIMARY KEY)", "<k: int>", "REPLICA IDENTITY is not FULL", "ALTER TABLE {t} REPLICA"),
        ("CREATE UNLOGGED TABLE {t} (k int)", "<k: int>", "{t} is unlogged", None),
        ("CREATE VIEW {t} AS SELECT 1 k", "<k: int>", "{t} is no table", None),
        ("SELECT 1", "<k: int>", "there is no table {t}", None),
        ("CREATE TABLE {t} (k int)", "<x: int>", "{t} has no column x", "its columns: k"),
        ("CREATE TABLE {t} (k bigint)", "<k: int>", "is of type bigint, and is not read as int", "as long or double"),
        ("CREATE TABLE {t} (k point)", "<k: int>", "is of type point, and is not read as int", "as string it is"),
        (
            "CREATE TABLE {t} (k int, g int GENERATED ALWAYS AS (k + 1) STORED)",
            "<g: int>",
            "g of {t} is generated",
            None,
        ),
    ],
)
def test_tables_that_cannot_be_followed(
    postgresql: Server, table: str, tmp_path: Path, made: str, row: str, said: str, hint: str | None
) -> None:
    """A table that cannot be followed is an error before a slot is made."""
    with postgresql.connect() as connection:
        connection.execute(made.format(t=table).encode())
    with closing(Reader(spec(postgresql, table, tmp_path, row))) as reader, pytest.raises(UserError) as caught:
        reader.batch()
    with postgresql.connect() as connection:
        connection.execute(b"SELECT" if "VIEW" not in made else f"DROP VIEW {table}".encode())
    assert said.format(t=table) in caught.value.message
    assert hint is None or hint.format(t=table) in (caught.value.hint or "")
    assert (slots(postgresql), slot_notes(tmp_path)) == ([], [])


def test_a_server_that_logs_no_rows(postgresql: Server, table: str, tmp_path: Path) -> None:
    make_table(postgresql, table, columns="k int")
    postgresql.restart(wal_level="replica")
    try:
        with closing(Reader(spec(postgresql, table, tmp_path, "<k: int>"))) as reader:
            with pytest.raises(UserError, match="the server writes no log of rows: its wal_level is replica") as caught:
                reader.batch()
            assert "ALTER SYSTEM SET wal_level = logical" in (caught.value.hint or "")
    finally:
        postgresql.restart()


def test_who_may_not_read_the_log(postgresql: Server, table: str, tmp_path: Path) -> None:
    """It is an error if the user may not read the log, may not make the publication, or if no slot is free."""
    make_table(postgresql, table, columns="k int")
    with postgresql.connect() as connection:
        connection.execute("DROP ROLE IF EXISTS bo")
        connection.execute("CREATE ROLE bo LOGIN PASSWORD 'b'")
        connection.execute(f"GRANT SELECT ON {table} TO bo".encode())
        address = postgresql.address(table).replace("ann:secret", "bo:b")
        of = SourceSpec(
            "t", True, ADAPTER, address, parse_type("<k: int>"), adapter="postgresql_cdc", checkpoint=tmp_path
        )
        with closing(Reader(of)) as reader:
            with pytest.raises(UserError, match="replication role") as caught:
                reader.batch()
            assert "ALTER ROLE" in (caught.value.hint or "")
            connection.execute("ALTER ROLE bo REPLICATION")
            with pytest.raises(
                UserError, match=f"no publication mrql_{table}, and this user may not make it"
            ) as caught:
                reader.batch()
            connection.execute((caught.value.hint or "").removeprefix("its owner may: ").encode())
            assert reader.batch()
        taken = [f"taken_{n}" for n in range(19)]
        for name in taken:
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])
        home = tmp_path / "other"
        home.mkdir()
        full = pytest.raises(EngineError, match="all 20 replication slots of the server are in use")
        with closing(Reader(spec(postgresql, table, home, "<k: int>"))) as reader, full:
            reader.batch()
        connection.execute(f"REVOKE ALL ON {table} FROM bo; DROP ROLE bo".encode())
