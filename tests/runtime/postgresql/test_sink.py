"""Answers that are kept current in a table of PostgreSQL, with a real server."""

from __future__ import annotations

import contextlib
import math
import secrets
import sys
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from random import Random
from urllib.parse import quote

import attrs
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.catalog import ADAPTER, SourceSpec
from mrql.algebra.errors import EngineError, UserError
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Value
from mrql.algebra.values.values import Record as Fields
from mrql.cli.main import main
from mrql.runtime.checkpoint.store import latest
from mrql.runtime.engine.answer import Answer, Output, changes_of
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.postgresql.address import parse_address
from mrql.runtime.postgresql.columns import columns_of
from mrql.runtime.postgresql.connection import connect
from mrql.runtime.postgresql.copy_format import COPY, parts
from mrql.runtime.postgresql.sink import Applied, TableSink
from mrql.runtime.postgresql.source import PostgresTable
from mrql.runtime.postgresql.table import StreamRecord, StreamTable, Unmatched, quoted
from mrql.runtime.reference.answer import ReferenceRows
from mrql.runtime.sinks.sink import publish
from tests.runtime.checkpoint.streams import GROUPS, Counting, Crash, Failing, Moment, Stream, batch_answer, fill, write
from tests.support.postgresql import Server

PAIRS = """
edges = stream(csv, "edges", ",", type((long, long)), deletions("removed"));
select (x, y mod 2) from (x, y) in edges;
"""
NESTED = """
edges = stream(csv, "edges", ",", type((long, long)), deletions("removed"));
select <k: x, all: y, mean: avg(y), half: sum(y * 0.5), seen: <n: count(y), s: ["a\\"b", null]>>
from (x, y) in edges group by x;
"""


