"""The line that says what is running while there is nothing else to show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from mrql.output.activity import Activity

# From Python 3.12 on, opening a terminal in a process with threads gives a warning; here another program runs in it.
pytestmark = pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")

CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def query(tmp_path: Path) -> Path:
    file = tmp_path / "q.mrql"
    file.write_text("count(select a from a in 1..3000);\n")
    return file


def test_on_a_terminal(query: Path) -> None:
    """On a terminal, a line says that Spark starts and what is computed, and then gives way to the answer alone."""
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = ["-m", "mrql", "run", str(query)]
    with pexpect.spawn(
        sys.executable, command, encoding="utf-8", dimensions=(40, 100), timeout=180, env=environment
    ) as p:
        p.expect_exact("starting Spark (")
        p.expect("computing line 1[, ]")  # then, once Spark runs something, its progress
        p.expect(pexpect.EOF)
        left = str(p.before)[str(p.before).rindex("\x1b[2K") :]
    assert p.exitstatus == 0
    assert CONTROLS.sub("", left).split() == ["3000"]


def test_elsewhere(query: Path) -> None:
    """In a file or a pipe, there is nothing but the answer."""
    command = [sys.executable, "-m", "mrql", "run", "--engine", "reference", str(query)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=True)
    assert (done.stdout, done.stderr) == ("3000\n", "")


@pytest.fixture
def stream(tmp_path: Path) -> list[str]:
    """The command of a stream with one batch."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1\n2\n")
    file = tmp_path / "q.mrql"
    file.write_text('count(stream(csv, "in", ",", type(long)));\n')
    data = ["--data", str(tmp_path), "--output", str(tmp_path / "out")]
    return ["-m", "mrql", "stream", str(file), *data, "--once", "--engine", "reference"]


def test_a_stream_on_a_terminal(stream: list[str]) -> None:
    """On a terminal, a line says that the first batch is running; then the table of batches replaces it."""
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)}
    with pexpect.spawn(
        sys.executable, stream, encoding="utf-8", dimensions=(40, 100), timeout=60, env=environment
    ) as p:
        p.expect_exact("first batch (")
        p.expect_exact("━━━")  # the table of the batches
        p.expect(pexpect.EOF)
        assert "first batch" not in str(p.before)
    assert p.exitstatus == 0


def test_a_stream_elsewhere(stream: list[str]) -> None:
    """Without a terminal, standard error has only the lines of the batches."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, *stream], capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, "first batch" in done.stderr, done.stderr[:16]) == (0, False, "batch 0: 2 rows ")


def test_what_is_said() -> None:
    """The line has the current activity, and what Spark is doing."""
    shown = Activity(is_shown=False)
    with shown.during("computing line 1"):
        assert "computing line 1 (0 s)" in str(shown._line().text)
        shown.look = lambda: "stage 2 of 3, 1 of 4 tasks"
        assert "computing line 1, stage 2 of 3, 1 of 4 tasks (0 s)" in str(shown._line().text)
