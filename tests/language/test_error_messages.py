"""Every message that the language has for a wrong query stands, word for word, in a case of `tests/language/*.case`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cases import cases
from tests.test_layout import folder_of, relative, source_files

MESSAGES = [case.error.split(" ", 1)[1] for case in cases() if case.error is not None]

ELSEWHERE = {
    "mrql/translate/python_imports.py: … runs code in Python, which this command does not": (
        "a command asks: tests/mrql/translate/test_python_imports.py"
    ),
    "mrql/translate/scope.py: the field `…` is of type …, which the language does not have": (
        "no type that is written has such a field: tests/mrql/api/test_arguments.py"
    ),
    "mrql/translate/compile_program.py: … is nested too deeply": "the parser refuses such texts: test_fuzz.py",
    "mrql/translate/envelopes.py: the rows that changes are of need a type, that of a record": (
        "there are files whose rows have one: tests/runtime/sources/formats/test_envelopes.py"
    ),
    "mrql/translate/case.py: a `case` of more than … branches": "the text is long: test_fuzz.py",
    "mrql/translate/size_limits.py: … becomes too large: …": "the text is long: test_fuzz.py",
    "mrql/translate/expression.py: this has no type: …": "what the terms find where nothing before them has",
    "mrql/translate/operators.py: the left side must be of type …": "the type is a common one of both sides",
    "mrql/translate/operators.py: the right side must be of type …": "the type is a common one of both sides",
    "mrql/translate/scalar_functions.py:  must be of type …": "a missing value is of any type",
    "mrql/translate/user_aggregates.py: an element of `…` must be of type …": "it is looked at before",
}
"""The messages that have no case, and why."""


def raised(file: Path) -> Iterator[str]:
    """The messages of the errors that a file raises, with `…` for the parts that vary."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name("UserError"):
                yield written(node.args[0])
            case ast.Attribute(attr="unknown"):
                yield f"unknown {written(node.args[0])} `…`"
            case ast.Name("coerce") if len(node.args) == 4:
                yield f"{written(node.args[3])} must be of type …"


def written(message: ast.expr) -> str:
    match message:
        case ast.Constant(str() as text):
            return text
        case ast.JoinedStr(values):
            return "".join(written(value) for value in values)
        case _:
            return "…"


LANGUAGE = [file for file in source_files() if folder_of(file) == "mrql/translate"]
RAISED = sorted({f"{relative(file)}: {message}" for file in LANGUAGE for message in raised(file)})


def elsewhere(message: str) -> bool:
    return message in ELSEWHERE or message.partition(":")[0] in ELSEWHERE


def has_case(message: str) -> bool:
    """Whether a case has an error of this form."""
    pattern = re.escape(message.partition(": ")[2]).replace("…", ".+")
    return any(re.fullmatch(pattern, found) for found in MESSAGES)


@pytest.mark.parametrize("message", [message for message in RAISED if not elsewhere(message)])
def test_message(message: str) -> None:
    """A case has this message."""
    assert has_case(message)


def test_messages_are_found() -> None:
    """There are messages to test; those in `ELSEWHERE` are raised, and have no case."""
    assert len(RAISED) > 80
    assert "mrql/translate/source_rows.py: a delimiter is one character" in RAISED
    named = {*RAISED, *(message.partition(":")[0] for message in RAISED)}
    assert set(ELSEWHERE) <= named
    assert [message for message in ELSEWHERE if message in RAISED and has_case(message)] == []