@pytest.fixture
def table(postgresql: Server) -> Iterator[str]:
    """The name of a table for the test, which is dropped at the end."""
    name = f"t{secrets.token_hex(4)}"
    yield name
    with postgresql.connect() as connection:
        connection.execute(f"DROP TABLE IF EXISTS {name}".encode())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Twelve batches, some with deletions."""
    fill(tmp_path, 12, Random(5))
    return tmp_path


def bag(rows: list[tuple[object, ...]]) -> Bag:
    return Bag(rows)


@pytest.mark.parametrize("text", [GROUPS, PAIRS])
def test_the_table_is_the_answer(home: Path, postgresql: Server, table: str, text: str) -> None:
    """After all batches the table holds the answer from scratch, with each row as many times as the answer."""
    stream = Stream(home, text, address=postgresql.address(table))
    stream.run()
    assert bag(postgresql.rows(table)) == batch_answer(stream)


@pytest.mark.spark
def test_the_table_is_the_answer_on_spark(home: Path, postgresql: Server, table: str, spark: SparkSession) -> None:
    """The table has the same rows from Spark, also nested values, and after a restart."""
    on_spark = Stream(home, NESTED, "spark", spark=spark, address=postgresql.address(table), max_files=None)
    on_spark.run()
    write(home / "edges" / "later.csv", "1,100\n77,1\n", 100)
    on_spark.run()
    reference = Stream(home, NESTED, output="out2", checkpoint_name="other", max_files=None)
    reference.address = postgresql.address(f"{table}_r")
    reference.run()
    assert postgresql.rows(table) == postgresql.rows(f"{table}_r")


DECIMALS = """
amounts = stream(csv, "amounts", ",", type(<k: long, exact: decimal(38, 18), whole: decimal(38)>), deletions("gone"));
select a from a in amounts;
"""
LARGEST = f"{'9' * 20}.{'9' * 18}"
AMOUNTS = f"""1,{LARGEST},{"9" * 38}
2,-{LARGEST},-{"9" * 38}
3,0.000000000000000001,-1
4,-0.000000000000000001,0
5,,
6,-0.5,
6,-0.5,
"""


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_decimals(request: pytest.FixtureRequest, tmp_path: Path, postgresql: Server, table: str, engine: str) -> None:
    """Decimals with any digits, or null, are written, read back, and deleted by their values."""
    write(tmp_path / "amounts" / "0.csv", AMOUNTS, 0)
    spark = request.getfixturevalue("spark") if engine == "spark" else None
    stream = Stream(tmp_path, DECIMALS, engine, spark=spark, address=postgresql.address(table))
    stream.run()
    rows = [line.split(",") for line in AMOUNTS.splitlines()]
    there = [(int(k), *(Decimal(x) if x else None for x in amounts)) for k, *amounts in rows]
    assert sorted(postgresql.rows(table), key=repr) == sorted(there, key=repr)
    t = parse_type("<k: long, exact: decimal(38, 18), whole: decimal(38, 0)>")
    path = postgresql.address(table) + "&column=k"
    with closing(PostgresTable(SourceSpec("s", True, ADAPTER, path, t, adapter="a:b"))) as source:
        read = [tuple(row.fields.values()) for row, _ in source.read(None, source.latest(None, None))]
    assert sorted(read, key=repr) == sorted(there, key=repr)
    write(tmp_path / "gone" / "1.csv", "".join(f"{line}\n" for line in AMOUNTS.splitlines()[:6]), 1)
    stream.run()
    assert postgresql.rows(table) == [(6, Decimal("-0.5"), None)]


# --- restarts and crashes -----------------------------------------------------------------------


@pytest.mark.parametrize("moment", [Moment.BEFORE, Moment.HALF, Moment.AFTER])
def test_a_crash_at_any_operation_on_files(tmp_path: Path, postgresql: Server, table: str, moment: Moment) -> None:
    """After a crash at a file operation, the same command completes the table and the directory."""
    fill(tmp_path, 3, Random(7))
    stream = Stream(tmp_path, PAIRS, address=postgresql.address(table, replace="true"))
    whole = Counting()
    stream.run(whole)
    expected, rows = stream.answers(), postgresql.rows(table)
    for at in range(1 + (moment is Moment.AFTER), whole.count + 1, 5):
        stream.clear()
        with contextlib.suppress(Crash):
            stream.run(Failing(at=at, moment=moment))
        stream.run()
        assert (postgresql.rows(table), stream.answers()) == (rows, expected), at
        assert not [*stream.checkpoint.glob("outbox/*/*"), *stream.checkpoint.glob("outbox/*/.*")]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_crash_at_the_commit_of_the_database(
    home: Path, postgresql: Server, table: str, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between the commits of the checkpoint and of the table, or right after the latter, loses and repeats no
    batch."""
    stream, commits = Stream(home, PAIRS, address=postgresql.address(table)), 0
    commit = TableSink.committed

    def committed(sink: TableSink, applied: Applied) -> None:
        nonlocal commits
        commits += 1
        if is_late:
            commit(sink, applied)
        if commits % 2 == 0:
            raise Crash
        if not is_late:
            commit(sink, applied)

    monkeypatch.setattr(TableSink, "committed", committed)
    for _ in range(12):
        with contextlib.suppress(Crash):
            stream.run()
    assert commits >= 12
    assert bag(postgresql.rows(table)) == batch_answer(stream)
    assert record(postgresql, table)[1] == 11


def record(server: Server, table: str) -> tuple[str, int]:
    """The stream and the last batch that are recorded for a table."""
    with server.connect() as connection:
        found = connection.execute("SELECT stream, batch FROM mrql_streams WHERE table_name = %s", [table]).fetchone()
    assert found is not None
    return found[0], found[1]


def test_a_changed_query(home: Path, postgresql: Server, table: str) -> None:
    """The answer of a changed query replaces the rows of the table, at once, even if no rows are new."""
    stream = Stream(home, PAIRS, address=postgresql.address(table))
    stream.run()
    changed = Stream(home, PAIRS.replace("y mod 2", "y mod 3"), address=stream.address)
    changed.run()
    assert bag(postgresql.rows(table)) == batch_answer(changed)
    other = Stream(home, GROUPS, address=stream.address)
    with pytest.raises(UserError) as caught:
        other.run()
    assert caught.value.message == (
        f"the table {table} has the columns (_1 bigint, _2 bigint), "
        "and the answer has (_1 bigint, _2 bigint, _3 bigint)"
    )
    other.address = postgresql.address(table, replace="true")
    attrs.evolve(other).run()
    assert bag(postgresql.rows(table)) == batch_answer(other)


