"""Spark against the reference evaluator: batch answers, incremental answers, changes, and errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import cache, reduce
from operator import or_
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.terms import Tup
from mrql.algebra.values.data import Element
from mrql.algebra.values.json_values import of_value
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, Record, Value, close
from mrql.algebra.values.xml_elements import element, text_node
from mrql.algebra.values.zset import ZSet
from mrql.runtime.spark.expressions.layout import Atom, Struct, atoms, known_of, taken_apart
from mrql.runtime.spark.io.collect import collect_changes, collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.relation import plan_cache
from mrql.runtime.spark.state import compaction
from tests.support.generated import each_another, short
from tests.support.histories import Batch, net
from tests.support.incremental_cases import CONSTRUCTS as INCREMENTAL
from tests.support.incremental_cases import STREAMS as TYPES
from tests.support.incremental_cases import Construct
from tests.support.on_spark import deltas_of
from tests.support.partitions import READ_APART
from tests.support.queries import STREAMS, Tables, histories, queries, several_queries, streams_of
from tests.support.queries import tables as tables_of
from tests.support.shown_rows import in_columns
from tests.support.spark_settings import compiled
from tests.support.wild import bags

pytestmark = pytest.mark.spark

# The same cases in every run; longer runs of the properties of the reference engine look for new ones.
few = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None)


TOGETHER = 4
"""The number of generated queries in one view."""


def as_rows(value: Value, t: ty.Type) -> ZSet:
    return ZSet.of(value if ty.is_collection(t) else [value])


def assert_equal_everywhere(spark: SparkSession, text: str, arrived: list[Batch], *, insert_only: bool = False) -> None:
    """Batch and incremental answers on Spark, and the old answer plus its changes, are those of the reference."""
    query = mrql.compile(text, **STREAMS)
    streams = streams_of(text)
    item = query.type.item if isinstance(query.type, ty.BagType | ty.ListType) else query.type
    with query.view(spark, insert_only=insert_only) as view:
        accumulated = as_rows(in_columns(evaluate(query.term, net([], streams)), query.type), query.type)
        for n, batch in enumerate(arrived, start=1):
            changes = view.apply(**deltas_of(spark, batch, STREAMS))
            accumulated = accumulated + ZSet.weighted(collect_changes(changes, item))
            expected = in_columns(evaluate(query.term, net(arrived[:n], streams)), query.type)
            rows = Bag(expected if ty.is_collection(query.type) else [expected])
            assert close(accumulated.bag(), rows), f"changes of batch {n}: {accumulated!r}, not {rows!r}"
        contents = net(arrived, streams)
        expected = in_columns(evaluate(query.term, contents), query.type)
        found = collect_value(view.answer(), query.type)
        assert close(found, expected), f"incremental: {show_value(found)}, not {show_value(expected)}"
    frames = {name: to_dataframe(spark, contents[name], STREAMS[name]) for name in streams}
    found = collect_value(query.batch(spark, **frames), query.type)
    assert close(found, expected), f"batch: {show_value(found)}, not {show_value(expected)}"


def assert_kept_up_to_date(
    spark: SparkSession, text: str, arrived: list[Batch], tables: Tables | None = None, *, insert_only: bool = False
) -> None:
    """The answer after each batch is that of the reference; used for several queries in one."""
    query = mrql.compile(text, **STREAMS)
    static = tables or {}
    streams = [name for name in streams_of(text) if name not in static]
    frames = {name: to_dataframe(spark, [*rows], STREAMS[name]) for name, rows in static.items()}
    with query.view(spark, insert_only=insert_only, **frames) as view:
        for n, batch in enumerate(arrived, start=1):
            view.apply(**deltas_of(spark, batch, STREAMS))
            expected = in_columns(evaluate(query.term, bags(static) | net(arrived[:n], streams)), query.type)
            found = collect_value(view.answer(), query.type)
            assert close(found, expected), f"batch {n}: {show_value(found)}, not {show_value(expected)}"


# A generated case is a query with a history. There are 2 + 11 × 4 with deletions, 2 + 10 × 4 without, 5 in
# `test_cases.py` for the rarer constructs, 5 × 4 beside static tables, 26 over wild values in `test_wild.py`, 8 in
# `test_sums.py`, and 5 in `test_decimals.py`: 152. `make soak` runs as many as time allows, with queries of any length.

LONGEST_TOGETHER = 110
"""The greatest length of each query of a shared view, in characters."""


@each_another()
@seed(2026)
@settings(few, max_examples=2)
@given(short(queries()), st.data())
def test_generated_queries(spark: SparkSession, text: str, data: st.DataObject) -> None:
    """Generated queries over generated batches with deletions have the reference's answers and changes."""
    assert_equal_everywhere(spark, text, data.draw(histories(text, deletions=True, most=3)))


