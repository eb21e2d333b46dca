"""Streams that are not directories: the test kit for adapters, tables of PostgreSQL, and sockets."""

from __future__ import annotations

import itertools
import json
import secrets
import socket
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from mrql.algebra.catalog import ADAPTER, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.notation.parser import parse_type
from mrql.cli.main import main
from mrql.jobs.loading import compile_over_files
from mrql.runtime.postgresql.source import PostgresTable
from mrql.runtime.sources.socket import SocketLines
from mrql.runtime.sources.source import Adapter
from mrql.testing import check_adapter
from tests.runtime.checkpoint.streams import Stream, batch_answer
from tests.support.adapters import Forgetful, Numbers, Restless, Texts, Twice
from tests.support.postgresql import Server
from tests.support.waiting import wait

NUMBER = parse_type("<n: long>")


def spec(path: str | Path, row: str = "<n: long>") -> SourceSpec:
    return SourceSpec("s", True, ADAPTER, str(path), parse_type(row), adapter="a:b")


def grown(file: Path) -> Callable[[], None]:
    numbers = itertools.count()

    def grow() -> None:
        with file.open("a") as out:
            out.writelines(f"{next(numbers)}\n" for _ in range(5))

    return grow


def test_the_kit_accepts_what_is_right(tmp_path: Path) -> None:
    """`check_adapter` accepts an adapter that keeps the contract."""
    check_adapter(lambda: Numbers(spec(tmp_path / "n")), grown(tmp_path / "n"), NUMBER)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Twice, "read at once, there are other rows than in parts"),
        (Forgetful, "opened again, it has other rows"),
        (Restless, "the offset goes on, though nothing is new"),
        (Texts, "is not of type <n: long>"),
    ],
)
def test_the_kit_finds_what_is_wrong(tmp_path: Path, wrong: type[Numbers], said: str) -> None:
    """`check_adapter` names the condition that an adapter violates."""
    with pytest.raises(AssertionError, match=said):
        check_adapter(lambda: wrong(spec(tmp_path / "n")), grown(tmp_path / "n"), NUMBER)


# --- an adapter in a query ----------------------------------------------------------------------

QUERY = """
numbers = stream(adapter, "tests.support.adapters:Numbers", "{file}", type(<n: long>));
select (k, count(x), sum(x.n)) from x in numbers group by k: x.n mod 3;
"""


def numbers(home: Path, engine: str = "reference", spark: SparkSession | None = None) -> Stream:
    return Stream(home, QUERY.format(file=home / "n"), engine, spark=spark)


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_stream_of_an_adapter(tmp_path: Path, engine: str, request: pytest.FixtureRequest) -> None:
    """A stream of an adapter goes on after the offset that was committed, also with deletions."""
    spark = request.getfixturevalue("spark") if engine == "spark" else None
    (tmp_path / "n").write_text("1\n2\n3\n4\n")
    stream = numbers(tmp_path, engine, spark)
    stream.run()
    with (tmp_path / "n").open("a") as out:
        out.write("-3\n7\n")
    stream.run()
    last = stream.answers()["batch-000001"]
    assert last == batch_answer(stream)
    assert sorted(last) == [(1, 3, 12), (2, 1, 2)]
    manifest = json.loads(max(stream.checkpoint.glob("manifest-*")).read_text())
    assert manifest["sources"]["numbers"]["offset"] == 6


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("latest", "failed in `latest`: ZeroDivisionError: integer division or modulo by zero (adapters.py:"),
        ("read", "failed in `read`: ZeroDivisionError: integer division or modulo by zero (adapters.py:"),
        ("close", "failed in `close`: SystemExit: over (adapters.py:"),
        ("text", "gave ('x', 1), where pairs of a value of type long and a weight were expected"),
        ("weight", "gave (<n: 1>, 0), where pairs"),
        ("alone", "gave <n: 1>, where pairs"),
    ],
)
def test_what_an_adapter_raises_is_an_error_that_names_it(tmp_path: Path, what: str, said: str) -> None:
    """What an adapter raises is an error with the adapter's name and the line of its code; `--traceback` shows the
    traceback."""
    query = tmp_path / "q.mrql"
    query.write_text(f'count(stream(adapter, "tests.support.adapters:Failing", "{what}", type(long)));')
    options = ["run", "--engine", "reference", "--allow-import", str(query)]
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 1
    assert f"{query}:1:7: error: the adapter tests.support.adapters:Failing {said}" in result.stderr
    assert "Traceback" not in result.stderr
    if "failed" in said:
        assert "Traceback" in CliRunner().invoke(main, [*options, "--traceback"]).stderr


