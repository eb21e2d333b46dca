"""A stream that is started again: what it continues from, what it refuses, and the output of the `checkpoint`
commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import attrs
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from mrql.algebra.errors import UserError
from mrql.algebra.values.values import Bag
from mrql.cli.main import main
from mrql.jobs.stream import run_stream
from mrql.runtime.checkpoint import policy
from mrql.runtime.checkpoint.inspect import NAMED_BY_A_STREAM, committed
from mrql.runtime.checkpoint.manifest import read_manifest
from mrql.runtime.checkpoint.store import manifest_files
from mrql.runtime.files.durable import DurableFiles, Publication
from mrql.runtime.files.lock import Lock
from mrql.runtime.sinks.directory import DirectoryPlace
from mrql.runtime.streaming.stream_loop import Emit
from tests.runtime.checkpoint.streams import GROUPS, JOIN, Counting, Crash, Stream, batch_answer, fill, write

TWO = """
edges = stream(csv, "edges", ",", type((long, long)), deletions("removed"));
((select (x, sum(y)) from (x, y) in edges group by x), {});
"""
COUNT, LARGEST = "count(edges)", "max(select y from (x, y) in edges)"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with six batches of data."""
    fill(tmp_path, 6, Random(1))
    return tmp_path


def hide(home: Path, last: int) -> list[tuple[Path, Path]]:
    """Hides the files with the number `last` and later ones, as if they had not arrived; returns pairs of old and new
    paths."""
    late = [f for d in ("edges", "removed") for f in sorted((home / d).glob("*.csv")) if int(f.stem) >= last]
    moved = [(file, file.with_name(f"_{file.name}")) for file in late]
    for file, aside in moved:
        file.rename(aside)
    return moved


def arrive(moved: list[tuple[Path, Path]]) -> None:
    for file, aside in moved:
        aside.rename(file)


