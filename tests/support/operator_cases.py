"""The examples that documents have for operators of `mrql.algebra.build`, as streams of changes.

If the changes of a document are no bag by themselves, such as a row with the weight −3, they come here in a batch after
one that makes up for it: a linear or bilinear operator then changes its answer as the document says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from mrql.algebra import build as b
from mrql.algebra.build import Expr
from mrql.algebra.values.values import Bag, Record, Value
from mrql.algebra.values.zset import ZSet

Rows = Mapping[Value, int]
"""Rows with their weights."""


@attrs.frozen
class Example:
    """A query, batches of changes of its streams, and how its answer changes with each."""

    name: str
    source: str
    built: Expr
    batches: Sequence[Mapping[str, Rows]]
    changes: Sequence[Rows]


def zset(rows: Rows) -> ZSet:
    return ZSet.weighted(rows.items())


NUMBERS = b.stream("S", "{int}")
MORE = b.stream("T", "{int}")
WORDS = b.stream("S", "{string}")
PAIRS = b.stream("S", "{(int, string)}")
COSTS = b.stream("S", "{(int, int, int)}")
LEFT, RIGHT = (b.stream(name, "{(string, int)}") for name in "AB")
A = b.stream("A", "{<x: int, name: string>}")
B = b.stream("B", "{<y: int, name: string>}")
EDGES = b.stream("S", "{(int, int)}")
TRACE, OTHER = (b.stream(name, "{(int, int, int)}") for name in "ST")
LETTERS = b.stream("S", "{(string, int, int)}")
KEYED_TRACE = b.stream("S", "{((int, int), int, int)}")
NESTED = b.stream("S", "{(int, (int, int), int)}")
CLOCK = b.stream("clock", "{int}")


def a(x: int, name: str) -> Record:
    return Record({"x": x, "name": name})


def y(number: int, name: str) -> Record:
    return Record({"y": number, "name": name})


def key(k: Expr, _value: Expr) -> Expr:
    return k


def name(row: Expr) -> Expr:
    return row.name


def join_function(left: Expr, right: Expr) -> Expr:
    return b.tup(left[0], (left[1], right[1]))


JOINED = b.map(join_function, b.join(LEFT, RIGHT, key, key))
"""`join_stream(fn key, v1, v2 -> {key, {v1, v2}} end, A, B)`"""
NAMED = b.join(A, B, name, name)
NAMESAKES = b.outer_join(A, B, name, name)

EXAMPLES = [
    Example(
        "aggregate",
        "[RZ] 2.9.1",
        b.aggregate(b.count, PAIRS),
        [{"S": {(1, "foo"): 1, (1, "bar"): 1, (2, "baz"): 1}}],
        [{(1, 2): 1, (2, 1): 1}],
    ),
    Example(
        "distinct",
        "[RZ] 2.9.3",
        b.distinct(NUMBERS),
        [{"S": {2: 1}}, {"S": {0: 1, 1: 2, 2: -1}}],
        [{2: 1}, {0: 1, 1: 1, 2: -1}],
    ),
    Example(
        "filter",
        "[RZ] 2.9.4",
        b.filter(lambda x: x >= 1, NUMBERS),
        [{"S": {2: 3}}, {"S": {0: 1, 1: 2, 2: -3}}],
        [{2: 3}, {1: 2, 2: -3}],
    ),
    Example(
        "index_with",
        "[RZ] 2.9.5",
        b.index_with(lambda src, _dst, _cost: src, COSTS),
        [{"S": {(1, 3, 2): 1}}, {"S": {(0, 1, 1): 1, (1, 2, 1): 1, (1, 3, 2): -1}}],
        [{(1, (1, 3, 2)): 1}, {(0, (0, 1, 1)): 1, (1, (1, 2, 1)): 1, (1, (1, 3, 2)): -1}],
    ),
    Example(
        "join_stream",
        "[RZ] 2.9.12",
        JOINED,
        [
            {"A": {("a", 1): 1, ("b", 2): 2, ("c", 2): 1}, "B": {("b", 4): 1}},
            {"B": {("a", 1): 1, ("b", 3): 1, ("b", 4): -1}},
        ],
        [{("b", (2, 4)): 2}, {("a", (1, 1)): 1, ("b", (2, 3)): 2, ("b", (2, 4)): -2}],
    ),
    Example(
        "join_trace",
        "[RZ] 2.9.13",
        JOINED,
        [
            {"A": {("a", 1): 1, ("b", 2): 2, ("c", 2): 1}, "B": {("b", -3): 1, ("b", 4): 1}},
            {"B": {("a", 1): 1, ("b", -3): -1, ("b", 3): 1, ("b", 4): -1, ("c", 4): 1}},
        ],
        [
            {("b", (2, -3)): 2, ("b", (2, 4)): 2},
            {("a", (1, 1)): 1, ("b", (2, -3)): -2, ("b", (2, 3)): 2, ("b", (2, 4)): -2, ("c", (2, 4)): 1},
        ],
    ),
    Example(
        "minus",
        "[RZ] 2.9.14",
        b.plus(NUMBERS, MORE),
        [{"T": {0: 1, 2: 1}}, {"S": {0: 1, 1: 1, 2: 2, 3: 1}, "T": {0: -1, 1: 1, 2: -1}}],
        [{0: 1, 2: 1}, {1: 2, 2: 1, 3: 1}],
    ),
    Example(
        "plus",
        "[RZ] 2.9.15",
        b.plus(NUMBERS, MORE),
        [{"T": {1: 1}}, {"S": {0: 1, 1: 1, 2: 2, 3: 1}, "T": {0: 1, 1: -1, 2: 1}}],
        [{1: 1}, {0: 2, 2: 3, 3: 1}],
    ),
    Example(
        "distinct_incremental",
        "[RZ] 2.9.18, the second batch",
        b.distinct(NUMBERS),
        [{"S": {2: 1, 3: 1}}, {"S": {0: 2, 2: 1, 3: -1}}],
        [{2: 1, 3: 1}, {0: 1, 3: -1}],
    ),
    Example(
        "select from join using",
        "[ST] SQL → stepping terminology",
        b.map(lambda left, right: (left.x, right.y), NAMED),
        [{"A": {a(24, "Bob"): 2, a(12, "Sue"): 1, a(3, "Bob"): 1}, "B": {y(3, "Sue"): 1}}],
        [{(12, 3): 1}],
    ),
    Example(
        "join",
        "[ST] Dumb Incrementalization",
        NAMED,
        [
            {"A": {a(1, "Bob"): 1, a(2, "Jeff"): 1}, "B": {y(3, "Bob"): 1}},
            {"B": {y(4, "Bob"): 2}},
            {"A": {a(1, "Bob"): -1}},
        ],
        [
            {(a(1, "Bob"), y(3, "Bob")): 1},
            {(a(1, "Bob"), y(4, "Bob")): 2},
            {(a(1, "Bob"), y(3, "Bob")): -1, (a(1, "Bob"), y(4, "Bob")): -2},
        ],
    ),
    Example(
        "map, join",
        "[ST] Graphs",
        b.join(b.map(lambda row: b.record(x=row.x, name=b.call("upper", row.name)), A), B, name, name),
        [{"A": {a(24, "Bob"): 1}, "B": {y(3, "BOB"): 1, y(4, "Bob"): 1}}],
        [{(a(24, "BOB"), y(3, "BOB")): 1}],
    ),
    Example(
        "group_reduce_flatten",
        "[ST] Group",
        b.group_reduce("⊎", lambda s: b.call("length", s), lambda s: s, WORDS),
        [{"S": {"foo": 1, "bar": 1, "hullo": 1}}, {"S": {"foo": -1}}],
        [
            {(5, Bag(["hullo"])): 1, (3, Bag(["foo", "bar"])): 1},
            {(3, Bag(["foo", "bar"])): -1, (3, Bag(["bar"])): 1},
        ],
    ),
    Example(
        "outer_join",
        "[ST] Lifted functions",
        NAMESAKES,
        [
            {"A": {a(1, "Bob"): 1, a(2, "Jeff"): 1}, "B": {y(3, "Bob"): 1, y(5, "Sue"): 1}},
            {"B": {y(3, "Bob"): -1, y(4, "Jeff"): 1}},
        ],
        [
            {(a(1, "Bob"), y(3, "Bob")): 1, (a(2, "Jeff"), None): 1, (None, y(5, "Sue")): 1},
            {
                (a(1, "Bob"), y(3, "Bob")): -1,
                (a(1, "Bob"), None): 1,
                (a(2, "Jeff"), None): -1,
                (a(2, "Jeff"), y(4, "Jeff")): 1,
            },
        ],
    ),
    Example(
        "count, reduce",
        "[ST] Lifted functions",
        b.aggregate(lambda xs: (b.count(xs), b.sum(xs), b.reduce("max", xs)), b.map(lambda x: ("all", x), NUMBERS)),
        [{"S": {1: 2, 5: 1}}, {"S": {5: -1, 3: 1}}],
        [{("all", (3, 7, 5)): 1}, {("all", (3, 7, 5)): -1, ("all", (3, 5, 3)): 1}],
    ),
    Example(
        "first_n",
        "[ST] Lifted functions",
        b.map(lambda x: x, b.first_n(2, lambda x: x, NUMBERS)),
        [{"S": {5: 1, 3: 1, 9: 1}}, {"S": {1: 1}}, {"S": {1: -1, 3: -1}}],
        [{3: 1, 5: 1}, {5: -1, 1: 1}, {1: -1, 3: -1, 5: 1, 9: 1}],
    ),
    Example(
        "transitive_closure",
        "[ST] Lifted functions",
        b.transitive_closure(EDGES),
        [{"S": {(1, 2): 1, (2, 3): 1}}, {"S": {(3, 1): 1}}, {"S": {(2, 3): -1}}],
        [
            {(1, 2): 1, (2, 3): 1, (1, 3): 1},
            {(3, 1): 1, (2, 1): 1, (3, 2): 1, (1, 1): 1, (2, 2): 1, (3, 3): 1},
            {(2, 3): -1, (1, 3): -1, (2, 1): -1, (1, 1): -1, (2, 2): -1, (3, 3): -1},
        ],
    ),
    Example(
        "map_many, make_set, make_scalar",
        "[ST] Incrementalizing map",
        b.map_many(lambda x: b.make_set(x + b.make_scalar(b.make_set(1))), NUMBERS),
        [{"S": {1: 1}}, {"S": {1: -1, 2: 2}}],
        [{2: 1}, {2: -1, 3: 2}],
    ),
    Example(
        "consolidate",
        "[RZ] 2.9.2",
        b.consolidate(KEYED_TRACE),
        [
            {
                "S": {
                    ((0, 0), 0, 1): 1,
                    ((0, 0), 0, -1): 1,
                    ((0, 1), 0, 1): 2,
                    ((1, 2), 0, 2): 1,
                    ((1, 3), 0, 1): 1,
                    ((1, 3), 0, -1): 1,
                    ((1, 4), 0, -1): 1,
                    ((2, 2), 0, 1): 1,
                    ((2, 4), 0, 1): 1,
                }
            }
        ],
        [{((0, 1), 2): 1, ((1, 2), 2): 1, ((1, 4), -1): 1, ((2, 2), 1): 1, ((2, 4), 1): 1}],
    ),
    Example(
        "negate",
        "[RZ] 2.9.8",
        b.negate(TRACE),
        [{"S": {(0, 0, 1): 1, (1, 0, -1): 1, (2, 0, -2): 1}}],
        [{(0, 0, -1): 1, (1, 0, 1): 1, (2, 0, 2): 1}],
    ),
    Example(
        "minus, of traces",
        "[RZ] 2.9.14",
        b.minus(TRACE, OTHER),
        [
            {
                "S": {(0, 0, 1): 1, (1, 0, 1): 1, (2, 0, 2): 1, (3, 0, 1): 1},
                "T": {(0, 0, 1): 1, (1, 0, -1): 1, (2, 0, 1): 1},
            }
        ],
        [{(1, 0, 2): 1, (2, 0, 1): 1, (3, 0, 1): 1}],
    ),
    Example(
        "distinct_trace",
        "[RZ] 2.9.11",
        b.distinct_trace(NESTED),
        [
            {"S": {(0, (0, 0), 1): 1, (2, (0, 0), 1): 1, (3, (0, 0), -1): 1}},
            {"S": {(5, (0, 1), 1): 1}},
            {"S": {(5, (1, 0), 1): 1}},
            {
                "S": {
                    (0, (1, 1), 1): 1,
                    (1, (1, 1), 1): 1,
                    (2, (1, 1), -1): 1,
                    (3, (1, 1), 1): 1,
                    (4, (1, 1), -1): 1,
                }
            },
        ],
        [
            {(0, (0, 0), 1): 1, (2, (0, 0), 1): 1},
            {(5, (0, 1), 1): 1},
            # 5 is there at (1, 1), too, as soon as it is there at (0, 1) and at (1, 0).
            {(5, (1, 0), 1): 1, (5, (1, 1), -1): 1},
            {(1, (1, 1), 1): 1, (2, (1, 1), -1): 1},
        ],
    ),
    Example(
        "distinct_incremental, as a trace",
        "[RZ] 2.9.18, the third batch",
        b.distinct_trace(TRACE),
        [{"S": {(0, 2, -1): 1}}, {"S": {(0, 3, 2): 1, (2, 3, 1): 1, (3, 3, -1): 1}}],
        [{}, {(0, 3, 1): 1, (2, 3, 1): 1}],
    ),
    Example(
        "delay",
        "[ST] Delays",
        b.delay(LETTERS, CLOCK),
        [{"S": {("first", 0, 1): 1}, "clock": {0: 1}}, {"S": {("second", 1, 1): 1}, "clock": {1: 1}}],
        [{}, {("first", 1, 1): 1}],
    ),
    Example(
        "integrate",
        "[ST] Integration",
        b.integrate(LETTERS, CLOCK),
        [
            {"S": {("a", 0, 1): 1}, "clock": {0: 1}},
            {"S": {("b", 1, -1): 1}, "clock": {1: 1}},
            {"S": {("a", 2, 4): 1}, "clock": {2: 1}},
        ],
        [{("a", 0, 1): 1}, {("a", 1, 1): 1, ("b", 1, -1): 1}, {("a", 2, 5): 1, ("b", 2, -1): 1}],
    ),
    Example(
        "differentiate",
        "[ST] Differentiation",
        b.differentiate(LETTERS, CLOCK),
        [
            {"S": {("a", 0, 1): 1}, "clock": {0: 1}},
            {"S": {("a", 1, 1): 1, ("b", 1, -1): 1}, "clock": {1: 1}},
            {"S": {("a", 2, 5): 1, ("b", 2, -1): 1}, "clock": {2: 1}},
        ],
        [{("a", 0, 1): 1}, {("b", 1, -1): 1}, {("a", 2, 4): 1}],
    ),
]

by_name: Callable[[Example], str] = lambda example: f"{example.source}: {example.name}"  # noqa: E731
