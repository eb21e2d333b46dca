"""The query files in `queries/loops`, run once in both engines, against networkx and plain Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import Stream
from mrql.algebra.values.values import Bag, Value, close
from mrql.jobs.loading import compile_over_files
from mrql.rewrite.pipeline import normal_form
from mrql.runtime.sources.files import read_source
from mrql.translate.program import Program
from queries.loops.generate import matrices
from tests.support.loop_files import FILES, LOOPS, Matrix, present, product, transposed


def by_reference(program: Program) -> list[Value]:
    data = {name: read_source(spec) for name, spec in program.sources.items()}
    return [evaluate(normal_form(query.term), data) for query in program.queries]


def by_spark(program: Program, spark: SparkSession) -> list[Value]:
    from mrql.runtime.spark.compiler.answers import evaluate as evaluate_on_spark
    from mrql.runtime.spark.compiler.loop_checkpoints import passing
    from mrql.runtime.spark.io.collect import collect_value
    from mrql.runtime.spark.io.readers import read_net

    values = []
    for query in program.queries:
        read = {part.name for part in subterms(query.term) if isinstance(part, Stream)}
        with passing() as kept:
            frames = {name: read_net(spark, program.sources[name]) for name in read}
            answer = evaluate_on_spark(spark, normal_form(query.term), frames, kept)
            values.append(collect_value(answer, query.type))
    return values


def case(name: str, directory: Path) -> tuple[Program, list[Bag]]:
    """A query file over data with deletions, and its expected answers."""
    if name == "matrices":
        matrices(directory, seed=7)
        file = LOOPS / "matrices.mrql"
        return compile_over_files(file.read_text(encoding="utf-8"), str(file), base=directory), products(directory)
    batches = FILES[name].short_history()
    FILES[name].fill(directory, batches)
    return FILES[name].program(directory), [FILES[name].expected(present(batches))]


def products(directory: Path) -> list[Bag]:
    """The expected answers of `matrices.mrql`."""
    a, b = matrix(directory, "a"), matrix(directory, "b")
    square = product(a, transposed(a))
    power = product(square, square)
    sums = {at: x + transposed(b)[at] for at, x in a.items()}
    zeros, ones = dict.fromkeys(a, 0.0), dict.fromkeys(a, 1.0)
    squares = {at: x * x for at, x in a.items()}
    expected = (transposed(a), product(a, b), sums, zeros, squares, ones, power, power)
    return [Bag((x, i, j) for (i, j), x in m.items()) for m in expected]


def matrix(directory: Path, source: str) -> Matrix:
    (file,) = (directory / source).iterdir()
    lines = [line.split(",") for line in file.read_text().splitlines()]
    return {(int(i), int(j)): float(x) for x, i, j in lines}


NAMES = (*FILES, "matrices")


@pytest.mark.parametrize("name", NAMES)
def test_reference(name: str, tmp_path: Path) -> None:
    """The reference evaluator gives what networkx or plain Python gives."""
    program, expected = case(name, tmp_path)
    for found, value in zip(by_reference(program), expected, strict=True):
        assert close(found, value)


@pytest.mark.wide(keep=2)
@pytest.mark.spark
@pytest.mark.parametrize("name", NAMES)
def test_spark(name: str, tmp_path: Path, spark: SparkSession) -> None:
    """Spark gives what networkx or plain Python gives."""
    program, expected = case(name, tmp_path)
    for found, value in zip(by_spark(program, spark), expected, strict=True):
        assert close(found, value)


def test_every_query_file_is_held_against_something() -> None:
    """Each query file has expected answers, except for the one that others include."""
    assert {file.stem for file in LOOPS.glob("*.mrql")} == {*NAMES, "matrix"}