def changed(stream: Stream, text: str, **others: object) -> Stream:
    """The stream with another query."""
    return Stream(**{**attrs.asdict(stream, recurse=False), "text": text, **others})


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_going_on(home: Path, engine: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    """A restarted stream goes on after the last batch that it has committed; without new files there is no batch."""
    spark: SparkSession | None = request.getfixturevalue("spark") if engine == "spark" else None
    stream = Stream(home, JOIN, engine=engine, spark=spark)
    expected = stream.uninterrupted()
    late = hide(home, 3)
    stream.run()
    assert list(stream.answers()) == list(expected)[:3]
    capsys.readouterr()
    stream.run()
    assert capsys.readouterr().err == "going on after batch 2\n"
    arrive(late)
    stream.run()
    assert stream.answers() == expected
    assert capsys.readouterr().err.startswith("going on after batch 2\nbatch 3: ")


@pytest.mark.spark
def test_another_number_of_partitions(home: Path, spark: SparkSession) -> None:
    """After a restart with another number of partitions a state has that number, and the answers are right."""
    stream = Stream(home, engine="spark", spark=spark, partitions=3, max_files=None)
    lines = "".join(f"{n},1\n" for n in range(100, 300))
    write(home / "edges" / "large.csv", lines, 90)
    stream.run()
    assert parts_of_states(stream) == [3]
    write(home / "edges" / "larger.csv", lines, 91)
    other = changed(stream, GROUPS, partitions=5)
    other.run()
    assert parts_of_states(other) == [5]
    assert list(other.answers().values())[-1] == batch_answer(other)


def parts_of_states(stream: Stream) -> list[int]:
    """The number of files in the last run of each table of groups: one for each partition, as none is empty."""
    manifest = read_manifest(manifest_files(stream.checkpoint)[0])
    tables = [state.tables["groups"] for state in manifest.states.values() if "groups" in state.tables]
    return [len(table.runs[-1].files) for table in tables]


def test_changes_go_on(home: Path) -> None:
    """With --emit changes, a restarted stream publishes the changes since the batch before."""
    stream = Stream(home, emit=Emit.CHANGES)
    expected = stream.uninterrupted()
    late = hide(home, 4)
    stream.run()
    arrive(late)
    stream.run()
    assert stream.answers() == expected


def test_an_answer_to_nothing(tmp_path: Path) -> None:
    """Batch 0 over no data is committed too, and is not published again."""
    (tmp_path / "edges").mkdir()
    (tmp_path / "removed").mkdir()
    stream = Stream(tmp_path, GROUPS.split("select")[0] + "count(edges);")
    stream.run()
    stream.run()
    assert stream.answers() == {"batch-000000": Bag([(0,)])}
    write(tmp_path / "edges" / "a.csv", "1,2\n", 1)
    stream.run()
    assert stream.answers() == {"batch-000000": Bag([(0,)]), "batch-000001": Bag([(1,)])}


# --- the files that a start depends on ----------------------------------------------------------


def refused(stream: Stream) -> UserError:
    with pytest.raises(UserError) as raised:
        stream.run()
    return raised.value


def test_a_consumed_file_that_has_changed(home: Path) -> None:
    """A consumed file that has changed or is gone is an error that names it; nothing is published."""
    stream = Stream(home)
    stream.run()
    file, content = home / "edges" / "0000.csv", (home / "edges" / "0000.csv").read_text()
    before = stream.answers()
    file.write_text("7,7\n")
    assert refused(stream).message == f"{file} has changed since it was read"
    file.unlink()
    assert refused(stream).message == f"{file} is gone, and its rows are part of the answer"
    write(file, content, 0)
    stream.run()
    assert stream.answers() == before


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("changed", "has changed since the checkpoint was written, and is a part of its states"),
        ("gone", "is gone since the checkpoint was written, and is a part of its states"),
        ("new", "is new since the checkpoint was written, and is a part of its states"),
    ],
)
def test_a_file_of_a_table(home: Path, what: str, message: str) -> None:
    """The files of static tables may not change either, as they are read only once."""
    write(home / "names" / "more.csv", "11,n\n", 1)
    stream = Stream(home, JOIN)
    stream.run()
    file = home / "names" / ("again.csv" if what == "new" else "more.csv")
    if what == "gone":
        file.unlink()
    else:
        write(file, "12,m\n13,m\n", 2)
    assert refused(stream).message == f"{file} {message}"


def test_another_engine(home: Path) -> None:
    """A checkpoint can be continued only by the engine that has written it."""
    Stream(home).run()
    error = refused(Stream(home, engine="spark"))
    assert error.message == f"{home}/checkpoint was written by the reference engine"


def test_a_directory_that_is_no_checkpoint(home: Path) -> None:
    """A directory that is not a checkpoint is refused."""
    (home / "checkpoint").mkdir()
    (home / "checkpoint" / "notes.txt").write_text("mine")
    assert refused(Stream(home)).message == f"{home}/checkpoint is not a checkpoint: it holds notes.txt"


def test_a_damaged_manifest(home: Path) -> None:
    """A damaged manifest and one of another format are different errors; neither falls back to an older manifest."""
    stream = Stream(home)
    stream.run()
    manifest = sorted(stream.checkpoint.glob("manifest-*"))[-1]
    text = manifest.read_text()
    manifest.write_text(text.replace('"batch": 5', '"batch": 4', 1))
    assert refused(stream).message.startswith(f"{manifest} is damaged: ")
    manifest.write_text(text[:-20])
    assert refused(stream).message.startswith(f"{manifest} is damaged: ")
    manifest.write_text(text.replace('"format": 6', '"format": 9', 1))
    assert refused(stream).message == f"{manifest} is of format 9, and this version of mrql reads formats 5 and 6"


def test_an_earlier_manifest_that_is_damaged(home: Path) -> None:
    """Damage to an earlier manifest is harmless, as nothing depends on it."""
    stream = Stream(home)
    stream.run()
    sorted(stream.checkpoint.glob("manifest-*"))[0].write_text("{}")
    stream.run()
    assert len(list(stream.checkpoint.glob("manifest-*"))) == 1


