"""Generated loops whose steps only add, over edges `E`, and edges with integers `W` and doubles `D`, and histories."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from mrql.algebra.values.zset import ZSet

STREAMS = {"E": "bag((long, long))", "W": "bag((long, long, long))", "D": "bag((long, long, double))"}
NODES = 5

STARTS = ("E", "select distinct e from e in E", "select (a, b) from (a, b) in E where a < 3", "{(1, 2)}")
FOUND = (
    "select (a, d) from (a, b) in x, (c, d) in E where b = c",
    "select (a, d) from (a, b) in E, (c, d) in x where b = c",
    "select (a, d) from (a, b) in x, (c, d) in x where b = c",
    "select (b, a) from (a, b) in x",
    "select (a, d) from (a, b) in x, (c, d, w) in W where b = c and w > 0",
    "select (a, e) from (a, b) in x, (c, d) in E, (f, e) in x where b = c and d = f",
    "select (a, b) from (a, b) in E where a = b",
    "select (a, d) from (a, b) in x, (c, d) in (E union (select (b, a) from (a, b) in E)) where b = c",
    "select (a, d) from (a, b) in x, (c, d) in (select distinct e from e in E) where b = c",
)
LABELS = ("select (a, a) from (a, b) in E", "{(1, 0), (2, 3)}", "select (a, min(b)) from (a, b) in E group by a")
SPREAD = (
    "select (b, v) from (a, v) in x, (c, b) in E where a = c",
    "select (b, v + 1) from (a, v) in x, (c, b) in E where a = c",
    "select (b, v + w) from (a, v) in x, (c, b, w) in W where a = c",
    "select (a, v - b) from (a, v) in x, (c, b) in E where a = c and b < 3",
)
DISTANCES = (
    "select (a, w) from (a, b, w) in D",
    "select (a, min(w)) from (a, b, w) in D group by a",
    "select (a, b * 1.0) from (a, b) in E",
)
FARTHER = (
    "select (b, v) from (a, v) in x, (c, b) in E where a = c",
    "select (b, v + 1) from (a, v) in x, (c, b) in E where a = c",
    "select (b, v + w) from (a, v) in x, (c, b, w) in D where a = c",
    "select (b, w - 1 + v) from (a, v) in x, (c, b, w) in D where a = c",
    "select (a, v - w) from (a, v) in x, (c, b, w) in D where a = b",
)


@st.composite
def adding_loops(draw: st.DrawFn) -> str:
    """A loop that is a fixpoint; it has a limit if its values could improve without end."""
    steps = draw(st.sampled_from((None, 1, 2, 3)))
    if draw(st.booleans()):
        parts = draw(st.lists(st.sampled_from(FOUND), min_size=1, max_size=2, unique=True))
        rows = " union ".join(["x", *(f"({part})" for part in parts)])
        loop = f"repeat x = ({draw(st.sampled_from(STARTS))}) step select distinct z from z in ({rows})"
    else:
        monoid = draw(st.sampled_from(("min", "max")))
        starts, found = draw(st.sampled_from(((LABELS, SPREAD), (DISTANCES, FARTHER))))
        parts = draw(st.lists(st.sampled_from(found), min_size=1, max_size=2, unique=True))
        steps = 3 if steps is None and parts != [found[0]] else steps
        rows = " union ".join(["x", *(f"({part})" for part in parts)])
        loop = (
            f"repeat x = ({draw(st.sampled_from(starts))}) "
            f"step select (n, {monoid}(v)) from (n, v) in ({rows}) group by n"
        )
    loop = loop if steps is None else f"{loop} limit {steps}"
    above = draw(st.sampled_from(("", "", "select (n, count(v)) from (n, v) in ({}) group by n", "count({})")))
    assume(any(name in loop for name in STREAMS))  # else it is a constant
    return above.format(loop) if above else loop


def edge(nodes: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(1, nodes), st.integers(1, nodes))


def weighted_edge(nodes: int) -> st.SearchStrategy[tuple[int, int, int]]:
    return st.tuples(st.integers(1, nodes), st.integers(1, nodes), st.integers(-2, 3))


def far_edge(nodes: int) -> st.SearchStrategy[tuple[int, int, float]]:
    """Edges between few nodes, with infinities of both signs: their sum is NaN, which is greater than all numbers."""
    weights = st.sampled_from((0.0, 1.5, float("inf"), float("-inf")))
    return st.tuples(st.integers(1, min(nodes, 2)), st.integers(1, min(nodes, 3)), weights)


@st.composite
def edge_histories(draw: st.DrawFn, most: int = 5, nodes: int = NODES) -> list[dict[str, ZSet]]:
    """Batches of insertions, and of deletions of rows that are there."""
    held = {name: ZSet() for name in STREAMS}
    batches = []
    for _ in range(draw(st.integers(1, most))):
        batch = {}
        for name, row in (("E", edge(nodes)), ("W", weighted_edge(nodes)), ("D", far_edge(nodes))):
            present = [item for item, weight in held[name] for _ in range(weight)]
            gone = draw(st.lists(st.sampled_from(present), max_size=3, unique=True)) if present else []
            batch[name] = ZSet.of(draw(st.lists(row, max_size=4))) - ZSet.of(gone)
            held[name] += batch[name]
        batches.append(batch)
    return batches
