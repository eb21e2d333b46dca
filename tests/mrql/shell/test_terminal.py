"""`mrql shell` at a terminal."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

# From Python 3.12 on, opening a terminal in a process with threads gives a warning; here another program runs in it.
pytestmark = pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")

UP, TAB, ENTER, CTRL_C, CTRL_D = "\x1b[A", "\t", "\r", "\x03", "\x04"

TAKEN = "\x1b[?2004l"
"""The sequence that the line editor sends when it leaves the terminal to the program."""

Open = Callable[..., "Terminal"]


class Terminal:
    """A person at a terminal: types keys, and waits for what is to appear."""

    def __init__(self, state: Path, cwd: Path, *args: str) -> None:
        env = {**os.environ, "PROMPT_TOOLKIT_NO_CPR": "1", "NO_COLOR": "1", "TERM": "xterm"}
        env["XDG_STATE_HOME"] = str(state)
        env["PYTHONPATH"] = os.pathsep.join(sys.path)
        command = ["-m", "mrql", "shell", *args]
        self.process = pexpect.spawn(
            sys.executable, command, env=env, cwd=str(cwd), encoding="utf-8", dimensions=(40, 100), timeout=180
        )

    def sees(self, text: str) -> None:
        self.process.expect_exact(text)

    def prints(self, line: str) -> None:
        """Waits until the input is passed to the program, and its first line of output is this."""
        self.process.expect_exact(f"{TAKEN}{line}\r\n")

    def types(self, *keys: str) -> None:
        for key in keys:
            self.process.send(key)

    def recalls(self, text: str) -> None:
        """Goes back in the history until this entry appears; the history is loaded in the background."""
        for _ in range(5):
            self.types(UP)
            if self.process.expect_exact([text, pexpect.TIMEOUT], timeout=5) == 0:
                return
        raise AssertionError(f"{text!r} is not in the history: {self.process.before!r}")

    def interrupts(self) -> None:
        """Presses Ctrl-C until the program is interrupted: before it has the terminal, Ctrl-C is just a key."""
        for _ in range(10):
            self.types(CTRL_C)
            if self.process.expect_exact(["interrupted", pexpect.TIMEOUT], timeout=10) == 0:
                return
        raise AssertionError(f"nothing is interrupted: {self.process.before!r}")

    def ends(self) -> int | None:
        """Waits for the end, and returns the exit code."""
        self.process.expect(pexpect.EOF)
        self.process.close()
        code: int | None = self.process.exitstatus
        return code


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Open]:
    """Opens terminals that share a history, in a directory with a file to load."""
    (tmp_path / "defs.mrql").write_text("points = {<Xs: 1, Ys: 2.5>, <Xs: 2, Ys: 0.5>};\ncount(points) * 100;\n")
    opened: list[Terminal] = []

    def start(*args: str) -> Terminal:
        opened.append(Terminal(tmp_path / "state", tmp_path, *args))
        opened[-1].sees("mrql>")
        return opened[-1]

    yield start
    for one in opened:
        one.process.close(force=True)


def test_a_session(terminal: Open, tmp_path: Path) -> None:
    """Input of several lines, commands, completion, errors, interrupts and the history work at a terminal."""
    person = terminal("--engine", "reference", "--max-steps", "1000000000")
    person.types(":load defs.mrql", ENTER)
    person.prints("200")

    # A statement goes on until it is complete, and ends with `;` or an empty line.
    person.sees("mrql>")
    person.types("select p.Xs * 7", ENTER)
    person.sees("...>")
    person.types("from p in points where p.Ys > 1;", ENTER)
    person.sees(" 7 ")
    person.sees("1 row")
    person.sees("mrql>")
    person.types("count(points) + 50", ENTER)
    person.sees("...>")
    person.types(ENTER)
    person.prints("52")

    # Completion takes the only candidate at once: a name that is defined, a keyword, a field.
    person.sees("mrql>")
    person.types("sel", TAB, " p.Ys + 1000 from p in poin", TAB, " where p.Y", TAB, " > 1;", ENTER)
    person.sees(" 1002.5 ")
    person.sees("1 row")

    person.sees("mrql>")
    person.types("select p.Zs from p in points;", ENTER)
    person.sees("error: unknown field `Zs`")
    person.sees("select p.Zs from p in points;")
    person.sees("       ^^^^")

    person.sees("mrql>")
    person.types(":type points", ENTER)
    person.prints("bag(<Xs: int, Ys: double>)")
    person.sees("mrql>")
    person.types(":explain count(points)", ENTER)
    person.prints("What a batch costs")

    # Ctrl-C drops what is typed, and ends what runs; the definitions stay.
    person.sees("mrql>")
    person.types("no such thing", CTRL_C)
    person.sees("mrql>")
    person.types("repeat n = 1.0 step n + 0.5;", ENTER)
    person.sees(TAKEN)
    person.interrupts()
    person.sees("mrql>")
    person.types("count(points) + 3000;", ENTER)
    person.prints("3002")

    # The last entry of the history is recalled.
    person.sees("mrql>")
    person.recalls("count(points) + 3000;")
    person.types(ENTER)
    person.prints("3002")
    person.sees("mrql>")
    person.types(CTRL_D)
    assert person.ends() == 0

    history = tmp_path / "state" / "mrql" / "history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "+select p.Xs * 7\n+from p in points where p.Ys > 1;\n" in history.read_text()


def test_the_history_of_an_earlier_session(terminal: Open) -> None:
    """An entry of several lines is recalled as a whole in a later session."""
    first = terminal("--engine", "reference")
    first.types("select x * 11", ENTER, "from x in {7};", ENTER)
    first.sees(" 77 ")
    first.types(":quit", ENTER)
    assert first.ends() == 0
    second = terminal("--engine", "reference")
    second.recalls(":quit")
    second.recalls("select x * 11")
    second.types(ENTER)
    second.sees(TAKEN)
    second.sees(" 77 ")
    second.types(CTRL_D)
    assert second.ends() == 0


@pytest.mark.wide
@pytest.mark.spark
def test_an_interrupt_on_spark(terminal: Open) -> None:
    """Ctrl-C ends the jobs of a query, and the session goes on with the same Spark."""
    person = terminal("--engine", "spark", "--conf", "spark.sql.shuffle.partitions=2")
    person.types("store n := count(select x from x in 1...3);", ENTER, "n + 40;", ENTER)
    person.sees("starting Spark (")
    person.sees("43\r\n")
    person.sees("mrql>")
    person.types("count(select x from x in 1...3000000, y in 1...3000000 where x * 2 = y * y + 1);", ENTER)
    person.sees(TAKEN)
    with pytest.raises(pexpect.TIMEOUT):
        person.process.expect_exact("mrql>", timeout=2)
    person.interrupts()
    person.sees("mrql>")
    person.types("n + 50;", ENTER)
    person.prints("53")
    person.sees("mrql>")
    person.types(CTRL_D)
    assert person.ends() == 0
