"""Selects that join a range or a bag of a row with a source, nested and flat: as joins, they mean the same."""

from __future__ import annotations

from functools import cache

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

import mrql
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import CMap, CoGroup, Stream, Term, pair_type
from mrql.algebra.values.values import Bag, Record, Value, close
from mrql.rewrite.pipeline import normal_form
from mrql.rewrite.plan.circuit import circuit_of
from mrql.rewrite.plan.cost import Cost
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.reference.view import ReferenceView
from tests.support.histories import histories, net
from tests.support.planning import planned
from tests.support.weighted import weighted

ROW = "bag(<id: long, t: long, n: int, v: double, p: (long, long), items: {<k: long, w: long>}, tags: [long]>)"
STREAMS = {"S": ROW, "T": ROW}
WINDOW = "h in a.t - 2..a.t, b in T where b.t = h"
QUERIES = {
    "a sum": f"select (a.id, sum(select b.v from {WINDOW})) from a in S",
    "a sum over itself": "select (a.t, sum(select b.v from h in a.t - 2..a.t, b in S where b.t = h)) from a in S",
    "all of the row": f"select (a, count(select b from {WINDOW})) from a in S",
    "averages and extremes": f"select (a.id, avg(select b.v from {WINDOW}), max(select b.id from {WINDOW})) "
    "from a in S",
    "a bag in the head": f"select (a.id, (select (h, b.v) from {WINDOW})) from a in S",
    "exists": f"select a.id from a in S where exists(select b from {WINDOW})",
    "not exists": f"select (a.id, a.v) from a in S where not exists(select b from {WINDOW} and b.id <> a.id)",
    "in": f"select (a.id, a.n) from a in S where a.v in (select b.v from {WINDOW})",
    "the source first": "select (a.id, sum(select b.v from b in T, h in a.t - 2..a.t where h = b.t)) from a in S",
    "two windows": f"select (a.id, sum(select b.v from {WINDOW}), "
    "count(select b from h in a.t..a.t + 5, b in T where b.t = h)) from a in S",
    "a window of its own": "select (a.id, count(select b from h in a.t..a.n, b in T where b.t = h)) from a in S",
    "two equalities": "select (a.id, sum(select b.v from h in a.t - 2..a.t, b in T where b.id = a.id and b.t = h)) "
    "from a in S",
    "a key of both": "select (a.id, sum(select b.v from i in a.items, b in T where b.t = i.k + a.n)) from a in S",
    "conditions of all kinds": f"select (a.id, sum(select b.v + h from {WINDOW} and b.v > 0.0 and h > 0 and a.n > 0 "
    "and a.v < b.v and h > b.id)) from a in S",
    "a bag of the row": "select (a.id, sum(select b.v * i.w from i in a.items, b in T where b.id = i.k)) from a in S",
    "a list of the row": "select (a.id, (select (g, b.n) from g in a.tags, b in T where b.id = g)) from a in S",
    "some of it": "select a.id from a in S where some i in a.items, b in T: b.id = i.k",
    "a bag of parts": "select (a.id, count(select b from q in [a.p, (a.t, a.id)], b in T where b.t = q#0)) from a in S",
    "tuples that are missing": "select (a.id, (select is_null(x#1) from x in [(a.t, a.p)], b in T where b.t = x#0)) "
    "from a in S",
    "generators that go on": "select (a.id, sum(select b.v from i in a.items, h in i.k..i.w, b in T where b.t = h)) "
    "from a in S",
    "a join": "select (a.id, sum(select b.v + c.v from h in a.t - 1..a.t, b in T, c in S "
    "where b.t = h and c.id = b.id)) from a in S",
    "a bag of the source": "select (a.id, sum(select i.w from h in a.t - 1..a.t, b in T, i in b.items where i.k = h)) "
    "from a in S",
    "rows of a join": "select (a.id, sum(select b.v from h in a.t..c.t, b in S where b.t = h)) from a in S, c in T "
    "where a.id = c.id",
    "elements of a bag": "select (a.id, i.w, sum(select b.v from h in i.k - 1..i.k, b in T where b.t = h)) "
    "from a in S, i in a.items",
    "the key of a group": "select (k, count(a), sum(select b.v from h in k - 1..k, b in T where b.t = h)) from a in S "
    "group by k: a.id",
    "a group": "select (k, sum(select b.v from x in a, b in T where b.t = x.t)) from a in S group by k: a.id",
    "a group, and what is asked of it": "select (k, if count(a) > 1 then max(select b.v from x in a, b in T "
    "where b.t = x.t) else 0.0) from a in S group by k: a.id having min(a.n) > 0",
    "under a condition": f"select (a.id, if a.n > 0 then sum(select b.v from {WINDOW}) else -1.0) from a in S",
    "under another nested select": "select (a.id, if exists(select c from c in T where c.id = a.id) then "
    f"sum(select b.v from {WINDOW}) else -1.0) from a in S",
    "below another generator": f"select (a.id, (select (i.k, sum(select b.v from {WINDOW} and b.id = i.k)) "
    "from i in a.items)) from a in S",
    "in a sum": f"sum(select a.n from a in S where a.v < sum(select b.v from {WINDOW}))",
    "flat, the range between": f"select (a.id, b.v) from a in S, {WINDOW}",
    "flat, the range last": "select (a.id, b.v) from a in S, b in T, h in a.t - 2..a.t where b.t = h",
    "flat, the range last, the other first": "select (a.id, b.v) from b in T, a in S, h in a.t - 2..a.t where b.t = h",
    "flat, a bag of each": "select (a.id, b.v) from a in S, b in T, i in a.items, j in b.items where i.k = j.w",
    "flat, what goes on": "select (a.id, b.v, h) from a in S, b in T, i in a.items, h in i.k..i.w where b.t = h "
    "and h > 0 and i.w < b.id",
    "flat, three sources": "select (a.id, b.v, c.v) from a in S, b in T, c in S, h in a.t - 1..a.t "
    "where c.t = h and b.n = c.n",
    "flat, an equality of the rows as well": "select (a.id, b.v) from a in S, b in T, h in a.t - 2..a.t "
    "where b.t = h and b.id = a.id",
    "in groups": f"select (k, sum(n)) from (k, n) in (select (a.id, count(select b from {WINDOW})) from a in S) "
    "group by k",
}
OTHER_ENDS = {
    "a.t - 2..a.t": "a.t - 2..a.n + 2",
    "a.t - 1..a.t": "a.t - 1..a.n + 1",
    "a.t..a.t + 5": "a.n..a.t + 5",
    "i.k - 1..i.k": "i.k - 1..i.w",
    "k - 1..k": "k - 1..count(a)",
}
"""A range whose ends differ by a constant is a window, which is joined by bins (`band_joins.py`)."""