def test_a_crash_before_the_output_is_in_its_place(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A committed batch is published by the next start, also if its output was named relative to another working
    directory."""

    def crash(publication: Publication, files: DurableFiles) -> None:
        raise Crash

    stream = Stream(home)
    relative = attrs.evolve(stream.job, outputs=(DirectoryPlace(Path("out")),))
    monkeypatch.chdir(home)
    with monkeypatch.context() as patched:
        patched.setattr(Publication, "publish", crash)
        with pytest.raises(Crash):
            run_stream(relative, Counting())
    assert stream.answers() == {}
    monkeypatch.chdir("/")
    stream.run()
    assert stream.answers() == stream.uninterrupted()


def test_output_that_is_not_of_the_checkpoint(home: Path) -> None:
    """Batches of other streams, and batches later than the checkpoint, are not overwritten."""
    stream = Stream(home)
    late = hide(home, 4)
    stream.run()
    arrive(late)
    (stream.out / "batch-000009").mkdir()
    message = f"{stream.out}/batch-000009 is there already, and the checkpoint is at batch 3"
    assert refused(stream).message == message
    other = attrs.evolve(stream, output="other")
    (home / "other" / "batch-000000").mkdir(parents=True)
    assert refused(other).message == f"{home}/other holds batches already"
    (home / "other" / "batch-000000").rmdir()
    other.run()
    assert list(other.answers()) == ["batch-000004", "batch-000005"]


def test_two_processes(home: Path) -> None:
    """A second process is refused, and told the number of the first one; a lock ends with its process."""
    stream = Stream(home)
    stream.run()
    code = (
        "import sys, time; from pathlib import Path; from mrql.runtime.files.lock import Lock;"
        "lock = Lock.of(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(stream.checkpoint)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert refused(stream).message == f"{stream.checkpoint} is in use by process {holder.pid}"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    stream.run()
    lock = Lock.of(stream.checkpoint)
    assert refused(stream).message == f"{stream.checkpoint} is in use by process {os.getpid()}"
    lock.close()


# --- a changed query ----------------------------------------------------------------------------


def test_a_query_with_another_answer(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """States that mean the same are kept; the answer of the new query is published at once."""
    stream = Stream(home)
    stream.run()
    runs = [run.path for run in committed(stream.checkpoint).runs()]
    other = changed(stream, GROUPS.replace("max(y))", "max(y), sum(y) + 1)"))
    capsys.readouterr()
    other.run()
    assert capsys.readouterr().err.startswith("going on after batch 5\nbatch 6: 0 rows in 0 files")
    assert other.answers()["batch-000006"] == batch_answer(other)
    assert [run.path for run in committed(stream.checkpoint).runs()] == runs
    other.run()
    assert list(other.answers())[-1] == "batch-000006"


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_query_with_another_state(
    home: Path, engine: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """New states are built from the data, equal ones are kept, and both are continued."""
    spark: SparkSession | None = request.getfixturevalue("spark") if engine == "spark" else None
    late = hide(home, 4)
    stream = Stream(home, TWO.format(COUNT), engine=engine, spark=spark)
    stream.run()
    before = {run.path for run in committed(stream.checkpoint).runs()}
    other = changed(stream, TWO.format(LARGEST))
    capsys.readouterr()
    other.run()
    said = "going on after batch 3; the query has changed, and what was built again from the data is X2\nbatch 4: "
    assert capsys.readouterr().err.startswith(said)
    after = {run.path for run in committed(stream.checkpoint).runs()}
    assert before & after
    assert after - before
    arrive(late)
    other.run()
    fresh = attrs.evolve(other, engine="reference")
    assert list(fresh.uninterrupted().values())[-1] == list(other.answers().values())[-1]


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_rows_that_another_query_cannot_read(home: Path, engine: str, request: pytest.FixtureRequest) -> None:
    """Rows that are malformed for the new query alone are quarantined with its first batch; earlier ones are not
    repeated."""
    spark: SparkSession | None = request.getfixturevalue("spark") if engine == "spark" else None
    file = home / "edges" / "0001.csv"
    write(file, file.read_text() + "1,3000000000\n1,x\n", 1)
    stream = Stream(home, GROUPS, engine=engine, spark=spark, quarantine="kept")
    stream.run()
    changed(stream, GROUPS.replace("(long, long)", "(long, int)")).run()
    kept = {path.name: (path / "malformed.json").read_text() for path in (home / "kept").glob("[!.]*")}
    assert sorted(kept) == ["batch-000001", "batch-000006"]
    assert ["1,x" in text for _, text in sorted(kept.items())] == [True, False]
    assert ["1,3000000000" in text for _, text in sorted(kept.items())] == [False, True]


def test_a_query_with_another_state_and_a_file_that_is_gone(home: Path) -> None:
    """A state is not rebuilt if a consumed file is gone: the error names the file, and the hint says what to do."""
    stream = Stream(home, TWO.format(COUNT))
    stream.run()
    file = home / "edges" / "0001.csv"
    file.unlink()
    error = refused(changed(stream, TWO.format(LARGEST)))
    assert error.message == (
        f"the query has changed, and X2 must be built again, but {file} is gone, and its rows are part of the answer"
    )
    assert error.hint == "put the file back as it was, or start with a new checkpoint, from all data again"


def test_a_query_over_other_files(home: Path) -> None:
    """A stream of another directory is read from its start."""
    stream = Stream(home)
    stream.run()
    write(home / "others" / "a.csv", "1,5\n1,6\n", 0)
    other = changed(stream, GROUPS.replace('"edges"', '"others"').replace(', deletions("removed")', ""))
    other.run()
    assert list(other.answers().values())[-1] == Bag([(1, 11, 6)])


def test_changes_of_a_changed_query(home: Path) -> None:
    """With --emit changes a changed query is refused, as its changes do not follow on those that were published."""
    stream = Stream(home, emit=Emit.CHANGES)
    stream.run()
    error = refused(changed(stream, GROUPS.replace("max(y)", "min(y)")))
    assert error.message == "the query has changed, and its changes do not follow on those that were put out"


# --- the commands -------------------------------------------------------------------------------


def command(*args: object) -> Result:
    return CliRunner().invoke(main, ["checkpoint", *map(str, args)])


@pytest.fixture
def several(home: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """A stream with a checkpoint whose tables have several runs; more batches wait."""
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 0)
    more = "".join(f"{n},{n}\n" for n in range(100, 140))
    write(home / "edges" / "0000.csv", more + (home / "edges" / "0000.csv").read_text(), 0)
    stream = Stream(home)
    late = hide(home, 2)
    stream.run()
    arrive(late)
    return stream


def test_show(several: Stream) -> None:
    """`checkpoint show` prints the batch, the versions, the consumed files, and the runs with their rows and bytes; as
    JSON too."""
    shown = command("show", several.checkpoint)
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert lines[:2] == ["batch 1, commit 2", "engine reference; format 6, mrql 0.1.0"]
    assert any(line.startswith("  edges: stream, 2 files, ") and line.endswith("/removed") for line in lines)
    assert any(line.startswith("      batch 0: 45 rows, ") for line in lines)
    document = json.loads(command("show", several.checkpoint, "--format", "json").output)
    assert document["batch"] == 1
    assert [run["batch"] for run in document["tables"][0]["runs"]] == [0, 1]
    assert [Path(file["path"]).name for file in document["sources"]["edges"]] == ["0000.csv", "0001.csv"]


def test_show_of_nothing(tmp_path: Path) -> None:
    """`checkpoint show` reports a directory without a commit as an error."""
    shown = command("show", tmp_path)
    assert (shown.exit_code, shown.output) == (
        1,
        f"error: {tmp_path} is not a checkpoint: nothing was committed to it\n  hint: {NAMED_BY_A_STREAM}\n",
    )


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda file: file.unlink(), "is gone"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "were written"),
        (lambda file: file.write_bytes(file.read_bytes()[:-2] + b"9\n"), "has the SHA-256"),
    ],
    ids=["gone", "cut", "changed"],
)
def test_verify(several: Stream, harm: object, said: str) -> None:
    """`checkpoint verify` checks the files that the manifest names, and finds one that is gone, truncated or
    changed."""
    done = command("verify", several.checkpoint)
    assert (done.exit_code, done.output) == (0, "batch 1: 4 files of 4 runs are as they were written\n")
    assert callable(harm)
    harm(next(iter(sorted(several.checkpoint.glob("runs/*/*/*")))))
    done = command("verify", several.checkpoint)
    assert done.exit_code == 1
    assert said in done.output


def test_compact(several: Stream) -> None:
    """`checkpoint compact` merges each table into one run, from which the stream goes on."""
    expected = several.uninterrupted()
    assert command("compact", several.checkpoint).output == "batch 1: 4 runs are now 2\n"
    assert all(len(table.runs) == 1 for _, _, table in committed(several.checkpoint).tables())
    assert command("compact", several.checkpoint).output == "batch 1: each table is one run already\n"
    assert command("verify", several.checkpoint).exit_code == 0
    several.run()
    assert several.answers() == expected


@pytest.mark.spark
def test_the_commands_on_spark(home: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables in Parquet are verified and compacted in the same way."""
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 0)
    stream = Stream(home, engine="spark", spark=spark)
    expected = stream.uninterrupted()
    late = hide(home, 3)
    stream.run()
    assert command("verify", stream.checkpoint).exit_code == 0
    assert " runs are now 3\n" in command("compact", stream.checkpoint).output
    assert command("verify", stream.checkpoint).exit_code == 0
    arrive(late)
    stream.run()
    assert stream.answers() == expected
    file = next(iter(sorted(stream.checkpoint.glob("runs/*/*/*.parquet"))))
    file.write_bytes(b"PAR1" + file.read_bytes()[4:-1] + b"2")
    assert "has the SHA-256" in command("verify", stream.checkpoint).output


