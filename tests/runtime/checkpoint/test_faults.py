"""Whatever file operation a stream dies at, its output and checkpoint are right after the next start."""

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
    """A policy under which a few batches suffice for runs of changes, snapshots that replace them, and lists of
    files."""
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 0)
    monkeypatch.setattr(policy, "SAVED_MAX_RUNS", 3)
    monkeypatch.setattr(policy, "NAMED_MAX_FILES", 1)


EVERY = {Moment.BEFORE: 1, Moment.HALF: 1, Moment.AFTER: 3, Moment.POWER: 1}
"""For each moment, the step between the operations that a stream dies at. The state after an operation is that before
the next one, unless something is written without being counted: fewer operations suffice to detect that."""


def operations(stream: Stream) -> int:
    """The number of file operations of the stream from its start to its end."""
    stream.clear()
    counting = Counting()
    stream.run(counting)
    return counting.count


def dies(stream: Stream, at: int, moment: Moment) -> None:
    """Starts the stream, which dies at an operation."""
    with pytest.raises(Crash):
        stream.run(Failing(at=at, moment=moment))


@pytest.mark.wide(keep=3)
@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("text", ["groups", "join"])
def test_a_crash_at_every_operation(tmp_path: Path, moment: Moment, text: str) -> None:
    """After a crash at any operation the published batches are right; after the next start all are published, and the
    checkpoint is whole."""
    fill(tmp_path, 4, Random(1))
    stream = Stream(tmp_path) if text == "groups" else Stream(tmp_path, JOIN, max_files=2)
    expected = stream.uninterrupted()
    last = operations(stream)
    assert last > 60
    # The join adds runs of changes, whose operations are the same in each batch: every other one suffices.
    for at in range(1, last + 1, EVERY[moment] * (1 if text == "groups" else 2)):
        stream.clear()
        dies(stream, at, moment)
        known = latest(stream.checkpoint)
        before = -1 if known is None else known.batch
        seen = stream.answers()
        assert all(expected[name] == rows for name, rows in seen.items()), at
        # All published batches are committed; the output of the last commit may be missing.
        assert before - 1 <= len(seen) - 1 <= before, at
        stream.run()
        assert stream.answers() == expected, at
        assert is_whole(stream)


@pytest.mark.usefixtures("often")
def test_a_crash_while_it_recovers(tmp_path: Path) -> None:
    """Further crashes, at any operation of the starts after the first one, lose nothing either."""
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
    """A write to a full disk ends the stream with one message; the last commit stands, and the next start goes on from
    it."""
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
    """After a crash and a restart, malformed rows are in the quarantine once: with their batch, or with the static
    tables."""
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
    """The target that a query names holds the answer of the last commit after each start."""
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
    """A full disk has the same message if Spark fails to write because of it."""
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
    """After a crash of the driver on Spark, the next start has all answers; some of the operations are tried here, each
    of them in the reference engine."""
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