@pytest.mark.parametrize("text", ["select v.T from v in Q", "select <t: v.T> from v in Q", "select v.B from v in Q"])
def test_rows_that_are_missing(spark: SparkSession, text: str) -> None:
    """A missing tuple as a row has missing columns; inside a row it differs from a tuple of missing values."""
    rows = [
        Record({"E": None, "T": t, "B": b, "W": None})
        for t, b in ((None, None), ((None, None), Bag()), ((1, "x"), Bag([1])))
    ]
    first, second = rows[:2], rows[2:]
    batches = [Batch({"Q": (*first, *first)}, {}), Batch({"Q": tuple(second)}, {"Q": tuple(first)})]
    assert_equal_everywhere(spark, text, batches)


@each_another()
@seed(2026)
@settings(few, max_examples=11)
@given(several_queries(TOGETHER, LONGEST_TOGETHER), st.data())
def test_generated_queries_together(spark: SparkSession, text: str, data: st.DataObject) -> None:
    """Several generated queries have the reference's answers in one view, which costs less than a view for each."""
    assert_kept_up_to_date(spark, text, data.draw(histories(text, deletions=True, fewest=2, most=2, largest=3)))


@each_another()
@seed(2026)
@settings(few, max_examples=2)
@given(short(queries()), st.data())
def test_generated_queries_over_insertions(spark: SparkSession, text: str, data: st.DataObject) -> None:
    """The cheaper states of streams that only grow give the same answers."""
    assert_equal_everywhere(spark, text, data.draw(histories(text, most=2)), insert_only=True)


@each_another()
@seed(2026)
@settings(few, max_examples=10)
@given(several_queries(TOGETHER, LONGEST_TOGETHER), st.data())
def test_generated_queries_together_over_insertions(spark: SparkSession, text: str, data: st.DataObject) -> None:
    assert_kept_up_to_date(spark, text, data.draw(histories(text, fewest=2, most=2)), insert_only=True)


@each_another()
@seed(2026)
@settings(few, max_examples=5)
@given(several_queries(TOGETHER, LONGEST_TOGETHER), st.data())
def test_generated_queries_beside_tables(spark: SparkSession, text: str, data: st.DataObject) -> None:
    """Generated queries have the reference's answers where some of the streams are static tables."""
    assume(len(streams_of(text)) > 1)
    tables = data.draw(tables_of(text, fewest=1))
    history = data.draw(histories(text, tables=tables, deletions=True, fewest=2, most=2, largest=3))
    assert_kept_up_to_date(spark, text, history, tables)


def k(key: int, value: int | None, *us: int | None) -> Record:
    return Record({"K": key, "V": value, "I": Bag(Record({"U": u}) for u in us)})


def j(key: int, a: Value, *items: int) -> Record:
    return Record({"K": key, "V": of_value(Record({"A": a, "I": [Record({"N": n}) for n in items]}))})


def book(year: str | None, *authors: str) -> Element:
    return element("book", ["year"], [year], [element("author", [], [], [text_node(name)]) for name in authors])


