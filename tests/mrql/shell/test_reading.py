"""Where an input of the shell ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrql.parser.errors import Unfinished
from mrql.parser.parser import parse_program
from mrql.shell.piped import inputs
from mrql.shell.statement_reader import Transcript, is_finished
from tests.support.cases import cases

QUERIES = Path(__file__).parent.parent.parent.parent / "queries"
TEXTS = [file.read_text(encoding="utf-8") for file in sorted(QUERIES.rglob("*.mrql"))]
TEXTS += [case.query for case in cases() if case.error is None]


@pytest.mark.parametrize("text", [text for text in TEXTS if "\n" in text], ids=lambda text: text.strip()[:40])
def test_no_line_of_a_right_text_is_wrong(text: str) -> None:
    """The first lines of a valid text are complete or unfinished, but never an error."""
    lines = text.split("\n")
    for end in range(1, len(lines)):
        try:
            parse_program("\n".join(lines[:end]))
        except Unfinished:
            assert not is_finished("\n".join(lines[:end]))


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.strip()[:40])
def test_a_right_text_ends_with_a_semicolon_or_an_empty_line(text: str) -> None:
    """A valid text is finished with a `;` or an empty line, and without both it may go on."""
    bare = text.rstrip().removesuffix(";")
    assert is_finished(f"{bare};")
    assert is_finished(f"{bare}; // with a remark")
    assert is_finished(f"{bare}\n")
    assert not is_finished(bare)


@pytest.mark.parametrize(
    "text",
    [
        "select",
        "select x from",
        "select x from x in S where",
        "(1,",
        "{<A: 1>,\n",
        '"a',
        "'a\n",
        "/* a remark\n\n",
        "[xml| <a>\n",
        "function f(x: long): long {\n\n",
        "if true then 1",
        "data Shape = Circle: double |",
        "x = ",
        ":type select x",
        ":explain (1,\n",
        "1; select x",
    ],
)
def test_more_must_come(text: str) -> None:
    """A text that ends too early is unfinished, also with an empty line after it."""
    assert not is_finished(text)
    assert not is_finished(f"{text}\n\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "// a remark",
        "select from x",
        "1 +* 2",
        "x = 1; y z",
        ":help",
        ":load",
        ":type 1",
        ":type",
        ":nope (",
    ],
)
def test_nothing_more_must_come(text: str) -> None:
    """Empty and invalid texts, comments and commands are finished without a `;` or an empty line."""
    assert is_finished(text)


def test_the_inputs_of_some_lines() -> None:
    """The inputs are the whole text, split where an input ends."""
    lines = ["x = 1;\n", "select y\n", "from y in {x}\n", "\n", "// done\n", "(1,\n", "2"]
    assert list(inputs(lines)) == ["x = 1;\n", "select y\nfrom y in {x}\n\n", "// done\n", "(1,\n2"]


def test_places_in_a_transcript() -> None:
    """Each input has its own place in the text of the session."""
    transcript = Transcript("<stdin>")
    transcript.add("x = 1;")
    source, begin = transcript.add("y;\n")
    assert (source.text, begin, source.line_of(begin)) == ("x = 1;\ny;\n", 7, 2)