def test_a_table_that_is_named_later(home: Path, postgresql: Server, table: str) -> None:
    """A table that is named only in a later run gets the answer at once."""
    Stream(home, PAIRS).run()
    later = Stream(home, PAIRS, address=postgresql.address(table))
    later.run()
    assert bag(postgresql.rows(table)) == batch_answer(later)


def test_a_table_of_a_schema(home: Path, postgresql: Server) -> None:
    """The stream of a table is recorded in the schema of that table."""
    with postgresql.connect() as connection:
        connection.execute('CREATE SCHEMA "Kept"')
    stream = Stream(home, PAIRS, address=postgresql.address("Kept.t"))
    stream.run()
    assert bag(postgresql.rows('"Kept".t')) == batch_answer(stream)
    assert len(postgresql.rows('"Kept".mrql_streams')) == 1


def test_a_connection_that_was_closed_between_batches(
    home: Path, postgresql: Server, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that was closed between two batches is made anew, as after a restart of the server."""
    stream = Stream(home, PAIRS, address=postgresql.address(table))
    commit = TableSink.committed

    def committed(sink: TableSink, applied: Applied) -> None:
        commit(sink, applied)
        with postgresql.connect() as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", [sink.table.connection.info.backend_pid])

    monkeypatch.setattr(TableSink, "committed", committed)
    stream.run()
    assert bag(postgresql.rows(table)) == batch_answer(stream)


def test_a_connection_that_is_lost_before_the_answer_of_another_query(
    home: Path, postgresql: Server, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed query replaces the table, also if the connection is lost while its states are built."""
    Stream(home, PAIRS, address=postgresql.address(table)).run()
    start_anew = TableSink.start_anew

    def started(sink: TableSink) -> None:
        start_anew(sink)
        with postgresql.connect() as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", [sink.table.connection.info.backend_pid])

    monkeypatch.setattr(TableSink, "start_anew", started)
    changed = Stream(home, PAIRS.replace("mod 2", "mod 3"), address=postgresql.address(table))
    changed.run()
    assert bag(postgresql.rows(table)) == batch_answer(changed)


# --- numbers with a fraction --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "gone", "left"),
    [
        ("(1, 0.1 + 0.2), (1, 0.3)", [((1, 0.3), -1)], 1),
        ("(1, 0.30000000000000004)", [((1, 0.3), -1)], 0),
        ("(1, 0.3), (1, 0.30000000000000004)", [((1, 0.3), -1), ((1, 0.30000000000000004), -1)], 0),
        ("(1, 0.1), (1, 0.10000000000000002)", [((1, 0.10000000000000001), -2)], 0),
        ("(NULL, NULL), (NULL, NULL)", [((None, None), -1)], 1),
        ("(NULL, 'NaN'), (1, 'Infinity')", [((None, math.nan), -1), ((1, math.inf), -1)], 0),
        ("(1, 1e308), (1, 5e-324)", [((1, 1e308), -1), ((1, 5e-324), -1)], 0),
        ("(1, 2), (1, 2), (1, 2)", [((1, 2.0), -2)], 1),
        ("(1, 2)", [((1, 2.0), -1), ((1, 2.0), 3), ((1, 2.0), -2)], 1),
        ("(1, 0.3)", [((1, 0.31), -1)], None),
        ("(1, 'Infinity')", [((1, 5.0), -1)], None),
        ("(1, 2)", [((1, 2.0), -2)], None),
    ],
)
def test_deletions(
    tmp_path: Path, postgresql: Server, table: str, there: str, gone: list[Value], left: int | None
) -> None:
    """As many rows are deleted as the changes say; numbers that differ only by rounding match each other."""
    t = parse_type("{(long, double)}")
    ReferenceRows(Bag(gone), changes_of(t)).write(Output(t, True, COPY), tmp_path, DurableFiles())
    address = parse_address(postgresql.address(table))
    with closing(connect(address.conninfo, address.shown)) as connection:
        kept = StreamTable(connection, address, columns_of(t))
        kept.replace([], StreamRecord("s", 0))
        connection.execute(f"INSERT INTO {table} VALUES {there}".encode())
        if left is None:
            with pytest.raises(Unmatched):
                kept.change(parts(tmp_path), StreamRecord("s", 1))
        else:
            kept.change(parts(tmp_path), StreamRecord("s", 1))
            assert connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() == (left,)


