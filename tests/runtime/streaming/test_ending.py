"""A run with `--once` ends when it has read the rows that were there at first, however fast more arrive."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import attrs
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from mrql.algebra.values.values import Bag
from mrql.jobs.loading import compile_over_files
from mrql.runtime.reference.engine import ReferenceEngine
from mrql.runtime.sinks.sink import Passing, Several
from mrql.runtime.sources.file_archive import Copies
from mrql.runtime.streaming.stream_loop import Loop, Options
from tests.runtime.postgresql.test_change_log import clear
from tests.support import iceberg_tables
from tests.support.planning import planned
from tests.support.postgresql import Server

FIRST, LATER = 0, 1
"""The keys of rows: of those that were there at first, and of those that arrive during the run."""
RUNS_MAX_BATCHES = 30
COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64())])

Put: TypeAlias = Callable[[int, int], None]
"""Adds a row with a key and a value."""


@attrs.frozen
class Growing:
    """A source that a query reads by the name `S`, and a function that adds a row to it, as a part of its own."""

    definition: str
    put: Put


def files(home: Path, options: str = "") -> Growing:
    def put(k: int, v: int) -> None:
        (home / "s").mkdir(exist_ok=True)
        (home / "s" / f"{v:03d}.csv").write_text(f"{k},{v}\n")

    return Growing(f'S = stream(csv, "s", ",", type(<k: long, v: long>){options});', put)


def files_that_go(home: Path) -> Growing:
    """Files with deletions of each row that arrives during the run."""
    growing = files(home, ', deletions("gone")')
    (home / "gone").mkdir()

    def put(k: int, v: int) -> None:
        growing.put(k, v)
        if k == LATER:
            (home / "gone" / f"{v:03d}.csv").write_text(f"{k},{v}\n")

    return attrs.evolve(growing, put=put)


def delta(home: Path) -> Growing:
    def put(k: int, v: int) -> None:
        write_deltalake(home / "s", pa.Table.from_pylist([{"k": k, "v": v}], COLUMNS), mode="append")

    return Growing('S = stream(delta, "s", type(<k: long, v: long>));', put)


def delta_compacted(home: Path) -> Growing:
    """A table in which each version with a row is followed by a compaction."""
    growing = delta(home)

    def put(k: int, v: int) -> None:
        growing.put(k, v)
        DeltaTable(home / "s").optimize.compact()

    return attrs.evolve(growing, put=put)


def iceberg(home: Path) -> Growing:
    iceberg_tables.create(home / "s", COLUMNS)
    return Growing(
        'S = stream(iceberg, "s", type(<k: long, v: long>));',
        lambda k, v: iceberg_tables.append(home / "s", [{"k": k, "v": v}]),
    )


def numbers(home: Path, adapter: str) -> Growing:
    """Lines of a file, which an adapter reads."""
    read = f'N = stream(adapter, "tests.support.{adapter}", "{home / "n"}", type(<n: long>));'

    def put(k: int, v: int) -> None:
        with (home / "n").open("a") as out:
            out.write(f"{1000 * k + v}\n")

    return Growing(
        f"{read} S = select <k: if n < 1000 then {FIRST} else {LATER}, v: n mod 1000> from <n: n> in N;", put
    )


def adapter(home: Path) -> Growing:
    return numbers(home, "adapters:BoundedNumbers")


def data_source(home: Path) -> Growing:
    """A data source of Spark, which is asked to stop as Spark asks it."""
    return numbers(home, "data_sources:Targeted")


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("source", [files, files_that_go, delta, delta_compacted, iceberg, adapter, data_source])
def test_a_stream_that_ends(source: Callable[[Path], Growing], count: int, tmp_path: Path) -> None:
    """A run ends with all rows that were there at first, a part at a time, though more arrive after each batch."""
    assert_ends(tmp_path, source(tmp_path), count)


def test_nothing_at_first(tmp_path: Path) -> None:
    """A run over an empty directory ends, whatever arrives after its first batch."""
    (tmp_path / "s").mkdir()
    assert_ends(tmp_path, files(tmp_path), 0)


def test_files_that_change(tmp_path: Path) -> None:
    """With copies of files, a run ends though a file changes after each batch."""
    growing = files(tmp_path)

    def put(k: int, v: int) -> None:
        growing.put(k, v)
        if k == LATER:
            growing.put(FIRST, 0)

    assert_ends(tmp_path, attrs.evolve(growing, put=put), 3, copies=Copies(tmp_path / "copies"))


@pytest.fixture
def table(postgresql: Server) -> Iterator[str]:
    name = f"ending_{secrets.token_hex(4)}"
    with postgresql.connect() as connection:
        connection.execute(f"CREATE TABLE {name} (k bigint, v bigint)".encode())
        connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL".encode())
    yield name
    clear(postgresql, name)


@pytest.mark.parametrize(("connector", "options"), [("postgresql", "&column=v"), ("postgresql_cdc", "")])
def test_tables_of_a_database(postgresql: Server, table: str, connector: str, options: str, tmp_path: Path) -> None:
    """A run over a table that is polled, or over the log of a table, ends though rows arrive."""

    def put(k: int, v: int) -> None:
        with postgresql.connect() as connection:
            connection.execute(f"INSERT INTO {table} VALUES ({k}, {v})".encode())

    source = f'S = stream({connector}, "{postgresql.address(table)}{options}", type(<k: long, v: long>));'
    assert_ends(tmp_path, Growing(source, put), 4)


def test_several_streams(tmp_path: Path) -> None:
    """A run over several streams ends when it has read what was there of each of them."""
    (tmp_path / "lake").mkdir()
    one, other = files(tmp_path), delta(tmp_path / "lake")
    a = one.definition.replace("S =", "A =")
    b = other.definition.replace("S =", "B =").replace('"s"', '"lake/s"')

    def put(k: int, v: int) -> None:
        one.put(k, v)
        other.put(k, v)

    assert_ends(tmp_path, Growing(f"{a} {b} S = A union B;", put), 3, times=2)


def assert_ends(home: Path, growing: Growing, count: int, *, copies: Copies | None = None, times: int = 1) -> None:
    """Asserts that a run over a source of `count` rows, one in a batch if possible, ends with all of them in its
    answer, each of them `times` times."""
    for v in range(count):
        growing.put(FIRST, v)
    (home / "q.mrql").write_text(f"{growing.definition}\nselect (k, v) from <k: k, v: v> in S;")
    program = compile_over_files((home / "q.mrql").read_text(), base=home)
    found: list[Bag] = []
    sink = Several((Passing(lambda answer: found.append(answer.snapshot().collect())),))
    (query,) = program.queries
    shrinking = program.shrinking if copies is None else frozenset({"S"})
    engine = ReferenceEngine(planned(query.term, shrinking=shrinking).plan, program.sources)
    loop = Loop(engine, program.sources, Options(once=True, max_files=1, max_rows=1), sink, copies=copies)
    for number, _ in enumerate(loop.run()):
        assert number < RUNS_MAX_BATCHES, "the stream goes on with what has come since"
        growing.put(LATER, count + number)
    engine.close()
    first = [(FIRST, v) for v in range(count) for _ in range(times)]
    assert sorted(row for row in found[-1] if row[0] == FIRST) == first
