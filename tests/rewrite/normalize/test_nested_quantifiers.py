"""Nested quantifiers that refer to the outermost row: as joins, they mean the same."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from pyspark.sql import SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import children, subterms
from mrql.algebra.analysis.variables import free_vars
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import CMap, CoGroup, Reduce, Stream, Term, pair_type
from mrql.algebra.values.values import Bag, Record, Value, close
from mrql.rewrite.pipeline import normal_form
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.jvm import executed_plan
from tests.support.histories import histories, net
from tests.support.planning import planned
from tests.support.weighted import weighted

ROW = "bag(<a: long, b: long, n: int, t: (long, long), items: {long}>)"
STREAMS = {"S": ROW, "T": ROW, "U": ROW}
MATCH = "z.a = y.a and z.b = x.a"
QUERIES = {
    "some some": f"select x from x in S where some y in T: some z in U: ({MATCH})",
    "exists exists": "select x from x in S where exists(select y from y in T where exists(select "
    f"z from z in U where {MATCH}))",
    "no some": f"select x from x in S where not (some y in T: some z in U: ({MATCH}))",
    "a count": f"select (x.a, count(select y from y in T where some z in U: ({MATCH}))) from x in S",
    "what has a witness": "select (x.a, (select y.b from y in T where y.n < x.n and some z in U: "
    f"({MATCH}))) from x in S",
    "division": "select x from x in S where not exists(select y from y in T where not "
    f"exists(select z from z in U where {MATCH}))",
    "all some": f"select x from x in S where all y in T: some z in U: ({MATCH})",
    "not all some": f"select x from x in S where not (all y in T: some z in U: ({MATCH}))",
    "some without": f"select x from x in S where some y in T: not exists(select z from z in U where {MATCH})",
    "an alternative": f"select x.a from x in S where all y in T: (y.n > 1 or some z in U: ({MATCH}))",
    "conditions of each": "select x.a from x in S where all y in (select t from t in T where t.n "
    f"> 0): some z in U: ({MATCH} and z.n < 2)",
    "a pair in a source": "select x.a from x in S where all y in T: (y.a, x.a) in (select z.t from z in U)",
    "two keys of each": "select x.a from x in S where all y in T: some z in U: (z.a = y.a and z.n "
    "= y.n and z.b = x.a and z.a = x.b)",
    "a witness of two sources": "select x.a from x in S where all y in T: some z in U, v in T: "
    f"({MATCH} and v.b = z.n)",
    "what is asked of a join": "select x.a from x in S where all y in (select y from y in T, v in U where v.b = y.b): "
    f"some z in U: ({MATCH})",
    "elements of bags": "select x.a from x in S where all i in (select i from y in T, i in "
    "y.items): some z in U, k in z.items: "
    "(k = i and z.b = x.a)",
    "over itself": "select distinct x.b from x in U where all y in T: some z in U: (z.a = y.a and z.b = x.b)",
    "rows of a join": f"select (x.a, w.b) from x in S, w in T where x.b = w.b and all y in T: some z in U: ({MATCH})",
    "a group": f"select (k, count(x)) from x in S where some y in T: some z in U: ({MATCH}) group by k: x.b",
    "an outer bag": "select i from x in S, i in x.items where all y in T: some z in U: (z.a = y.a and z.b = i)",
}
AS_THEY_ARE = {
    "an inequality": "select x.a from x in S where all y in T: some z in U: (z.a = y.a and z.b < x.a)",
    "a condition of both": f"select x.a from x in S where all y in T: (y.n > x.n or some z in U: ({MATCH}))",
    "a bag of the row": "select x.a from x in S where all i in x.items: some z in U: (z.a = i and z.b = x.a)",
    "a bag of the middle row": "select x.a from x in S where all y in T: some i in y.items: i = x.a",
    "a division that is guarded": "select x.a from x in S where all y in T: (y.n = 0 or some z in "
    "U: (z.a = 6 / y.n and z.b = x.a))",
    "a division of the witness": "select x.a from x in S where all y in T: some z in U: (z.n <> 0 "
    "and 6 / z.n = y.a and z.b = x.a)",
    "three levels": "select x.a from x in S where all y in T: some z in U: (z.a = y.a and z.b = x.a "
    "and not exists(select w from w in T where w.a = z.a and w.b = x.b))",
    "a key of both": "select x.a from x in S where all y in T: some z in U: (z.a = y.a + x.a and z.b = x.a)",
}
ALL = {**QUERIES, **AS_THEY_ARE}


@st.composite
def rows(draw: st.DrawFn) -> Value:
    """A row with few distinct values, some of them missing."""
    small = st.integers(0, 2)
    columns: dict[str, st.SearchStrategy[Value]] = {
        "a": small,
        "b": small,
        "n": small,
        "t": st.tuples(small | st.none(), small),
        "items": st.lists(small | st.none(), max_size=2).map(Bag),
    }
    return Record({name: draw(weighted((9, values), (1, st.none()))) for name, values in columns.items()})


@pytest.mark.wide(keep=6)
@pytest.mark.parametrize("name", ALL)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(data=st.data())
def test_they_mean_the_same(name: str, data: st.DataObject) -> None:
    """The normal form, and a view under insertions and deletions, mean the same, even if sources are empty."""
    query = mrql.compile(ALL[name], **STREAMS)
    view = ReferenceView(planned(query.term, shrinking=frozenset(STREAMS)).plan)
    streams = [*view.plan.streams]
    arrived = []
    for batch in data.draw(histories(dict.fromkeys(streams, rows()), deletions=True, most=3, largest=6)):
        arrived.append(batch)
        contents = net(arrived, streams)
        try:
            expected = evaluate(query.term, contents)
        except UserError:
            assume(False)
        assert close(evaluate(normal_form(query.term), contents), expected)
        view.apply(batch.changes())
        assert close(view.answer(), expected)


def sources_for_each(term: Term, *, inside: bool = False) -> list[Term]:
    """The sources that are read anew for each element; not those of a total that is the same for all elements."""
    if isinstance(term, Stream):
        return [term] if inside else []
    if isinstance(term, Reduce) and not free_vars(term):
        return []
    if isinstance(term, CMap):
        inner = sources_for_each(term.function.body, inside=True)
        return [*inner, *sources_for_each(term.source, inside=inside)]
    return [source for child in children(term) for source in sources_for_each(child, inside=inside)]


@pytest.mark.parametrize("name", QUERIES)
def test_they_are_joined(name: str) -> None:
    """No source is read for each row, and none is joined with all rows of another."""
    normal = normal_form(mrql.compile(QUERIES[name], **STREAMS).term)
    assert sources_for_each(normal) == []
    assert [t for t in subterms(normal) if isinstance(t, CoGroup) and pair_type(t.left)[0] == ty.UNIT] == []


S = [(1, 1, 0), (2, 1, 2), (None, 0, 1), (1, 1, 0), (0, 2, None)]
T = [(1, 0, 2), (2, 2, 1), (2, 2, 1), (0, None, 2)]
U = [(1, 1, 0), (2, 1, 1), (0, 1, 2), (2, 2, 2), (1, None, 0), (1, 1, 5)]
TOTALS = {"division": 1, "all some": 0, "an alternative": 0, "some without": 1, "some some": 0, "a count": 0}
"""The number of totals that each query compares by an inequality; by an equality, they are joined."""


@pytest.mark.wide(keep=3)
@pytest.mark.spark
@pytest.mark.parametrize("name", TOTALS)
def test_spark_goes_through_no_product(spark: SparkSession, name: str) -> None:
    """The Spark plan has no product of two tables: a nested-loop join has a total, a single row, on one side."""
    query = mrql.compile(QUERIES[name], **dict.fromkeys(STREAMS, "bag(<a: long, b: long, n: int>)"))
    contents = {"S": S, "T": T, "U": U}
    frames = {stream: spark.createDataFrame(contents[stream], "a long, b long, n int") for stream in STREAMS}
    answer = query.batch(spark, **frames)
    plan = executed_plan(answer)
    assert "CartesianProduct" not in plan
    assert plan.count("BroadcastNestedLoopJoin") == TOTALS[name]
    bags = {stream: Bag([Record(zip("abn", row, strict=True)) for row in contents[stream]]) for stream in STREAMS}
    assert close(collect_value(answer, query.type), evaluate(query.term, bags))