ODD = "%s$\"'\\{}:()é 1aB%"
"""Characters with a meaning in SQL, in its placeholders, in connection strings, or in the text of queries."""


@pytest.mark.parametrize("number", range(12))
def test_names_of_all_kinds(tmp_path: Path, postgresql: Server, number: int) -> None:
    """A schema, a table and columns may have any names, for writing and for reading."""
    random = Random(number)
    first = [["100%", "50%s", '"', "%(start)s"], ["a%%b", "%", "x'y", "{}"]]
    drawn = ["".join(random.choice(ODD) for _ in range(random.randint(1, 8))) + str(i) for i in range(4)]
    schema, table, *names = first[number] if number < len(first) else drawn
    t = ty.BagType(ty.RecordType(tuple((name, ty.LONG) for name in names)))
    with postgresql.connect() as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {quoted(schema)} CASCADE".encode())
        connection.execute(f"CREATE SCHEMA {quoted(schema)}".encode())
    written = quote(f"{schema}.{table}", safe="")
    address = parse_address(f"{postgresql.conninfo()}?table={written}")
    sink = TableSink(address, t, tmp_path / "outbox", "stream")
    for batch, (row, weight) in enumerate([((1, 2), 1), ((3, 4), 1), ((1, 2), -1)]):
        values = Fields(dict(zip(names, row, strict=True)))
        answer = Fixed(Bag([values]), Bag([(values, weight)]), t)
        publish([sink.prepare(batch, answer)], DurableFiles())
    sink.close()
    after = TableSink(address, t, tmp_path / "outbox", "stream", after=2)
    assert not after.whole
    after.close()
    record = ty.RecordType((*((name, ty.LONG) for name in names),))
    path = f"{postgresql.conninfo()}?table={written}&column={quote(names[0], safe='')}"
    source = PostgresTable(SourceSpec("s", True, ADAPTER, path, record, adapter="a:b"))
    last = source.latest(None, None)
    assert list(source.read(None, last)) == [(Fields(dict(zip(names, (3, 4), strict=True))), 1)]
    assert source.latest(last, None) == last
    source.close()
    with postgresql.connect() as connection:
        connection.execute(f"DROP SCHEMA {quoted(schema)} CASCADE".encode())


@attrs.frozen
class Fixed:
    """An answer with given rows and changes."""

    whole: Bag
    changed: Bag
    type: Type

    def snapshot(self) -> ReferenceRows:
        return ReferenceRows(self.whole, self.type)

    def changes(self) -> ReferenceRows:
        return ReferenceRows(self.changed, changes_of(self.type))


# --- what can go wrong --------------------------------------------------------------------------


def command(home: Path, address: str, *more: str, text: str = PAIRS) -> Result:
    """Runs `mrql stream` over a query with one output."""
    (home / "q.mrql").write_text(text)
    options = ["--data", str(home), "--engine", "reference", "--once", "--output", address, *more]
    return CliRunner().invoke(main, ["stream", str(home / "q.mrql"), *options])


def failed(result: Result) -> tuple[int, str]:
    return result.exit_code, result.stderr.strip().removeprefix("error: ")


