"""Views that follow tables of Delta Lake and Iceberg, and logs of PostgreSQL: each change is applied once."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.errors import EngineError, UserError
from mrql.api import View
from mrql.runtime.postgresql.slot_notes import slot_notes
from tests.mrql.api.test_following import KEYS, NOW, files
from tests.runtime.postgresql.test_change_log import clear, slots
from tests.support import iceberg_tables as iceberg
from tests.support.postgresql import Server

pytestmark = pytest.mark.spark

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
SUMS = mrql.compile("select (r.k, sum(r.v), max(r.v)) from r in rows group by r.k", rows="bag(<k: long, v: long>)")
PAIRS = mrql.compile(
    "select (l.k, l.v, r.v) from l in left, r in right where l.k = r.k",
    left="bag(<k: long, v: long>)",
    right="bag(<k: long, v: long>)",
)

Rows = list[tuple[int, int]]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return spark


@pytest.fixture
def table(postgresql: Server) -> Iterator[str]:
    """The name of a table for this test, which is dropped afterwards with its slots and publications."""
    name = f"followed_{secrets.token_hex(4)}"
    make(postgresql, name)
    yield name
    clear(postgresql, name)


def make(server: Server, name: str) -> None:
    with server.connect() as connection:
        connection.execute(f"CREATE TABLE {name} (k bigint, v bigint)".encode())
        connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL".encode())


def insert(server: Server, name: str, *rows: tuple[int, int]) -> None:
    with server.connect() as connection:
        connection.execute(f"INSERT INTO {name} VALUES {', '.join(map(str, rows))}".encode())


def append(path: Path, *rows: tuple[int, int], mode: Any = "append") -> None:
    write_deltalake(path, pa.Table.from_pylist([{"k": k, "v": v} for k, v in rows], COLUMNS), mode=mode)


def answer(view: View) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, view.answer().collect()))


def sums(*rows: tuple[int, int]) -> list[tuple[int, ...]]:
    values = {k: [v for other, v in rows if other == k] for k, _ in rows}
    return sorted((k, sum(some), max(some)) for k, some in values.items())


def content(lake: Path) -> Rows:
    """The rows of a table of Delta Lake, as `deltalake` reads them."""
    return [(row["k"], row["v"]) for row in DeltaTable(lake).to_pyarrow_table().to_pylist()]


class Delivered:
    """The sum of the delivered changes."""

    def __init__(self) -> None:
        self.total: dict[tuple[Any, ...], int] = {}

    def __call__(self, changes: DataFrame, number: int) -> None:
        for *row, weight in changes.collect():
            self.total[tuple(row)] = self.total.get(tuple(row), 0) + weight

    def must_be(self, view: View) -> None:
        assert sorted(row for row, weight in self.total.items() if weight) == answer(view)
        assert {*self.total.values()} <= {0, 1}


# --- each of the sources ------------------------------------------------------------------------


STEPS: tuple[tuple[Callable[[Path], Any], ...], ...] = (
    (lambda lake: DeltaTable(lake).delete("k = 1"), lambda lake: append(lake, (3, 4), (3, 4))),
    (
        lambda lake: DeltaTable(lake).update(updates={"v": "v + 1"}, predicate="k = 3"),
        lambda lake: DeltaTable(lake).optimize.compact(),
    ),
    (
        lambda lake: DeltaTable(lake).alter.set_table_properties({"delta.enableChangeDataFeed": "true"}),
        lambda lake: DeltaTable(lake).update(updates={"v": "v + 10"}, predicate="k = 3"),
        lambda lake: append(lake, (4, 1), mode="overwrite"),
    ),
)
"""Operations on a table of Delta Lake: the first of each tuple while it is followed, the others while it is not."""


@pytest.mark.wide(keep=2)
@pytest.mark.parametrize("trusted", [True, False])
def test_versions_of_a_delta_table(session: SparkSession, tmp_path: Path, trusted: bool) -> None:
    """Each version of a Delta table is applied once, also over restarts."""
    lake, deliver = tmp_path / "lake", Delivered()
    append(lake, (1, 5), (2, 6))
    source = mrql.delta_table(lake, max_files=1)
    for steps in STEPS:
        with SUMS.view(session, checkpoint=tmp_path / "state", trusted=trusted) as view:
            assert view.follow(rows=source, trigger=NOW, deliver=deliver).awaitTermination(120)
            assert answer(view) == sums(*content(lake))
            following = view.follow(rows=source, deliver=deliver)
            steps[0](lake)
            following.processAllAvailable()
            assert answer(view) == sums(*content(lake))
            assert following.isActive
            following.stop()
            assert not following.isActive
            deliver.must_be(view)
            batches = view.batches
        for step in steps[1:]:
            step(lake)
    with SUMS.view(session, checkpoint=tmp_path / "state", trusted=trusted) as view:
        assert view.batches == batches
        assert view.follow(rows=source, trigger=NOW, deliver=deliver).awaitTermination(120)
        assert answer(view) == sums((4, 1))
        assert view.offsets["rows"]["version"] == DeltaTable(lake).version()
        deliver.must_be(view)


def test_deletions_of_a_table_that_a_query_is_compiled_with_are_trusted(session: SparkSession, tmp_path: Path) -> None:
    """Deletions of a table that a query is compiled with are trusted: its rows are kept only with `trusted=False`."""
    append(tmp_path / "lake", (1, 5), (2, 6))
    lake = mrql.delta_table(tmp_path / "lake")
    query = mrql.compile(SUMS.query.span.source.text, rows=lake)
    assert SUMS.trace().plan.trusted == query.trace(trusted=False).plan.trusted == frozenset()
    assert query.trace(insert_only=True).plan.trusted == query.trace(tables=["rows"]).plan.trusted == frozenset()
    assert query.trace(keys={"rows": "k"}).plan.trusted == frozenset()
    assert query.trace().plan.trusted == {"rows"}
    for trusted in (None, False):
        with query.view(session, trusted=trusted) as view:
            view.follow(rows=lake, trigger=NOW).awaitTermination(120)
            assert answer(view) == sums(*content(tmp_path / "lake"))
            assert ("rows" in view.sizes) == (trusted is False)


def test_what_comes_meanwhile(session: SparkSession, tmp_path: Path) -> None:
    """`availableNow` ends with the version that was the newest one when it began."""
    lake = tmp_path / "lake"
    append(lake, (1, 5))
    append(lake, (2, 6))
    last = DeltaTable(lake).version()

    def deliver(changes: DataFrame, number: int) -> None:
        assert number < 20, "it goes on with what has come since"
        append(lake, (3, number))

    with SUMS.view(session, checkpoint=tmp_path / "state") as view:
        for _ in range(2):
            source = mrql.delta_table(lake, max_files=1)
            assert view.follow(rows=source, trigger=NOW, deliver=deliver).awaitTermination(120)
            assert view.offsets["rows"]["version"] >= last
            last = DeltaTable(lake).version()
        assert answer(view)[:2] == sums((1, 5), (2, 6))


def test_snapshots_of_an_iceberg_table(session: SparkSession, tmp_path: Path) -> None:
    """The snapshots of an Iceberg table are followed over a restart, and from the offset of `table_changes` on."""
    table = tmp_path / "t"
    iceberg.create(table, COLUMNS)
    iceberg.append(table, [{"k": 1, "v": 5}, {"k": 2, "v": 6}])
    source = mrql.iceberg_table(table, max_files=1)
    with SUMS.view(session, checkpoint=tmp_path / "state", trusted=True) as view:
        news = mrql.table_changes(session, table)
        view.apply(rows=news.delta, offset=news.offset)
        iceberg.append(table, [{"k": 3, "v": 6}])
        iceberg.append(table, [{"k": 3, "v": 7}])
        assert view.follow(rows=source, trigger=NOW).awaitTermination(120)
        assert (view.batches, answer(view)) == (3, sums((1, 5), (2, 6), (3, 6), (3, 7)))
    iceberg.delete(table, "k = 1")
    with SUMS.view(session, checkpoint=tmp_path / "state", trusted=True) as view:
        assert view.follow(rows=source, trigger={"once": True}).awaitTermination(120)
        assert (view.batches, answer(view)) == (4, sums((2, 6), (3, 6), (3, 7)))


def test_the_log_of_a_table(session: SparkSession, tmp_path: Path, postgresql: Server, table: str) -> None:
    """The replication slot stays while the view is closed, and is advanced when a batch is committed, not before."""
    state, source = tmp_path / "state", mrql.postgresql_cdc(postgresql.address(table), max_rows=1)
    insert(postgresql, table, (1, 5), (2, 6))
    with SUMS.view(session, checkpoint=state, trusted=True) as view:
        following = view.follow(rows=source)
        following.processAllAvailable()
        insert(postgresql, table, (3, 4))
        insert(postgresql, table, (3, 5))
        following.processAllAvailable()
        assert (view.batches, answer(view)) == (3, sums((1, 5), (2, 6), (3, 4), (3, 5)))
        following.stop()
        committed = view.offsets["rows"]
        assert slots(postgresql) == [committed["slot"]]
        assert [note.stream for note in slot_notes(state)] == ["rows"]
    with postgresql.connect() as connection:
        connection.execute(f"UPDATE {table} SET v = v + 1 WHERE k = 3".encode())
        connection.execute(f"DELETE FROM {table} WHERE k = 1".encode())

    def fail(changes: DataFrame, number: int) -> None:
        raise UserError("there is no room for it")

    with SUMS.view(session, checkpoint=state, trusted=True) as view:
        for _ in range(2):
            with pytest.raises(UserError, match="there is no room for it"):
                view.follow(rows=source, trigger=NOW, deliver=fail).awaitTermination(120)
            assert view.offsets["rows"] == committed
            assert confirmed(postgresql) <= lsn(committed["lsn"])
        assert view.follow(rows=source, trigger=NOW).awaitTermination(120)
        assert answer(view) == sums((2, 6), (3, 5), (3, 6))
        assert not [*(state / "incoming").rglob("*.parquet")]
    assert confirmed(postgresql) >= lsn(committed["lsn"])


def confirmed(server: Server) -> int:
    """The confirmed position of the only replication slot."""
    with server.connect() as connection:
        ((place,),) = connection.execute("SELECT confirmed_flush_lsn::text FROM pg_replication_slots").fetchall()
    return lsn(place)


def lsn(text: str) -> int:
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def test_a_transaction_of_two_tables_is_in_one_batch(
    session: SparkSession, tmp_path: Path, postgresql: Server, table: str
) -> None:
    """A transaction over two tables that are followed together is one batch: no answer shows a part of it."""
    other = f"{table}_b"
    make(postgresql, other)
    answers: list[int] = []

    def write() -> None:
        for n in range(12):
            with postgresql.connect() as connection, connection.transaction():
                connection.execute(f"INSERT INTO {table} VALUES ({n}, 1)".encode())
                connection.execute(f"INSERT INTO {other} VALUES ({n}, -1)".encode())
            time.sleep(0.02)

    query = mrql.compile(
        "(sum(select l.v from l in left) + sum(select r.v from r in right), count(left))", **PAIRS.streams
    )
    with query.view(session, checkpoint=tmp_path / "state", trusted=True) as view:

        def note(changes: DataFrame, number: int) -> None:
            answers.extend(row[0] for row in changes.collect() if row[-1] > 0)

        sources = {"left": table, "right": other}
        following = view.follow(
            deliver=note,
            query_name="fed",
            **{name: mrql.postgresql_cdc(postgresql.address(of), max_rows=3) for name, of in sources.items()},
        )
        writer = threading.Thread(target=write)
        writer.start()
        writer.join()
        following.processAllAvailable()
        following.stop()
        assert view.batches > 2
        assert {query.name for query in following.queries.values()} == {"fed-left", "fed-right"}
        assert {*answers} == {0}
        assert answer(view) == [(0, 12)]
    clear(postgresql, other)


# --- beside each other, and as Spark does it ----------------------------------------------------


def test_a_table_beside_a_streaming_dataframe(session: SparkSession, tmp_path: Path) -> None:
    """A Delta table and a streaming DataFrame feed one view, each with its own offset, also over a restart."""
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "1.csv").write_text("1,1\n2,2\n")
    append(tmp_path / "lake", (1, 10))
    for rows in ([(1, 1, 10)], [(1, 1, 10), (2, 2, 20), (3, 3, 30)]):
        with PAIRS.view(session, checkpoint=tmp_path / "state") as view:
            following = view.follow(
                left=files(session, tmp_path / "left", "k long, v long"),
                right=mrql.delta_table(tmp_path / "lake"),
                trigger=NOW,
            )
            assert following.awaitTermination(120)
            assert answer(view) == rows
            assert view.offsets["left"].keys() == {"queryId", "batchId"}
            assert view.offsets["right"].keys() == {"table", "version"}
        (tmp_path / "left" / "2.csv").write_text("3,3\n")
        append(tmp_path / "lake", (2, 20), (3, 30))


def test_what_is_said_of_a_batch(session: SparkSession, tmp_path: Path) -> None:
    """The progress has the fields of Spark's; a stream without new rows in a batch has no progress for that batch."""
    append(tmp_path / "left", (1, 1), (2, 2))
    append(tmp_path / "right", (1, 1))
    with PAIRS.view(session) as view:
        sources = {name: mrql.delta_table(tmp_path / name) for name in ("left", "right")}
        following = view.follow(trigger={"processingTime": "200 milliseconds"}, query_name="fed", **sources)
        following.processAllAvailable()
        append(tmp_path / "left", (3, 3))
        while view.batches < 2:
            assert not following.awaitTermination(0.05)
        following.stop()
        first, second = following.recentProgress["left"]
        assert {*first} == KEYS
        assert (first["name"], first["batchId"], first["numInputRows"]) == ("fed-left", 0, 2)
        assert (second["batchId"], second["numInputRows"]) == (1, 1)
        assert second["sources"][0]["startOffset"] == first["sources"][0]["endOffset"]
        assert len(following.recentProgress["right"]) == 1
        query = following.queries["left"]
        assert query.lastProgress == second
        assert query.awaitTermination(1)
        assert not query.isActive
        assert answer(view) == [(1, 1, 1)]


