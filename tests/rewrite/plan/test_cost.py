"""The cost of a batch of a join, in words."""

from __future__ import annotations

import pytest

import mrql
from mrql.rewrite.plan.circuit import circuit_of
from mrql.rewrite.plan.cost import Cost
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.operators import Operator, OperatorKind
from tests.support.planning import planned
from tests.tpch.cases import case

PAIRS = dict.fromkeys(("S", "T", "P"), "{(long, long)}")
BY_KEY = "the partners of a batch's rows are looked up by key, in a large state by its blocks"


def join(text: str, *, strategy: LoopStrategy = LoopStrategy.AUTO, shrinking: str = "") -> Operator:
    """The only join of a query; the streams in `shrinking` may lose rows."""
    plan = planned(mrql.compile(text, **PAIRS).term, strategy=strategy, shrinking=frozenset(shrinking)).plan
    (found,) = (o for o in circuit_of(plan).operators if o.kind is OperatorKind.JOIN)
    return found


def test_a_join_of_two_looks_up_partners() -> None:
    found = join("select (a, d) from (a, b) in S, (c, d) in T where b = c")
    assert (found.cost, found.reason) == (Cost.KEYS, BY_KEY)


@pytest.mark.parametrize(
    "head", ["(a, f)", "(b, f)", "(a, d, f)"], ids=["no key is used", "the key is used", "the other key is used"]
)
def test_a_later_join_by_another_key_says_so(head: str) -> None:
    """T is kept by c, by which batches of S look it up; batches of P look it up by d."""
    found = join(f"select {head} from (a, b) in S, (c, d) in T, (e, f) in P where b = c and d = e")
    sent = "batches of P meet T by another key: it is kept by that one too where it is large"
    assert (found.cost, found.reason) == (Cost.KEYS, f"{BY_KEY}; {sent}")


@pytest.mark.parametrize(
    "text",
    [
        "select (a, f) from (a, b) in S, (c, d) in T, (e, f) in P where b = c and d + 1 = e",
        "select a * f from (a, b) in S, (c, d) in T, (e, f) in P where b = c and d = e",
    ],
    ids=["it is computed", "what pairs give may leave its range"],
)
def test_a_key_that_it_cannot_be_kept_by_is_named(text: str) -> None:
    sent = "batches of P meet T by another key than it is kept by, and are sent to all of it"
    assert join(text, shrinking="T").reason == f"{BY_KEY}; {sent}"


def test_later_joins_by_the_key_of_each_input_say_nothing_of_it() -> None:
    """P is kept by e, and always looked up by e, whichever stream has a batch."""
    found = join("select (a, d, f) from (a, b) in S, (c, d) in T, (e, f) in P where b = c and b = e")
    assert "meet P" not in str(found.reason)
    assert "meet T" not in str(found.reason)


def test_of_a_large_query_each_input_is_named_once() -> None:
    plan = case("q08").query.trace().plan
    (found,) = (o for o in circuit_of(plan).operators if o.kind is OperatorKind.JOIN)
    sent = "batches of {} meet {} by another key: it is kept by that one too where it is large"
    assert found.works[0].reason == "; ".join(
        (BY_KEY, sent.format("supplier, orders and customer", "lineitem"), sent.format("customer", "orders"))
    )


def test_the_steps_of_a_loop_look_up() -> None:
    """The steps of a loop look partners up by key, in a large state by its blocks."""
    found = join(
        "repeat w = select distinct e from e in S"
        " step select distinct v from v in (w union (select (a, d) from (a, b) in w, (c, d) in S where b = c))",
        strategy=LoopStrategy.FIXPOINT,
    )
    assert found.reason == BY_KEY