HISTORY: Sequence[Mapping[str, tuple[list[Value], list[Value]]]] = [
    {
        "S": ([(0, 1), (0, 1), (1, 2), (2, None), (None, 3)], [(0, 1)]),
        "T": ([(1, 5), (2, 7), (1, 5)], []),
        "P": ([k(1, 5, 1, 2), k(5, 2, 2, 2), k(7, None)], []),
        "J": ([j(1, 1, 1, 2), j(2, "1", 1), j(3, 1.0), j(3, None, 4)], []),
        "X": ([book("2005", "Ann", "Bob"), book("2005", "Ann"), book(None, ""), book("2006", "Bob")], []),
    },
    {"S": ([(1, 4), (3, 1)], [(1, 2), (None, 3)]), "T": ([(4, 1), (0, 0)], [(1, 5)])},
    {
        "S": ([(1, 2)], [(0, 1), (1, 4), (2, None), (3, 1)]),
        "T": ([], [(1, 5), (2, 7)]),
        "P": ([k(1, -5, 1)], [k(5, 2, 2, 2)]),
        "J": ([j(2, 1, 1)], [j(1, 1, 1, 2), j(2, "1", 1)]),
        "X": ([book("2005", "Eve")], [book("2005", "Ann", "Bob"), book(None, "")]),
    },
]
"""Rows to insert and to delete: duplicates, missing values, sums that cancel, keys that vanish and return."""


ONE_BY_ONE, AT_LAST_TOGETHER = ((0,), (1,), (2,)), ((0,), (1, 2))
"""Which batches of the history are applied together."""


def arriving(numbers: Sequence[int], name: str) -> tuple[list[Value], list[Value]]:
    """The rows of a stream to insert, and those to delete, in batches of the history that are applied together."""
    parts = [HISTORY[number].get(name, ([], [])) for number in numbers]
    return [row for come, _ in parts for row in come], [row for _, gone in parts for row in gone]


@cache
def delta_of(spark: SparkSession, numbers: Sequence[int], name: str) -> mrql.Delta:
    """The same rows as DataFrames, made once for all constructs."""
    frames = [to_dataframe(spark, rows, TYPES[name]) if rows else None for rows in arriving(numbers, name)]
    return mrql.Delta(*frames)


IN_A_VIEW = 6
"""The number of constructs in one view, which costs less than a view for each."""


@pytest.mark.wide(keep=9)
@pytest.mark.parametrize("first", range(0, len(INCREMENTAL), IN_A_VIEW), ids=lambda n: INCREMENTAL[n].name)
def test_every_construct_follows_its_streams(spark: SparkSession, first: int) -> None:
    """The queries of `docs/incremental.md` follow a history in two batches; in `make soak` it comes in three."""
    assert_follows(spark, INCREMENTAL[first : first + IN_A_VIEW], AT_LAST_TOGETHER)


def assert_follows(spark: SparkSession, constructs: Sequence[Construct], history: Sequence[Sequence[int]]) -> None:
    """The sum of all changes after each batch, and the answer after the last, are the reference's.

    Groups are kept like those of large states, in runs in which the touched keys are looked up, and plans are reused
    from the first batch on. Several constructs are kept in one view, as a tuple.
    """
    terms = [mrql.compile(construct.query, **TYPES).term for construct in constructs]
    query = mrql.compile(terms[0] if len(terms) == 1 else Tup(tuple(terms)))
    streams = sorted(query.trace().plan.streams)
    item = query.type.item if isinstance(query.type, ty.BagType | ty.ListType) else query.type
    present = {name: ZSet() for name in streams}
    with (
        patch.multiple(compaction, MERGED_WHOLE_MAX_ROWS=0, LARGE_MIN_ROWS=0, **READ_APART),
        patch.object(plan_cache, "PLANNED_BEFORE_KEPT", 0),
        query.view(spark) as view,
    ):
        accumulated = as_rows(evaluate(query.term, {name: Bag() for name in streams}), query.type)
        for numbers in history:
            deltas = {}
            for name in streams:
                come, gone = arriving(numbers, name)
                present[name] = present[name] + ZSet.of(come) - ZSet.of(gone)
                if come or gone:
                    deltas[name] = delta_of(spark, numbers, name)
            accumulated = accumulated + ZSet.weighted(collect_changes(view.apply(**deltas), item))
            expected = evaluate(query.term, {name: rows.bag() for name, rows in present.items()})
            assert close(accumulated.bag(), as_rows(expected, query.type).bag())
        found = collect_value(view.answer(), query.type)
        assert close(found, expected), f"{show_value(found)}, not {show_value(expected)}"


def x(a: int | None, b: int | None, d: float | None, s: str | None) -> Record:
    return Record({"A": a, "B": b, "D": d, "S": s})


