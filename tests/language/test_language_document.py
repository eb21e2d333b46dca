"""The examples of `docs/language.md`: each query has the answer that is written below it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from mrql.algebra.errors import UserError
from mrql.algebra.functions import convert
from mrql.algebra.types import Type
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Value, same
from mrql.jobs.batch import ReferenceBatchJob
from mrql.jobs.loading import compile_over_files
from tests.support.documents import fences, write_files

FENCES = fences("language.md")
((_, _, TABLES),) = (fence for fence in FENCES if fence[:2] == ("mrql", "tables"))
((_, _, STREAMS),) = (fence for fence in FENCES if fence[:2] == ("mrql", "streams"))


@attrs.frozen
class Example:
    """A text with queries, and their answers, one per line; or the error that it raises."""

    text: str
    below: str


def examples() -> Iterator[tuple[str, Example]]:
    """Each query of the document with the block below it, and the kind of that block."""
    shown = [fence for fence in FENCES if not fence[1]]
    for (kind, _, text), (under, _, below) in zip(shown, [*shown[1:], ("end", "", "")], strict=True):
        assert (kind == "mrql") == (under in ("answer", "error")), text
        if kind == "mrql":
            yield under, Example(text, below)


EXAMPLES = [example for kind, example in examples() if kind == "answer"]
ERRORS = [example for kind, example in examples() if kind == "error"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the document."""
    directory = tmp_path_factory.mktemp("data")
    write_files(FENCES, directory)
    return directory


def values(text: str, home: Path) -> list[Value]:
    """The values of the expressions of a text over the tables of the document."""
    return [value for value, _ in answers(text, home)]


def answers(text: str, home: Path) -> list[tuple[Value, Type]]:
    """The values, with their types."""
    program = compile_over_files(TABLES + text, "huts.mrql", base=home)
    job = ReferenceBatchJob(program)
    return [(job.answer(query), query.type) for query in program.queries]


def test_there_are_examples() -> None:
    """There are examples: without any, the tests below would pass."""
    assert len(EXAMPLES) > 30
    assert len(ERRORS) >= 2


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.text[:60])
def test_example(example: Example, home: Path) -> None:
    """The answers are those in the document, as values of the language."""
    found = answers(example.text, home)
    expected = values(";".join(example.below.splitlines()), home)
    assert len(found) == len(expected)
    for (value, t), written in zip(found, expected, strict=True):
        assert same(value, convert(written, t)), show_value(value)  # an exact number is written like any other


@pytest.mark.parametrize("example", ERRORS, ids=lambda example: example.text[:60])
def test_error(example: Example, home: Path) -> None:
    """The message is the one in the document."""
    with pytest.raises(UserError) as error:
        values(example.text, home)
    assert str(error.value) == example.below.rstrip()


def test_streams(home: Path) -> None:
    """The streams declared in the document compile."""
    program = compile_over_files(STREAMS, base=home)
    assert {name for name, spec in program.sources.items() if spec.stream} == {"stays", "walks", "notes"}