def test_it_is_stopped_by_what_a_batch_is_delivered_to(session: SparkSession, tmp_path: Path) -> None:
    """If `deliver` stops the query, its batch counts and is the last one, and there is no deadlock."""
    for number in range(4):
        append(tmp_path / "lake", (number, 1))
    with SUMS.view(session, checkpoint=tmp_path / "state") as view:
        source = mrql.delta_table(tmp_path / "lake")
        assert view.follow(rows=source, trigger=NOW).awaitTermination(120)
        append(tmp_path / "lake", (7, 1))
        append(tmp_path / "lake", (8, 1))
        stopped: list[int] = []

        def deliver(changes: DataFrame, number: int) -> None:
            stopped.append(number)
            following.stop()

        lagging = mrql.delta_table(tmp_path / "lake", max_files=1)
        with view._view.lock:  # no batch runs before `following` is assigned
            following = view.follow(rows=lagging, deliver=deliver)
        assert following.awaitTermination(120)
        assert (stopped, view.batches) == ([1], 2)
        assert answer(view) == sums(*((n, 1) for n in (0, 1, 2, 3, 7)))
        view.follow(rows=lagging)
    assert not view._following[-1].isActive


# --- what is wrong ------------------------------------------------------------------------------


def test_what_is_no_table_for_a_stream(session: SparkSession, tmp_path: Path) -> None:
    """A table that does not fit the stream, or a wrong argument, is an error of `follow`, before any batch."""
    lake = tmp_path / "lake"
    append(lake, (1, 5))
    source = mrql.delta_table(lake)
    write_deltalake(tmp_path / "texts", pa.table({"k": ["a"], "v": [1]}))
    write_deltalake(tmp_path / "other", pa.table({"a": [1]}))
    iceberg.create(tmp_path / "ice", pa.schema([("k", pa.string()), ("v", pa.int64())]))
    (tmp_path / "nothing").mkdir()
    tuples = mrql.compile("select k from (k, v) in rows", rows="bag((long, long))")
    unknown: list[tuple[Any, dict[str, Any], str]] = [
        (SUMS, {"wrong": source}, "the query has no stream `wrong`"),
        (SUMS, {"rows": mrql.delta_table(tmp_path / "gone")}, "there is no directory .*gone with a table in it"),
        (SUMS, {"rows": mrql.delta_table(tmp_path / "nothing")}, "there is no Delta table in .*nothing"),
        (SUMS, {"rows": mrql.iceberg_table(tmp_path / "nothing")}, "there is no Iceberg table in .*nothing"),
        (SUMS, {"rows": mrql.delta_table(tmp_path / "texts")}, "column `k` of .*texts"),
        (SUMS, {"rows": mrql.delta_table(tmp_path / "other")}, "other has no column `k`"),
        (SUMS, {"rows": mrql.iceberg_table(tmp_path / "ice")}, "column `k` of .*ice"),
        (SUMS, {"rows": mrql.postgresql_cdc("localhost/db")}, "the address names a table"),
        (tuples, {"rows": source}, r"the rows of a table are records, and those of `rows` are \(long, long\)"),
        (SUMS, {"rows": source, "trigger": {"continuous": "1 second"}}, "not by the trigger 'continuous'"),
        (SUMS, {"rows": source, "trigger": {"availableNow": False}}, "Spark does not take the trigger: "),
        (SUMS, {"rows": source, "trigger": {"processingTime": "soon"}}, "Spark does not take the trigger: "),
    ]
    for query, arguments, said in unknown:
        with query.view(session) as view, pytest.raises(UserError, match=said):
            view.follow(**arguments)
    arguments_of: list[tuple[Callable[[], Any], str]] = [
        (lambda: mrql.delta_table("s3://b/x"), "a table is a directory of this machine, and s3://… is none"),
        (lambda: mrql.delta_table(lake, max_files=0), "max_files is a number of files, 1 or more, not 0"),
        (lambda: mrql.iceberg_table(5), "a table is a directory, not"),  # type: ignore[arg-type]
        (lambda: mrql.postgresql_cdc("x", max_rows=True), "max_rows is a number of rows, 1 or more, not True"),
        (lambda: mrql.postgresql_cdc(lake), "an address is a text, not"),  # type: ignore[arg-type]
    ]
    for call, said in arguments_of:
        with pytest.raises(UserError, match=said):
            call()
    assert "secret" not in repr(mrql.postgresql_cdc("postgresql://ann:secret@host/db?table=t"))
    static = {"rows": session.createDataFrame([(1, 2)], "k long, v long")}
    with SUMS.view(session, **static) as view, pytest.raises(UserError, match="`rows` is a static table"):
        view.follow(rows=source)
    with (
        SUMS.view(session, keys={"rows": "k"}) as view,
        pytest.raises(UserError, match="rows of `rows` replace others"),
    ):
        view.follow(rows=source)
    with SUMS.view(session) as view:
        following = view.follow(rows=source)
        with pytest.raises(UserError, match="`rows` is followed already"):
            view.follow(rows=source)
        following.stop()