def p(k: int | None, v: float | None, *items: tuple[int | None, str | None]) -> Record:
    return Record({"K": k, "V": v, "I": Bag(Record({"U": u, "W": w}) for u, w in items)})


ARRIVING = [
    Batch({
        "X": [x(1, 1, 0.5, "a"), x(1, 2, 1.5, "b"), x(1, 1, 0.5, "a"), x(None, 0, None, None)],
        "P": [p(1, 0.5, (1, "a"), (1, "a")), p(2, None), Record({"K": 7, "V": 1.0, "I": None})],
    }),
    Batch({
        "X": [x(2, None, -0.5, "b"), x(None, 1, 0.5, "a"), x(2, 2, 2.5, "a")],
        "Y": [(1, 1, 0.5, True), (2, 1, 1.5, False), (1, 2, None, None), (None, 2, 0.5, True), (2, 1, 1.5, False)],
        "P": [p(1, -1.5, (2, "b"), (None, None)), p(None, 0.5, (1, "a"))],
    }),
]  # fmt: skip
"""Partners in different batches, rows that repeat, and values that are missing wherever they can be."""

CONSTRUCTS = [
    # --- from and where
    "select x from x in X",
    "select (s, a) from <A: a, S: s> in X where a >= 1",
    "select (b, d) from (1, b, d, *) in Y",
    "select (a, e) from (a, b, *, *) in Y, (b, e, *, *) in Y",
    "select (x.A, y#1, z.S) from x in X, y in Y, z in X where x.B = y#0 and y#1 = z.A and x.D < z.D",
    "select (x.S, y#2) from x in X, y in Y where (x.A, x.D) = (y#1, y#2)",
    "select (x.A, y#1) from x in X, y in Y where x.A < y#0",
    "select (x.A, p.K) from x in X, p in P",
    "select (p.K, i.U) from p in P, i in p.I where i.W <> p.V as string",
    "select (n, p.K) from p in P, n in p.I.U, m in {0, 1} where n = m",
    'select x.B from x in X where not (x.A = 1) and (x.D > 0 or x.S = "b")',
    "select p.K from p in P, q in P where p.I = q.I",
    "select (x.A, x.A = (null as int), x.B <> x.B) from x in X",
    # --- group by
    "select (x.A, count(x)) from x in X group by x.A",
    "select (k, sum(x.D), avg(x.B), min(x.S), max(x.D), all(x.B > 0), some(x.D < 0)) from x in X group by k: x.A",
    "select (a, b, count(partition)) from <A: a, B: b> in X group by (a, b)",
    "select (i, j, sum(x.D * y#0)) from x in X, y in Y where x.A = y#1 group by i: x.S, j: y#3",
    "select (k, x, p.I) from x in X, p in P where x.A = p.K group by k: x.S",
    "select <k: k, rows: partition> from x in X, y in Y where x.B = y#0 group by k: x.S",
    "select k from y in Y group by k: y#1 having count(y) > 1 and avg(y#2) > 0.5",
    "select (n, count(k)) from (k, n) in (select (k, count(x)) from x in X group by k: x.S) group by n",
    "select (m, max(k)) from (k, m) in (select (k, avg(y#2)) from y in Y group by k: y#0) group by m",
    "select (k, count(p)) from p in P group by k: p.I",
    "select (k, sum(x.D), count(y)) from x in X, y in Y where [x.A] = [y#1] group by k: [x.A, x.B]",
    "select (k, (select (s, count(x)) from x in x where x.B > 0 group by s: x.S)) from x in X group by k: x.A",
    # --- nested selects
    "select (x.A, (select y#2 from y in Y where y#0 = x.B)) from x in X",
    "select (count(select y from y in Y where y#0 = x.B), sum(select p.V from p in P where p.K = x.A)) from x in X",
    "select x.S from x in X where x.D > avg(select y#2 from y in Y where y#0 = x.A)",
    "select x.S from x in X where exists(select y from y in Y where y#1 = x.A and y#2 > x.D)",
    "select x.S from x in X where not exists(select p from p in P where p.V > x.D)",
    "select x.A from x in X where x.D >= max(select y#2 from y in Y)",
    "select (a, n) from (a, n) in (select (x.A, count(P)) from x in X), p in P where a = p.K",
    # --- distinct, order, union
    "select distinct (x.A, x.S) from x in X",
    "distinct(select p.I from p in P)",
    "select (x.S, x.A) from x in X order by x.A desc, x.S limit 4",
    "select x from x in X order by inv(x.D), x.B asc",
    "select (k, count(y)) from y in Y group by k: y#0 order by count(y) desc limit 1",
    "(select x.A from x in X) union (select y#0 from y in Y where y#3)",
    "select (k, count(v)) from v in ((select x.A from x in X) union (select y#1 from y in Y)) group by k: v",
    # --- lists
    "[count(X), count(Y)]",
    "(select x.A from x in X order by x.A) + (select y#0 from y in Y order by y#0 desc)",
    "((select x.A from x in X order by x.A limit 2), max(select y#0 from y in Y order by y#0 limit 3))",
    "select (y#0, (select x.A from x in X where x.B = y#0 order by x.D limit 1)) from y in Y",
    # --- totals
    "(count(X), sum(select x.D from x in X), avg(select y#0 from y in Y), max(select p.K from p in P))",
    "<n: count(select distinct x.S from x in X), both: count(X) + count(Y), some: exists(select p from p in P)>",
    "all(select y#3 from y in Y)",
    # --- if, let, definitions
    "select if x.D > 0 then x.A else x.B from x in X",
    "let n = count(Y) in select (x.S, n) from x in X where x.A < n",
    "if count(P) > 3 then sum(select x.A from x in X) else 0",
    "rich = select x from x in X where x.D > 0; select (k, count(r)) from r in rich group by k: r.S",
    "function twice(n: double): double { n + n }; select (k, sum(twice(x.B))) from x in X group by k: x.S",
    "macro positive(e) { e > 0 }; select x.S from x in X where positive(x.D) and positive(x.B)",
    # --- one group of all
    "select (k, count(y), y#1) from y in Y group by k: ()",
    "select (x.A, n, count(P)) from x in X, n in (select count(y) from y in Y group by y#0)",
]