def test_addresses_that_cannot_be_used(home: Path, postgresql: Server, table: str) -> None:
    """An address that cannot be used has one message, and the exit code of its kind of error."""
    whole, port = postgresql.address(table), postgresql.port
    shown = f"postgresql://ann@127.0.0.1:{port}/db?table={table}"

    def said(address: str) -> tuple[int, str]:
        code, message = failed(command(home, address))
        return code, message.splitlines()[-1] if code == 2 else message

    assert said(postgresql.conninfo()) == (
        2,
        "Error: Invalid value for '--output': which table? Say it as in postgresql://…/db?table=answer",
    )
    assert said("mysql://db/answers")[0] == 2
    assert said(whole.replace("secret", "wrong")) == (
        1,
        f'cannot connect to {shown}: {at(port)} FATAL:  password authentication failed for user "ann"\n'
        "  hint: a password is taken from the address, from PGPASSWORD or from ~/.pgpass",
    )
    assert said(whole.replace("/db?", "/nothing?")) == (
        1,
        f'cannot connect to {shown.replace("/db?", "/nothing?")}: {at(port)} FATAL:  database "nothing" does not exist',
    )
    code, message = said(whole.replace(str(port), "1"))
    assert (code, "is the server running" in message) == (3, True)
    assert said(f"{whole}&nothing=1")[0] == 1


def at(port: int) -> str:
    return f'connection to server at "127.0.0.1", port {port} failed:'


