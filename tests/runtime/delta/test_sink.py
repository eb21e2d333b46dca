"""Answers that are written to tables of Delta Lake."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from mrql.algebra.errors import UserError
from mrql.algebra.values.values import Bag
from mrql.algebra.values.zset import ZSet
from mrql.cli.main import main
from mrql.jobs.batch import ReferenceBatchJob
from mrql.jobs.loading import compile_over_files
from mrql.runtime.checkpoint.store import latest
from mrql.runtime.delta import answer_table
from mrql.runtime.delta.address import parse_address
from mrql.runtime.delta.answer_table import AnswerTable
from mrql.runtime.delta.sink import DeltaSink
from mrql.runtime.files.lock import Lock
from mrql.runtime.sinks.places import place_at
from mrql.runtime.streaming.stream_loop import Emit
from tests.runtime.checkpoint.crashes import KilledStream
from tests.runtime.checkpoint.streams import GROUPS, Counting, Crash, Failing, Moment, Stream, batch_answer, fill, write
from tests.support.delta_tables import content

NESTED = """
edges = stream(csv, "edges", ",", type((long, long)), deletions("removed"));
select <k: x, n: count(y), all: [x, null], mean: avg(y), at: timestamp("2024-01-01 10:00:00.5"),
        d: 1.5 as decimal(3, 2), deep: <a: (x, "ü"), none: null>, day: date("2024-02-29"), doc: x as any>
from (x, y) in edges group by x;
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Nine batches, some with deletions."""
    fill(tmp_path, 9, Random(5))
    return tmp_path


def to_table(home: Path, text: str = GROUPS, name: str = "t", **options: object) -> Stream:
    return Stream(home, text, address=f"delta://{home}/{name}", **options)  # type: ignore[arg-type]


def rows(home: Path, name: str = "t", version: int | None = None) -> Bag:
    """The rows of a table, as tuples."""
    return Bag(tuple(row.fields.values()) for row in content(home / name, version))  # type: ignore[union-attr]


def of_changes(found: Bag) -> Bag:
    """The rows that result from changes with weights."""
    return ZSet.weighted((row[:-1], row[-1]) for row in found).bag()  # type: ignore[index]


def last_batch(home: Path, stream: Stream, name: str = "t") -> int | None:
    assert stream.job.query is not None
    manifest = latest(stream.checkpoint)
    assert manifest is not None
    return DeltaTable(str(home / name)).transaction_version(manifest.stream)


@pytest.mark.parametrize("emit", [*Emit])
def test_the_table_is_the_answer(home: Path, emit: Emit) -> None:
    """After all batches the table holds the answer from scratch; each batch is one version of it."""
    stream = to_table(home, emit=emit)
    stream.run()
    found = rows(home)
    assert (of_changes(found) if emit is Emit.CHANGES else found) == batch_answer(stream)
    assert last_batch(home, stream) == 8
    assert DeltaTable(str(home / "t")).version() == 9  # version 0 creates the table
    if emit is Emit.SNAPSHOT:
        assert [rows(home, version=n + 1) for n in range(9)] == [*stream.answers().values()]


def test_values_of_all_types(home: Path) -> None:
    """A table that was written is read again by another query, with its types and values."""
    stream = to_table(home, NESTED, max_files=None)
    stream.run()
    program = compile_over_files('select r from r in source(delta, "t");', base=home)
    found = ReferenceBatchJob(program).answer(program.queries[0])
    assert str(program.queries[0].type) == (
        "{<k: long, n: long, all: [long], mean: double, at: timestamp, d: decimal(3, 2), "
        "deep: <a: <_1: long, _2: string>, none: bool>, day: date, doc: string>}"
    )
    assert {row["k"]: row["n"] for row in found} == {row["k"]: row["n"] for row in batch_answer(stream)}  # type: ignore


@pytest.mark.spark
def test_spark_writes_the_same(home: Path, spark: SparkSession) -> None:
    """Tables of both engines have the same rows and the same schema, though Spark writes its files itself."""
    to_table(home, NESTED, max_files=None).run()
    options = {"engine": "spark", "spark": spark, "checkpoint_name": "c2", "output": "out2"}
    on_spark = to_table(home, NESTED, "s", max_files=None, **options)
    on_spark.run()
    assert content(home / "s") == content(home / "t")
    assert DeltaTable(str(home / "s")).schema() == DeltaTable(str(home / "t")).schema()


@pytest.mark.spark
def test_spark_goes_on(tmp_path: Path, spark: SparkSession) -> None:
    """A stream on Spark from one table to another survives a restart, with each version in one batch."""
    source = str(tmp_path / "in")
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(source, pa.table({"k": [1, 1, 2], "v": [1, 2, 3]}), configuration=feed)
    text = 'T = stream(delta, "in"); select (k, sum(v)) from <k: k, v: v> in T group by k;'
    stream = to_table(tmp_path, text, engine="spark", spark=spark, emit=Emit.CHANGES, max_files=None)
    stream.run()
    DeltaTable(source).update(updates={"v": "v + 10"}, predicate="k = 1")
    write_deltalake(source, pa.table({"k": [2], "v": [4]}), mode="append")
    again = to_table(tmp_path, text, engine="spark", spark=spark, emit=Emit.CHANGES, max_files=1)
    again.run()
    assert of_changes(rows(tmp_path)) == Bag([(1, 23), (2, 7)])
    assert last_batch(tmp_path, again) == 2


# --- restarts and crashes -----------------------------------------------------------------------


@pytest.mark.parametrize(("moment", "emit"), [(Moment.BEFORE, Emit.SNAPSHOT), (Moment.AFTER, Emit.CHANGES)])
def test_a_crash_at_any_operation_on_files(tmp_path: Path, moment: Moment, emit: Emit) -> None:
    """After a crash at any file operation, the same command completes the table, with each batch in one version."""
    fill(tmp_path, 3, Random(7))
    stream = to_table(tmp_path, emit=emit)
    whole = Counting()
    stream.run(whole)
    expected = rows(tmp_path)
    for at in range(1 + (moment is Moment.AFTER), whole.count + 1, 11):
        stream.clear()
        shutil.rmtree(tmp_path / "t")
        with contextlib.suppress(Crash):
            stream.run(Failing(at=at, moment=moment))
        stream.run()
        assert rows(tmp_path) == expected, at
        assert DeltaTable(str(tmp_path / "t")).version() == 3, at
        assert not [*stream.checkpoint.glob("outbox/*/*"), *stream.checkpoint.glob("outbox/*/.*")]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_crash_at_the_commit_of_the_table(home: Path, is_late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between the commits of the checkpoint and of the table, or right after the latter, loses and repeats no
    batch."""
    stream, commits = to_table(home, emit=Emit.CHANGES), 0
    commit = AnswerTable.commit

    def committed(table: AnswerTable, directory: Path, number: int, *, whole: bool) -> None:
        nonlocal commits
        commits += 1
        if is_late:
            commit(table, directory, number, whole=whole)
        if commits % 2 == 0:
            raise Crash
        if not is_late:
            commit(table, directory, number, whole=whole)

    monkeypatch.setattr(AnswerTable, "commit", committed)
    for _ in range(12):
        with contextlib.suppress(Crash):
            stream.run()
    assert of_changes(rows(home)) == batch_answer(stream)
    assert last_batch(home, stream) == 8
    assert DeltaTable(str(home / "t")).version() == 9


