"""Joins of three inputs or more: the order for a batch of each input, and that the answer does not depend on it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mrql
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.printer import show
from mrql.algebra.notation.typecheck import check
from mrql.algebra.terms import CMap, CoGroup, Stream
from mrql.algebra.values.values import Bag, close
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.analysis.multilinear import Multilinear, occurrences
from mrql.runtime.reference.view import ReferenceView
from tests.rewrite.incremental.test_document import ROWS
from tests.support.histories import histories, net
from tests.support.incremental_cases import STREAMS
from tests.support.planning import planned


def joined(text: str) -> Multilinear:
    """The rows of the only join of a query."""
    plan = mrql.compile(text, **STREAMS).trace().plan
    (feed,) = [feed for stage in plan.stages for feed in stage.feeds if len(feed.rows.inputs) > 1]
    return feed.rows


CHAIN = "select (a, p.V) from (a, b) in S, (c, d) in T, p in P where b = c and d = p.K"


def test_a_batch_of_the_last_input_comes_first() -> None:
    """A batch of P is joined with T, and the result with S: no join is of two stored sides."""
    rows = joined(CHAIN)
    assert [label for label, _ in rows.orders] == ["P·2"]
    body = rows.for_batch("P·2")
    for term in subterms(body):
        if isinstance(term, CoGroup):
            assert "P·2" in occurrences(term)
    (inner,) = [t for t in subterms(body) if isinstance(t, CoGroup) and len(occurrences(t)) == 2]
    assert set(occurrences(inner)) == {"P·2", "T·1"}
    check(body)


def test_a_side_is_joined_as_it_lies() -> None:
    """An input that is stored by the key of a join is a side of the join directly, without a cMap around it."""
    sides = [(t.left, t.right) for t in subterms(joined(CHAIN).for_batch("P·2")) if isinstance(t, CoGroup)]
    plain = {side.name for pair in sides for side in pair if isinstance(side, Stream)}
    assert plain == {"P·2", "S·0"}
    assert any(isinstance(side, CMap) and occurrences(side) == ("T·1",) for pair in sides for side in pair)


def test_a_condition_on_one_input_that_may_fail() -> None:
    """A condition that may fail allows another order if it is on one input; on joined rows, their join guards it."""
    first = CHAIN.replace("where", "where d > 0 and 6 / d > 1 and")
    assert [label for label, _ in joined(first).orders] == ["P·2"]
    assert joined(f"{CHAIN} and d <> a and 6 / (d - a) > 1").orders == ()


@pytest.mark.parametrize(
    "text",
    [
        "select (a, d) from (a, b) in S, (c, d) in T where b = c",
        "select (a, p.V) from (a, b) in S, (c, d) in T, p in P where b = c and d < p.K",
        "select (a, p.V) from (a, b) in S, (c, d) in T, p in P",
    ],
)
def test_where_there_is_no_other_order(text: str) -> None:
    """Two inputs have one order, and inputs that no equality links keep theirs."""
    assert joined(text).orders == ()


def test_an_equality_over_two_inputs_is_kept_in_every_order() -> None:
    """It links Q to neither of the others alone: if a batch of Q comes first, it is a condition on the joined rows."""
    streams = dict.fromkeys("STQ", "bag((long, long))")
    text = "select (a, e) from (a, x) in S, (b, y) in T, (c, e) in Q where a = b and a = c and x + y = e"
    query = mrql.compile(text, **streams).term
    view = ReferenceView(planned(query).plan)
    view.apply({"S": ZSet.of([(1, 10)]), "T": ZSet.of([(1, 20)])})
    view.apply({"Q": ZSet.of([(1, 99)])})
    assert view.answer() == Bag([])
    view.apply({"Q": ZSet.of([(1, 30)])})
    assert view.answer() == Bag([(1, 30)])


@st.composite
def joins(draw: st.DrawFn) -> str:
    """Joins of three or four inputs, in a chain, a star or a cycle, with filters between and totals above."""
    source = ["(a, b) in S", "(c, d) in T", "p in P", "(e, f) in draw"]
    count = draw(st.sampled_from([3, 3, 4]))
    source[3] = draw(st.sampled_from(["(e, f) in S", "(e, f) in T"]))
    columns = [["a", "b"], ["c", "d"], ["p.K", "p.V"], ["e", "f"]]
    conditions = []
    for i in range(1, count):
        before = draw(st.sampled_from([column for names in columns[:i] for column in names]))
        conditions.append(f"{before} = {draw(st.sampled_from(columns[i]))}")
    some = st.sampled_from([column for names in columns[:count] for column in names])
    one = st.one_of(some, st.builds("{} + {}".format, some, some))
    for comparison in draw(st.lists(st.sampled_from(["<", "=", "=", "<>"]), max_size=2)):
        conditions.append(f"{draw(one)} {comparison} {draw(some)}")
    text = f"from {', '.join(source[:count])} where {' and '.join(conditions)}"
    head = draw(st.sampled_from(["rows", "sum", "groups"]))
    if head == "rows":
        return f"select ({draw(some)}, {draw(some)}) {text}"
    if head == "sum":
        return f"sum(select {draw(some)} * {draw(some)} {text})"
    return f"select (k, sum({columns[0][0]}), count(d)) {text} group by k: {draw(some)}"


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=joins(), data=st.data())
def test_any_join_is_exact(text: str, data: st.DataObject) -> None:
    assert_any_order_is_exact(text, data)


def assert_any_order_is_exact(text: str, data: st.DataObject) -> None:
    """After each batch the answer is that of a single evaluation over the current rows; every order is well-typed."""
    query = mrql.compile(text, **STREAMS).term
    plan = planned(query, shrinking=frozenset(STREAMS)).plan
    for stage in plan.stages:
        for feed in stage.feeds:
            for label, body in feed.rows.orders:
                check(body)
                assert body.type == feed.rows.body.type, (label, show(body))
    streams = sorted(plan.streams)
    view = ReferenceView(plan)
    arrived = []
    for batch in data.draw(histories({name: ROWS[name] for name in streams}, deletions=True, most=3, largest=3)):
        view.apply(batch.changes())
        arrived.append(batch)
        expected = evaluate(query, net(arrived, streams))
        assert close(view.answer(), expected), f"{text}: {view.answer()!r}, not {expected!r}"