def test_without_psycopg(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without psycopg, the message says what to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert failed(command(home, "postgresql://db/d?table=t")) == (
        3,
        "PostgreSQL is reached with psycopg, which is not installed\n  hint: pip install 'psycopg[binary]'",
    )


def test_tables_of_others(home: Path, postgresql: Server, table: str) -> None:
    """A table that is not this stream's is refused, unless it may be replaced."""
    address = postgresql.address(table)
    with postgresql.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (_1 bigint, _2 bigint)".encode())
        connection.execute(f"INSERT INTO {table} VALUES (1, 2)".encode())
    code, message = failed(command(home, address))
    assert code == 1
    assert message.startswith(f"the table {table} is not empty, and is not kept by this stream\n  hint: go on with")
    assert postgresql.rows(table) == [(1, 2)]
    assert command(home, postgresql.address(table, replace="true")).exit_code == 0
    assert len(postgresql.rows(table)) > 1
    code, message = failed(command(home, address))
    assert message.startswith(f"the table {table} is not empty, and is kept by another stream\n")
    with postgresql.connect() as connection:
        connection.execute(f"CREATE VIEW {table}_v AS SELECT 1 AS _1".encode())
    assert failed(command(home, postgresql.address(f"{table}_v")))[1].startswith(f"{table}_v is there already, and is")
    with postgresql.connect() as connection:
        connection.execute(f"DROP VIEW {table}_v".encode())
    assert failed(command(home, postgresql.address(f"nowhere.{table}"))) == (
        1,
        f'{parse_address(postgresql.address(f"nowhere.{table}")).shown}: schema "nowhere" does not exist',
    )


def test_a_table_that_others_have_written_to(home: Path, postgresql: Server, table: str) -> None:
    """If rows to delete are gone from the table, the batch is rolled back; with replace=true the table is made anew."""
    write(home / "edges" / "later.csv", "50,1\n", 50)
    stream = Stream(home, PAIRS, address=postgresql.address(table))
    stream.run()
    with postgresql.connect() as connection:
        connection.execute(f"DELETE FROM {table}".encode())
    write(home / "removed" / "later.csv", "50,1\n", 100)
    with pytest.raises(UserError, match=f"the table {table} lacks a row that the stream has put into it"):
        stream.run()
    assert record(postgresql, table)[1] == 12
    with postgresql.connect() as connection:
        connection.execute("UPDATE mrql_streams SET batch = 5 WHERE table_name = %s", [table])
    with pytest.raises(UserError, match=f"the table {table} is at batch 5, and the checkpoint is at batch 12"):
        stream.run()
    anew = Stream(home, PAIRS, address=postgresql.address(table, replace="true"))
    anew.run()
    assert bag(postgresql.rows(table)) == batch_answer(anew)


def test_a_second_stream(home: Path, postgresql: Server, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One stream at a time writes to a table."""
    monkeypatch.setattr("mrql.runtime.postgresql.table.PATIENCE", "50ms")
    address = parse_address(postgresql.address(table))
    with closing(connect(address.conninfo, address.shown)) as connection:
        StreamTable(connection, address, ()).take()
        for name in (table, f"public.{table}"):
            shown = parse_address(postgresql.address(name)).shown
            assert failed(command(home, postgresql.address(name))) == (
                1,
                f"another process writes to {shown}\n  hint: stop it, or name another table",
            )


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ("DELETE FROM mrql_streams WHERE table_name = '{t}'", "is kept by nobody now, and batch 2 of this stream"),
        ("UPDATE mrql_streams SET stream = 'x' WHERE table_name = '{t}'", "is kept by another stream now, and batch 2"),
        ("UPDATE mrql_streams SET batch = 7 WHERE table_name = '{t}'", "is at batch 7 now, and batch 2 of this stream"),
    ],
)
def test_a_table_that_another_stream_has_taken(
    home: Path, postgresql: Server, table: str, monkeypatch: pytest.MonkeyPatch, now: str, said: str
) -> None:
    """Each batch checks whose the table is, even while the stream holds its lock."""
    stream, write = Stream(home, PAIRS, address=postgresql.address(table)), TableSink._write

    def taken(sink: TableSink, number: int, answer: Answer, *, whole: bool) -> Path:
        if number == 2:
            with postgresql.connect() as connection:
                connection.execute(now.format(t=table).encode())
        return write(sink, number, answer, whole=whole)

    monkeypatch.setattr(TableSink, "_write", taken)
    with pytest.raises(UserError, match=f"the table {table} {said}"):
        stream.run()
    manifest = latest(stream.checkpoint)
    assert manifest is not None
    assert manifest.batch == 1


def test_a_table_that_is_found_by_its_name_alone(home: Path, postgresql: Server, table: str) -> None:
    """A table that was named without its schema is recognized with it, as kept by another stream."""
    stream = Stream(home, PAIRS, address=postgresql.address(table))
    stream.run()
    code, message = failed(command(home, postgresql.address(f"public.{table}")))
    assert (code, message.split("\n")[0]) == (
        1,
        f"the table public.{table} is not empty, and is kept by another stream",
    )


def test_a_connection_that_is_lost(home: Path, postgresql: Server, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the connection is lost within a batch, there is one message, the last commit stands, and the same command goes
    on."""
    stream, batches = Stream(home, PAIRS, address=postgresql.address(table)), 0
    insert = StreamTable._insert

    def cut(kept: StreamTable) -> None:
        nonlocal batches
        batches += 1
        if batches == 4:
            with postgresql.connect() as connection:
                connection.execute("SELECT pg_terminate_backend(%s)", [kept.connection.info.backend_pid])
        insert(kept)

    monkeypatch.setattr(StreamTable, "_insert", cut)
    with pytest.raises(EngineError) as caught:
        stream.run()
    assert caught.value.message.startswith(
        f"the connection to {parse_address(postgresql.address(table)).shown} was lost"
    )
    assert caught.value.hint == "batch 2 is in the table; batch 2 is committed, and the next start goes on after it"
    assert (record(postgresql, table)[1], len(stream.answers())) == (2, 3)
    stream.run()
    assert bag(postgresql.rows(table)) == batch_answer(stream)


def test_what_no_table_can_hold(tmp_path: Path, postgresql: Server, table: str) -> None:
    """A text with the character 0, which PostgreSQL cannot hold, is an error, and its batch is rolled back."""
    write(tmp_path / "words" / "0.txt", "a\n", 0)
    write(tmp_path / "words" / "1.txt", "b\0\n", 1)
    text = 'words = stream(text, "words"); select w from w in words;'
    result = command(tmp_path, postgresql.address(table), "--max-files", "1", text=text)
    assert (result.exit_code, 'invalid byte sequence for encoding "UTF8": 0x00' in result.stderr) == (1, True)
    assert postgresql.rows(table) == [("a",)]


def test_changes_are_for_directories(home: Path) -> None:
    """A table as output is refused with --emit changes."""
    assert failed(command(home, "postgresql://db/d?table=t", "--emit", "changes")) == (
        1,
        "a table is kept current, and holds no changes\n  hint: leave out --emit changes",
    )