@pytest.mark.slow
def test_kills(tmp_path: Path) -> None:
    """A stream that is killed at a random moment writes each batch to the table once."""
    fill(tmp_path, 6, Random(1))
    stream = to_table(tmp_path, emit=Emit.CHANGES)
    (tmp_path / "q.mrql").write_text(GROUPS)
    assert KilledStream(Random(3), 0.02, stream).until_done(1)
    assert of_changes(rows(tmp_path)) == batch_answer(stream)
    assert DeltaTable(str(tmp_path / "t")).version() == 6


def test_a_table_that_another_query_follows(home: Path) -> None:
    """A stream may follow the table that another stream writes: its answers are those over that table."""
    stream = to_table(home)
    downstream = Stream(
        home,
        'T = stream(delta, "t"); select (m, count(k)) from <_1: k, _3: m> in T group by m;',
        checkpoint_name="c2",
        output="out2",
    )
    answers: dict[str, Bag] = {}
    for name in ("edges/1000.csv", "edges/1001.csv", "removed/1002.csv"):
        stream.run()
        downstream.run()
        answers = downstream.answers()
        assert answers[max(answers)] == batch_answer(downstream)
        write(home / name, "1,100\n", 2000)
    assert len(answers) == 3


# --- tables that are not the stream's -----------------------------------------------------------


def test_tables_that_are_not_the_streams(home: Path) -> None:
    """A table that this stream has not written is refused, unless it may be replaced."""
    write_deltalake(str(home / "t"), pa.table({"_1": [1], "_2": [2], "_3": [3]}))
    with pytest.raises(UserError, match="is not empty, and no batch of this stream is in it"):
        to_table(home).run()
    write_deltalake(str(home / "p"), pa.table({"_1": [1], "_2": [2], "_3": [3]}), partition_by=["_1"])
    with pytest.raises(UserError, match="is partitioned by `_1`, and answers are written without"):
        to_table(home, name="p").run()
    write_deltalake(str(home / "o"), pa.table({"_1": ["x"]}))
    with pytest.raises(UserError, match="has other columns than the answer") as other:
        to_table(home, name="o").run()
    assert other.value.hint == f"name another one; or say delta://{home}/o?replace=true, and it is made anew"
    with pytest.raises(UserError, match="edges is there already, and is not a Delta table"):
        to_table(home, name="edges").run()
    stream = to_table(home, name="o?replace=true")
    stream.run()
    assert rows(home, "o") == batch_answer(stream)


