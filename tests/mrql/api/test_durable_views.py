"""Views with a checkpoint: a reopened view continues, and a batch that is given again counts once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.api import Delta, Query, View
from mrql.runtime.checkpoint.store import manifest_files
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.spark.batch_result import BatchResult
from mrql.runtime.spark.durable_view import DurableView
from mrql.runtime.spark.jvm import persistent_rdds
from tests.runtime.checkpoint.streams import Crash, Failing, Moment

pytestmark = pytest.mark.spark

QUERY = mrql.compile(
    "select (l.A, sum(r.D), max(r.D)) from l in left, r in right where l.B = r.C group by l.A",
    left="bag(<A: long, B: long>)",
    right="bag(<C: long, D: long>)",
)
LEFT, RIGHT = "A long, B long", "C long, D long"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return spark


def left(spark: SparkSession, *rows: tuple[int, int]) -> DataFrame:
    return spark.createDataFrame([*rows], LEFT)


def right(spark: SparkSession, *rows: tuple[int, int]) -> DataFrame:
    return spark.createDataFrame([*rows], RIGHT)


def found(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, df.collect()))


def test_it_goes_on_after_the_last_batch(session: SparkSession, tmp_path: Path) -> None:
    """A reopened view has its answer, offsets and number of batches, and takes deletions of earlier rows."""
    kept = persistent_rdds(session)
    with QUERY.view(session, checkpoint=tmp_path) as view:
        assert (view.batches, view.offsets) == (0, {})
        view.apply(left=left(session, (1, 5), (2, 5)), offset=0)
        changes = view.apply(right=right(session, (5, 10), (5, 20)), offset=0)
        schema, answer = changes.schema, found(view.answer())
        assert found(changes) == [(1, 30, 20, 1), (2, 30, 20, 1)]
    with QUERY.view(session, checkpoint=str(tmp_path)) as view:
        assert (view.batches, view.offsets) == (2, {"left": 0, "right": 0})
        assert found(view.answer()) == answer
        with pytest.raises(UserError, match="there was no batch yet"):
            view.before()
        again = view.apply(right=right(session, (5, 10), (5, 20)), offset=0)
        assert (again.collect(), again.schema) == ([], schema)
        gone = view.apply(right=Delta(delete=right(session, (5, 20))), left=Delta(), offset=1)
        assert found(gone) == [(1, 10, 10, 1), (1, 30, 20, -1), (2, 10, 10, 1), (2, 30, 20, -1)]
        assert found(view.before()) == answer
        assert (view.batches, view.offsets) == (3, {"left": 1, "right": 1})
    with QUERY.view(session, checkpoint=tmp_path) as view:
        assert found(view.answer()) == [(1, 10, 10), (2, 10, 10)]
    assert persistent_rdds(session) == kept


def test_a_batch_that_fails_is_not_committed(session: SparkSession, tmp_path: Path) -> None:
    """A batch whose rows are wrong, or whose delivery fails, is not committed, and may be given again."""
    delivered = []

    def deliver(changes: DataFrame, number: int) -> None:
        delivered.append((number, found(changes)))
        if len(delivered) == 2:
            raise OSError("no room")

    with QUERY.view(session, checkpoint=tmp_path) as view:
        view.apply(left=left(session, (1, 5)), right=right(session, (5, 1)), offset="a", deliver=deliver)
        with pytest.raises(UserError, match="a row is deleted from `left` that is not there"):
            view.apply(left=Delta(delete=left(session, (9, 9))), offset="b")
        with pytest.raises(OSError, match="no room"):
            view.apply(left=left(session, (2, 5)), offset="b", deliver=deliver)
        assert (view.batches, view.offsets["left"], found(view.answer())) == (1, "a", [(1, 1, 1)])
        view.apply(left=left(session, (2, 5)), offset="b", deliver=deliver)
    assert delivered == [(0, [(1, 1, 1, 1)]), (1, [(2, 1, 1, 1)]), (1, [(2, 1, 1, 1)])]
    with QUERY.view(session, checkpoint=tmp_path) as view:
        assert (view.batches, view.offsets) == (2, {"left": "b", "right": "a"})
        assert found(view.answer()) == [(1, 1, 1), (2, 1, 1)]


def test_an_interruption_between_the_two_commits(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the states have a batch and the checkpoint does not, the view is closed: reopened, it takes the batch once."""
    with QUERY.view(session, checkpoint=tmp_path) as view:
        view.apply(left=left(session, (1, 5)), right=right(session, (5, 10)), offset=0)
        with monkeypatch.context() as cut:
            cut.setattr(BatchResult, "lazily", interrupted)
            with pytest.raises(KeyboardInterrupt):
                view.apply(left=left(session, (1, 5)), offset=1)
        with pytest.raises(UserError, match="the view is closed"):
            view.apply(left=left(session, (1, 5)), offset=1)
    with QUERY.view(session, checkpoint=tmp_path) as view:
        assert view.offsets == {"left": 0, "right": 0}
        view.apply(left=left(session, (1, 5)), offset=1)
        assert found(view.answer()) == [(1, 20, 10)]


