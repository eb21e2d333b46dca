"""Streams whose states are lost, as when an executor is killed, have the same answers; and what a cluster needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from mrql.algebra.errors import EngineError
from mrql.jobs.stream import RETRIED_MAX_TIMES
from mrql.runtime.engine.errors import StatesLost
from mrql.runtime.spark.session import cluster
from mrql.runtime.streaming.stream_loop import Loop
from tests.runtime.checkpoint.streams import Stream, fill

BATCHES = 5


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Some batches, every third one with deletions."""
    fill(tmp_path, BATCHES, Random(3), first=40)
    return tmp_path


# --- going back ---------------------------------------------------------------------------------


@pytest.mark.parametrize("losses", [1, RETRIED_MAX_TIMES])
def test_a_batch_is_done_again(
    home: Path, losses: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch that loses the states, at most `RETRIED_MAX_TIMES` times, is done again; each batch is put out once, in
    order."""
    stream = Stream(home)
    expected = stream.uninterrupted()
    lose(monkeypatch, {0: losses, 3: losses, 4: losses})
    stream.run()
    assert stream.answers() == expected
    told = [line for line in capsys.readouterr().err.splitlines() if "was lost" in line]
    assert [line.partition("an executor was lost: ")[2] for line in told] == [
        *["starting over"] * losses,
        *["going back to batch 2"] * losses,
        *["going back to batch 3"] * losses,
    ]


def test_a_batch_is_not_done_for_ever(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that loses the states more often ends the stream; the same command goes on after the last commit."""
    stream = Stream(home)
    lose(monkeypatch, {2: RETRIED_MAX_TIMES + 1})
    with pytest.raises(EngineError) as caught:
        stream.run()
    assert caught.value.message == f"an executor was lost, {RETRIED_MAX_TIMES + 1} times in one batch"
    assert caught.value.hint == "batch 1 is committed, and the next start goes on after it"
    stream.run()
    assert stream.answers() == stream.uninterrupted()


def test_nothing_to_go_back_to(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a checkpoint, a stream that loses its states ends."""
    stream = Stream(home)
    lose(monkeypatch, {0: 1})
    with pytest.raises(StatesLost):
        stream.uninterrupted()


def lose(monkeypatch: pytest.MonkeyPatch, times: dict[int, int]) -> None:
    """Makes the engine lose its states after it has put out the answers of some batches, each the given number of
    times."""
    step, left = Loop._advance, dict(times)

    def advance(self: Loop, batch: object, put: object) -> None:
        step(self, batch, put)  # type: ignore[arg-type]
        number = 0 if self.commits is None else self.commits.next_batch
        if left.get(number, 0):
            left[number] -= 1
            raise StatesLost("an executor was lost")

    monkeypatch.setattr(Loop, "_advance", advance)


# --- clusters -----------------------------------------------------------------------------------


def test_masters() -> None:
    """Exactly the masters that have executors of their own are clusters."""
    local = ["local", "local[*]", "local[2]", "local[2,3]", None]
    assert not [master for master in local if cluster.is_cluster(master)]
    others = ["local-cluster[2,1,1024]", "spark://host:7077", "yarn", "k8s://https://host:443"]
    assert [master for master in others if cluster.is_cluster(master)] == others


def test_the_package_is_whole(tmp_path: Path) -> None:
    """The archive that is sent to executors suffices there, with PySpark and PyArrow."""
    code = "import mrql.runtime.spark.expressions.arrow, mrql.algebra.evaluation.python_functions; print(mrql.__file__)"
    where = [path for path in sys.path if Path(path).joinpath("pyspark").is_dir()]
    for name in ("pyspark", "py4j", "pyarrow"):
        (tmp_path / name).symlink_to(Path(where[0]) / name)
    archive = cluster._archive()
    environment = {"PYTHONPATH": os.pathsep.join([str(archive), str(tmp_path)])}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", f"{archive}/mrql/__init__.py\n")