def with_other_ends(text: str) -> str:
    for ends, others in OTHER_ENDS.items():
        text = text.replace(ends, others)
    return text


QUERIES |= {f"{name}, no window": other for name, text in QUERIES.items() if (other := with_other_ends(text)) != text}
GUARDED = {
    "a division in a range": "select (a.id, if a.n <> 0 then count(select b from h in 0..6 / a.n, b in T "
    "where b.t = h) else -1) from a in S",
    "a division in a key": "select (a.id, if a.n <> 0 then count(select b from i in a.items, b in T "
    "where b.t = i.k + 6 / a.n) else -1) from a in S",
    "a division of the source": "select (a.id, count(select b from h in a.t - 2..a.t, b in T where b.n <> 0 "
    "and 6 / b.n = h)) from a in S",
    "a division in a condition": f"select (a.id, count(select b from {WINDOW} and a.n <> 0 and 6 / a.n > b.t)) "
    "from a in S",
    "a division in the head": "select (a.id, sum(select b.t / i.w from i in a.items, b in T where b.id = i.k "
    "and i.w <> 0)) from a in S",
    "behind an empty source": "select (a.id, count(select b from b in T, h in 0..6 / a.n where b.t = h)) from a in S",
    "flat, behind an empty source": "select (a.id, b.v) from a in S, b in T, h in 0..6 / a.n where b.t = h",
    "flat, behind a condition": "select (a.id, b.v) from a in S, b in T, i in a.items, h in a.t - 1..a.t "
    "where a.n <> 0 and b.t = h + 6 / a.n",
    "under another source": "select (a.id, if (all c in T: c.n <> a.n) and a.n <> 0 then count(select b from "
    "h in 0..6 / a.n, b in T where b.t = h) else -1) from a in S",
    "an overflow": "select (a.id, if a.n < 3 then count(select b from h in a.n + 2147483646..a.n, b in T "
    "where b.t = h) else -1) from a in S",
    "a range that is too long": "select (a.id, if a.n < 1 then count(select b from h in 0..a.n * 1000000000000, "
    "b in T where b.t = h) else -1) from a in S",
}


