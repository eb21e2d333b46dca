"""The query files in `queries/loops`, in both engines, against the same computed in plain Python."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mrql.algebra.evaluate import evaluate
from mrql.algebra.files import read_source
from mrql.algebra.terms import Stream
from mrql.algebra.traversal import subterms
from mrql.algebra.values import Bag, Record, Value, close
from mrql.program import Program, compile_program
from mrql.rewrite.passes import run_passes
from queries.loops.generate import generate

LOOPS = Path(__file__).parent.parent / "queries" / "loops"
ARGS = {"factorisation": ("6",)}
SIZES = {"pagerank": 12, "kmeans": 40, "closure": 25, "matrices": 1, "factorisation": 6}


def program_of(name: str, directory: Path) -> Program:
    file = LOOPS / f"{name}.mrql"
    generate(name, directory, SIZES[name], seed=7)
    return compile_program(file.read_text(encoding="utf-8"), str(file), base=directory, args=ARGS.get(name, ()))


def by_reference(program: Program) -> list[Value]:
    data = {name: read_source(spec) for name, spec in program.sources.items()}
    return [evaluate(run_passes(query.term)[-1].after, data) for query in program.queries]


def by_spark(program: Program, spark: SparkSession) -> list[Value]:
    from mrql.runtime import session
    from mrql.runtime.answers import evaluate as evaluate_on_spark
    from mrql.runtime.collect import collect_value
    from mrql.runtime.loops import passing
    from mrql.runtime.readers import read_net
    from tests.runtime.test_equivalence import INTERPRETED

    values = []
    for query in program.queries:
        read = {part.name for part in subterms(query.term) if isinstance(part, Stream)}
        with session.settings(spark, INTERPRETED), passing() as kept:
            frames = {name: read_net(spark, program.sources[name]) for name in read}
            answer = evaluate_on_spark(spark, run_passes(query.term)[-1].after, frames, kept)
            values.append(collect_value(answer, query.type))
    return values


def rows(directory: Path, source: str) -> list[list[str]]:
    return [line.split(",") for line in (directory / source / "data.csv").read_text().splitlines()]


# --- what the answers must be -------------------------------------------------------------------


def pagerank(directory: Path) -> list[Value]:
    """Power iteration over the matrix of the links."""
    links = defaultdict(list)
    for page, target in rows(directory, "graph"):
        links[int(page)].append(int(target))
    ranks = dict.fromkeys(links, 1 / len(links))
    for _ in range(20):
        new = dict.fromkeys(links, 0.15 / len(links))
        for page, targets in links.items():
            for target in targets:
                new[target] = new.get(target, 0.15 / len(links)) + 0.85 * ranks[page] / len(targets)
        ranks = new
    assert math.isclose(sum(ranks.values()), 1.0)
    return [Bag(ranks.items())]


def closure(directory: Path) -> list[Value]:
    """From each node, whatever a search comes to."""
    edges = defaultdict(list)
    for a, b in rows(directory, "edges"):
        edges[int(a)].append(int(b))
    ways = set()
    for start in list(edges):
        found, waiting = set(), list(edges[start])
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                waiting += edges.get(node, [])
        ways |= {(start, node) for node in found}
    return [Bag(ways)]


def kmeans(directory: Path) -> list[Value]:
    """Lloyd's algorithm."""
    points = [(float(x), float(y)) for x, y in rows(directory, "points")]
    centres = [(0.0, 0.0), (10.0, 0.0), (0.0, 10.0), (10.0, 10.0)]
    for _ in range(20):
        groups = defaultdict(list)
        for point in points:
            groups[min(centres, key=lambda c: math.dist(c, point))].append(point)
        centres = [tuple(sum(xs) / len(group) for xs in zip(*group, strict=True)) for group in groups.values()]
    return [Bag(Record({"X": x, "Y": y}) for x, y in centres)]


Matrix = list[list[float]]


def product(a: Matrix, b: Matrix) -> Matrix:
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]


def transposed(a: Matrix) -> Matrix:
    return [list(column) for column in zip(*a, strict=True)]


def matrix(directory: Path, source: str) -> Matrix:
    found = {(int(i), int(j)): float(x) for x, i, j in rows(directory, source)}
    height, width = (max(at) + 1 for at in zip(*found, strict=True))
    return [[found[i, j] for j in range(width)] for i in range(height)]


def as_bag(a: Matrix) -> Bag:
    return Bag((x, i, j) for i, row in enumerate(a) for j, x in enumerate(row))


def elementwise(a: Matrix, b: Matrix, f: object) -> Matrix:
    return [[f(x, y) for x, y in zip(*pair, strict=True)] for pair in zip(a, b, strict=True)]  # type: ignore[operator]


def matrices(directory: Path) -> list[Value]:
    """Each operation on lists of lists."""
    a, b = matrix(directory, "a"), matrix(directory, "b")
    square = product(a, transposed(a))
    plus = elementwise(a, transposed(b), lambda x, y: x + y)
    expected = [transposed(a), product(a, b), plus, [[0.0] * len(a[0])] * len(a)]
    expected += [elementwise(a, a, lambda x, y: x * y), [[1.0] * len(a[0])] * len(a)]
    return list(map(as_bag, [*expected, product(square, square), product(square, square)]))


def factorisation(directory: Path) -> list[Value]:
    """The steps of the query, on lists of lists."""
    v = matrix(directory, "ratings")
    w: Matrix = [[1 / (1 + (i * k) % 5) for k in (1, 2)] for i in range(len(v))]
    h: Matrix = [[1 / (1 + (k * j) % 3) for j in range(len(v[0]))] for k in (1, 2)]
    errors = [error(v, product(w, h))]
    for _ in range(6):
        over_w = elementwise(product(v, transposed(h)), product(w, product(h, transposed(h))), lambda x, y: x / y)
        over_h = elementwise(product(transposed(w), v), product(product(transposed(w), w), h), lambda x, y: x / y)
        w, h = (elementwise(m, f, lambda x, y: x * math.sqrt(y)) for m, f in ((w, over_w), (h, over_h)))
        errors.append(error(v, product(w, h)))
    assert errors == sorted(errors, reverse=True)
    p = product(w, h)
    return [Bag((i, j, v[i][j], p[i][j]) for i in range(len(v)) for j in range(len(v[0])))]


def error(a: Matrix, b: Matrix) -> float:
    return sum(x for row in elementwise(a, b, lambda x, y: (x - y) ** 2) for x in row)


EXPECTED = {
    "pagerank": pagerank,
    "kmeans": kmeans,
    "closure": closure,
    "matrices": matrices,
    "factorisation": factorisation,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_reference(name: str, tmp_path: Path) -> None:
    """The reference evaluator gives what plain Python gives."""
    program = program_of(name, tmp_path)
    for found, expected in zip(by_reference(program), EXPECTED[name](tmp_path), strict=True):
        assert close(found, expected)


@pytest.mark.spark
@pytest.mark.parametrize("name", EXPECTED)
def test_spark(name: str, tmp_path: Path, spark: SparkSession) -> None:
    """And so does Spark."""
    program = program_of(name, tmp_path)
    for found, expected in zip(by_spark(program, spark), EXPECTED[name](tmp_path), strict=True):
        assert close(found, expected)


def test_every_query_file_is_held_against_something() -> None:
    """Only the file that others include has no answer of its own."""
    assert {file.stem for file in LOOPS.glob("*.mrql")} == {*EXPECTED, "matrix"}