def test_a_checkpoint_that_was_fed_in_another_way(session: SparkSession, tmp_path: Path) -> None:
    """A checkpoint that was fed without offsets, or with those of another source, is refused: no row counts twice."""
    append(tmp_path / "lake", (1, 5))
    append(tmp_path / "other", (1, 5))
    source = mrql.delta_table(tmp_path / "lake")
    rows = session.createDataFrame([(1, 2)], "k long, v long")
    with SUMS.view(session, checkpoint=tmp_path / "numbered") as view:
        view.apply(rows=rows, offset=3)
        with pytest.raises(
            UserError, match="`rows` was fed in another way: its last offset is 3, which is none of a ta"
        ):
            view.follow(rows=source)
    for _ in range(2):
        with SUMS.view(session, checkpoint=tmp_path / "plain") as view:
            if not view.batches:
                view.apply(rows=rows)
            with pytest.raises(UserError, match="rows of `rows` were given without an offset, and a table is followed"):
                view.follow(rows=source)
    with SUMS.view(session, checkpoint=tmp_path / "state") as view:
        assert view.follow(rows=source, trigger=NOW).awaitTermination(120)
        for wrong, said in (
            (mrql.delta_table(tmp_path / "other"), "other is another table than the one that was read"),
            (mrql.postgresql_cdc("postgresql://host/db?table=t"), "which is none of a log of PostgreSQL"),
        ):
            with pytest.raises(UserError, match=said):
                view.follow(rows=wrong)
        (tmp_path / "csv").mkdir()
        (tmp_path / "csv" / "1.csv").write_text("1,1\n")
        coming = files(session, tmp_path / "csv", "k long, v long")
        with pytest.raises(UserError, match="the last offset of `rows` is neither a number nor a batch of a streaming"):
            view.follow(rows=coming, trigger=NOW).awaitTermination(120)
        following = view.follow(rows=source)
        following.processAllAvailable()
        view.apply(rows=rows, offset={"table": "x", "version": 1})
        append(tmp_path / "lake", (2, 5))
        with pytest.raises(UserError, match=r"and was given up to .* meanwhile"):
            following.awaitTermination(120)
        assert answer(view) == sums((1, 5), (1, 2))


