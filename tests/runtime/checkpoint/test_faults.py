"""Whatever operation on files a stream dies at, what is there after it is started again is what there has to be."""

from __future__ import annotations

import errno
from itertools import cycle
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from mrql.algebra.errors import EngineError
from mrql.runtime.checkpoint import policy
from mrql.runtime.checkpoint.store import latest, told
from tests.runtime.checkpoint.crashes import is_whole
from tests.runtime.checkpoint.streams import GROUPS, JOIN, Counting, Crash, Failing, Moment, Stream, fill, write


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy under which a few batches have all that many have: runs of changes, and snapshots that replace them, and
    lists of files."""
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 0)
    monkeypatch.setattr(policy, "SAVED_MAX_RUNS", 3)
    monkeypatch.setattr(policy, "NAMED_MAX_FILES", 1)


EVERY = {Moment.BEFORE: 1, Moment.HALF: 1, Moment.AFTER: 3, Moment.POWER: 1}
"""Which operations a stream dies at. After one is what is before the next, unless something is written past what counts
them: some tell that."""


def operations(stream: Stream) -> int:
    """How many operations on files the stream takes from its start to its end."""
    stream.clear()
    counting = Counting()
    stream.run(counting)
    return counting.count


def dies(stream: Stream, at: int, moment: Moment) -> None:
    """Starts the stream, and dies at an operation."""
    with pytest.raises(Crash):
        stream.run(Failing(at=at, moment=moment))


@pytest.mark.wide(keep=3)
@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("text", ["groups", "join"])
def test_a_crash_at_every_operation(tmp_path: Path, moment: Moment, text: str) -> None:
    """After a crash what is put out is right; after the next start all of it is there, and the checkpoint is whole."""
    fill(tmp_path, 4, Random(1))
    stream = Stream(tmp_path) if text == "groups" else Stream(tmp_path, JOIN, max_files=2)
    expected = stream.uninterrupted()
    last = operations(stream)
    assert last > 60
    # The join is there for its runs of changes, whose operations are the same in each batch.
    for at in range(1, last + 1, EVERY[moment] * (1 if text == "groups" else 2)):
        stream.clear()
        dies(stream, at, moment)
        known = latest(stream.checkpoint)
        before = -1 if known is None else known.batch
        seen = stream.answers()
        assert all(expected[name] == rows for name, rows in seen.items()), at
        # What is put out is committed; the commit may be there before its output.
        assert before - 1 <= len(seen) - 1 <= before, at
        stream.run()
        assert stream.answers() == expected, at
        assert is_whole(stream)


@pytest.mark.usefixtures("often")
def test_a_crash_while_it_recovers(tmp_path: Path) -> None:
    """A second crash, at any operation of the start after the first one, loses nothing either."""
    fill(tmp_path, 4, Random(2))
    stream = Stream(tmp_path)
    expected = stream.uninterrupted()
    last = operations(stream)
    random = Random(3)
    for at in random.sample(range(1, last + 1), 25):
        stream.clear()
        dies(stream, at, random.choice(list(Moment)))
        for again in range(1, 12):
            try:
                stream.run(Failing(at=again, moment=random.choice(list(Moment))))
            except Crash:
                continue
            break
        stream.run()
        assert stream.answers() == expected


@pytest.mark.usefixtures("often")
def test_a_full_disk(tmp_path: Path) -> None:
    """A write without room ends the stream with one message; the last commit stands, and the next start goes on."""
    fill(tmp_path, 3, Random(4))
    stream = Stream(tmp_path)
    expected = stream.uninterrupted()
    last = operations(stream)
    told = set()
    for at in range(1, last + 1):
        stream.clear()
        full = OSError(errno.ENOSPC, "No space left on device")
        with pytest.raises(EngineError) as raised:
            stream.run(Failing(at=at, moment=Moment.HALF, error=full))
        assert raised.value.exit_code == 3
        assert raised.value.message == f"no space is left on the disk for a commit to {stream.checkpoint}"
        told.add(raised.value.hint)
        stream.run()
        assert stream.answers() == expected
    assert "make room; nothing is committed yet, and the next start is from the beginning" in told
    assert "make room; batch 1 is committed, and the next start goes on after it" in told


@pytest.mark.wide(keep=2)
@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("moment", Moment)
def test_malformed_rows_are_kept_with_their_batch(tmp_path: Path, moment: Moment) -> None:
    """Rows that are kept aside are there once, with the batch that found them; those of tables with the first one."""
    fill(tmp_path, 3, Random(6))
    write(tmp_path / "edges" / "0001.csv", (tmp_path / "edges" / "0001.csv").read_text() + "1,x\n", 1)
    write(tmp_path / "names" / "names.csv", "1,a\n?,b\n", 0)
    stream = Stream(tmp_path, JOIN, quarantine="kept")
    last = operations(stream)
    expected, found = stream.answers(), kept_aside(tmp_path)
    assert sorted(found) == ["batch-000001", "tables"]
    for at in range(1, last + 1, 2 * EVERY[moment]):
        stream.clear()
        dies(stream, at, moment)
        stream.run()
        assert (stream.answers(), kept_aside(tmp_path)) == (expected, found), at


def kept_aside(home: Path) -> dict[str, str]:
    return {path.name: (path / "malformed.json").read_text() for path in (home / "kept").glob("[!.]*")}


@pytest.mark.wide(keep=2)
@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("moment", Moment)
def test_a_target_is_replaced_by_a_commit(tmp_path: Path, moment: Moment) -> None:
    """Where the query says where its answer goes, that has the answer of the last commit after each start."""
    fill(tmp_path, 3, Random(7))
    stream = Stream(tmp_path, GROUPS.replace("select", 'dump "out/answer" from select'))
    last = operations(stream)
    answer = tmp_path / "out" / "answer" / "part-00000.json"
    expected = answer.read_text()
    for at in range(1, last + 1, EVERY[moment]):
        stream.clear()
        dies(stream, at, moment)
        stream.run()
        assert answer.read_text() == expected, at
        assert [path.name for path in stream.out.iterdir()] == ["answer"]


def test_a_full_disk_on_spark(tmp_path: Path) -> None:
    """What Spark cannot write for want of room has the same message."""
    from mrql.runtime.spark.session.errors import _translate

    error = _translate(
        "org.apache.spark.SparkException: …\njava.io.IOException: No space left on device\n", None, print
    )
    with pytest.raises(EngineError) as raised, told(tmp_path, lambda: None):
        raise error
    assert raised.value.message == f"no space is left on the disk for a commit to {tmp_path}"


@pytest.mark.wide
@pytest.mark.spark
@pytest.mark.slow
def test_a_crash_of_the_driver_on_spark(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Spark some of the operations of the driver are cut off; in the reference semantics each of them is."""
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 0)
    fill(tmp_path, 3, Random(5))
    stream = Stream(tmp_path, engine="spark", spark=spark)
    expected = stream.uninterrupted()
    last = operations(stream)
    for at, moment in zip(range(1, last + 1, 40), cycle((Moment.HALF, Moment.AFTER)), strict=False):
        stream.clear()
        dies(stream, at, moment)
        stream.run()
        assert stream.answers() == expected, at
        assert is_whole(stream)