@pytest.mark.wide(keep=3)
@pytest.mark.parametrize("number", range(0, len(CONSTRUCTS), 6), ids=CONSTRUCTS.__getitem__)
def test_constructs(spark: SparkSession, number: int) -> None:
    """Constructs of the language have the reference's answers and changes, over missing values and partners that arrive
    in different batches: every sixth of them, in addition to the queries of `docs/incremental.md`.

    Every eighteenth is run as generated code; in `make soak` all are, by turns.
    """
    with nullcontext() if number % 18 else compiled(spark):
        assert_construct(spark, CONSTRUCTS[number])


def assert_construct(spark: SparkSession, text: str) -> None:
    """A query has the reference's answers and changes over the batches of `ARRIVING`."""
    names = streams_of(text)
    arriving = [Batch({name: rows for name, rows in batch.inserted.items() if name in names}) for batch in ARRIVING]
    assert_equal_everywhere(spark, text, arriving)


VALUES = "{<I: int, L: long, F: float, D: double, S: string, B: bool>}"
ROWS = Bag(
    Record(dict(zip("ILFDSB", row, strict=True)))
    for row in [
        (1, 2, 0.5, 1.5, "abc", True),
        (-7, 3, -2.5, -0.5, " x y ", False),
        (0, -1, 0.0, 2.5, "", None),
        (None, None, None, None, None, None),
        (5, 5, 1.25, float("inf"), "Ünï", True),
    ]
)

