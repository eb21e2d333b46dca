"""Missing collections and missing tuples: where they are values of their own, and where they count as empty."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.values import Bag, Record, Value, close, same
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.pipeline import normal_form
from mrql.runtime.engine.answer import Output
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.reference.answer import ReferenceRows
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.sinks.files import write_output
from mrql.runtime.sources.formats.json import JSON
from mrql.runtime.spark.compiler.answers import evaluate as evaluate_on_spark
from mrql.runtime.spark.io.answer import SparkRows
from mrql.runtime.spark.io.collect import collect_changes, collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.relation.frame import from_dataframe
from tests.support.planning import planned

TYPE = """bag(<K: long, V: bag(long), L: list(long), T: (long, string), W: bag((long, long)), N: bag(bag(long)),
  R: <A: long, B: bag(long)>>)"""


def p(k: int, v: Value, l: Value, t: Value, w: Value, n: Value, r: Value) -> Record:
    return Record({"K": k, "V": v, "L": l, "T": t, "W": w, "N": n, "R": r})


def r(a: Value, b: Value) -> Record:
    return Record({"A": a, "B": b})


NOTHING = p(1, None, None, None, None, None, None)
EMPTY = p(2, Bag(), [], (None, None), Bag(), Bag(), r(None, None))
FULL = p(3, Bag([1, 2, 2]), [3, 1], (1, "a"), Bag([(1, 2), None, (None, None)]), Bag([Bag([2, 1]), None]), r(1, Bag()))
SAME = p(4, Bag([2, 1, 2]), [1, 3], (1, "a"), Bag([None, (1, 2)]), Bag([None, Bag([1, 2])]), r(1, Bag()))
ROWS = [NOTHING, EMPTY, FULL, SAME]


@attrs.frozen
class Case:
    """A query over `P`, and its answer."""

    query: str
    answer: Value


SOME = Bag([1, 2, 2])
CASES = {
    # --- a missing collection is a value of its own
    "a key": Case("select (v, count(p)) from p in P group by v: p.V", Bag([(None, 1), (Bag(), 1), (SOME, 2)])),
    "a key of bags": Case(
        "select (n, count(p)) from p in P group by n: p.N",
        Bag([(None, 1), (Bag(), 1), (Bag([Bag([1, 2]), None]), 2)]),
    ),
    "a field": Case(
        "select (p.K, p.V, is_null(p.V)) from p in P where p.K < 3", Bag([(1, None, True), (2, Bag(), False)])
    ),
    "an equality": Case("select (p.K, q.K) from p in P, q in P where p.V = q.V and p.K < q.K", Bag([(3, 4)])),
    "a variable": Case("select (p.K, v) from p in P, v = p.V where p.K < 3", Bag([(1, None), (2, Bag())])),
    "an element": Case("select (p.K, p.L[0]) from p in P where p.K <> 2", Bag([(1, None), (3, 3), (4, 1)])),
    # --- and empty where it is iterated over
    "a key that is a select": Case(
        "select (v, count(p)) from p in P group by v: (select x from x in p.V)", Bag([(Bag(), 2), (SOME, 2)])
    ),
    "a join on selects": Case(
        "select (p.K, q.K) from p in P, q in P where (select x from x in p.V) = (select x from x in q.V) and p.K < q.K",
        Bag([(1, 2), (3, 4)]),
    ),
    "union": Case(
        "select (p.K, p.V union {}, {} union p.V, p.L union []) from p in P where p.K < 4",
        Bag([(1, Bag(), Bag(), []), (2, Bag(), Bag(), []), (3, SOME, SOME, [3, 1])]),
    ),
    "flatten": Case(
        "select (p.K, flatten({p.V}), flatten([p.L]), flatten(p.N)) from p in P where p.K < 4",
        Bag([(1, Bag(), [], Bag()), (2, Bag(), [], Bag()), (3, SOME, [3, 1], Bag([1, 2]))]),
    ),
    "a choice": Case(
        "select (p.K, (select x from x in (if p.K > 1 then p.V else {})), if p.K < 3 then p.V else {}) from p in P "
        "where p.K < 3",
        Bag([(1, Bag(), None), (2, Bag(), Bag())]),
    ),
    "aggregations": Case(
        "select (p.K, count(p.V), sum(p.V), max(p.V), exists(p.V), 1 in p.V, all x in p.V: x > 5, "
        "some x in p.V: x > 1) from p in P where p.K < 3",
        Bag([(1, 0, 0, None, False, False, True, False), (2, 0, 0, None, False, False, True, False)]),
    ),
    "sets": Case(
        "select (p.K, distinct(p.V), p.V except {1}, {1} except p.V, p.V intersect {1}) from p in P where p.K < 3",
        Bag([(1, Bag(), Bag(), Bag([1]), Bag()), (2, Bag(), Bag(), Bag([1]), Bag())]),
    ),
    "order and groups": Case(
        "select (p.K, (select x from x in p.V order by x), (select (y, count(x)) from x in p.V, y = x group by y)) "
        "from p in P where p.K < 3",
        Bag([(1, [], Bag()), (2, [], Bag())]),
    ),
    "a loop": Case(
        "select (p.K, repeat x = p.V step x union {1} limit 1) from p in P where p.K < 3",
        Bag([(1, Bag([1])), (2, Bag([1]))]),
    ),
    "a group of them": Case(
        "select (k, (select x from v in p.V, x in v)) from p in P group by k: p.K mod 2", Bag([(0, SOME), (1, SOME)])
    ),
    "pairs by their first part": Case(
        "select (x, y) from p in P, (x, y) in p.W group by x", Bag([(None, Bag([None] * 3)), (1, Bag([2, 2]))])
    ),
    "totals of pairs by their first part": Case(
        "select (x, max(y), count(y)) from p in P, (x, y) in p.W group by x", Bag([(None, None, 3), (1, 2, 2)])
    ),
    "an answer": Case("first(select p.V from p in P order by p.K)", Bag()),
    "an answer of a list": Case("first(select p.L from p in P order by p.K)", []),
    "a part of an answer": Case("(first(select p.V from p in P order by p.K), 1)", (None, 1)),
    "groups of a value of the whole": Case(
        "select (x, count(partition)) from x in first(select p.V from p in P order by p.K) group by x", Bag()
    ),
    "the first step of a loop": Case(
        "repeat x = first(select p.V from p in P order by p.K) step x union {1} limit 2", Bag([1, 1])
    ),
    # --- a missing tuple is not a tuple of missing parts, but its parts are missing
    "rows": Case("select p.T from p in P", Bag([None, (None, None), (1, "a"), (1, "a")])),
    "records as rows": Case("select p.R from p in P", Bag([None, r(None, None), r(1, Bag()), r(1, Bag())])),
    "keys that are tuples": Case(
        "select (t, count(p)) from p in P group by t: p.T", Bag([(None, 1), ((None, None), 1), ((1, "a"), 2)])
    ),
    "a join on tuples": Case("select (p.K, q.K) from p in P, q in P where p.T = q.T and p.K < q.K", Bag([(3, 4)])),
    "patterns": Case("select (a, b) from p in P, (a, b) in p.W", Bag([(1, 2), (1, 2), *[(None, None)] * 3])),
    "patterns that are put together again": Case(
        "select (p.K, (select (a, b) from (a, b) in p.W)) from p in P where p.K <> 3",
        Bag([(1, Bag()), (2, Bag()), (4, Bag([(None, None), (1, 2)]))]),
    ),
    "elements": Case("select w from p in P, w in p.W", Bag([(1, 2), (1, 2), None, None, (None, None)])),
    "distinct elements": Case("select distinct w from p in P, w in p.W", Bag([(1, 2), None, (None, None)])),
    "a tuple in a let": Case(
        "select (p.K, let (a, b) = p.T in (b, a)) from p in P where p.K < 3",
        Bag([(1, (None, None)), (2, (None, None))]),
    ),
    "the greatest of none": Case("max(select p.T from p in P where p.K > 9)", None),
    "the greatest of each": Case(
        "select (k, max(p.T)) from p in P group by k: p.K < 2", Bag([(True, None), (False, (1, "a"))])
    ),
    "ordered rows": Case("select p.T from p in P order by p.K", [None, (None, None), (1, "a"), (1, "a")]),
    "elements that are taken away": Case(
        "(select p.T from p in P) except (select q.T from q in P where q.K = 2)", Bag([None, (1, "a"), (1, "a")])
    ),
    # --- bags compare as bags, wherever they are
    "ties in an order": Case(
        "select (select x from x in {p.V, {2, 1}, {1, 3}} order by true) from p in P where p.K > 2",
        Bag([[Bag([1, 2]), SOME, Bag([1, 3])]] * 2),
    ),
    "ties in a descending order": Case(
        "select first(select x from x in {(1, p.V), (1, {3, 1}), (1, {1, 2})} order by true desc) from p in P "
        "where p.K > 2",
        Bag([(1, Bag([1, 2]))] * 2),
    ),
    "bags of bags as JSON": Case("select count(p) from p in P where p.K > 2 group by v: p.N as any", Bag([2])),
}


def changed(view: ReferenceView, rows: list[Record], weight: int) -> Value:
    view.apply({"P": ZSet.of(rows, weight)})
    return view.answer()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_reference(case: Case) -> None:
    """The query as written, its normal form and a view have the given answer."""
    term = mrql.compile(case.query, P=TYPE).term
    assert same(evaluate(term, {"P": Bag(ROWS)}), case.answer)
    assert same(evaluate(normal_form(term, checked=True), {"P": Bag(ROWS)}), case.answer)
    view = ReferenceView(planned(term, shrinking=frozenset({"P"})).plan)
    assert same(changed(view, ROWS, 1), case.answer)
    assert same(changed(view, ROWS[2:], -1), evaluate(term, {"P": Bag(ROWS[:2])}))


TOGETHER = [
    "pairs by their first part",
    "totals of pairs by their first part",
    "a key",
    "a key that is a select",
    "a join on selects",
    "union",
    "aggregations",
    "a group of them",
    "groups of a value of the whole",
    "keys that are tuples",
    "patterns that are put together again",
    "elements",
    "the greatest of none",
    "the greatest of each",
    "ties in an order",
]
"""The cases that are kept up to date in one view."""


@pytest.mark.spark
def test_spark(spark: SparkSession) -> None:
    """Each query has the answer of the reference on Spark; several are kept up to date in one view."""
    streams = mrql.compile("P", P=TYPE).streams
    bag = streams["P"]
    assert isinstance(bag, ty.BagType)
    rows, gone = (to_dataframe(spark, some, bag).cache() for some in (ROWS, ROWS[2:]))
    wrong = []
    for name, case in CASES.items():
        query = mrql.compile(case.query, P=TYPE)
        term = normal_form(query.term)
        found = collect_value(evaluate_on_spark(spark, term, {"P": from_dataframe(rows, bag.item)}), query.type)
        if not close(found, case.answer):
            wrong.append(f"{name}: {found!r}, not {case.answer!r}")
    assert not wrong, "\n".join(wrong)
    query = mrql.compile(f"({', '.join(f'({CASES[name].query})' for name in TOGETHER)})", P=TYPE)
    with query.view(spark) as view:
        view.apply(P=rows)
        assert close(collect_value(view.answer(), query.type), tuple(CASES[name].answer for name in TOGETHER))
        view.apply(P=mrql.Delta(delete=gone))
        assert close(collect_value(view.answer(), query.type), evaluate(query.term, {"P": Bag(ROWS[:2])}))


@pytest.mark.spark
def test_rows_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """A missing tuple as a row stays one when values are collected on the driver; in columns it is a row of missing
    parts, in DataFrames and in files of both engines."""
    query = mrql.compile("select p.T from p in P", P=TYPE)
    bag = query.streams["P"]
    rows = to_dataframe(spark, ROWS, bag)
    with query.view(spark) as view:
        changes = view.apply(P=rows)
        assert "_made" not in vars(changes)  # nothing is computed for changes that nobody reads
        assert changes.columns == ["_1", "_2", "weight"]
        assert view.answer().columns == query.batch(spark, P=rows).columns == ["_1", "_2"]
        assert collect_value(view._view.answer(), query.type) == CASES["rows"].answer
        gone = mrql.Delta(delete=to_dataframe(spark, [NOTHING, FULL], bag))
        deleted = view._view.apply(view._streams.frames([("P", gone)]))
        assert ZSet.weighted(collect_changes(deleted, query.type.item)) == ZSet.weighted([(None, -1), ((1, "a"), -1)])
        view.apply(P=to_dataframe(spark, [NOTHING], bag))
        output = Output(query.type, False, JSON)
        write_output(output, SparkRows(view._view.answer(), query.type), tmp_path / "spark", DurableFiles())
    write_output(
        output, ReferenceRows(Bag([(None, None), (1, "a"), None]), query.type), tmp_path / "reference", DurableFiles()
    )
    written = [_lines(tmp_path / engine) for engine in ("spark", "reference")]
    assert written[0] == written[1] == [{"_1": 1, "_2": "a"}, *[{"_1": None, "_2": None}] * 2]


def _lines(directory: Path) -> list[Any]:
    lines = [line for file in directory.glob("part-*.json") for line in file.read_text().splitlines()]
    return sorted((json.loads(line) for line in lines), key=lambda row: row["_1"] is None)