def test_an_interruption_after_the_commit(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a checkpoint the states are all there is: if they have a batch, its offset is noted."""
    with QUERY.view(session) as view:
        with monkeypatch.context() as cut:
            cut.setattr(BatchResult, "lazily", interrupted)
            with pytest.raises(KeyboardInterrupt):
                view.apply(left=left(session, (1, 5)), right=right(session, (5, 10)), offset=0)
        assert (view.offsets, view.batches) == ({"left": 0, "right": 0}, 1)
        view.apply(left=left(session, (1, 5)), right=right(session, (5, 10)), offset=0)
        assert found(view.answer()) == [(1, 10, 10)]


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_a_batch_is_delivered_to_applies_no_other(session: SparkSession, tmp_path: Path) -> None:
    """`deliver` cannot apply another batch to its view, which would replace the batch that is being delivered."""
    rows = {"left": left(session, (1, 5)), "right": right(session, (5, 1))}
    with QUERY.view(session, checkpoint=tmp_path) as view:

        def deliver(changes: DataFrame, number: int) -> None:
            with view.batch(offset=1) as batch:
                batch.apply(left=left(session, (2, 5)))

        with pytest.raises(UserError, match="the view is at a batch"):
            view.apply(**rows, offset=0, deliver=deliver)
        assert (view.batches, view.offsets) == (0, {})
        view.apply(**rows, offset=0)
        view.apply(left=left(session, (2, 5)), offset=1)
        assert found(view.answer()) == [(1, 1, 1), (2, 1, 1)]


def test_what_is_delivered_is_right(session: SparkSession) -> None:
    """A batch that is rolled back, as it deletes a missing row, is not delivered; its number goes to the next one."""
    delivered = {}

    def deliver(changes: DataFrame, number: int) -> None:
        delivered.setdefault(number, found(changes))

    with QUERY.view(session) as view:
        view.apply(left=left(session, (1, 5)), right=right(session, (5, 1)), deliver=deliver)
        with pytest.raises(UserError, match="that is not there"):
            view.apply(left=Delta(insert=left(session, (2, 5)), delete=left(session, (9, 9))), deliver=deliver)
        view.apply(left=left(session, (3, 5)), deliver=deliver)
    assert delivered == {0: [(1, 1, 1, 1)], 1: [(3, 1, 1, 1)]}


def test_what_is_delivered_to_has_the_settings_of_the_session(session: SparkSession) -> None:
    """`deliver` runs with the settings of the session, not with those under which a batch is computed."""
    names = ("spark.sql.session.timeZone", "spark.sql.caseSensitive", "spark.sql.ansi.enabled")
    before, seen = [session.conf.get(name) for name in names], []
    session.conf.set(names[0], "America/New_York")
    try:
        with QUERY.view(session) as view:
            deltas = {"left": left(session, (1, 5)), "right": right(session, (5, 1))}
            view.apply(**deltas, deliver=lambda changes, _: seen.append([session.conf.get(name) for name in names]))
    finally:
        session.conf.set(names[0], before[0])
    assert seen == [["America/New_York", *before[1:]]]


def test_offsets_are_compared_as_numbers_are(session: SparkSession) -> None:
    """Offsets that are numbers are compared as numbers, with or without fractions; a returned offset is a copy."""
    with QUERY.view(session) as view:
        for offset in (1.5, 2, 1.5, 2.0):
            view.apply(left=left(session, (1, 5)), offset=offset)
        assert (view.batches, view.offsets) == (2, {"left": 2})
        view.apply(right=right(session, (5, 1)), offset={"p": [1]})
        view.offsets["right"]["p"][0] += 1
        view.apply(right=right(session, (5, 1)), offset={"p": [1]})
        assert (view.batches, view.offsets["right"]) == (3, {"p": [1]})


def test_what_spark_notes_is_on_the_disk_before_a_commit(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's log of a batch is on disk before the commit: else Spark might make another batch of that number."""
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "1.csv").write_text("1,5\n")
    done: list[Path] = []
    sync, put = DurableFiles.sync, DurableFiles.put
    monkeypatch.setattr(DurableFiles, "sync", lambda files, path: (done.append(path), sync(files, path))[1])
    monkeypatch.setattr(DurableFiles, "put", lambda files, path, *rest: (done.append(path), put(files, path, *rest))[1])
    with QUERY.view(session, checkpoint=tmp_path / "state") as view:
        stream = session.readStream.schema(LEFT).csv(str(tmp_path / "left"))
        assert view.follow(left=stream, trigger={"availableNow": True}).awaitTermination(120)
    kept = tmp_path / "state" / "streaming" / "left"
    commit = next(n for n, path in enumerate(done) if path.name.startswith("manifest-"))
    noted = ("offsets/0", "offsets", "sources/0/0", "metadata")
    assert {kept / name for name in noted} <= {*done[:commit]}