EXPRESSIONS = [
    "v.I + v.L", "v.I - 3", "v.I * v.I", "v.I / 2", "-7 / 2", "v.I mod 3", "v.L % 2", "v.D / 0", "v.F + v.F", "v.F / 3",
    "-v.I", "v.D * 2", "v.D mod 0.75", "v.I = v.L", "v.I <> v.L", "v.I < v.L", "v.D >= 1", "v.S < \"b\"", "v.B = true",
    "not v.B", "v.B and v.I > 0", "v.B or v.I > 0", "not (v.I = 1)", "v.S + \"!\"", "(v.I, v.S) = (1, \"abc\")",
    "(v.I, v.L) < (1, 3)", "<A: v.I>.A", "(v.I, v.L)#1", "if v.I > 0 then v.I else v.D", "v.I as double",
    "v.D as string", "v.I as string", "(v.I as string) as int", "let x = v.I * v.I in x + x", "{v.I, 1}", "[v.I, 2]",
    "{v.I, 1} = {1, v.I}", "abs(v.I)", "abs(v.D)", "floor(v.F)", "ceil(v.F)", "round(v.F)", "sqrt(v.L)", "exp(v.I)",
    "log(v.L)", "log10(v.L)", "pow(v.L, 2)", "sin(v.I)", "cos(v.I)", "tan(v.I)", "upper(v.S)", "lower(v.S)",
    "trim(v.S)", "length(v.S)", "substring(v.S, 1, 2)", "substring(v.S, -1, 9)",
    "contains(v.S, \"b\")", "startswith(v.S, \"a\")",
    "endswith(v.S, \"c\")", "replace(v.S, \"b\", \"'\\\\n\")",
    "\"it's \\\"x\\\" \\\\ \\u00e9\"", "2147483648", "-2147483648",
    "sum({v.I, 1})", "avg({v.I, 2})", "max({v.D, 1})", "min([v.I, 0])", "count({v.I})", "all({v.B, true})",
    "some({v.B})",
    "count(distinct({v.I, 1, 1}))", "(select x from x in {3, v.I, 1} order by x desc limit 2)",
    "(select (k, count(x)) from x in {v.I, 1, 1} group by k: x)", "exists(select x from x in {v.I} where x > 0)",
]  # fmt: skip


def test_expressions(spark: SparkSession) -> None:
    """Each operator and function has the reference's value on Spark, for missing and for odd values too."""
    t = parse_type(VALUES)
    head = ", ".join(f"({text})" for text in EXPRESSIONS)
    query = mrql.compile(f"select ({head}) from v in V", V=t)
    frame = to_dataframe(spark, ROWS, t)
    found = sorted(collect_value(query.batch(spark, V=frame), query.type), key=repr)
    expected = sorted(evaluate(query.term, {"V": ROWS}), key=repr)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        for text, x, y in zip(EXPRESSIONS, a, b, strict=True):
            assert close(x, y), f"{text}: {show_value(x)} on Spark, {show_value(y)} in the reference"


ERRORS = [
    ("v.I / (v.L - 2)", "division by zero", "v.I / (v.L - 2)"),
    ("v.I mod (v.L - 2)", "remainder of a division by zero", "v.I mod (v.L - 2)"),
    ("v.I + 2147483647", "integer overflow", "v.I + 2147483647"),
    ("v.S as int", '"abc" is not a value of type int', "v.S as int"),
]


@pytest.mark.parametrize(("text", "message", "place"), ERRORS)
def test_run_time_errors(spark: SparkSession, text: str, message: str, place: str) -> None:
    """A value that does not exist is the reference's error, with its place in the query; the view stays as it was."""
    t = parse_type(VALUES)
    query = mrql.compile(f"select (k, sum({text})) from v in V group by k: v.B", V=t)
    if "S as" in text:
        query = mrql.compile("select (k, sum(v.S as int)) from v in V group by k: v.B", V=t)
    good = Bag([Record(dict(zip("ILFDSB", (-3, 5, 0.5, 1.5, "12", True), strict=True)))])
    bad = Bag([Record(dict(zip("ILFDSB", (1, 2, 0.5, 1.5, "abc", True), strict=True)))])
    with query.view(spark) as view:
        view.apply(V=to_dataframe(spark, good, t))
        before = collect_value(view.answer(), query.type)
        with pytest.raises(mrql.UserError) as caught:
            view.apply(V=to_dataframe(spark, bad, t))
        assert caught.value.message == message
        assert caught.value.span is not None
        assert caught.value.span.text == place
        assert close(collect_value(view.answer(), query.type), before)
        with pytest.raises(mrql.UserError) as reference:
            evaluate(query.term, {"V": bad})
        assert (reference.value.message, reference.value.hint) == (message, caught.value.hint)