def test_a_table_that_becomes_another_one(session: SparkSession, tmp_path: Path) -> None:
    """A followed table that is replaced by another one is an error, and the answer stays as it was."""
    append(tmp_path / "first", (1, 5))
    append(tmp_path / "second", (1, 7))
    append(tmp_path / "second", (1, 8))
    lake, aside = tmp_path / "lake", tmp_path / "aside"
    lake.symlink_to(tmp_path / "first")
    with SUMS.view(session, checkpoint=tmp_path / "state") as view:
        following = view.follow(rows=mrql.delta_table(lake))
        following.processAllAvailable()
        aside.symlink_to(tmp_path / "second")
        aside.replace(lake)  # so there is a table all the time
        with pytest.raises(UserError, match="is another table than the one that was read"):
            following.awaitTermination(120)
        assert not following.isActive
        assert following.queries["rows"].exception() is not None
        assert answer(view) == sums((1, 5))
        with pytest.raises(UserError, match="is another table than the one that was read"):
            view.follow(rows=mrql.delta_table(lake))


def test_rows_that_go_from_a_view_that_only_takes_insertions(session: SparkSession, tmp_path: Path) -> None:
    """A view with `insert_only` follows a table as long as rows are only inserted; a deletion is an error."""
    append(tmp_path / "lake", (1, 5))
    source = mrql.delta_table(tmp_path / "lake")
    with SUMS.view(session, insert_only=True) as view:
        assert view.follow(rows=source, trigger=NOW).awaitTermination(120)
        append(tmp_path / "lake", (2, 5))
        assert view.follow(rows=source, trigger=NOW).awaitTermination(120)
        DeltaTable(tmp_path / "lake").delete("k = 1")
        with pytest.raises(UserError, match="this view only takes insertions, and rows of `rows` go"):
            view.follow(rows=source, trigger=NOW).awaitTermination(120)
        assert answer(view) == sums((1, 5), (2, 5))