def test_a_changed_query_reads_again(tmp_path: Path) -> None:
    """A changed query rebuilds its state from the beginning of the adapter's rows."""
    (tmp_path / "n").write_text("1\n2\n3\n4\n")
    numbers(tmp_path).run()
    changed = numbers(tmp_path)
    changed.text = changed.text.replace("mod 3", "mod 2")
    changed.run()
    assert changed.answers()["batch-000001"] == batch_answer(changed)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            'stream(adapter, "tests.support.adapters:Nothing", "x", type(<n: long>))',
            "there is no adapter tests.support.adapters:Nothing",
        ),
        ('stream(adapter, "nowhere:Numbers", "x", type(<n: long>))', "there is no adapter nowhere:Numbers"),
        (
            'stream(adapter, "os:system", "touch ran", type(<n: long>))',
            "os:system is no adapter: it is not a class",
        ),
        ('stream(adapter, "pathlib:Path", "x", type(<n: long>))', "pathlib:Path is no adapter: it has no `latest`"),
        ('stream(adapter, "tests:nothing:x", "x", type(<n: long>))', "there is no adapter tests:nothing:x"),
        ('stream(adapter, "os", "x", type(<n: long>))', "there is no adapter os"),
        ('stream(adapter, "os:\\u0000", "x", type(<n: long>))', "there is no adapter os:\\x00"),
        (
            'stream(adapter, "tests.support.adapters:Refusing", "x", type(<n: long>))',
            "Refusing cannot be made: RuntimeError: no",
        ),
        ('stream(socket, "host")', '"host" is not of the form host:port'),
        (
            'stream(postgresql, "postgresql://db/d?table=t", type(<id: long>))',
            "the address names a table and the column",
        ),
        ('stream(postgresql, "postgresql://db/d?column=t", type(<id: long>))', "which table?"),
        ('stream(postgresql, "postgresql://db/d?table=t&column=c", type((long, long)))', "rows of a table are records"),
        ('stream(postgresql_cdc, "postgresql://db/d", type(<id: long>))', "which table?"),
        ('stream(postgresql_cdc, "db/d", type(<id: long>))', "the address names a table"),
        (
            'stream(postgresql_cdc, "postgresql://db/d?table=t", type(long))',
            "rows of a table are records of basic types",
        ),
        (
            'stream(postgresql_cdc, "postgresql://db/d?table=t", type(<x: [long]>))',
            "rows of a table are records of basic",
        ),
        ('stream(postgresql_cdc, "postgresql://db/d")', "which table?"),
        ('stream(postgresql, "postgresql://db/d?table=t")', "the address names a table and the column that grows"),
    ],
)
def test_streams_that_cannot_be_read(tmp_path: Path, source: str, said: str) -> None:
    """A stream that cannot be read has one message, with its place."""
    result = command(tmp_path, f"select x from x in {source};")
    assert result.exit_code == 1, result.stderr
    assert said in result.stderr
    assert "^^^" in result.stderr


def command(home: Path, text: str, *more: str) -> Result:
    (home / "q.mrql").write_text(text)
    options = ["--data", str(home), "--engine", "reference", "--once", "--allow-import", "--output", str(home / "out")]
    options += more
    return CliRunner().invoke(main, ["stream", str(home / "q.mrql"), *options])


# --- PostgreSQL ---------------------------------------------------------------------------------

ROW = "<id: long, day: date, what: string, more: any>"


@pytest.fixture
def table(postgresql: Server) -> Iterator[str]:
    name = f"orders_{secrets.token_hex(4)}"
    with postgresql.connect() as connection:
        columns = "id serial, day date, what text, more jsonb, price numeric"
        connection.execute(f"CREATE TABLE {name} ({columns})".encode())
        yield name
        connection.execute(f"DROP TABLE {name}".encode())