# --- being stopped ------------------------------------------------------------------------------


@pytest.mark.parametrize("wish", [signal.SIGTERM, signal.SIGINT])
def test_a_wish_to_stop(home: Path, wish: signal.Signals) -> None:
    """On a signal to stop, the stream ends after a committed batch with exit code 0."""
    stream = Stream(home)
    expected = stream.uninterrupted()
    command = [sys.executable, "-m", "mrql", "stream", str(home / "q.mrql"), "--data", str(home), "--max-files", "1"]
    command += ["--engine", "reference", "--output", str(stream.out), "--checkpoint", str(stream.checkpoint)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = ""
    until = time.monotonic() + 60
    while not line.startswith("batch 5") and time.monotonic() < until:
        line = process.stderr.readline()
    process.send_signal(wish)
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), said) == (0, "stopped\n")
    assert stream.answers() == expected
    assert committed(stream.checkpoint).batch == 5


def test_a_loop_beside_a_table_ends(tmp_path: Path) -> None:
    """A stream with a loop beside a join with a table runs to its end: no evaluation is needed to give up the
    states."""
    fill(tmp_path, 3, Random(7))
    step = "select distinct e from e in (w union (select (a, d) from (a, b) in w, (c, d) in w where b = c))"
    join = "select (m, count(x)) from (x, y) in edges, (b, m) in names where b = x group by m"
    declared = JOIN.partition("select")[0]
    stream = Stream(tmp_path, f"{declared}({join}, repeat w = select distinct e from e in edges step {step});")
    stream.run()
    assert len(stream.answers()) == 3