@st.composite
def rows(draw: st.DrawFn) -> Value:
    """A row with few distinct values, some of them missing."""
    small = st.integers(0, 3)
    item = st.fixed_dictionaries({"k": small | st.none(), "w": small}).map(Record)
    columns: dict[str, st.SearchStrategy[Value]] = {
        "id": st.integers(0, 2),
        "t": st.integers(0, 5),
        "n": small,
        "v": st.sampled_from([0.5, -1.0, 2.0]),
        "p": st.tuples(small | st.none(), small | st.none()),
        "items": st.lists(item | st.none(), max_size=3).map(Bag),
        "tags": st.lists(small, max_size=3),
    }
    return Record({name: draw(weighted((7, values), (1, st.none()))) for name, values in columns.items()})


ALL = {**QUERIES, **GUARDED}


@cache
def compiled(name: str) -> tuple[Term, Term, Plan]:
    """A query, its normal form and its plan."""
    term = mrql.compile(ALL[name], **STREAMS).term
    return term, normal_form(term), planned(term, shrinking=frozenset(STREAMS)).plan


@pytest.mark.wide(keep=6)
@pytest.mark.parametrize("name", ALL)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(data=st.data())
def test_they_mean_the_same(name: str, data: st.DataObject) -> None:
    """The normal form, and a view under insertions and deletions, mean the same, even if rows occur several times and
    if values, parts of rows or their collections are missing."""
    term, normal, plan = compiled(name)
    view = ReferenceView(plan)
    streams = [*view.plan.streams]
    arrived = []
    for batch in data.draw(histories(dict.fromkeys(streams, rows()), deletions=True, most=3, largest=6)):
        arrived.append(batch)
        contents = net(arrived, streams)
        try:
            expected = evaluate(term, contents)
        except UserError:
            assume(False)
        assert close(evaluate(normal, contents), expected)
        view.apply(batch.changes())
        assert close(view.answer(), expected)


def sources_within(term: Term) -> list[Term]:
    """The sources that stand inside a function, where they are read anew for each element."""
    bodies = [part.function.body for part in subterms(term) if isinstance(part, CMap)]
    return [part for body in bodies for part in subterms(body) if isinstance(part, Stream)]


def products(term: Term) -> list[Term]:
    """The joins without a key."""
    return [part for part in subterms(term) if isinstance(part, CoGroup) and pair_type(part.left)[0] == ty.UNIT]


@pytest.mark.parametrize("name", QUERIES)
def test_they_are_joined(name: str) -> None:
    """No source is read for each row, none is joined with all rows of another, and a batch costs its keys."""
    trace = mrql.compile(QUERIES[name], **STREAMS).trace()
    assert sources_within(trace.normal_form) == []
    assert products(trace.normal_form) == []
    circuit = circuit_of(trace.plan)
    costs = [circuit.cost(stage.name)[0] for stage in trace.plan.stages]
    costs += [circuit.change(name).reads for name in ("answer", *(derived.name for derived in trace.plan.derived))]
    assert Cost.STATE not in costs
