"""Conditions that say where an expression can be evaluated: `z <> 0 and 100 / z = x`.

Wherever a rewrite moves an expression that may end in an error, it is evaluated for no more rows than before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import mrql
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import Term
from mrql.algebra.values.values import Value, same
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.reference.view import ReferenceView
from tests.support.histories import histories, net
from tests.support.planning import planned

STREAMS = {
    "S": "bag((long, long))",
    "T": "bag((long, long))",
    "W": "bag((string, long))",
    "B": "bag((bool, long))",
}
ROWS: dict[str, st.SearchStrategy[Value]] = {
    "S": st.tuples(st.integers(0, 3), st.integers(0, 3)),
    "T": st.tuples(st.integers(0, 3), st.integers(0, 3)),
    "W": st.tuples(st.sampled_from(["1", "2", "x"]), st.integers(0, 3)),
    "B": st.tuples(st.sampled_from([True, False, None]), st.integers(0, 3)),
}

GUARDED = (
    # keys of joins
    "select (a, d) from (a, b) in S, (c, d) in T where d <> 0 and 6 / d = a",
    "select (a, d) from (a, b) in S, (c, d) in T where d <> a and 6 / (d - 1) = a",
    "select (a, d) from (a, b) in S, (c, d) in T where (d <> 0 or a = 5) and 6 / d = a",
    "select (a, d) from (a, b) in S, (c, d) in T where a = c and b <> 0 and d <> b and 6 / b = d",
    'select (b, d) from (a, b) in S, (s, d) in W where s <> "x" and (s as long) = a',
    'select (b, d) from (a, b) in S, (s, d) in W where b = d and (d = 1 or s <> "x") and (s as long) = a',
    "select (a, d) from (a, b) in S, (c, d) in T where a = c and (d <> 0 and b > 1) and 6 / d > b",
    "select (a, d) from (a, b) in S, (c, d) in T where if d <> 0 then 6 / d = a else b = d",
    "select (a, d, f) from (a, b) in S, (c, d) in T, (e, f) in S where a = c and d <> e and 6 / (d - e) = f",
    "select (a, d, f) from (a, b) in S, (c, d) in T, (e, f) in S where a = c and d > b and 6 / d = f",
    "select (a, d, f) from (a, b) in S, (c, d) in T, (e, f) in S where a = c and d = f and d > e and 6 / (d - e) > 2",
    "select (a, x) from (a, b) in S, (c, d) in T, x in 0..(6 / d) where a = c and b = x",
    "flatten(select (let y = 6 / d in (select (a, y, z) from z in 0..y)) from (a, b) in S, (c, d) in T"
    " where a = c and d > b)",
    "flatten(select (let y = 6 / d in (select (a, y, e) from (e, f) in S where f = y)) from (a, b) in S, (c, d) in T"
    " where a = c and d > b)",
    "flatten(select (select (a, y, e) from y in 0..(6 / d), (e, f) in S where f = y) from (a, b) in S, (c, d) in T"
    " where a = c and d > b)",
    # nested selects
    "select a from (a, b) in S where exists(select d from (c, d) in T where d <> 0 and 6 / d = a)",
    "select a from (a, b) in S where b <> 0 and exists(select d from (c, d) in T where c = 6 / b)",
    "select a from (a, b) in S where exists(select d from (c, d) in T where b <> 0 and c = 6 / b)",
    "select a from (a, b) in S where exists(select d from (c, d) in T where b <> c and d = 6 / (b - c))",
    "select (a, if b <> 0 then count(select d from (c, d) in T where c = 6 / b) else 0) from (a, b) in S",
    "select (a, if b = 0 then 0 else count(select d from (c, d) in T where c = 6 / b)) from (a, b) in S",
    "select a from (a, b) in S where b = 0 or exists(select d from (c, d) in T where c = 6 / b)",
    "select a from (a, b) in S where count(T) > 2 and exists(select d from (c, d) in T where c = 6 / (b - a))",
    "select a from (a, b) in S where some (c, d) in T: d <> 0 and 6 / d = a",
    "select a from (a, b) in S where all (c, d) in T: d = 0 or 6 / d = a",
    "select (a, (select (c, d) from (c, d) in T where d <> 0 and 6 / d = a)) from (a, b) in S",
    "select (a, select (d, count(select f from (e, f) in S where e = 6 / d)) from (c, d) in T where c = a and d > 0)"
    " from (a, b) in S",
    "select (a, sum(select 6 / d from (c, d) in T where c = a and d <> 0)) from (a, b) in S",
    "select (a, sum(select 6 / (d - b) from (c, d) in T where c = a and d <> b)) from (a, b) in S",
    "select a from (a, b) in S where a in (select 6 / d from (c, d) in T where d <> 0)",
    # elements that no outer row asks for
    "select (a, sum(select 6 / d from (c, d) in T where c = a)) from (a, b) in S",
    "select (a, max(select 6 / (d - b) from (c, d) in T where c = a)) from (a, b) in S where b > 1",
    "select (a, sum(select 6 / d from (c, d) in T)) from (a, b) in S",
    "select (a, b) from (a, b) in S where b > 1 and sum(select 6 / d from (c, d) in T) > b",
    "select (k, n, sum(select 6 / d from (c, d) in T)) from (k, n) in"
    " (select (a, count(b)) from (a, b) in S group by a)",
    "select (k, sum(select f / d from (c, d) in T, (e, f) in S where e = k and c = k)) from (k, n) in"
    " (select (a, count(b)) from (a, b) in S where b > 1 group by a)",
    # values of groups
    "select (a, sum(6 / b)) from (a, b) in S group by a having min(b) > 0",
    "select (a, if min(b) > 0 then sum(6 / b) else 0) from (a, b) in S group by a",
    "select (a, if min(b) = 0 then 0 else max(6 / b)) from (a, b) in S group by a",
    "select (a, min(b) > 0 and sum(6 / b) > 3) from (a, b) in S group by a",
    "select (a, min(b) = 0 or some(6 / b > 3)) from (a, b) in S group by a",
    "select (a, sum(6 / b)) from (a, b) in S where b <> 0 group by a",
    "select (k, count(a)) from (a, b) in S where b <> 0 group by k: 6 / b",
    "select (a, sum(6 / b)) from (a, b) in S group by a having count(b) > 1 and min(b) > 0 order by a",
    # totals, and the terms beside them
    "if count(S) > 0 then 6 / count(S) else 0",
    "select (a, if count(T) > 0 then 6 / count(T) else 0) from (a, b) in S",
    "select (a, if b > 0 then 6 / (count(T) - a) else 0) from (a, b) in S where count(T) > a",
    "select (a, if a > 0 then 100 / count(T) else 0) from (a, b) in S where count(T) > 0",
    "select (a, if b > 0 then 6 / count(T) else 0) from (a, b) in S",
    "(if min(select b from (a, b) in S) > 0 then sum(select 6 / b from (a, b) in S) else 0, count(S))",
    "select 6 / d from (c, d) in T where min(select f from (e, f) in T) > 0",
    "select (a, 6 / (b - d)) from (a, b) in S, (c, d) in T where a = c",
    "select (a, 6 / (b - d + f)) from (a, b) in S, (c, d) in T, (e, f) in S where a = c and d = e",
    # products of sums over a join
    "sum(select b * (6 / d) from (a, b) in S, (c, d) in T where a = c and d <> 0)",
    "sum(select b * (6 / d) from (a, b) in S, (c, d) in T where a = c)",
    "sum(select b * (6 / d) from (a, b) in S, (c, d) in T where a = c and d > b)",
    "select (a, sum(b * (6 / d)), count(d)) from (a, b) in S, (c, d) in T where a = c group by a",
    "select (c, sum(6 / d), count(b)) from (a, b) in S, (c, d) in T where a = c group by c",
    "select (a, b * (6 / d)) from (a, b) in S, (c, d) in T where a = c and b > d",
    # order
    "select (a, b) from (a, b) in S where b <> 0 order by 6 / b limit 2",
    # conditions on other rows
    "select (a, d) from (a, b) in S, (c, d) in T where (all (e, f) in T: f <> 0) and 6 / d = a",
    "select (a, d) from (a, b) in S, (c, d) in T where a = c and (all (e, f) in T: f <> 0) and 6 / d > 1",
    "select (a, (select d from (c, d) in T where (all (e, f) in T: f <> 0) and 6 / d = a)) from (a, b) in S",
    "select (a, (select d from (c, d) in T where (all (e, f) in S: f <> 0) and 6 / b = d)) from (a, b) in S",
    "select a from (a, b) in S where (all (e, f) in T: f <> 0) and exists(select d from (c, d) in T where 6 / d = a)",
    "select (a, if (all (c, d) in T: d <> 0) then (select c from (c, d) in T where a = 6 / d) else {})"
    " from (a, b) in S",
    "flatten(select (let y = 6 / d in {(a, y, y)}) from (a, b) in S, (c, d) in T"
    " where a = c and d in (select b from (f, b) in B where b > 0))",
    "flatten(select (let y = 6 / b in (select (a, y, d) from (c, d) in T where y = d)) from (a, b) in S"
    " where b in (select f from (e, f) in B where f > 0))",
    # a condition that two alternatives share
    "select d from (c, d) in T where (d <> 0 and 6 / d = c) or (d > 1 and 6 / d = c)",
    "select (a, sum(b)) from (a, b) in S group by a having (min(b) > 0 and sum(6 / b) > 3)"
    " or (count(b) > 5 and sum(6 / b) > 3)",
    # conditions that may be missing
    "flatten(select (if f then (if 6 / b > 1 then {b} else {}) else {}) from (f, b) in B)",
    "select x from x in (select (f, b) from (f, b) in B where f) where 6 / x#1 > 1",
    # collections that may be empty
    "select a from (a, b) in S where exists(select d from x in 1..b, (c, d) in T where c = 6 / b)",
    # loops
    "repeat x = S step select distinct z from z in (x union (select (a, 6 / b - 6) from (a, b) in x)) limit 1",
    "repeat x = S step (select (a, min(b)) from (a, b) in (x union (select (6 / a - 6, b) from (a, b) in x))"
    " group by a) limit 1",
    "repeat x = S step select distinct z from z in (x union (select (a, 6 / b) from (a, b) in x where b > 1)) limit 2",
    "repeat x = S step select distinct z from z in (x union (select (a, d) from (a, b) in x, (c, d) in T"
    " where b <> 0 and c = 6 / b)) limit 2",
)


@pytest.mark.parametrize("text", GUARDED)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_guarded_does_not_fail(text: str, data: st.DataObject) -> None:
    """If a single evaluation over the current rows does not fail, the view does not fail either."""
    assert_guarded(text, data)


LARGE: Mapping[str, st.SearchStrategy[Value]] = dict.fromkeys(
    "ST", st.tuples(*[st.sampled_from([0, 1, 2, 9223372036854775807])] * 2)
)
OUT_OF_RANGE = (
    "select (a, d) from (a, b) in S, (c, d) in T where a < 3 and c = a + 1",
    "select (a, d) from (a, b) in S, (c, d) in T where b > 0 and a < 3 and d < 3 and d + 1 = a + 1",
    "select a from (a, b) in S where a < 3 and exists(select d from (c, d) in T where c = a + 1)",
    "select a from (a, b) in S where exists(select d from (c, d) in T where a < 3 and c = a + 1)",
    "select a from (a, b) in S where exists(select d from (c, d) in T where c < 3 and a = c + 1)",
    "select a from (a, b) in S where a < 3 and (a + 1) in (select d from (c, d) in T)",
    "select (a, if a > 2 then 0 else count(select d from (c, d) in T where c = a + 1)) from (a, b) in S",
    "select (a, (select d from (c, d) in T where c = -2 - a)) from (a, b) in S where a < 3",
    # sums over groups that nobody asks for
    "select (a, sum(select d + 1 from (c, d) in T where c = a)) from (a, b) in S where a < 3",
    "select (a, sum(select d * d - c from (c, d) in T where c = a and d > 0)) from (a, b) in S",
    "select (a, avg(select -2 - d from (c, d) in T where c = a)) from (a, b) in S",
    "select (a, if b < 2 then sum(select d * 2 from (c, d) in T where c = a) else b) from (a, b) in S",
    "select (k, sum(b * b)) from (a, b) in S group by k: a having max(b) < 3",
    "select (k, if max(b) < 3 then sum(b + k) else 0) from (a, b) in S group by k: a",
    "select (k, if max(b) < 3 then avg(b * 2 + 0.5) else 0.0) from (a, b) in S group by k: a",
    # the sum itself, which may overflow only where it is asked for
    "select (k, sum(b)) from (a, b) in S group by k: a having max(b) < 3",
    "select (k, if max(b) < 3 then sum(b) else 0) from (a, b) in S group by k: a",
    "select (a, sum(select d from (c, d) in T where c = a)) from (a, b) in S where a < 3",
    "select (a, if b < 2 then sum(select d from (c, d) in T where c = a) else b) from (a, b) in S",
    "select (k, sum(b)) from (a, b) in S, (c, d) in T where a = c group by k: a having max(b) < 3 and max(d) < 3",
    "if max(select b from (a, b) in S) < 3 then sum(select b from (a, b) in S) else 0",
    "select (x, sum(select sum(b) from (a, b) in S where a = y group by k: b)) from (x, y) in T where x < 3",
    # totals over all rows
    "if max(select b from (a, b) in S) < 3 then sum(select b + 1 from (a, b) in S) else 0",
    "if max(select b from (a, b) in S) < 3 then max(select b + a from (a, b) in S) else 0",
    "if max(select b from (a, b) in S) < 3 then avg(select b * 2 from (a, b) in S where b + 1 > 0) else 0.0",
    "select (a, sum(select d + 1 from (c, d) in T)) from (a, b) in S",
    "select (a, count(select d from (c, d) in T where d + 1 > 2)) from (a, b) in S where a < 3",
    "select a from (a, b) in S where b > 2 or exists(select d from (c, d) in T where d * d > 2)",
    # other aggregations, and elements that are kept
    "select (k, max(b * b)) from (a, b) in S group by k: a having max(b) < 3",
    "select (a, max(select d + 1 from (c, d) in T where c = a)) from (a, b) in S",
    "select (a, some(select d + 1 > 2 from (c, d) in T where c = a)) from (a, b) in S",
    "select (a, median(select d * 2 from (c, d) in T where c = a)) from (a, b) in S",
    "select (a, (select (c + d, d) from (c, d) in T where c = a)) from (a, b) in S",
    # conditions
    "select (a, count(select d from (c, d) in T where c = a and d * d > 3)) from (a, b) in S",
    "select a from (a, b) in S where not exists(select d from (c, d) in T where c = a and d + 1 > 2)",
    "select (a, (select d from (c, d) in T where c = a and d + 1 > 2)) from (a, b) in S",
)
"""Queries with numbers that overflow only for rows that a condition excludes, or that have no partner."""


@pytest.mark.parametrize("text", OUT_OF_RANGE)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_leaves_its_range_does_so_only_where_it_is_asked_for(text: str, data: st.DataObject) -> None:
    assert_guarded(text, data, LARGE)


@cache
def compiled(text: str) -> tuple[Term, Plan]:
    """A query and its plan."""
    term = mrql.compile(text, **STREAMS).term
    return term, planned(term, shrinking=frozenset(STREAMS)).plan


def assert_guarded(text: str, data: st.DataObject, rows: Mapping[str, st.SearchStrategy[Value]] = ROWS) -> None:
    """Over a drawn history, the view has the value of the query if a single evaluation does not fail."""
    term, plan = compiled(text)
    view = ReferenceView(plan)
    streams = [name for name in STREAMS if name in view.plan.streams]
    arrived = []
    for batch in data.draw(histories({name: rows[name] for name in streams}, deletions=True, most=3)):
        arrived.append(batch)
        try:
            expected = evaluate(term, net(arrived, streams))
        except UserError:
            assume(False)
        view.apply(batch.changes())
        assert same(view.answer(), expected), f"\n   found {view.answer()!r}\nexpected {expected!r}"
