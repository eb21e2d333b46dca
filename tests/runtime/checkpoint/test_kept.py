"""Checkpoints that were written by an earlier version, in `kept/`, can be continued.

Each has five batches of the same query: groups, a join with a table, a nested select, averages of a stream whose type
was found in its rows, and a loop. A checkpoint has the absolute paths of its files, so they are unpacked to where they
were.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mrql.algebra.values.values import close
from mrql.runtime.checkpoint.store import latest
from tests.runtime.checkpoint.streams import Stream, write

KEPT = Path(__file__).parent / "kept"
PLACE = Path("/tmp/mrql-kept-checkpoint")
LATER = 1_700_000_000
"""The modification time of files that arrive later."""


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The directory that an engine has left, in its original place."""
    place = PLACE / request.param
    shutil.rmtree(place, ignore_errors=True)
    with tarfile.open(KEPT / f"{request.param}.tar.gz") as archive:
        archive.extractall(PLACE, filter="data")
    yield place
    shutil.rmtree(place)


@pytest.mark.parametrize("home", ["reference"], indirect=True)
def test_of_the_reference_engine(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_goes_on(Stream(home, (home / "q.mrql").read_text()), capsys)


@pytest.mark.spark
@pytest.mark.parametrize("home", ["spark"], indirect=True)
def test_of_spark(home: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession) -> None:
    assert_goes_on(Stream(home, (home / "q.mrql").read_text(), "spark", spark=spark), capsys)


def assert_goes_on(stream: Stream, capsys: pytest.CaptureFixture[str]) -> None:
    """Asserts that two more batches continue from the states that are there, none of which is rebuilt."""
    before = latest(stream.checkpoint)
    write(stream.home / "edges" / "4.csv", "0,2\n5,1\n", LATER)
    write(stream.home / "removed" / "5.csv", "1,2\n0,1\n", LATER + 1)
    stream.run()
    after = latest(stream.checkpoint)
    assert capsys.readouterr().err.startswith("going on after batch 4\nbatch 5: ")
    assert before is not None
    assert after is not None
    assert after.states.keys() == before.states.keys()
    found, expected = stream.answers(), stream.uninterrupted()
    assert [*found] == [*expected] == [f"batch-{n:06d}" for n in range(7)]
    for batch in expected:
        assert close(found[batch], expected[batch]), batch