def add(server: Server, table: str, count: int = 5) -> None:
    values = "DATE '2026-01-31', 'it''s', '{\"a\": 1}', 2.5"
    with server.connect() as connection:
        rows = f"SELECT {values} FROM generate_series(1, {count})"
        connection.execute(f"INSERT INTO {table} (day, what, more, price) {rows}".encode())


@pytest.mark.parametrize("column", ["id", "day"])
def test_a_table_keeps_what_adapters_promise(postgresql: Server, table: str, column: str) -> None:
    """A table that is polled by a number, or by a date that many rows share, keeps the contract of adapters."""

    def opened() -> Adapter:
        return PostgresTable(spec(f"{postgresql.address(table)}&column={column}", ROW))

    def grow() -> None:
        add(postgresql, table)
        with postgresql.connect() as connection:
            connection.execute(f"UPDATE {table} SET day = DATE '2026-01-01' + (id - 1) / 5".encode())

    check_adapter(opened, grow, parse_type(ROW))


def test_a_stream_of_a_table(tmp_path: Path, postgresql: Server, table: str) -> None:
    """A stream of a table reads the rows since the last commit, once, and can write to another table; no password is
    kept."""
    add(postgresql, table)
    source = f'stream(postgresql, "{postgresql.address(table)}&column=id", type(<id: long, day: date, price: double>))'
    text = f"orders = {source}; select (d, count(o), sum(o.price)) from o in orders group by d: o.day;"
    stream = Stream(tmp_path, text, address=postgresql.address(f"{table}_days"))
    stream.run()
    add(postgresql, table, 2)
    stream.run()
    stream.run()
    assert postgresql.rows(f"{table}_days") == [(date(2026, 1, 31), 7, 17.5)]
    assert list(stream.answers()) == ["batch-000000", "batch-000001"]
    shown = CliRunner().invoke(main, ["checkpoint", "show", str(stream.checkpoint)]).output
    assert 'orders: stream, up to "7", of mrql.postgresql.source:PostgresTable postgresql://ann@127.0.0.1' in shown
    assert "secret" not in max(stream.checkpoint.glob("manifest-*")).read_text()
    assert compile_over_files(text).sources["orders"].adapter is not None


def test_tables_that_cannot_be_read(tmp_path: Path, postgresql: Server, table: str) -> None:
    """A table that cannot be read has one message, with that of the server."""
    address = postgresql.address(table)
    for url, said in {
        f"{address}&column=nothing": 'column "nothing" does not exist',
        f"{postgresql.address('nothing')}&column=id": 'relation "nothing" does not exist',
    }.items():
        result = command(tmp_path, f'select x from x in stream(postgresql, "{url}", type(<id: long>));')
        assert (result.exit_code, said in result.stderr) == (1, True), result.stderr


# --- sockets ------------------------------------------------------------------------------------


def test_lines_of_a_socket() -> None:
    """Lines are numbered from the offset of the stream; a line that is not UTF-8 is an error after the lines before
    it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = spec(f"127.0.0.1:{server.getsockname()[1]}", "string")
        opened = SocketLines(place)
        with server.accept()[0] as connection:
            connection.sendall("a\nbä\r\nc".encode())
            wait(lambda: opened.latest(None, None) == 2)
            assert opened.latest(None, 1) == 1
            assert list(opened.read(None, 2)) == [("a", 1), ("bä", 1)]
            connection.sendall(b"\n\xff\n")
            wait(lambda: opened.latest(2, None) == 3)
            assert list(opened.read(2, 3)) == [("c", 1)]
            wait(lambda: opened.fault is not None)
            with pytest.raises(UserError, match="a line is not UTF-8"):
                opened.latest(3, None)
        opened.close()
        again = SocketLines(place)
        with server.accept()[0] as connection:
            assert again.latest(3, None) == 3
            connection.sendall(b"d\n")
            wait(lambda: again.latest(3, None) == 4)
            assert list(again.read(3, 4)) == [("d", 1)]
        again.close()


def test_nobody_answers(tmp_path: Path) -> None:
    """A socket that does not answer is an error of exit code 3, as the query is not at fault."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    result = command(tmp_path, f'select x from x in stream(socket, "127.0.0.1:{port}");')
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        3,
        f"error: 127.0.0.1:{port} does not answer: Connection refused",
    )
