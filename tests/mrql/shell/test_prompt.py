"""The loop of the shell at a terminal, with keys from a pipe and a dummy screen."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from mrql.algebra.errors import EngineError
from mrql.algebra.values.values import Value
from mrql.jobs.batch import ReferenceBatchJob
from mrql.shell.interpreter import Interpreter
from mrql.shell.prompt import SessionCompleter, history_file, run_terminal
from mrql.shell.session import Session
from mrql.translate.program import CompiledExpression, Program

CTRL_D, ALT_ENTER = "\x04", "\x1b\r"


def typed(keys: str, session: Session, history: Path | None = None) -> str:
    """The output for some keys and Ctrl-D, without errors."""
    out = io.StringIO()
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text(keys + CTRL_D)
        run_terminal(Interpreter(session, Console(file=out, width=80)), history)
    return out.getvalue()


class Failing(ReferenceBatchJob):
    """A job that fails in a way that the answer chooses: 1, 2 or 3."""

    def answer(self, query: CompiledExpression) -> Value:
        value = super().answer(query)
        if value == 1:
            raise RuntimeError("a fault")
        if value == 2:
            raise EngineError("Spark has stopped")
        if value == 3:
            raise KeyboardInterrupt
        return value


def test_nothing_but_leaving_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The loop goes on, with all definitions, after faults (a traceback), errors (a message) and interrupts."""
    session = Session(new_job=Failing)
    assert typed("x = 7;\r1;\r2;\r3;\roops;\rx;\r", session) == "7\n"
    said = capsys.readouterr().err
    places = [
        said.index(text) for text in ("RuntimeError: a fault", "error: Spark has stopped", "interrupted", "`oops`")
    ]
    assert places == sorted(places)
    assert said.count("Traceback") == 1


def test_enter(tmp_path: Path) -> None:
    """Enter continues an unfinished input; Alt-Enter always does; inputs after `:quit` are not run."""
    assert typed(f"(1,\r2);\r1;{ALT_ENTER}2;\r", Session()) == "(1, 2)\n1\n2\n"
    assert typed("1;\r:quit\r2;\r", Session()) == "1\n"


def test_a_history_that_cannot_be_kept(tmp_path: Path) -> None:
    """Where the history cannot be stored, the session works without a file."""
    (tmp_path / "file").write_text("")
    for history in (None, tmp_path / "file" / "history"):
        assert typed("1;\r2;\r", Session(), history) == "1\n2\n"


def test_where_the_history_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The history is where XDG puts it; a relative `XDG_STATE_HOME` is ignored."""
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert history_file() == Path("/state/mrql/history")
    for nothing in ("", "state"):
        monkeypatch.setenv("XDG_STATE_HOME", nothing)
        assert history_file() == Path("/home/ann/.local/state/mrql/history")


def test_files_are_completed(tmp_path: Path) -> None:
    """After `:load`, files are completed."""
    (tmp_path / "defs.mrql").write_text("")
    completer = SessionCompleter(Session().definitions)

    def completions(text: str) -> list[tuple[str, int]]:
        found = completer.get_completions(Document(text), CompleteEvent())
        return [(completion.text, completion.start_position) for completion in found]

    assert completions(f":load {tmp_path}/de") == [("fs.mrql", 0)]
    assert completions(":lo") == [("load", -2)]
    assert completions("sele") == [("select", -4)]


def test_a_session_is_given_the_program_that_grows() -> None:
    """A session makes one job, for the program that later inputs extend."""
    made: list[Program] = []

    def new_job(program: Program) -> ReferenceBatchJob:
        made.append(program)
        return ReferenceBatchJob(program)

    assert typed("x = 1;\rx;\rx + 1;\r", Session(new_job=new_job)) == "1\n2\n"
    assert len(made) == 1