def test_a_key_without_parts_however_it_is_held() -> None:
    """A join key `()` that cannot be missing has no columns on either side, whether it is an atom, as an element of an
    array is, or a structure; one that can be has one on each."""
    held = [Atom("`c`", ty.UNIT), Struct((), ty.UNIT)]
    assert [list(atoms(taken_apart(key, None))) for key in held] == [[], []]
    known = reduce(or_, map(known_of, held))
    assert [list(atoms(taken_apart(key, known))) for key in held] == [[held[0]], [Atom("true", ty.UNIT, missing=False)]]


def test_static_table(spark: SparkSession) -> None:
    """A stream that is given to the view as a DataFrame is a static table, and takes no changes."""
    query = mrql.compile(
        "select (x.A, y.R) from x in S, y in rates where x.A = y.A",
        S="bag(<A: long>)",
        rates="bag(<A: long, R: double>)",
    )
    rates = spark.createDataFrame([(1, 0.5), (2, 1.5)], "A long, R double")
    with query.view(spark, rates=rates) as view:
        view.apply(S=spark.createDataFrame([(1,)], "A long"))
        view.apply(S=spark.createDataFrame([(2,), (3,)], "A long"))
        assert collect_value(view.answer(), query.type) == Bag([(1, 0.5), (2, 1.5)])
        with pytest.raises(mrql.UserError, match="`rates` is a static table"):
            view.apply(rates=rates)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("B long", "`S` has no column `A`"),
        ("A string", "the column `A` of `S` is of type string, where long was expected"),
        ("A double", "the column `A` of `S` is of type double, where long was expected"),
    ],
)
def test_wrong_dataframe(spark: SparkSession, schema: str, message: str) -> None:
    """A DataFrame of another type is refused, and the message names the column."""
    query = mrql.compile("count(S)", S="bag(<A: long>)")
    with query.view(spark) as view, pytest.raises(mrql.UserError, match=re.escape(message)):
        view.apply(S=spark.createDataFrame([], schema))


def test_narrower_columns_widen(spark: SparkSession) -> None:
    """A column of ints is accepted where longs are expected."""
    query = mrql.compile("sum(select x.A from x in S)", S="bag(<A: long>)")
    with query.view(spark) as view:
        view.apply(S=spark.createDataFrame([(1,), (2,)], "A int"))
        assert collect_value(view.answer(), query.type) == 3
        assert view.answer().columns == ["value"]


@pytest.mark.wide(keep=3)
@pytest.mark.parametrize("name", ["X0", "k0", "x__v1", "C__1", "touched"])
def test_a_field_with_any_name(spark: SparkSession, name: str) -> None:
    """A field of any name is not hidden by generated names; to Spark, X0 and x0 may be the same name."""
    t = parse_type(f"{{<{name}: long, L: {{long}}>}}")
    rows = [Record({name: 10, "L": Bag([1, 2])}), Record({name: 200, "L": Bag([3, 4])}), Record({name: 10, "L": Bag()})]
    heads = [
        f"(select x + y + r.{name} from x in r.L, y in r.L where x < y + r.{name})",
        f"(select (k, sum(x) + r.{name}) from x in r.L group by k: x mod 2)",
        f"sum(select x * r.{name} from x in r.L)",
        f"(select x from x in r.L order by r.{name} - x)",
    ]
    query = mrql.compile(f"select (r.{name}, {', '.join(heads)}) from r in R", R=t)
    counted = mrql.compile(f"select (k, sum(r.{name}), count(r)) from r in R, x in r.L group by k: r.{name}", R=t)
    for each in (query, counted):
        expected = evaluate(each.term, {"R": Bag(rows)})
        frame = to_dataframe(spark, Bag(rows), t)
        assert collect_value(each.batch(spark, R=frame), each.type) == expected
        with each.view(spark) as view:
            for row in rows:
                view.apply(R=to_dataframe(spark, Bag([row]), t))
            assert collect_value(view.answer(), each.type) == expected


OF_ONE_GROUP = (
    "select distinct () from y in Y where y#0 = 7",
    "select (v, count(X)) from v in (select p.K from p in P order by p.K limit 2), y in Y",
    "select (select y#0 from y in Y, p in P) from v in (select p.K from p in P order by p.K limit 2), x in X",
)


