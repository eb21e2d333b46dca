"""Static tables in place of streams: what is deleted from a stream beside one is gone, in every form of a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.errors import InternalError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse, parse_type
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, Value, close
from mrql.algebra.values.zset import ZSet
from mrql.runtime.spark.compiler.compiler import RelationCompiler
from mrql.runtime.spark.io.collect import collect_changes, collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.relation.frame import Frame, changes, from_dataframe, retracting
from mrql.runtime.spark.state import compaction

pytestmark = pytest.mark.spark

PAIRS = parse_type("{(long, long)}")

CONDITIONS = {
    "exists": "exists(select d from (c, d) in T where c = a)",
    "not exists": "not exists(select d from (c, d) in T where c = a)",
    "in": "b in (select d from (c, d) in T)",
    "not in": "(a, b) not in T",
    "count is zero": "count(select d from (c, d) in T where c = a) = 0",
    "a sum": "b >= sum(select d from (c, d) in T where c = a)",
    "some": "some (c, d) in T: c = a and d > b",
    "all": "all (c, d) in (select t from t in T where t#0 = a): d > b",
    "a total": "b > avg(select d from (c, d) in T)",
    "an inequality": "count(select d from (c, d) in T where c < a) < 2",
}

FORMS = {
    "rows": "select (a, b) from (a, b) in S where {}",
    "groups": "select (k, count(b), sum(b)) from (a, b) in S where {} group by k: a",
    "extremes": "select (k, max(b), b) from (a, b) in S where {} group by k: a",
    "totals": "sum(select b from (a, b) in S where {})",
}

ABSENT = CONDITIONS["not exists"]

QUERIES: dict[str, list[str]] = {}
for _number, (_name, _condition) in enumerate(CONDITIONS.items()):
    # Each condition in two of the forms, and each form with five of them.
    QUERIES[_name] = [form.format(_condition) for form in [*FORMS.values()][_number % 2 :: 2]]
QUERIES["from"] = [
    "select (a, n) from (a, b) in S, n in {sum(select d from (c, d) in T where c = a)}",
    "select (a, (select d from (c, d) in T where c = a)) from (a, b) in S",
    "select (a, sum(select d from (c, d) in T where c = a), b) from (a, b) in S",
]
QUERIES["sets"] = ["S except T", "S intersect T", "T except S"]
QUERIES["groups beside tables"] = [
    "select (a, sum(b), sum(select d from (c, d) in T where c = a)) from (a, b) in S group by a",
    f"select (a, sum(b)) from (a, b) in S group by a having {ABSENT}",
    "select (a, n) from (a, n) in (select (a, count(b)) from (a, b) in S group by a) "
    "where not exists(select d from (c, d) in T where c = n)",
]
QUERIES["joins"] = [
    f"select (a, f) from (a, b) in S, (e, f) in U where b = e and {ABSENT}",
    "select (a, f) from (a, b) in S, (e, f) in U where b = e and f > sum(select d from (c, d) in T where c = a)",
    "select (a, b) from (a, b) in S where exists(select d from (c, d) in T where c = a) "
    "and exists(select f from (e, f) in U where e = b)",
]
QUERIES["loops and order"] = [
    f"repeat x = (select (a, b) from (a, b) in S where {ABSENT}) step "
    "(select (a, d) from (a, b) in x, (c, d) in T where b = c) limit 2",
    "repeat x = S step select distinct z from z in (x union (select (a, d) from (a, b) in x, (c, d) in T "
    "where b = c and not exists(select e from (e, f) in T where e = d)))",
    "select (a, b) from (a, b) in S order by sum(select d from (c, d) in T where c = a), b limit 2",
    "select x from x in (if count(T) > 1 then S else U)",
]

TABLE: list[Value] = [(1, 5), (2, 1), (2, 7), (4, 4), (None, 1)]

Changes = Mapping[str, tuple[Sequence[Value], Sequence[Value]]]

HISTORY: list[Changes] = [
    {"S": ([(1, 1), (1, 5), (2, 1), (3, 1), (3, 1), (5, 9), (None, 2)], []), "U": ([(1, 2), (5, 1), (1, 2)], [])},
    {"S": ([(4, 4), (7, 4)], [(1, 5), (3, 1), (5, 9)]), "U": ([], [(1, 2)])},
    {"S": ([(5, 9)], [(1, 1), (2, 1), (3, 1), (4, 4), (None, 2), (7, 4)]), "U": ([(9, 4)], [(1, 2), (5, 1)])},
]
"""Keys with a row that goes and one that stays, keys that vanish, and one that returns."""


@pytest.mark.wide(keep=6)
@pytest.mark.parametrize("name", QUERIES)
def test_what_is_deleted_beside_a_table_is_gone(
    spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer after each batch is the reference's.

    By turns, states are kept like small ones, merged whole, and like large ones, in runs.
    """
    if [*QUERIES].index(name) % 2:
        monkeypatch.setattr(compaction, "MERGED_WHOLE_MAX_ROWS", 0)
        monkeypatch.setattr(compaction, "LARGE_MIN_ROWS", 0)
    query = mrql.compile(f"({', '.join(f'({text})' for text in QUERIES[name])})", S=PAIRS, T=PAIRS, U=PAIRS)
    present = {name: ZSet() for name in "SU" if name in query.trace().plan.streams}
    with query.view(spark, T=frame(spark, TABLE)) as view:
        for batch in HISTORY:
            view.apply(**deltas(spark, batch, present))
            expected = evaluate(query.term, {"T": Bag(TABLE), **{name: rows.bag() for name, rows in present.items()}})
            found = collect_value(view.answer(), query.type)
            assert close(found, expected), f"{show_value(found)}, not {show_value(expected)}"