@pytest.mark.wide
def test_the_first_batch_of_a_stream_fails(session: SparkSession, tmp_path: Path) -> None:
    """A failed first batch of a stream leaves nothing behind, neither in the next commit nor in a reopened view."""
    for number, first in enumerate(("left", "right")):
        root = tmp_path / first
        rows = {"left": left(session, (1, 5)), "right": right(session, (5, 1))}
        gone = {"left": left(session, (9, 9)), "right": right(session, (9, 9))}
        other = {"left": "right", "right": "left"}[first]
        with QUERY.view(session, checkpoint=root) as view:
            for name in (first, other):
                with pytest.raises(UserError, match="that is not there"):
                    view.apply(**{name: Delta(insert=rows[name], delete=gone[name])}, offset=number)
            view.apply(**{other: rows[other]}, offset=number)
            with pytest.raises(UserError, match="that is not there"):
                view.apply(**{first: Delta(insert=rows[first], delete=gone[first])}, offset=number)
        with QUERY.view(session, checkpoint=root) as view:
            assert found(view.answer()) == []
            view.apply(**{first: rows[first]}, offset=number)
            assert found(view.answer()) == [(1, 1, 1)]


def test_without_a_checkpoint_offsets_count_too(session: SparkSession) -> None:
    """A batch that is given twice with one offset counts once, also without a checkpoint."""
    with QUERY.view(session) as view:
        for _ in range(2):
            view.apply(left=left(session, (1, 5)), right=right(session, (5, 1)), offset=3)
        assert (view.batches, view.offsets, found(view.answer())) == (1, {"left": 3, "right": 3}, [(1, 1, 1)])


def test_static_tables(session: SparkSession, tmp_path: Path) -> None:
    """A reopened view takes static tables with the same rows in any order only; a cached table stays cached."""
    rates = right(session, (5, 1), (5, 1), (6, 2)).persist()
    with QUERY.view(session, checkpoint=tmp_path, right=rates) as view:
        view.apply(left=left(session, (1, 5)))
    assert rates.storageLevel.useMemory
    rates.unpersist()
    with QUERY.view(session, checkpoint=tmp_path, right=rates.orderBy("D", ascending=False)) as view:
        assert found(view.answer()) == [(1, 2, 1)]
    for others in (right(session, (5, 1), (6, 2)), right(session, (5, 1), (5, 1), (6, None))):  # type: ignore[arg-type]
        with pytest.raises(UserError, match="the table `right` has other rows than when the checkpoint was written"):
            QUERY.view(session, checkpoint=tmp_path, right=others)


@attrs.define
class Dying:
    """Applies batches to a view that may crash at an operation on files."""

    spark: SparkSession
    root: Path
    batches: list[dict[str, Any]]

    def applied(self, files: Failing | None = None) -> list[Row]:
        """Applies all batches, each with its number as the offset, and returns the answer."""
        view = self.view(files)
        try:
            for number, batch in enumerate(self.batches):
                view.apply(offset=number, **batch)
            return sorted(view.answer().collect())
        finally:
            view.close()

    def view(self, files: Failing | None) -> View:
        plan = QUERY.trace().plan
        durable = DurableView.open(self.root, plan, self.spark, {}, QUERY.query.span.source, files)
        return View(QUERY, durable.view, durable, frozenset(), insert_only=False, keyed={}, trace=QUERY.trace())


