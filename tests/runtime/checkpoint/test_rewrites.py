"""`--rewrites apply`: the rows of read files that have changed or gone are deleted again, and changed files are read
anew."""

from __future__ import annotations

import contextlib
from pathlib import Path
from random import Random

import attrs
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from mrql.algebra.errors import UserError
from mrql.cli.main import main
from mrql.runtime.checkpoint import policy
from tests.runtime.checkpoint.streams import Counting, Crash, Failing, Moment, Stream, batch_answer, rows, write

EXTREMES = """
edges = stream(csv, "edges", ",", type((long, long)));
select (x, sum(y), max(y), count(y)) from (x, y) in edges group by x;
"""
TAGGED = """
edges = stream(csv, "edges", ",", type((long, long)), tagged);
select (x, max(y)) from (x, y) in edges group by x;
"""


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy under which even a few files are in lists."""
    monkeypatch.setattr(policy, "NAMED_MAX_FILES", 1)


def change(home: Path, random: Random, age: int) -> None:
    """Adds, rewrites and removes some files at random."""
    for number in range(4):
        file = home / "edges" / f"{number}.csv"
        what = random.choice(["leave", "write", "write", "remove"])
        if what == "write":
            write(file, rows([(random.randint(0, 3), random.randint(0, 9)) for _ in range(random.randint(0, 5))]), age)
        elif what == "remove" and file.exists():
            file.unlink()
        age += 1


@pytest.mark.parametrize("seed", range(4))
def test_the_answer_is_that_to_the_files_as_they_are(tmp_path: Path, seed: int) -> None:
    """After any changes of files, with restarts and crashes in between, the answer and the copies are those of the
    current files."""
    random = Random(seed)
    write(tmp_path / "edges" / "first.csv", "1,5\n", 0)
    stream = Stream(tmp_path, EXTREMES, rewritable=True, max_files=2)
    for step in range(8):
        change(tmp_path, random, 100 * step)
        with contextlib.suppress(Crash):
            stream.run(Failing(at=random.randint(1, 60), moment=random.choice([Moment.BEFORE, Moment.AFTER])))
        stream.run()
        assert list(stream.answers().values())[-1] == batch_answer(stream)
        there = {copy.read_text() for copy in stream.checkpoint.glob("copies/*/[!.]*")}
        assert there == {file.read_text() for file in tmp_path.glob("edges/*.csv")}


def test_deletions_are_taken_back_too(tmp_path: Path) -> None:
    """The rows that a file of deletions has deleted come back when it is removed."""
    text = EXTREMES.replace("(long, long))", '(long, long)), deletions("removed")')
    write(tmp_path / "edges" / "a.csv", "1,5\n1,7\n", 0)
    write(tmp_path / "removed" / "a.csv", "1,7\n", 1)
    stream = Stream(tmp_path, text, rewritable=True)
    stream.run()
    (tmp_path / "removed" / "a.csv").unlink()
    stream.run()
    assert list(stream.answers().values())[-1] == batch_answer(stream)
    assert sorted(batch_answer(stream)) == [(1, 12, 7, 2)]


@pytest.mark.spark
def test_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    """On Spark, a changed file of tagged rows is applied, and its malformed rows are quarantined only once."""
    write(tmp_path / "edges" / "a.csv", "+,1,5\n+,1,7\n+,x,1\n", 0)
    stream = Stream(tmp_path, TAGGED, "spark", spark=spark, rewritable=True, quarantine="kept")
    stream.run()
    write(tmp_path / "edges" / "a.csv", "+,1,6\n+,2,2\n+,1,9\n-,1,9\n", 5)
    stream.run()
    assert sorted(list(stream.answers().values())[-1]) == [(1, 6), (2, 2)]
    assert [kept.name for kept in sorted((tmp_path / "kept").glob("[!.]*"))] == ["batch-000000"]


def test_malformed_rows_are_kept_aside_once(tmp_path: Path) -> None:
    """The malformed rows of a file are quarantined when it is first read, and not when it has changed."""
    write(tmp_path / "edges" / "a.csv", "1,5\nx\n", 0)
    stream = Stream(tmp_path, EXTREMES, rewritable=True, quarantine="kept")
    stream.run()
    write(tmp_path / "edges" / "a.csv", "1,6\n", 5)
    stream.run()
    assert sorted(list(stream.answers().values())[-1]) == [(1, 6, 6, 1)]
    assert [kept.name for kept in sorted((tmp_path / "kept").glob("[!.]*"))] == ["batch-000000"]


def test_without_copies(tmp_path: Path) -> None:
    """A stream that was started without --rewrites apply has no copies: a changed file is an error, also with the
    option later on."""
    write(tmp_path / "edges" / "a.csv", "1,5\n", 0)
    stream = Stream(tmp_path, EXTREMES)
    stream.run(Counting())
    write(tmp_path / "edges" / "a.csv", "1,6\n", 5)
    with pytest.raises(UserError, match=r"a\.csv has changed since it was read"):
        stream.run()
    with pytest.raises(UserError) as caught:
        attrs.evolve(stream, rewritable=True).run()
    assert caught.value.message.startswith("the query has changed, or `--rewrites apply` is new, and ")
    assert caught.value.message.endswith(f"but {tmp_path / 'edges' / 'a.csv'} has changed since it was read")


def test_the_command(tmp_path: Path) -> None:
    """`mrql stream --rewrites apply` applies the change of a file since the last run."""
    write(tmp_path / "edges" / "a.csv", "1,5\n", 0)
    (tmp_path / "q.mrql").write_text(EXTREMES)
    command = ["stream", str(tmp_path / "q.mrql"), "--data", str(tmp_path), "--engine", "reference", "--once"]
    command += ["--rewrites", "apply", "--checkpoint", str(tmp_path / "c"), "--format", "json"]
    assert CliRunner().invoke(main, command).exit_code == 0
    write(tmp_path / "edges" / "a.csv", "2,6\n", 5)
    done = CliRunner().invoke(main, command)
    assert (done.exit_code, "[[2, 6, 6, 1]]" in done.stdout) == (0, True)


def test_what_is_built_again_where_files_may_change_from_now_on(tmp_path: Path) -> None:
    """Adding `--rewrites apply` rebuilds states, and the message does not blame a changed query alone."""
    write(tmp_path / "edges" / "a.csv", "1,5\n", 0)
    (tmp_path / "q.mrql").write_text(EXTREMES)
    command = ["stream", str(tmp_path / "q.mrql"), "--data", str(tmp_path), "--engine", "reference", "--once"]
    command += ["--checkpoint", str(tmp_path / "c")]
    assert CliRunner().invoke(main, command).exit_code == 0
    done = CliRunner().invoke(main, [*command, "--rewrites", "apply"])
    assert done.exit_code == 0
    assert "the query has changed, or `--rewrites apply` is new, and what was built again" in done.stderr
