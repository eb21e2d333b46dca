"""`mrql shell` with a file or a pipe as its input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from mrql.cli.main import main
from tests.mrql.cli.test_cli import without_java


def shell(text: str | bytes, *args: str | Path, engine: str = "reference") -> tuple[int, str, str]:
    """The exit code of the command for an input, and what it prints to standard output and standard error."""
    done = CliRunner().invoke(main, ["shell", "--engine", engine, *map(str, args)], input=text)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_answers_without_prompts() -> None:
    """Only answers are printed, with all their rows; the last statement needs no `;`."""
    code, out, err = shell("x = 1..30;\nselect y\nfrom y in x\n\ncount(x)", "--format", "json")
    assert (code, err) == (0, "")
    assert [json.loads(line)["line"] for line in out.splitlines()] == [2, 5]
    assert [json.loads(line)["value"] for line in out.splitlines()] == [list(range(1, 31)), 30]
    assert shell("1..30;")[1].splitlines()[-1] == "30 rows"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("exit;", "in the shell it is `:quit`"),
        ("help", "in the shell it is `:help`"),
        ("args[0];", "the list `args` is what follows: `mrql shell ARGUMENT…`"),
    ],
)
def test_hints_are_of_the_shell(text: str, hint: str) -> None:
    """Hints name the commands and the arguments of this shell."""
    assert shell(text)[2].endswith(f"= hint: {hint}\n")


def test_the_first_error_ends_it() -> None:
    """The first error ends the shell with its exit code and its line; only statements before it are answered."""
    code, out, err = shell("1;\n\n// a remark\n2 + true;\n3;\n")
    assert (code, out) == (1, "1\n")
    assert err.startswith("<stdin>:4:1: error: `+` takes")


def test_an_unfinished_end_is_an_error() -> None:
    """An unfinished statement at the end is an error that says what was expected."""
    code, out, err = shell("1;\nselect x from\n\n")
    assert (code, out) == (1, "1\n")
    assert err.startswith("<stdin>:2:14: error: unexpected end of the query: expected a pattern")


def test_commands_work_too(tmp_path: Path) -> None:
    """Commands work in a piped input, and `:quit` ends it before its end."""
    (tmp_path / "q.mrql").write_text("n = count(args);")
    code, out, _ = shell(f":load {tmp_path / 'q.mrql'}\n:type n\nn;\n:quit\noops\n", "a", "b")
    assert (code, out) == (0, "long\n2\n")


def test_commands_are_lines(tmp_path: Path) -> None:
    """Commands count as lines: an error after them has the number of its own line."""
    (tmp_path / "q.mrql").write_text("n = 1;")
    _, _, err = shell(f":load {tmp_path / 'q.mrql'}\n:names\n:help size\n:type n\nm;\n")
    assert err.startswith("<stdin>:5:1: error: unknown name `m`")


def test_nothing_is_a_session() -> None:
    """An empty input is an empty session."""
    assert shell("") == (0, "", "")


def test_what_is_no_text() -> None:
    """An input that is not UTF-8 is one error."""
    assert shell(b"1;\n\xff\xfe;\n") == (1, "", "error: the input is not a text in UTF-8\n")


def test_data_and_steps(tmp_path: Path) -> None:
    """`--data` and `--max-steps` work as in the other commands."""
    (tmp_path / "a.csv").write_text("1\n2\n")
    assert shell('sum(source(csv, "a.csv", ",", type(long)));', "--data", tmp_path)[:2] == (0, "3\n")
    assert "after 5 steps" in shell("repeat n = 1.0 step n + 1;", "--max-steps", "5")[2]


def test_an_answer_comes_before_the_next_input() -> None:
    """Each answer is printed before the next input is read, so that another program can use the shell line by line."""
    command = [sys.executable, "-m", "mrql", "shell", "--engine", "reference"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=dict(os.environ), bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for n in range(3):
            process.stdin.write(f"{n} + 1;\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{n + 1}\n"
        process.stdin.close()
        assert process.wait() == 0


def test_without_java(tmp_path: Path) -> None:
    """Without Java, commands that need no Spark work; a statement that needs it is one message, with exit code 3."""
    command = [sys.executable, "-m", "mrql", "shell"]
    env = {**os.environ, **without_java(tmp_path)}
    done = subprocess.run(command, input="x = 1;\n:type x\nx;\n:type x\n", capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout) == (3, "int\n")
    assert done.stderr.startswith("error: no Java was found")


@pytest.mark.spark
def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """A piped session is evaluated on Spark."""
    (tmp_path / "a.csv").write_text("1,2\n1,3\n2,5\n")
    text = 'S = source(csv, "a.csv", ",", type((long, long)));\nselect (k, sum(v)) from (k, v) in S group by k;\n'
    code, out, err = shell(text, "--data", tmp_path, "--format", "json", engine="spark")
    assert (code, err) == (0, "")
    assert sorted(json.loads(out)["value"]) == [[1, 5], [2, 5]]


def test_malformed_rows_are_kept_aside(tmp_path: Path) -> None:
    """Malformed rows are quarantined in a directory for each expression; without the option, they are an error."""
    (tmp_path / "n.csv").write_text("1\nx\n2\n", encoding="utf-8")
    text = 'n = source(csv, "n.csv", ",", type(int));\n1;\nsum(n);\n'
    kept = tmp_path / "kept"
    code, out, err = shell(text, "--data", tmp_path, "--malformed", "quarantine", "--quarantine", kept)
    assert (code, out) == (0, "1\n3\n")
    assert err == f"1 malformed row kept aside in {kept}/answer-000002\n"
    row = json.loads((kept / "answer-000002" / "malformed.json").read_text(encoding="utf-8"))
    assert (row["file"], row["line"], row["text"]) == (str(tmp_path / "n.csv"), 2, "x")
    code, out, err = shell(text, "--data", tmp_path)
    assert (code, out) == (1, "1\n")
    assert "n.csv:2:1: error: malformed row" in err
