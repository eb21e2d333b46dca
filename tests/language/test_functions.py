"""The table of functions: its examples, its document, and what is refused."""

from __future__ import annotations

import pytest

from mrql.algebra import functions as fn
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.values import same
from mrql.output.tables import show_value
from mrql.translate.collection_functions import DERIVED
from mrql.translate.compile_program import compile_program
from mrql.translate.library import LIBRARY
from tests.support.cases import cases
from tests.support.function_document import DOCUMENT, document, examples


@pytest.mark.parametrize(("call", "value"), list(examples()))
def test_examples(call: str, value: str) -> None:
    """Each example in the document has the value beside it."""
    found, expected = (evaluate(compile_program(text).queries[0].term) for text in (call, value))
    assert same(found, expected), f"{call} is {show_value(found)}"


def test_the_document_is_that_of_the_table() -> None:
    """The document is the one that `python -m tests.regenerate` writes."""
    text = DOCUMENT.read_text(encoding="utf-8")
    assert document(text) == text


def test_every_function_has_what_the_document_needs() -> None:
    """Every function has a meaning, a description of what it takes, and an example."""
    for kind in fn.LIBRARY.values():
        for function in kind:
            assert function.meaning
            assert function.takes
            assert function.examples


def test_every_function_has_a_case() -> None:
    """Each name that a query may call occurs in a file of cases, which both engines run."""
    written = "\n".join(case.query for case in cases())
    assert [name for name in (*LIBRARY, *DERIVED) if f"{name}(" not in written] == []


def test_names_mean_one_thing() -> None:
    """No two functions share a name."""
    names = [name for kind in fn.LIBRARY.values() for f in kind for name in (f.name, *f.also)]
    assert len(names) == len(set(names))
