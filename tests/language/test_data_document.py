"""The examples of `docs/data.md` and `docs/changes.md`: each query has the answer that is written below it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from mrql.cli.main import main
from tests.support.documents import fences


@attrs.frozen
class Example:
    """A query, the answers to its expressions, and the files that it may read."""

    query: str
    answers: tuple[object, ...]
    files: dict[str, str]


def examples(document: str) -> Iterator[Example]:
    """The examples of a document, each with the files above it."""
    files: dict[str, str] = {}
    query = ""
    for kind, name, body in fences(document):
        if name:
            files[name] = body
        elif kind == "mrql":
            query = body
        elif kind == "answer":
            yield Example(query, tuple(map(json.loads, body.splitlines())), dict(files))


EXAMPLES = [example for document in ("data.md", "changes.md") for example in examples(document)]


def answers(example: Example, home: Path, engine: str) -> list[object]:
    for name, body in example.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(body, encoding="utf-8")
    (home / "q.mrql").write_text(example.query, encoding="utf-8")
    arguments = ["run", str(home / "q.mrql"), "--data", str(home), "--format", "json", "--engine", engine]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return [_sorted(json.loads(line)["value"]) for line in done.stdout.splitlines()]


def _sorted(value: object) -> object:
    """The rows in a fixed order: an answer is a bag."""
    return sorted(value, key=lambda row: json.dumps(row, sort_keys=True)) if isinstance(value, list) else value


def test_there_are_examples() -> None:
    """There are examples: without any, the tests below would pass."""
    assert len(EXAMPLES) == 22


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.query[:40])
def test_example(example: Example, tmp_path: Path) -> None:
    """A query has its answer in the reference engine."""
    assert answers(example, tmp_path, "reference") == list(map(_sorted, example.answers))


@pytest.mark.wide
@pytest.mark.spark
def test_examples_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Each query has its answer on Spark."""
    for example in EXAMPLES:
        assert answers(example, tmp_path, "spark") == list(map(_sorted, example.answers)), example.query