@pytest.mark.parametrize("form", ["rows", "groups"])
def test_changes_beside_a_table(spark: SparkSession, form: str) -> None:
    """The answer over no rows, plus all changes since, is the answer."""
    query = mrql.compile(FORMS[form].format(ABSENT), S=PAIRS, T=PAIRS)
    present = {"S": ZSet()}

    def rows_of(value: Value) -> ZSet:
        return ZSet.of(value if ty.is_collection(query.type) else [value])

    item = query.type.item if isinstance(query.type, ty.BagType) else query.type
    with query.view(spark, T=frame(spark, TABLE)) as view:
        followed = rows_of(evaluate(query.term, {"S": Bag(), "T": Bag(TABLE)}))
        for batch in HISTORY:
            followed += ZSet.weighted(collect_changes(view.apply(**deltas(spark, batch, present)), item))
            expected = evaluate(query.term, {"S": present["S"].bag(), "T": Bag(TABLE)})
            assert close(followed.bag(), rows_of(expected).bag())


def frame(spark: SparkSession, rows: Sequence[Value]) -> DataFrame:
    return to_dataframe(spark, Bag(rows), PAIRS)


def deltas(spark: SparkSession, batch: Changes, present: dict[str, ZSet]) -> dict[str, mrql.Delta]:
    """A batch as DataFrames; its rows are added to `present`."""
    found = {}
    for name in present:
        come, gone = batch[name]
        present[name] = present[name] + ZSet.of(come) - ZSet.of(gone)
        found[name] = mrql.Delta(*(frame(spark, rows) if rows else None for rows in (come, gone)))
    return found


def test_a_change_is_no_bag(spark: SparkSession) -> None:
    """A term that is not linear in a change is refused: as a bag, the change would be without its deletions."""
    t = PAIRS
    assert isinstance(t, ty.BagType)

    def rows(*pairs: Value) -> Frame:
        return from_dataframe(frame(spark, pairs), t.item)

    compiler = RelationCompiler(spark, {})
    compiler.sources["S"] = retracting(changes(rows((1, 2)), rows((1, 3)), compiler.columns))
    for text in (
        "cMap(λ(k, s). {reduce(+, s)}, groupBy(S))",
        "cMap(λ(k, (xs, ys)). {reduce(+, xs)}, coGroup(S, S))",
        "cMap(λn. {n}, {reduce(+, cMap(λ(a, b). {b}, S))})",
    ):
        with pytest.raises(InternalError, match="is used as a whole"):
            compiler.bag(parse(text, {"S": "{(long, long)}"}))
