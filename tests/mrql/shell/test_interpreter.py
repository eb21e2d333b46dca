"""The output for an input of the shell, and the commands."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from mrql.algebra.errors import UserError
from mrql.shell.interpreter import COMMANDS, Interpreter, Quit
from mrql.shell.session import Session


def interpreter(as_json: bool = False, rows: int | None = None) -> Interpreter:
    return Interpreter(Session(), Console(file=io.StringIO(), width=80), as_json, rows)


def printed(shell: Interpreter, text: str) -> str:
    """What an input prints, without the spaces at the ends of lines."""
    out = shell.console.file
    assert isinstance(out, io.StringIO)
    start = len(out.getvalue())
    shell.submit(text)
    return "\n".join(line.rstrip() for line in out.getvalue()[start:].splitlines())


def error(text: str, *before: str) -> str:
    """The error of an input after others."""
    shell = interpreter()
    for earlier in before:
        shell.submit(earlier)
    with pytest.raises(UserError) as caught:
        shell.submit(text)
    return str(caught.value)


def test_answers_are_tables() -> None:
    """An answer is a table with a row for each element, up to a maximum; definitions print nothing."""
    shell = interpreter(rows=2)
    assert printed(shell, "x = [(1, 'a'), (2, 'b'), (3, 'c')];") == ""
    assert printed(shell, "x; count(x);").splitlines() == [
        " _1 ┃ _2",
        "━━━━╇━━━━━",
        ' 1  │ "a"',
        ' 2  │ "b"',
        "… 1 more rows",
        "3 rows",
        "3",
    ]


def test_answers_as_json() -> None:
    """An answer as JSON is one line, with the line that its expression was typed in and all elements."""
    shell = interpreter(as_json=True)
    shell.submit("x = 1;")
    assert json.loads(printed(shell, "(x, [1.5]);")) == {"line": 2, "type": "(int, list(double))", "value": [1, [1.5]]}
    assert len(json.loads(printed(shell, "1..100;"))["value"]) == 100


def test_files_are_written(tmp_path: Path) -> None:
    """`dump` writes its files, and prints nothing."""
    shell = interpreter()
    assert printed(shell, f'dump "{tmp_path}/out" from {{<A: 1>}};') == ""
    assert (tmp_path / "out" / "part-00000.json").read_text() == '{"A": 1}\n'


def test_type_and_explain() -> None:
    """`:type` and `:explain` take an expression of one or several lines, with or without `;`."""
    shell = interpreter()
    assert printed(shell, ":type select x\n from x in {1}") == "bag(int)"
    assert printed(shell, " :type 1.5;") == "double"
    assert printed(shell, ":explain count({1})").startswith("What a batch costs\n")


def test_load(tmp_path: Path) -> None:
    """The answers of the file are printed; its path may be in quotes."""
    file = tmp_path / "a file.mrql"
    file.write_text("x = 2;\nx + 1;\n")
    shell = interpreter()
    assert printed(shell, f':load "{file}"') == "3"
    assert printed(shell, f":load {file}  ") == "3"
    assert printed(shell, "x") == "2"


def test_names() -> None:
    """`:names` lists all definitions."""
    shell = interpreter()
    assert printed(shell, ":names") == ""
    shell.submit("type T = long; x = {<A: 1>}; f = \\y. y; function g(n: T): T { n }; data D = C: long | N;")
    shell.submit("macro m(e) { e }; aggregation product(\\(x, y). x * y, 1): long;")
    assert printed(shell, ":names").splitlines() == [
        "x: bag(<A: int>)",
        "types: T, D",
        "functions: g, f",
        "macros: m",
        "aggregations: product",
        "constructors: C, N",
    ]
    assert printed(Interpreter(Session(args=("a",)), shell.console), ":names") == "args: list(string)"


def test_help() -> None:
    """`:help` names all commands, and says of a function what it takes and does."""
    shell = interpreter()
    shown = printed(shell, ":help")
    assert all(f":{name}" in shown and command.meaning in shown for name, command in COMMANDS.items())
    assert printed(shell, ":help upper").splitlines()[0] == "upper, toUpperCase: string → string"
    assert printed(shell, ":help sort").splitlines() == [
        "sort: a collection → list",
        "  its elements from the least to the greatest, missing ones first",
        "sort({3, 1, 2}) = [1, 2, 3]",
    ]


@pytest.mark.parametrize("text", [":quit", " :quit ", ":quit now"])
def test_quit(text: str) -> None:
    """`:quit` ends the session."""
    with pytest.raises(Quit):
        interpreter().submit(text)


def test_every_command_is_there() -> None:
    """Each command has a method of `Interpreter`."""
    assert [name for name in COMMANDS if not hasattr(Interpreter, f"_{name}")] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "select x.Q from x in {<A: 1>};",
            "<shell>:2:8: error: unknown field `Q`\n 2 | select x.Q from x in {<A: 1>};\n   |        ^^^\n"
            "   = hint: there are `A`",
        ),
        (
            ":tpye 1",
            "<shell>:2:1: error: unknown command `:tpye`\n 2 | :tpye 1\n   | ^^^^^\n   = hint: did you mean `:type`?",
        ),
        (":", "<shell>:2:1: error: unknown command `:`\n 2 | :\n   | ^\n   = hint: `:help` lists the commands"),
        (":load", "<shell>:2:6: error: a file is missing\n 2 | :load\n   |      ^\n   = hint: :load FILE"),
        (
            ":help uper",
            "<shell>:2:7: error: the library has no function `uper`\n 2 | :help uper\n   |       ^^^^\n"
            "   = hint: did you mean `upper`?",
        ),
        (
            ":type x +",
            "<shell>:2:10: error: unexpected end of the query: expected an expression\n 2 | :type x +\n   |          ^",
        ),
        (
            ":explain xx",
            "<shell>:2:10: error: unknown name `xx`\n 2 | :explain xx\n   |          ^^\n   = hint: did you mean `x`?",
        ),
        (":load nowhere.mrql", "error: nowhere.mrql cannot be read: No such file or directory"),
    ],
)
def test_errors(text: str, expected: str) -> None:
    """An error has its place in what was typed."""
    assert error(text, "x = 1;") == expected