def test_it_dies_at_operations_on_files(session: SparkSession, tmp_path: Path) -> None:
    """After a crash at any of some file operations, all batches are given again, and each counts once."""
    batches: list[dict[str, Any]] = [
        {"left": left(session, (1, 5), (2, 6)), "right": right(session, (5, 1))},
        {"right": Delta(insert=right(session, (6, 2))), "left": Delta(delete=left(session, (1, 5)))},
    ]
    expected = Dying(session, tmp_path / "whole", batches).applied()
    for at, moment in [(30, Moment.HALF), (43, Moment.AFTER), (60, Moment.BEFORE)]:
        dying = Dying(session, tmp_path / f"{at}", batches)
        with pytest.raises(Crash):
            dying.applied(Failing(at=at, moment=moment))
        assert dying.applied() == expected, at


def test_what_is_damaged_is_said(session: SparkSession, tmp_path: Path) -> None:
    """A run that is truncated, changed or missing is an error that says so; restored, the view opens again."""
    with QUERY.view(session, checkpoint=tmp_path) as view:
        view.apply(left=left(session, (1, 5)), right=right(session, (5, 1)))
    run = sorted(tmp_path.glob("runs/*/*/*.parquet"))[0]
    whole = run.read_bytes()
    for data, said in ((whole[:-1], "bytes"), (whole[:-1] + b"?", "SHA-256")):
        run.write_bytes(data)
        with pytest.raises(UserError, match=f"is damaged: it .*{said}"):
            QUERY.view(session, checkpoint=tmp_path)
    run.unlink()
    with pytest.raises(UserError, match="is gone, and a state is made of it"):
        QUERY.view(session, checkpoint=tmp_path)
    run.write_bytes(whole)
    with QUERY.view(session, checkpoint=tmp_path) as view:
        assert found(view.answer()) == [(1, 1, 1)]
    assert len(manifest_files(tmp_path)) == 1


@pytest.fixture
def opened(session: SparkSession, tmp_path: Path) -> Iterator[View]:
    with QUERY.view(session, checkpoint=tmp_path) as view:
        yield view


def test_what_is_refused(session: SparkSession, tmp_path: Path, opened: View) -> None:
    """Offsets that cannot be compared, wrong arguments, a checkpoint in use and a closed view are refused."""
    rows = left(session, (1, 5))
    opened.apply(left=rows, offset=1)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"offset": "a", "left": rows}, "the last offset of `left` is a number, 1"),
        ({"offset": object(), "left": rows}, "an offset is a value of JSON"),
        ({"offset": 2}, "an offset is that of streams, and none is named"),
        ({"offset": 1, "left": rows, "right": right(session)}, "was applied of `left`, but not of `right`"),
        ({"offset": 2, "left": rows, "deliver": "file"}, "deliver is a function of changes and a number, not"),
        ({"offset": 2, "wrong": rows}, "the query has no stream `wrong`"),
    ]
    for arguments, said in wrong:
        with pytest.raises(UserError) as raised:
            opened.apply(**arguments)
        assert said in raised.value.message
    with pytest.raises(UserError, match="is in use by process"):
        QUERY.view(session, checkpoint=tmp_path)
    with pytest.raises(UserError, match="a checkpoint is a directory, not"):
        QUERY.view(session, checkpoint=5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="what a batch is for is the name of a stream, or a function"):
        opened.for_each_batch(5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="the query has no stream `wrong`"):
        opened.for_each_batch("wrong")
    with pytest.raises(UserError, match="this is no batch of a streaming query"):
        opened.for_each_batch("left")(rows, 2)
    called: Query = mrql.compile("count(offset)", offset="bag(<X: long>)")
    with pytest.raises(UserError, match="the stream `offset` of a view is called as an argument of `apply`"):
        called.view(session)
    opened.close()
    with pytest.raises(UserError, match="the view is closed"):
        opened.apply(left=rows, offset=2)
    assert opened.offsets == {"left": 1}
