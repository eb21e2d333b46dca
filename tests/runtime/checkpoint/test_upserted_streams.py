"""Streams whose rows replace each other: the current row of each key is committed, and continued from."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from mrql.algebra.errors import UserError
from mrql.cli.main import main
from mrql.runtime.checkpoint.store import manifest_files
from tests.runtime.checkpoint.crashes import is_whole
from tests.runtime.checkpoint.streams import UPSERTS, Stream, batch_answer, fill, write

AS_LATE = UPSERTS.replace("key(_1), version(_2)", "key(_1)")
CHANGED = UPSERTS.replace("sum(x)", "max(x)")


def restarted(home: Path, engine: str, batches: int, spark: SparkSession | None = None) -> Stream:
    """Restarts a stream for each of its files, changes its query before the last one, and checks its answers; returns
    it."""
    fill(home, batches + batches // 2, Random(5))
    files = sorted((home / "edges").iterdir())[:batches]
    kept = home / "later"
    shutil.move(home / "edges", kept)
    (home / "edges").mkdir()
    stream = Stream(home, UPSERTS, engine, spark=spark)
    for number, file in enumerate(files):
        if number == batches - 1:
            stream = Stream(home, CHANGED, engine, spark=spark)
        shutil.move(kept / file.name, home / "edges" / file.name)
        stream.run()
        newest = [*stream.answers().values()][-1]
        assert newest == batch_answer(stream)
        assert is_whole(stream)
    return stream


def test_a_stream_goes_on(tmp_path: Path) -> None:
    """A restarted stream has the answers from scratch, also for another query; a row without a version is refused, and
    the stream goes on without it."""
    stream = restarted(tmp_path, "reference", 8)
    committed = len(manifest_files(stream.checkpoint))
    write(tmp_path / "edges" / "wrong.csv", "1,\n", 100)
    with pytest.raises(UserError, match="a row of `edges` with the key 1 has no version") as caught:
        stream.run()
    assert caught.value.hint == f"it is in {tmp_path / 'edges' / 'wrong.csv'}"
    assert len(manifest_files(stream.checkpoint)) == committed
    (tmp_path / "edges" / "wrong.csv").unlink()
    write(tmp_path / "edges" / "right.csv", "1,1000\n", 101)
    stream.run()
    assert (1000, 1, 1) in [*stream.answers().values()][-1]


def test_rows_that_are_as_late_are_named_with_their_files(tmp_path: Path) -> None:
    """Two different rows of a batch with the same key and no version are an error that names their files; `mrql run`
    takes all files for one batch."""
    files = [tmp_path / "edges" / name for name in ("a.csv", "b.csv", "c.csv")]
    for n, (file, text) in enumerate(zip(files, ("1,5\n", "2,9\n2,8\n", "2,7\n"), strict=True)):
        write(file, text, n)
    hint = "a version, a field that grows with each change, says which is later; see"
    with pytest.raises(UserError, match="two different rows of `edges` in one batch have the key 2") as caught:
        Stream(tmp_path, AS_LATE, "reference").run()
    assert caught.value.hint == f"{hint} {files[1]}"
    (tmp_path / "q.mrql").write_text(AS_LATE)
    command = ["run", str(tmp_path / "q.mrql"), "--data", str(tmp_path), "--engine", "reference"]
    assert f"{hint} {files[1]} and {files[2]}\n" in CliRunner().invoke(main, command).stderr


@pytest.mark.spark
def test_a_stream_goes_on_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    restarted(tmp_path, "spark", 3, spark)


def test_another_key_is_another_state(tmp_path: Path) -> None:
    """Another key makes another state, for which all files are read again."""
    restarted(tmp_path, "reference", 4)
    other = Stream(tmp_path, UPSERTS.replace("key(_1), version(_2)", "key(_2), version(_1)"), "reference")
    other.run()
    assert [*other.answers().values()][-1] == batch_answer(other)