def test_a_query_beside_it_that_does_not_start(
    session: SparkSession, tmp_path: Path, postgresql: Server, table: str
) -> None:
    """If a streaming query does not start, nothing is followed, and the log beside it leaves no connection open."""
    (tmp_path / "left").mkdir()
    coming = files(session, tmp_path / "left", "k long, v long")
    source = mrql.postgresql_cdc(postgresql.address(table))
    with PAIRS.view(session) as view, PAIRS.view(session) as other:
        running = view.follow(left=coming, query_name="of-a-name")
        with pytest.raises(Exception, match="Cannot start query with name of-a-name-left"):
            other.follow(right=source, left=coming, query_name="of-a-name")
        running.stop()
        assert other.batches == 0
        with postgresql.connect() as connection:
            senders = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'"
            until = time.monotonic() + 20
            while connection.execute(senders).fetchone() != (0,):
                assert time.monotonic() < until, "the connection is still there"
                time.sleep(0.1)


def test_logs_that_cannot_be_read(session: SparkSession, tmp_path: Path, postgresql: Server, table: str) -> None:
    """A missing table, one of other types, an unreachable server and a lost slot are errors of `follow`."""
    texts = f"{table}_b"
    with postgresql.connect() as connection:
        connection.execute(f"CREATE TABLE {texts} (k text, v bigint)".encode())
    wrong: list[tuple[str, type[Exception], str]] = [
        (postgresql.address("no_such"), UserError, "there is no table no_such"),
        (postgresql.address(texts), UserError, "the column k of .* is of type text"),
        ("postgresql://ann@127.0.0.1:1/db?table=t", EngineError, "cannot connect to"),
    ]
    for address, kind, said in wrong:
        with SUMS.view(session, checkpoint=tmp_path / "wrong") as view, pytest.raises(kind, match=said):
            view.follow(rows=mrql.postgresql_cdc(address))
    assert slots(postgresql) == []
    clear(postgresql, texts)
    source = mrql.postgresql_cdc(postgresql.address(table))
    assert mrql.compile("select r.k from r in rows", rows=source).streams == SUMS.streams
    with SUMS.view(session, checkpoint=tmp_path / "state") as view:
        assert view.follow(rows=source, trigger=NOW).awaitTermination(120)
    (slot,) = slots(postgresql)
    with postgresql.connect() as connection, suppress(Exception):
        connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    said = f"the replication slot {slot} is gone, and changes since .* are lost"
    with SUMS.view(session, checkpoint=tmp_path / "state") as view, pytest.raises(UserError, match=said):
        view.follow(rows=source)
