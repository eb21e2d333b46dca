"""The session in `docs/shell.md`: its inputs print what the document shows."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from mrql.algebra.errors import MrqlError
from mrql.cli.main import main
from mrql.shell.interpreter import COMMANDS, Interpreter, Quit
from mrql.shell.session import Session
from mrql.shell.statement_reader import is_finished

DOCUMENT = (Path(__file__).parent.parent.parent.parent / "docs" / "shell.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPTS = ("mrql>", " ...>")


def exchanges(session: str) -> Iterator[tuple[str, str]]:
    """Each input of the session, with the output after it."""
    for part in re.split(r"^(?=mrql>)", session, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        typed = [line for line in lines if line.startswith(PROMPTS)]
        assert typed == lines[: len(typed)]
        yield "\n".join(line[len(PROMPTS[0]) + 1 :] for line in typed), "\n".join(lines[len(typed) :])


def printed(shell: Interpreter, text: str) -> str:
    """What an input prints, or its error."""
    out = shell.console.file
    assert isinstance(out, io.StringIO)
    start = len(out.getvalue())
    try:
        shell.submit(text)
    except MrqlError as error:
        return str(error)
    return "\n".join(line.rstrip() for line in out.getvalue()[start:].splitlines())


def test_the_session(tmp_path: Path) -> None:
    """Each input is finished at its last line, not sooner, and prints what the document shows."""
    (session,) = [body for kind, _, body in FENCE.findall(DOCUMENT) if kind == "session"]
    for kind, name, body in FENCE.findall(DOCUMENT):
        if kind == "csv":
            (tmp_path / name).write_text(body, encoding="utf-8")
    shell = Interpreter(Session(tmp_path), Console(file=io.StringIO(), width=100), rows=20)
    *inputs, last = exchanges(session)
    assert len(inputs) > 8
    for typed, expected in inputs:
        lines = typed.split("\n")
        finished = [is_finished("\n".join(lines[:end])) for end in range(1, len(lines) + 1)]
        assert finished == [False] * (len(lines) - 1) + [True]
        assert printed(shell, typed) == expected
    with pytest.raises(Quit):
        shell.submit(last[0])


def test_the_pipe() -> None:
    """The example of a pipe prints what the document shows."""
    found = re.search(r"^\$ echo '(.*)' \| mrql (.*)\n(.*)$", DOCUMENT, re.MULTILINE)
    assert found is not None
    done = CliRunner().invoke(main, found[2].split(), input=f"{found[1]}\n")
    assert done.output == f"{found[3]}\n"


def test_all_commands_are_there() -> None:
    """Each command has a row in a table of the document."""
    assert all(f"| `:{name}" in DOCUMENT for name in COMMANDS)
