"""The command line as a person uses it: formats, messages and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner

from mrql.algebra.errors import InternalError
from mrql.algebra.values.values import Bag, close
from mrql.cli.common import Common
from mrql.cli.main import main

QUERY = """
S = stream(csv, "s", ",", type((long, double)));
select (k, avg(y)) from (k, y) in S group by k;
"""


def mrql(*args: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own."""
    command = [sys.executable, "-m", "mrql", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, check=False)


def in_this_process(*args: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the command in this process, which saves the start of another; on Spark, over the session of all tests."""
    done = CliRunner().invoke(main, [*map(str, args)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess([], done.exit_code, done.stdout, done.stderr)


def on(engine: str, *args: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the command on an engine."""
    return in_this_process(*args, "--engine", engine)


@pytest.fixture(params=["reference", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> str:
    """Each of the engines; Spark is started before a command needs it."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a query file and two files of data."""
    (tmp_path / "q.mrql").write_text(QUERY)
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.csv").write_text("1,2.0\n2,3.0\n")
    (tmp_path / "s" / "b.csv").write_text("1,4.0\n,5.0\n")
    return tmp_path


def without_java(tmp_path: Path) -> dict[str, str]:
    """An environment in which no Java can be found."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    return {"PATH": str(tmp_path / "bin"), "JAVA_HOME": ""}


def test_check_names_the_type(home: Path) -> None:
    """`check` says where each expression is and what its type is."""
    done = mrql("check", home / "q.mrql")
    assert (done.returncode, done.stdout) == (0, f"{home}/q.mrql:3: bag((long, double))\n")


def test_explain_shows_the_states_of_a_stream_whose_files_may_change(tmp_path: Path) -> None:
    """With `--rewrites apply`, rows of a stream may be deleted in the plan; a stream with a key is refused."""
    file = tmp_path / "q.mrql"
    file.write_text('S = stream(csv, "s", ",", type((long, long)));\nselect (k, max(v)) from (k, v) in S group by k;')
    found = {how: CliRunner().invoke(main, ["explain", "--rewrites", how, str(file)]) for how in ("error", "apply")}
    assert [done.exit_code for done in found.values()] == [0, 0]
    assert "rows of S may be deleted" not in found["error"].output
    assert "rows of S may be deleted" in found["apply"].output
    file.write_text('S = stream(csv, "s", ",", type(<k: long, v: long>), key(k));\ncount(S);')
    done = CliRunner().invoke(main, ["explain", "--rewrites", "apply", str(file)])
    assert done.exit_code == 1
    assert "leave out --rewrites apply" in done.output


def test_check_and_explain_need_no_java_and_are_quick(home: Path) -> None:
    """`check` and `explain` run without Java, and faster than a JVM could start."""
    env = without_java(home)
    for command in ("check", "explain"):
        times = []
        for _ in range(2):
            started = time.perf_counter()
            done = mrql(command, home / "q.mrql", env=env)
            times.append(time.perf_counter() - started)
            assert done.returncode == 0, done.stderr
        # A bound that only a JVM, which takes five seconds and more, would break on a busy machine.
        assert min(times) < 3


def test_run_with_the_reference_engine_needs_no_java(home: Path) -> None:
    """`run --engine reference` evaluates a file without a JVM, one line of JSON for each expression."""
    args = ("--data", home, "--engine", "reference", "--format", "json")
    done = mrql("run", home / "q.mrql", *args, env=without_java(home))
    line = json.loads(done.stdout)
    assert (line["line"], line["type"]) == (3, "bag((long, double))")
    assert sorted(line["value"], key=str) == [[1, 3.0], [2, 3.0], [None, 5.0]]


TABLE = ' value  \n━━━━━━━━\n "é│日" \n1 row\n'


@pytest.mark.parametrize(
    ("encoding", "command", "shown"),
    [
        ("ascii", ("run", "q.mrql", "--engine", "reference"), TABLE),
        ("cp1252", ("run", "q.mrql", "--engine", "reference", "--format", "json"), '["é│日"]'),
        ("latin-1", ("explain", "--derivation", "q.mrql"), "é│日"),
        ("ascii", ("check", "wrong.mrql"), "unknown name `日`"),
    ],
)
def test_what_is_piped_is_utf8(tmp_path: Path, encoding: str, command: tuple[str, ...], shown: str) -> None:
    """Piped answers and messages are UTF-8, whatever the locale; a query file may begin with a byte order mark."""
    (tmp_path / "q.mrql").write_text('\ufeffselect "é│日" from x in {1};', encoding="utf-8")
    (tmp_path / "wrong.mrql").write_text("select 日 from x in {1};", encoding="utf-8")
    call = (sys.executable, "-m", "mrql", *command)
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(call, capture_output=True, encoding="utf-8", env=env, cwd=tmp_path, check=False)
    assert shown in done.stdout + done.stderr


def test_arguments_of_a_query(home: Path) -> None:
    """The arguments after the file are the list `args` of strings, which may also be used in a path."""
    text = 'select y * (args[1] as long) from (k, y) in source(csv, args[0], ",", type((long, double)));'
    (home / "args.mrql").write_text(text)
    options = ("--data", home, "--engine", "reference", "--format", "json")
    done = in_this_process("run", home / "args.mrql", "s", "10", *options)
    assert sorted(json.loads(done.stdout)["value"]) == [20.0, 30.0, 40.0, 50.0]
    assert in_this_process("check", home / "args.mrql", "s", "10").stdout.endswith("bag(double)\n")
    done = in_this_process("run", home / "args.mrql", *options)
    assert done.returncode == 1
    assert "there is no element 0 in a list of 0" in done.stderr
    assert "the arguments of a query follow its file: `mrql run FILE ARGUMENT…`" in done.stderr


@pytest.mark.parametrize("pattern", ["d/?.csv", "d/[ab].csv", "d/{a,b}.csv", "{d,e}/*.csv", "d/[!c].csv"])
def test_patterns_in_paths(tmp_path: Path, pattern: str) -> None:
    """A pattern in a path names the same files for `run` and for `stream`."""
    (tmp_path / "d").mkdir()
    for name in "ab":
        (tmp_path / "d" / f"{name}.csv").write_text("1\n")
    (tmp_path / "q.mrql").write_text(f'count(source(csv, "{pattern}", ",", type(long)));\n')
    (tmp_path / "s.mrql").write_text(f's = stream(csv, "{pattern}", ",", type(long)); count(s);\n')
    options = ("--data", tmp_path, "--engine", "reference", "--format", "json")
    for command in (("run", tmp_path / "q.mrql"), ("stream", tmp_path / "s.mrql", "--once")):
        done = in_this_process(*command, *options)
        assert (done.returncode, json.loads(done.stdout)["value"]) == (0, 2), done.stderr


def test_run_needs_its_directories(tmp_path: Path) -> None:
    """`run` does not wait for data: a missing directory is an error, also that of a stream."""
    (tmp_path / "q.mrql").write_text('e = stream(csv, "missing", ",", type(long));\ncount(e);\n')
    done = in_this_process("run", tmp_path / "q.mrql", "--data", tmp_path, "--engine", "reference")
    assert done.returncode == 1
    assert f"{tmp_path}/q.mrql:1:5: error: no such file or directory: {tmp_path}/missing" in done.stderr


DELETIONS = """
edges = stream(csv, "edges", ",", type((long, long)), deletions("removed"));
select (x, sum(y), max(y)) from (x, y) in edges group by x;
"""
TAGGED = """
edges = stream(csv, "edges", ",", type((long, long)), tagged, nullValue("-", "NA"));
select (x, sum(y), max(y)) from (x, y) in edges group by x;
"""


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    """Two files of rows and one of deletions between them; the same rows with tags."""
    files = {"edges/a.csv": "1,5\n1,0\n2,7\n", "removed/b.csv": "1,5\n2,7\n", "edges/c.csv": "3,3\n2,1\n"}
    files["tagged/edges/a.csv"] = "+,1,5\n+,1,0\n+,2,7\n-,1,5\n+,1,NA\n"
    files["tagged/edges/b.csv"] = '-, 2, 7\n"+",3,3\n+,2,1\n-,1,-\n'
    for n, (name, text) in enumerate(files.items()):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        os.utime(file, (1_000_000 + n, 1_000_000 + n))
    (tmp_path / "q.mrql").write_text(DELETIONS)
    (tmp_path / "tagged" / "q.mrql").write_text(TAGGED)
    return tmp_path


def test_deletions(edges: Path, engine: str) -> None:
    """Rows are deleted by files of a second directory or by tags; the answer is that of the remaining rows."""
    batches = {".": [[[1, 5, 5], [2, 7, 7]], [[1, 0, 0]], [[1, 0, 0], [2, 1, 1], [3, 3, 3]]]}
    batches["tagged"] = [[[1, 0, 0], [2, 7, 7]], batches["."][-1]]
    for command, place in product(("stream", "run"), batches):
        home, expected = edges / place, batches[place]
        steps = ("--once", "--max-files", "1") if command == "stream" else ()
        done = on(engine, command, home / "q.mrql", "--data", home, *steps, "--format", "json")
        found = [sorted(json.loads(line)["value"]) for line in done.stdout.splitlines()]
        assert found == (expected if command == "stream" else expected[-1:]), done.stderr


def test_a_deletion_of_what_is_not_there(edges: Path, engine: str) -> None:
    """The message names the row and the stream, in `stream` and in `run`."""
    (edges / "removed" / "z.csv").write_text("9,9\n")
    for command in (("stream", "--once"), ("run",)):
        done = on(engine, *command, edges / "q.mrql", "--data", edges)
        assert done.returncode == 1
        assert f"{edges}/q.mrql:2:9: error: a row is deleted from `edges` that is not there: (9, 9)" in done.stderr


def test_a_wrong_tag(edges: Path, engine: str) -> None:
    """A tag that is neither + nor - is a malformed row with its file and line."""
    file = edges / "tagged" / "edges" / "c.csv"
    file.write_text("+,1,1\n*,2,2\n")
    done = on(engine, "stream", edges / "tagged" / "q.mrql", "--data", edges / "tagged", "--once")
    assert done.returncode == 1
    assert f'{file}:2:1: error: malformed row: "*" where + or - was expected' in done.stderr


def test_run_prints_tables(home: Path) -> None:
    """`run` prints an answer as a table by default."""
    done = in_this_process("run", home / "q.mrql", "--data", home, "--engine", "reference")
    assert "_1" in done.stdout
    assert "3 rows" in done.stdout


def test_missing_java_is_one_message(home: Path) -> None:
    """Without Java, a command that needs Spark says what to install and exits with 3."""
    done = mrql("run", home / "q.mrql", "--data", home, env=without_java(home))
    assert done.returncode == 3
    assert done.stderr.startswith("error: no Java was found")
    assert "apt-get install" in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_query(home: Path) -> None:
    """A wrong query is one message with place and caret, and exits with 1."""
    (home / "wrong.mrql").write_text("S = 1;\nS + true;\n")
    done = mrql("check", home / "wrong.mrql")
    assert done.returncode == 1
    assert done.stderr.startswith(f"{home}/wrong.mrql:2:1: error: `+` takes")
    assert "^" in done.stderr


@pytest.mark.parametrize("text", ["", "x = 1;", "// nothing\n"])
def test_nothing_to_evaluate(tmp_path: Path, text: str) -> None:
    (tmp_path / "q.mrql").write_text(text)
    done = in_this_process("run", tmp_path / "q.mrql", "--engine", "reference")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"{tmp_path / 'q.mrql'} has nothing to evaluate: only definitions, if anything\n"


@pytest.mark.parametrize("text", ["", "x = 1;"])
def test_nothing_to_explain(tmp_path: Path, text: str) -> None:
    (tmp_path / "q.mrql").write_text(text)
    done = in_this_process("explain", tmp_path / "q.mrql")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"{tmp_path / 'q.mrql'} has nothing to explain: only definitions, if anything\n"
    drawn = in_this_process("explain", tmp_path / "q.mrql", "--graph", tmp_path / "q.svg")
    assert drawn.returncode == 1
    assert "has nothing of which there could be a graph: only definitions, if anything" in drawn.stderr
    assert not (tmp_path / "q.svg").exists()


def test_missing_query_file(home: Path) -> None:
    """A query file that is not there is bad usage."""
    done = mrql("check", home / "none.mrql")
    assert done.returncode == 2
    assert "does not exist" in done.stderr


def test_missing_data_file(home: Path) -> None:
    """A source that is not there is named, with its place in the query."""
    (home / "q2.mrql").write_text('count(source(csv, "none.csv", ",", type((int))));\n')
    done = in_this_process("run", home / "q2.mrql", "--data", home, "--engine", "reference")
    assert done.returncode == 1
    assert f"q2.mrql:1:7: error: no such file or directory: {home}/none.csv" in done.stderr


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("x,1.0", '"x" is not a value of type long (column _1)'),
        ("1", "1 field, where 2 were expected"),
        ("1,2,3", "3 fields, where 2 were expected"),
    ],
)
def test_malformed_row(home: Path, row: str, reason: str) -> None:
    """A malformed row is named with its file, line and reason."""
    (home / "s" / "c.csv").write_text(f"5,1.0\n{row}\n")
    done = in_this_process("run", home / "q.mrql", "--data", home, "--engine", "reference")
    assert done.returncode == 1
    assert f"{home}/s/c.csv:2:1: error: malformed row: {reason}" in done.stderr


def test_bad_options(home: Path) -> None:
    """A malformed setting is bad usage."""
    assert in_this_process("run", home / "q.mrql", "--conf", "oops").returncode == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--interval", "nan"], "nan is no finite number"),
        (["--interval", "inf"], "inf is no finite number"),
        (["--output", ""], "a directory has a name"),
        (["--checkpoint", ""], "a directory has a name"),
        (["--malformed", "quarantine", "--quarantine", ""], "a directory has a name"),
        (["--output", "out", "--output", "./x/../out"], "./x/../out is named twice"),
        (["--output", "delta://t", "--output", "delta://x/../t"], "delta://x/../t is named twice"),
    ],
)
def test_bad_options_of_streams(home: Path, options: list[str], message: str) -> None:
    """Intervals that are not finite, empty names of directories, and outputs that are named twice are bad usage."""
    done = in_this_process("stream", home / "q.mrql", "--engine", "reference", *options)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--output", "out", "--malformed", "quarantine", "--quarantine", "x/../out"],
            "--quarantine and --output name one directory",
        ),
        (["--output", "out", "--checkpoint", "out"], "--checkpoint and --output name one directory"),
        (
            ["--checkpoint", "out", "--malformed", "quarantine", "--quarantine", "out"],
            "--checkpoint and --quarantine name one directory",
        ),
    ],
)
def test_one_directory_for_two_things(home: Path, options: list[str], message: str) -> None:
    """Two options may not name one directory, where each would find the other's files."""
    here = [str(home / option) if option.endswith("out") else option for option in options]
    done = in_this_process("stream", home / "q.mrql", "--data", home, "--engine", "reference", "--once", *here)
    assert done.returncode == 1
    assert f"error: {message}, {home / 'out'}\n  hint: name two" in done.stderr
    assert not (home / "out").exists()


@pytest.mark.parametrize("command", ["show", "verify", "compact", "release"])
def test_what_is_no_checkpoint_is_left_alone(home: Path, command: str) -> None:
    """The commands refuse a directory that is not a checkpoint, such as that of a source, and write nothing to it."""
    before = sorted((home / "s").iterdir())
    done = in_this_process("checkpoint", command, home / "s")
    assert done.returncode == 1
    assert f"{home / 's'} is not a checkpoint" in done.stderr
    assert "hint: a checkpoint is the directory that `mrql stream --checkpoint DIR`" in done.stderr
    assert sorted((home / "s").iterdir()) == before


def test_deletions_in_the_place_of_the_stream(home: Path) -> None:
    """A stream may not read its deletions from its own directory: all rows would be deleted again."""
    text = 'S = stream(csv, "s", ",", type((long, double)), deletions("./s/"));\nselect x from x in S;\n'
    (home / "q2.mrql").write_text(text)
    done = in_this_process("check", home / "q2.mrql", "--data", home)
    assert done.returncode == 1
    assert f"q2.mrql:1:59: error: {home / 's'} would be read twice, as what comes and as what goes" in done.stderr


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ("plenty", "Error: Invalid value for '--memory': 'plenty' is not a size like 2g or 900m\n"),
        ("2", "Error: Invalid value for '--memory': '2' is not a size like 2g or 900m\n"),
        ("300m", "Error: Invalid value for '--memory': Spark needs at least 512m\n"),
    ],
)
def test_memory(home: Path, memory: str, said: str) -> None:
    """A wrong or too small `--memory` is bad usage, before Spark is started."""
    done = CliRunner().invoke(main, ["run", str(home / "q.mrql"), "--memory", memory])
    assert (done.exit_code, done.stderr.endswith(said)) == (2, True)


def test_what_memory_sets() -> None:
    """`--memory` is the memory of the driver and of each executor; a setting given by `--conf` takes precedence."""
    common = Common(Path(), "json", 10, may_import=False, conf={"spark.executor.memory": "4g"}, memory="2g")
    assert common.settings == {"spark.driver.memory": "2g", "spark.executor.memory": "4g"}


@pytest.mark.parametrize("command", ["check", "explain"])
def test_what_evaluates_nothing_takes_no_engine(home: Path, command: str) -> None:
    """`check` and `explain` refuse the options of engines, which would change nothing."""
    for option in (("--engine", "reference"), ("--master", "local"), ("--memory", "2g"), ("--conf", "a=b")):
        done = in_this_process(command, home / "q.mrql", *option)
        assert (done.returncode, "No such option" in done.stderr) == (2, True), done.stderr


def test_verify_names_the_file_of_a_wrong_deletion(home: Path) -> None:
    """`verify` names the file with a deletion of a missing row."""
    (home / "gone").mkdir()
    (home / "gone" / "b.csv").write_text("77,7.0\n")
    text = 'S = stream(csv, "s", ",", type((long, double)), deletions("gone"));\ncount(S);\n'
    (home / "q4.mrql").write_text(text)
    done = in_this_process("verify", home / "q4.mrql", "--engine", "reference", "--data", home)
    assert done.returncode == 1
    assert "that is not there: (77, 7.0)" in done.stderr
    assert f"hint: it is taken away in {home / 'gone' / 'b.csv'}" in done.stderr


def test_stream_without_a_stream(home: Path) -> None:
    """`stream` refuses a file in which nothing is a stream."""
    (home / "q3.mrql").write_text("1 + 1;\n")
    done = in_this_process("stream", home / "q3.mrql", "--engine", "reference", "--once")
    assert done.returncode == 1
    assert "has no expression that reads a stream" in done.stderr


def read_rows(directory: Path) -> Bag:
    """The rows of a batch's directory."""
    rows = []
    for part in sorted(directory.glob("part-*.json")):
        rows += [tuple(json.loads(line).values()) for line in part.read_text().splitlines()]
    return Bag(rows)


def test_deletions_that_are_nowhere(home: Path) -> None:
    """A missing directory of deletions is reported on standard error, and nothing is deleted."""
    (home / "numbers").mkdir()
    (home / "numbers" / "1.csv").write_text("1,2\n")
    source = 'stream(csv, "numbers", ",", type((long, long)), deletions("gnoe"))'
    (home / "deleting.mrql").write_text(f"s = {source}; count(s);")
    done = in_this_process("stream", home / "deleting.mrql", "--data", home, "--engine", "reference", "--once")
    assert done.returncode == 0
    assert f"{home}/gnoe is not there; nothing is deleted\n" in done.stderr


def test_stream_writes_a_directory_for_each_batch(home: Path, engine: str) -> None:
    """`stream --once` writes every batch's answer, the last of which is the answer to all the data."""
    os.utime(home / "s" / "a.csv", (1, 1))
    out = home / "out"
    args = ("--data", home, "--once", "--max-files", "1", "--output", out)
    done = on(engine, "stream", home / "q.mrql", *args)
    assert done.returncode == 0, done.stderr
    assert [d.name for d in sorted(out.iterdir())] == ["batch-000000", "batch-000001"]
    assert all((d / "_SUCCESS").exists() for d in out.iterdir())
    assert close(read_rows(out / "batch-000000"), Bag([(1, 2.0), (2, 3.0)]))
    assert close(read_rows(out / "batch-000001"), Bag([(1, 3.0), (2, 3.0), (None, 5.0)]))
    assert "batch 1: 2 rows in 1 files, 2 keys touched, 3 state rows" in done.stderr
    again = in_this_process("stream", home / "q.mrql", *args)
    assert again.returncode == 1
    assert "holds batches already" in again.stderr


def test_stream_emits_changes(home: Path, engine: str) -> None:
    """With `--emit changes`, each batch holds the inserted and deleted rows of the answer, with their weights."""
    os.utime(home / "s" / "a.csv", (1, 1))
    out = home / "out"
    args = ("--data", home, "--once", "--max-files", "1", "--output", out, "--emit", "changes")
    assert on(engine, "stream", home / "q.mrql", *args).returncode == 0
    assert close(read_rows(out / "batch-000001"), Bag([(1, 2.0, -1), (1, 3.0, 1), (None, 5.0, 1)]))


def test_changes_at_a_new_place(home: Path) -> None:
    """A place that is new to a stream gets all changes or none: all that are there make the answer."""
    command = ["stream", home / "q.mrql", "--data", home, "--once", "--checkpoint", home / "state"]
    changes, out = ["--emit", "changes", "--output"], home / "out"
    assert in_this_process(*command, *changes, out, "--engine", "reference").returncode == 0
    (home / "s" / "c.csv").write_text("7,1.0\n")
    done = in_this_process(*command, *changes, home / "other", "--engine", "reference")
    assert done.returncode == 1
    assert "other has none of the changes up to batch 0" in done.stderr
    assert in_this_process(*command, "--output", home / "other", "--engine", "reference").returncode == 0


def test_stream_over_nothing(home: Path, engine: str) -> None:
    """A stream without data has an answer: batch 0."""
    for file in (home / "s").iterdir():
        file.unlink()
    (home / "total.mrql").write_text(QUERY.split(";")[0] + ";\ncount(S);\n")
    out = home / "out"
    done = on(engine, "stream", home / "total.mrql", "--data", home, "--once", "--output", out)
    assert done.returncode == 0, done.stderr
    assert read_rows(out / "batch-000000") == Bag([(0,)])


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_spark_finds_the_same_malformed_row(home: Path) -> None:
    """On Spark too, a malformed row is named with its file and line, and no batch is written."""
    (home / "s" / "c.csv").write_text("5,1.0\n6,y\n")
    out = home / "out"
    done = in_this_process("stream", home / "q.mrql", "--data", home, "--once", "--output", out)
    assert done.returncode == 1
    assert f'{home}/s/c.csv:2:1: error: malformed row: "y" is not a value of type double' in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(out.glob("batch-*"))


def test_a_file_that_changes_after_it_was_read_is_an_error(home: Path) -> None:
    """A change of a file after it was read is an error; a hidden file is ignored."""
    from mrql.algebra.errors import UserError
    from mrql.jobs.loading import compile_over_files
    from mrql.runtime.sources.watched.directory import Directory
    from mrql.runtime.sources.watched.watch import next_batch

    spec = compile_over_files(QUERY, base=home).sources["S"]
    directory = Directory(spec)
    directory.commit(next_batch([directory], None)["S"])
    assert next_batch([directory], None) == {}
    (home / "s" / ".hidden.csv").write_text("9,9.0\n")
    assert next_batch([directory], None) == {}
    (home / "s" / "a.csv").write_text("7,7.0\n")
    with pytest.raises(UserError, match=r"a\.csv has changed since it was read"):
        directory.look()


def test_a_loop_may_take_so_many_steps(home: Path) -> None:
    """`--max-steps` is for loops without a limit; the error says what to do."""
    (home / "loop.mrql").write_text("repeat n = 1 step if n < 50 then n + 1 else n")
    args = ("run", home / "loop.mrql", "--engine", "reference", "--format", "json")
    assert json.loads(in_this_process(*args, "--max-steps", "50").stdout)["value"] == 50
    refused = in_this_process(*args, "--max-steps", "20")
    assert refused.returncode == 1
    assert "loop.mrql:1:1: error: this loop does not end: after 20 steps it still changes" in refused.stderr
    assert "hint: `limit` ends it; `--max-steps N` gives it more steps" in refused.stderr


def test_a_fault_of_the_package_has_an_exit_code_of_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not taken for a fault of the query, and its traceback is shown."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a fault")

    monkeypatch.setattr("mrql.cli.check.load", fail)
    done = in_this_process("check", home / "q.mrql")
    assert done.returncode == InternalError.exit_code
    assert "AssertionError: a fault\nthis is a fault of mrql" in done.stderr