def test_a_key_without_parts(spark: SparkSession) -> None:
    """The key `()` has rows or none, and these are looked up like those of any other key: where it is the key of a
    group, and of joins without a condition that do not merge."""
    history = [
        Batch({"P": [p(0, 0.0), p(0, 0.0)]}),
        Batch({"X": [x(0, 2, None, "b")], "Y": [(2, 2, 2.0, False), (-1, 2, -0.5, True)]}),
        Batch({"X": [x(1, 1, 1.0, "b")], "P": [p(1, -0.5, (None, "Ab"))], "Y": [(0, 2, 0.0, True)]}),
        Batch({}, {"Y": [(2, 2, 2.0, False), (-1, 2, -0.5, True), (0, 2, 0.0, True)], "P": [p(0, 0.0), p(0, 0.0)]}),
    ]
    with patch.object(plan_cache, "PLANNED_BEFORE_KEPT", 0):
        assert_kept_up_to_date(spark, f"({', '.join(f'({query})' for query in OF_ONE_GROUP)})", history)


def test_a_group_in_a_select_in_the_head(spark: SparkSession) -> None:
    """A group in a nested select is compiled, although Spark's analyzer takes more than its usual 100 rounds for it."""
    text = (
        "select (a, (select distinct (avg(select b from q in P where q.V = p.K), a) from p in P, x in X"
        " where x.B <= a and not (x.B < b) group by p.K, p.V)) from (a, b, c, d) in Y order by inv(a)"
    )
    assert_kept_up_to_date(spark, text, [ARRIVING[0], Batch({"Y": ARRIVING[1].inserted["Y"]}), ARRIVING[1]])


def test_a_wrong_deletion_changes_nothing(spark: SparkSession) -> None:
    """Deleting a row that is not there is an error, also if its key is there; it names the row, and the view stays as
    it was."""
    query = mrql.compile("select (x.A, sum(x.B)) from x in S group by x.A", S="bag(<A: long, B: long>)")

    def rows(*pairs: tuple[int, int]) -> DataFrame:
        return spark.createDataFrame(pairs, "A long, B long")

    with query.view(spark) as view:
        view.apply(S=rows((1, 5), (1, 0), (2, 7)))
        view.apply(S=mrql.Delta(insert=rows((3, 1)), delete=rows((1, 5))))
        before = collect_value(view.answer(), query.type)
        assert before == Bag([(1, 0), (2, 7), (3, 1)])
        for wrong, message in (
            (mrql.Delta(delete=rows((1, 5))), "a row is deleted from `S` that is not there: <A: 1, B: 5>"),
            (
                mrql.Delta(insert=rows((4, 4)), delete=rows((2, 7), (2, 7), (2, 7))),
                "a row is deleted from `S` that is not there (2 times): <A: 2, B: 7>",
            ),
        ):
            with pytest.raises(mrql.UserError, match=re.escape(message)):
                view.apply(S=wrong)
            assert collect_value(view.answer(), query.type) == before
        view.apply(S=mrql.Delta(insert=rows((5, 5)), delete=rows((5, 5), (2, 7))))
        assert collect_value(view.answer(), query.type) == Bag([(1, 0), (3, 1)])


def test_an_insert_only_view_refuses_deletions(spark: SparkSession) -> None:
    """An insert-only view refuses deletions, as it has not kept the rows that these would need."""
    query = mrql.compile("max(S)", S="bag(long)")
    rows = spark.createDataFrame([(1,)], "value long")
    with query.view(spark, insert_only=True) as view, pytest.raises(mrql.UserError, match="only takes insertions"):
        view.apply(S=mrql.Delta(delete=rows))


def test_a_view_that_is_closed(spark: SparkSession) -> None:
    """A view that is closed has no states, so reading it and applying a batch are errors."""
    query = mrql.compile("select (x.A, sum(x.B)) from x in S group by x.A", S="bag(<A: long, B: long>)")
    rows = spark.createDataFrame([(1, 5)], "A long, B long")
    with query.view(spark) as view:
        changes = view.apply(S=rows)
    for use in (
        view.answer,
        lambda: view.apply(S=rows),
        lambda: view.residual,
        lambda: collect_value(changes, query.type),
        lambda: view.apply(R=rows),
    ):
        with pytest.raises(mrql.UserError, match="the view is closed"):
            use()
    view.close()
