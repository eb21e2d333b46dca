"""The query files in `queries/loops` that read a stream: their data, the strategies that apply, and the answers.

The expected answers are computed by networkx, or in plain Python, from the current rows.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import attrs
import networkx as nx

from mrql.algebra.values.values import Bag, Record
from mrql.jobs.loading import compile_over_files
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.translate.program import Program
from queries.loops.generate import Batch, Row, Rows, Size, chains, history, points, ratings, rmat, with_lengths, write

LOOPS = Path(__file__).parent.parent.parent / "queries" / "loops"
STEPS = 3
"""The steps that queries with a limit take here."""


@attrs.frozen
class LoopFile:
    """A query file, and data for it."""

    name: str
    directory: str
    rows: Rows
    initial: int
    changes: int
    strategies: tuple[LoopStrategy, ...]
    expected: Callable[[list[Row]], Bag]
    few: tuple[Rows, int]
    """Other rows, and a small number of them at first, for Spark."""

    def history(self, batches: int, seed: int = 7) -> list[Batch]:
        """The first rows and then batches of changes, of which half are deletions."""
        return [*history(self.rows, Size(self.initial, batches, self.changes, 0.5), seed=seed)]

    def short_history(self) -> list[Batch]:
        """A few rows, and then a batch of one insertion and one deletion."""
        rows, initial = self.few
        return [*history(rows, Size(initial, 1, 2, 0.5), seed=7)]

    def program(self, base: Path, steps: int = STEPS) -> Program:
        """The query over the streams in a directory, with so many steps if it has a limit."""
        file = LOOPS / f"{self.name}.mrql"
        text = re.sub(r"(?m)^steps = .*;$", f"steps = {steps};", file.read_text(encoding="utf-8"))
        return compile_over_files(text, str(file), base=base)

    def bag(self, rows: list[Row]) -> Bag:
        """The rows as the query reads them."""
        return Bag(Record({"X": row[0], "Y": row[1]}) if self.name == "kmeans" else row for row in rows)

    def fill(self, base: Path, batches: list[Batch]) -> None:
        """Writes batches where the query reads them."""
        write(batches, base / self.directory)


def present(batches: list[Batch]) -> list[Row]:
    """The current rows after some batches."""
    rows: dict[Row, None] = {}
    for batch in batches:
        for row in batch.deleted:
            del rows[row]
        rows.update(dict.fromkeys(batch.inserted))
    return [*rows]


# --- the expected answers -----------------------------------------------------------------------


def closure(edges: list[Row]) -> Bag:
    return Bag(nx.transitive_closure(nx.DiGraph(edges)).edges)


def components(edges: list[Row]) -> Bag:
    return Bag((node, min(nodes)) for nodes in nx.connected_components(nx.Graph(edges)) for node in nodes)


def hops(edges: list[Row]) -> Bag:
    graph = nx.DiGraph([*edges])
    graph.add_node(0)
    return Bag(nx.single_source_shortest_path_length(graph, 0).items())


def paths(edges: list[Row]) -> Bag:
    graph = nx.DiGraph()
    graph.add_node(0)
    graph.add_weighted_edges_from(edges)
    return Bag(nx.single_source_dijkstra_path_length(graph, 0).items())


def pagerank(edges: list[Row], steps: int = STEPS) -> Bag:
    """Power iteration over the links."""
    links = defaultdict(list)
    for page, target in edges:
        links[page].append(target)
    ranks = dict.fromkeys(links, 1.0)
    for _ in range(steps):
        new = dict.fromkeys(ranks, 0.15)
        for page, targets in links.items():
            for target in targets:
                new[target] = new.get(target, 0.15) + 0.85 * ranks[page] / len(targets)
        ranks = new
    return Bag(ranks.items())


def kmeans(rows: list[Row]) -> Bag:
    """Lloyd's algorithm."""
    centres = [(0.0, 0.0), (10.0, 0.0), (0.0, 10.0), (10.0, 10.0)]
    for _ in range(20):
        groups = defaultdict(list)
        for point in rows:
            groups[min(centres, key=lambda c: math.dist(c, point))].append(point)
        centres = [tuple(sum(xs) / len(group) for xs in zip(*group, strict=True)) for group in groups.values()]  # type: ignore[misc]
    return Bag(Record({"X": x, "Y": y}) for x, y in centres)


Matrix = dict[tuple[float, float], float]
"""The elements by row and column; the others are zero."""


def product(a: Matrix, b: Matrix) -> Matrix:
    found: Matrix = defaultdict(float)
    for (i, k), x in a.items():
        for (l, j), y in b.items():
            if k == l:
                found[i, j] += x * y
    return found


def transposed(a: Matrix) -> Matrix:
    return {(j, i): x for (i, j), x in a.items()}


def improved(a: Matrix, over: Matrix, under: Matrix) -> Matrix:
    """Each element multiplied by the square root of a ratio."""
    return {at: x * math.sqrt(over[at] / under[at]) for at, x in a.items()}


def factorisation(rows: list[Row], steps: int = STEPS) -> Bag:
    """The steps of Lee and Seung, with square roots of their factors; none makes W·H worse, or an element negative."""
    v = {(i, j): x for x, i, j in rows}
    w: Matrix = {(i, k): 1 / (1 + (i * k) % 5) for i, _ in v for k in (1, 2)}
    h: Matrix = {(k, j): 1 / (1 + (k * j) % 3) for _, j in v for k in (1, 2)}
    errors = [error(v, product(w, h))]
    for _ in range(steps):
        ht, wt = transposed(h), transposed(w)
        new_w = improved(w, product(v, ht), product(w, product(h, ht)))
        new_h = improved(h, product(wt, v), product(product(wt, w), h))
        w, h = new_w, new_h
        errors.append(error(v, product(w, h)))
    assert errors == sorted(errors, reverse=True)
    assert min([*w.values(), *h.values()], default=0) >= 0
    p = product(w, h)
    return Bag((i, j, x, p[i, j]) for (i, j), x in v.items())


def error(v: Matrix, p: Matrix) -> float:
    return sum((v.get(at, 0.0) - x) ** 2 for at, x in p.items())


# --- the files ----------------------------------------------------------------------------------

ADDING = (LoopStrategy.FIXPOINT, LoopStrategy.RECOMPUTE)
LIMITED = (LoopStrategy.EXACT, LoopStrategy.RECOMPUTE)

FILES = {
    file.name: file
    for file in (
        LoopFile("closure", "edges", chains(20), 14, 4, ADDING, closure, (chains(6), 4)),
        LoopFile("components", "edges", rmat(16), 10, 6, ADDING, components, (rmat(6), 4)),
        LoopFile("hops", "edges", rmat(12), 20, 6, ADDING, hops, (rmat(5), 6)),
        LoopFile("paths", "edges", with_lengths(rmat(12), 9), 20, 6, ADDING, paths, (with_lengths(rmat(5), 9), 6)),
        LoopFile("pagerank", "edges", rmat(12), 30, 8, LIMITED, pagerank, (rmat(5), 6)),
        LoopFile("kmeans", "points", points, 30, 10, (LoopStrategy.RECOMPUTE,), kmeans, (points, 8)),
        LoopFile("factorisation", "ratings", ratings(2), 12, 4, LIMITED, factorisation, (ratings(1), 8)),
    )
}

EVERY_WAY = tuple((name, strategy) for name, file in FILES.items() for strategy in file.strategies)
"""Each file with each strategy that applies."""