@pytest.mark.parametrize("emit", [*Emit])
@pytest.mark.parametrize("moment", ["prepare", "commit", "_brought", "_written"])
def test_rows_of_somebody_else(home: Path, emit: Emit, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that another writer adds at any point of a run are an error, also for the next run, unless the table may be
    replaced."""
    stream, columns = to_table(home, emit=emit), {"_1": [70], "_2": [1], "_3": [1]}
    more = pa.table(columns if emit is Emit.SNAPSHOT else {**columns, "weight": [1]})
    others_write(moment, lambda: write_deltalake(str(home / "t"), more, mode="append"), monkeypatch)
    said = r"version \d+ of the table .*/t is not of this stream"
    with pytest.raises(UserError, match=said):
        stream.run()
    found = rows(home)
    with pytest.raises(UserError, match=said):
        stream.run()
    assert rows(home) == found
    assert_replaced(home, emit)


def assert_replaced(home: Path, emit: Emit) -> None:
    """Asserts that a restart with `replace=true` rebuilds the table from the whole answer, and is refused with
    changes."""
    again = to_table(home, name="t?replace=true", emit=emit)
    if emit is Emit.CHANGES:
        with pytest.raises(UserError, match="and changes do not follow on that"):
            again.run()
    else:
        again.run()
        assert rows(home) == batch_answer(again)


def others_write(moment: str, write: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets another writer write to the table at the fifth call of the method `moment`: before it, or for `_written`
    between opening the table and the commit."""
    where, name = (DeltaSink, moment) if moment == "prepare" else (AnswerTable, moment)
    where, name = (answer_table, "opened") if moment == "_written" else (where, name)
    original, calls = getattr(where, name), 0

    def called(*given: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        found = original(*given, **options) if moment == "_written" else None
        if calls == 5:
            write()
        return found or original(*given, **options)

    monkeypatch.setattr(where, name, called)


@pytest.mark.parametrize("emit", [*Emit])
def test_files_that_are_written_anew_meanwhile(home: Path, emit: Emit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version of another writer right before a commit is no error if it changes no rows."""
    stream = to_table(home, emit=emit)
    others_write("_written", lambda: DeltaTable(str(home / "t")).optimize.compact(), monkeypatch)
    stream.run()
    assert (rows(home) if emit is Emit.SNAPSHOT else of_changes(rows(home))) == batch_answer(stream)


def test_rows_that_came_between_two_runs(home: Path) -> None:
    """Rows that another writer has added between two runs are an error at the start; a compaction is not."""
    stream = to_table(home, emit=Emit.CHANGES)
    stream.run()
    DeltaTable(str(home / "t")).optimize.compact()
    write(home / "edges" / "1000.csv", "1,100\n", 2000)
    stream.run()
    assert of_changes(rows(home)) == batch_answer(stream)
    columns = {"_1": [70], "_2": [1], "_3": [1], "weight": [1]}
    write_deltalake(str(home / "t"), pa.table(columns), mode="append")
    with pytest.raises(UserError, match=r"version 12 of the table .*/t is not of this stream, and came behind batch 9"):
        stream.run()


def test_a_second_stream(home: Path) -> None:
    """A second stream is refused a table while the first one runs."""
    stream = to_table(home)
    stream.run()
    held = Lock.of_directory(home / "t", "--output")
    with pytest.raises(UserError, match=f"{home}/t is in use by process {os.getpid()}"):
        stream.run()
    held.close()
    stream.run()


@pytest.mark.parametrize("emit", [*Emit])
def test_a_table_that_is_gone(home: Path, emit: Emit) -> None:
    """A table that is gone is an error, and may be replaced by the whole answer, but not by changes."""
    stream = to_table(home, emit=emit)
    stream.run()
    shutil.rmtree(home / "t")
    with pytest.raises(UserError, match="t is gone, and the checkpoint is at batch 8"):
        stream.run()
    assert_replaced(home, emit)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delta://", "delta:// names no table"),
        ("delta://a?b=c", "has the parameter b, and there is only replace"),
        ("delta://a?replace=1", "says replace=1, which is true or false"),
    ],
)
def test_what_is_no_address(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        place_at(text)
    assert parse_address("delta:///a/b%3Fc").path == Path("/a/b?c")


@pytest.mark.parametrize(
    ("select", "message"),
    [("<`a b`: x>", "a column of a Delta table has no ' ' in its name"), ("<A: x, a: y>", "differ in more than case")],
)
def test_columns_that_a_table_cannot_have(home: Path, select: str, message: str) -> None:
    text = GROUPS.split("select")[0] + f"select {select} from (x, y) in edges;"
    with pytest.raises(UserError, match=message):
        to_table(home, text).run()


def test_without_a_checkpoint(home: Path) -> None:
    """Without a checkpoint each run begins anew, and needs a table that is empty or may be replaced."""
    (home / "q.mrql").write_text(GROUPS)
    command = ["stream", str(home / "q.mrql"), "--data", str(home), "--once", "--engine", "reference"]
    first = CliRunner().invoke(main, [*command, "--output", f"delta://{home}/t"])
    assert first.exit_code == 0, first.output
    assert rows(home) == batch_answer(Stream(home))
    second = CliRunner().invoke(main, [*command, "--output", f"delta://{home}/t"])
    assert "is not empty, and no batch of this stream is in it" in second.output
    third = CliRunner().invoke(main, [*command, "--output", f"delta://{home}/t?replace=true"])
    assert third.exit_code == 0, third.output
