"""The macros of `graph.mrql` compared with networkx, over graphs with insertions and deletions of edges."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.algebra.values.values import Bag, Value, close
from mrql.algebra.values.zset import ZSet
from mrql.jobs.batch import ReferenceBatchJob
from mrql.jobs.loading import compile_over_files
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from tests.support.documents import fences, write_files

Edge = tuple[int, int]
EDGES = "bag((long, long))"


def history(seed: int) -> Iterator[tuple[set[Edge], set[Edge]]]:
    """The insertions and deletions of edges, batch by batch: with self-loops and cycles, and with hardly any edge for a
    while."""
    rng, there = random.Random(seed), set[Edge]()
    for batch in range(6):
        come = {(rng.randint(1, 9), rng.randint(1, 9)) for _ in range(rng.choice((2, 8)))} - there
        go = {edge for edge in there if rng.random() < (0.9 if batch == 3 else 0.25)}
        there = (there | come) - go
        yield come, go


def digraph(edges: set[Edge]) -> Any:
    return nx.DiGraph(sorted(edges))


def components(edges: set[Edge]) -> list[Value]:
    parts = nx.weakly_connected_components(digraph(edges))
    return [(node, min(part)) for part in parts for node in part]


def closure(edges: set[Edge]) -> list[Value]:
    return sorted(nx.transitive_closure(digraph(edges), reflexive=False).edges)


def hops(edges: set[Edge]) -> list[Value]:
    graph = digraph(edges)
    return [*nx.single_source_shortest_path_length(graph, 1).items()] if 1 in graph else [(1, 0)]


def distances(edges: set[Edge]) -> list[Value]:
    graph = nx.DiGraph()
    graph.add_weighted_edges_from((a, b, a + 0.5) for a, b in edges)
    return [*nx.single_source_dijkstra_path_length(graph, 1).items()] if 1 in graph else [(1, 0.0)]


def degrees(edges: set[Edge]) -> list[Value]:
    graph = digraph(edges)
    return [(node, graph.out_degree(node), graph.in_degree(node)) for node in graph]


def simple(edges: set[Edge]) -> Any:
    return nx.Graph((a, b) for a, b in edges if a != b)


def neighbours(graph: Any, node: int) -> list[int]:
    return [*graph[node]] if node in graph else []


def triangles(edges: set[Edge]) -> list[Value]:
    return [tuple(sorted(found)) for found in nx.enumerate_all_cliques(simple(edges)) if len(found) == 3]


def pagerank(edges: set[Edge]) -> list[Value]:
    graph = digraph(edges)
    ranks = {page: 1.0 for page in graph if graph.out_degree(page)}
    for _ in range(4):
        given = Counter[int]()
        for page, rank in ranks.items():
            for target in graph[page]:
                given[target] += rank / graph.out_degree(page)  # type: ignore[assignment]
        known = {page for page in graph if graph.out_degree(page)}
        # A page without links does not pass on its rank.
        ranks = {page: 0.15 + 0.85 * given[page] for page in known | set(given)}
        passed_on, ranks = ranks, {page: rank for page, rank in ranks.items() if page in known}
    return [*passed_on.items()] if graph.number_of_edges() else []


def label_propagation(edges: set[Edge]) -> list[Value]:
    graph, labels = simple(edges), {node: node for edge in edges for node in edge}
    for _ in range(3):
        votes = {n: Counter([labels[n], *(labels[m] for m in neighbours(graph, n))]) for n in labels}
        labels = {n: min(votes[n], key=lambda label: (-votes[n][label], label)) for n in labels}
    return [*labels.items()]


MACROS: dict[str, tuple[str, Callable[[set[Edge]], list[Value]]]] = {
    "nodes": ("nodes(edges)", lambda edges: sorted({n for edge in edges for n in edge})),
    "degrees": ("degrees(edges)", degrees),
    "undirected": ("undirected(edges)", lambda edges: sorted({(min(e), max(e)) for e in edges if e[0] != e[1]})),
    "components": ("components(edges)", components),
    "closure": ("closure(edges)", closure),
    "hops": ("hops(edges, 1)", hops),
    "distances": ("distances((select (a, b, a + 0.5) from (a, b) in edges), 1)", distances),
    "pagerank": ("pagerank(edges, 0.85, 4)", pagerank),
    "triangles": ("triangles(edges)", triangles),
    "label_propagation": ("label_propagation(edges, 3)", label_propagation),
}
"""The call of each macro, and the function that computes its expected answer."""


@cache
def compiled(name: str) -> mrql.Query:
    return mrql.compile(f'include "graph.mrql"; {MACROS[name][0]}', edges=EDGES)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", MACROS)
def test_over_edges_that_come_and_go(name: str, seed: int) -> None:
    """After each batch the answer is that of networkx, or of plain Python, over the edges that are there."""
    view, there = ReferenceView(compiled(name).trace().plan, {}), set[Edge]()
    for come, go in history(seed):
        there = (there | come) - go
        view.apply({"edges": ZSet.of(sorted(come)) - ZSet.of(sorted(go))})
        assert close(view.answer(), Bag(MACROS[name][1](there)))


@pytest.mark.spark
def test_on_spark(spark: SparkSession) -> None:
    """Each macro has the expected answer on Spark, over one graph."""
    *_, (there, _) = history(11)
    edges = to_dataframe(spark, sorted(there), compiled("nodes").streams["edges"])
    for name, (_, expected) in MACROS.items():
        query = compiled(name)
        assert close(collect_value(query.batch(spark, edges=edges), query.type), Bag(expected(there))), name


def test_the_library_is_found_where_there_is_no_such_file(tmp_path: Any) -> None:
    """The library is found by its name, unless the user has a file with this name."""
    assert compiled("nodes").type == mrql.compile("select a from (a, b) in edges", edges=EDGES).type
    (tmp_path / "graph.mrql").write_text("mine = 7;")
    (tmp_path / "q.mrql").write_text('include "graph.mrql"; mine;')
    assert str(mrql.compile((tmp_path / "q.mrql").read_text(), str(tmp_path / "q.mrql")).type) == "int"
    with pytest.raises(mrql.UserError, match=r"graphs\.mrql cannot be read") as caught:
        mrql.compile('include "graphs.mrql"; 1')
    assert "mrql has graph.mrql" in str(caught.value)


def test_the_document(tmp_path: Path) -> None:
    """The queries of `docs/graphs.md` have the answers that are written below them."""
    found = fences("graphs.md")
    write_files(found, tmp_path)
    ((_, _, edges),) = (fence for fence in found if fence[:2] == ("mrql", "graph"))

    def values(text: str) -> list[Value]:
        program = compile_over_files(text, base=tmp_path)
        job = ReferenceBatchJob(program)
        return [job.answer(query) for query in program.queries]

    shown = [fence for fence in found if not fence[1]]
    assert [kind for kind, _, _ in shown] == ["mrql", "answer"] * 2
    for (_, _, text), (_, _, below) in zip(shown[::2], shown[1::2], strict=True):
        assert values(edges + text) == values(";".join(below.splitlines()))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("components(N)", "`components` does not take what it is given: this pattern takes a tuple of 2 apart"),
        ("distances(edges, 1)", "`distances` does not take what it is given: this pattern takes a tuple of 3 apart"),
    ],
)
def test_a_wrong_call_is_told_where_it_is(call: str, said: str) -> None:
    """An error in the arguments of a macro has the place of the call, and not one in the file of macros."""
    text = f'include "graph.mrql";\n1 + 1;\ncount({call});'
    with pytest.raises(UserError, match=re.escape(said)) as caught:
        mrql.compile(text, edges=EDGES, N="bag(<a: long, b: long>)")
    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.text) == (3, call)
    assert (caught.value.hint or "").startswith("graph.mrql has, in line ")


def test_a_wrong_argument_is_told_as_ever() -> None:
    with pytest.raises(UserError, match="unknown name `edge`"):
        mrql.compile('include "graph.mrql"; components(edge);', edges=EDGES)
