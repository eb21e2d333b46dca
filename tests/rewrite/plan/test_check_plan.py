"""A malformed plan is detected, with its pass and stage: each kind of fault, in a plan made for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mrql
from mrql.algebra import types as ty
from mrql.algebra.errors import InternalError
from mrql.algebra.monoids import BAG, SUM
from mrql.algebra.terms import Empty, Lit, PAny, Single, Stream, Tup, Union, Var
from mrql.rewrite.plan.check_plan import check_plan
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.plan import Feed, Plan, Shape
from tests.support.construct_queries import construct_queries
from tests.support.loop_queries import STREAMS as EDGES
from tests.support.loop_queries import adding_loops
from tests.support.planning import planned
from tests.support.queries import STREAMS, queries
from tests.support.sum_queries import sum_queries

PAIRS = dict.fromkeys("STU", "{(long, long)}")

GROUPED = "select (a, max(b), sum(b)) from (a, b) in S group by a"
SUMMED = "select (a, sum(b * d)) from (a, b) in S, (c, d) in T where a = c group by a"
NESTED = "select (n, count(a)) from (a, n) in (select (a, count(b)) from (a, b) in S group by a) group by n"
ORDERED = "select (a, f) from (a, b) in S, (c, d) in T, (e, f) in U where b = c and d = e"
BESIDE = "(sum(select a from (a, b) in S), select b from (a, b) in S)"
FOUND = (
    "repeat x = S step select distinct z from z in (x union (select (a, d) from (a, b) in x, (c, d) in S where b = c))"
)
CARRIED = "repeat x = S step select (a, sum(b) / 2) from (a, b) in (x union S) group by a limit 3"


@cache
def plan(text: str) -> Plan:
    strategy = LoopStrategy.DIFFUSE if text == CARRIED else LoopStrategy.AUTO
    return planned(mrql.compile(text, **PAIRS).term, shrinking=frozenset("ST"), strategy=strategy).plan


def stage(plan: Plan, n: int = 0, **changes: Any) -> Plan:
    """The plan with changes to its n-th stage."""
    stages = list(plan.stages)
    stages[n] = attrs.evolve(stages[n], **changes)
    return attrs.evolve(plan, stages=tuple(stages))


def derivation(plan: Plan, **changes: Any) -> Plan:
    return stage(plan, derivation=attrs.evolve(plan.stages[0].derivation, **changes))


def component(plan: Plan, **changes: Any) -> Plan:
    first, *others = plan.stages[0].components
    return stage(plan, components=(attrs.evolve(first, **changes), *others))


def feed(plan: Plan, **changes: Any) -> Plan:
    first, *others = plan.stages[0].feeds
    return stage(plan, feeds=(attrs.evolve(first, **changes), *others))


def rows(plan: Plan, **changes: Any) -> Plan:
    return feed(plan, rows=attrs.evolve(the_feed(plan).rows, **changes))


def reads(plan: Plan, **changes: Any) -> Plan:
    first, *others = the_feed(plan).rows.inputs
    return rows(plan, inputs=(attrs.evolve(first, **changes), *others))


def unit(plan: Plan, share: Any, index: int | None = None) -> Plan:
    (old, _), *others = the_feed(plan).units
    return feed(plan, units=((old if index is None else index, share), *others))


def derived(plan: Plan, **changes: Any) -> Plan:
    return attrs.evolve(plan, derived=(attrs.evolve(plan.derived[0], **changes), *plan.derived[1:]))


def fed_back(plan: Plan, **changes: Any) -> Plan:
    loop = plan.feedbacks[0]
    parts = (attrs.evolve(loop.parts[0], **changes), *loop.parts[1:])
    return attrs.evolve(plan, feedbacks=(attrs.evolve(loop, parts=parts),))


def the_feed(plan: Plan) -> Feed:
    return plan.stages[0].feeds[0]


LONG, ONE = ty.LONG, Lit(1, ty.LONG)
UNKNOWN = Var("nobody", LONG)
WRONG = Tup((Lit("text", LONG),))
"""A literal that is not a value of its type."""
STREAM = Stream("S", ty.BagType(ty.TupleType((LONG, LONG))))
TABLE = Stream("R", ty.BagType(LONG), static=True)

BROKEN: dict[str, tuple[str, Callable[[Plan], Plan], str]] = {
    # names
    "two stages of one name": (NESTED, lambda p: stage(p, 1, name=p.stages[0].name), "is the name of 2 things"),
    "a stage named as a stream": (GROUPED, lambda p: stage(p, name="S"), "S is the name of 2 things"),
    "a stream that is not read shrinks": (
        GROUPED,
        lambda p: attrs.evolve(p, shrinking=frozenset("Z")),
        "Z may shrink",
    ),
    "a table that is over a stream": (
        GROUPED,
        lambda p: attrs.evolve(p, loops=(("L", STREAM),)),
        "the table L: S is no stream",
    ),
    # what a stage is
    "a key of a total": (BESIDE, lambda p: stage(p, key_type=LONG), "is one total, and its key long"),
    "a total of nothing": (BESIDE, lambda p: stage(p, components=()), "has not the components none"),
    "a bag of a sum": (BESIDE, lambda p: stage(p, shape=Shape.BAG), "a bag has not the components +"),
    "another merge": (GROUPED, lambda p: derivation(p, merge=BAG), "it merges with ⊎"),
    "another monoid": (GROUPED, lambda p: component(p, monoid=SUM), "its components with"),
    "a component of another type": (BESIDE, lambda p: component(p, type=ty.STRING), "which + does not merge"),
    "what is narrow, and no sum": (GROUPED, lambda p: component(p, narrow=True), "is narrow, and no sum"),
    "two components of one name": (
        GROUPED,
        lambda p: component(p, name=p.stages[0].components[1].name),
        "two of its components have one name",
    ),
    # its derivation
    "a query that is not typed": (GROUPED, lambda p: derivation(p, query=WRONG), "its derivation: query: "),
    "an h of another type": (GROUPED, lambda p: derivation(p, h=p.query), "h {(long, "),
    "an answer of another type": (GROUPED, lambda p: derivation(p, answer=ONE), "the answer long, and not"),
    "an answer over a later stage": (
        NESTED,
        lambda p: derivation(p, answer=p.stages[1].var),
        "is no stage that it may read",
    ),
    # rows
    "rows that are no pairs": (GROUPED, lambda p: feed(p, element=PAny(ty.STRING)), "rows: they are "),
    "a key of another type": (GROUPED, lambda p: feed(p, key=PAny(ty.STRING)), "the key string, and not long"),
    "rows that are not linear": (
        BESIDE,
        lambda p: rows(p, body=Union(the_feed(p).rows.body, Single(Tup((Tup(()), Tup((ONE, ONE))))))),
        "they are not linear in each input",
    ),
    "rows without an input": (
        BESIDE,
        lambda p: rows(p, body=Empty(the_feed(p).rows.body.type)),
        "they read no input, and not each input once",
    ),
    "an input twice": (SUMMED, lambda p: rows(p, inputs=2 * the_feed(p).rows.inputs), "two inputs have one label"),
    "an input of another stream": (GROUPED, lambda p: reads(p, stream="T"), "it is said to read T"),
    "an input of another type": (
        GROUPED,
        lambda p: reads(p, term=attrs.evolve(the_feed(p).rows.inputs[0].term, type=ty.BagType(ty.STRING))),
        "and read as {string}",
    ),
    "an input without a stream": (GROUPED, lambda p: reads(p, term=Empty(p.streams["S"])), "it reads no stream"),
    "an input of a stream that is not there": (
        GROUPED,
        lambda p: attrs.evolve(p, query=Empty(p.query.type), shrinking=frozenset()),
        "is no stream that it may read",
    ),
    "an order of another input": (
        ORDERED,
        lambda p: rows(p, orders=(("V·9", the_feed(p).rows.orders[0][1]),)),
        "V·9 has an order, and is no input",
    ),
    "an order that leaves an input out": (
        ORDERED,
        lambda p: rows(p, orders=((the_feed(p).rows.orders[0][0], Empty(the_feed(p).rows.body.type)),)),
        "they read no input, and not each input once",
    ),
    # shares
    "a share in no component": (GROUPED, lambda p: unit(p, ONE, 7), "its share in component 7: there is none"),
    "two shares in a component": (GROUPED, lambda p: unit(p, ONE, 1), "it has two shares in one component"),
    "a share of another type": (GROUPED, lambda p: unit(p, Lit("a", ty.STRING)), "component 0 string, and not {long}"),
    "a share over what is no column": (GROUPED, lambda p: unit(p, UNKNOWN), "nobody is no variable of a row"),
    "a share over a stream": (
        GROUPED,
        lambda p: unit(p, STREAM),
        "S is no stream that it may read",
    ),
    "a share over a table": (GROUPED, lambda p: unit(p, TABLE), "R is no table that it may read"),
    # sums of sides
    "sums without a weight": (
        SUMMED,
        lambda p: feed(p, weight=None, totals=()),
        "is kept as sums, and the feed has no",
    ),
    "a total without a weight": (GROUPED, lambda p: feed(p, totals=(0,)), "is a total, and the feed has no weight"),
    "a weight without sums": (GROUPED, lambda p: feed(p, weight=ONE), "it has a weight, and an input is not kept as"),
    "a weight that is no number": (SUMMED, lambda p: feed(p, weight=Lit("a", ty.STRING)), "its weight string"),
    "a weight over what is no column": (SUMMED, lambda p: feed(p, weight=UNKNOWN), "its weight: nobody is no variable"),
    "more sums than values": (SUMMED, lambda p: reads(p, sums=9), "of which 9 are sums"),
    "a total that is none": (SUMMED, lambda p: unit(p, Lit(1.0, ty.DOUBLE)), "which is no total of long"),
    "a total that no row adds to": (SUMMED, lambda p: feed(p, totals=(0, 5)), "component 5 is a total without a share"),
    # derived streams and loops
    "a stream over nothing": (
        NESTED,
        lambda p: derived(p, term=Single(Tup((UNKNOWN, Tup(()))))),
        "made of nobody: that does not stand before it",
    ),
    "a stream that nobody reads": (
        NESTED,
        lambda p: attrs.evolve(p, derived=(*p.derived, attrs.evolve(p.derived[0], name="D9"))),
        "the stream D9: no stage reads it",
    ),
    "a stage before what it reads": (
        NESTED,
        lambda p: attrs.evolve(p, stages=p.stages[::-1]),
        "that does not stand before it",
    ),
    "a recursion that is none": (FOUND, lambda p: derived(p, loop=None), "that does not stand before it"),
    "a loop that is fed something else": (CARRIED, lambda p: fed_back(p, value=ONE), "it is long, and not"),
    "a loop that begins with a stream": (
        CARRIED,
        lambda p: fed_back(p, start=STREAM),
        "the start of the stream C: S is no stream",
    ),
    # the answer
    "an answer over a stream": (GROUPED, lambda p: attrs.evolve(p, answer=p.query), "the answer: S is no stream"),
    "an answer over no stage": (GROUPED, lambda p: attrs.evolve(p, stages=()), "is no stage that it may read"),
    "an answer that is not of the query": (GROUPED, lambda p: attrs.evolve(p, answer=ONE), "it is long, and not"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plan_is_found(name: str) -> None:
    """Each fault is reported with its pass; the intact plan passes the check."""
    text, broken, message = BROKEN[name]
    check_plan("before", plan(text))
    with pytest.raises(InternalError) as raised:
        check_plan("after", broken(plan(text)))
    assert message in str(raised.value)
    assert str(raised.value).startswith("internal error in after: ")


def test_the_stage_is_named() -> None:
    whole = plan(NESTED)
    broken = stage(whole, 1, key_type=ty.STRING)
    with pytest.raises(InternalError, match=f"internal error in share: stage {whole.stages[1].name}: "):
        check_plan("share", broken)


CASES = settings(max_examples=45, deadline=None, suppress_health_check=list(HealthCheck))


@CASES
@given(queries() | construct_queries() | sum_queries(), st.booleans())
def test_plans_of_generated_queries(text: str, shrinks: bool) -> None:
    """Each pass over a plan keeps it well formed."""
    planned(mrql.compile(text, **STREAMS).term, shrinking=frozenset(STREAMS if shrinks else ()))


@CASES
@given(adding_loops(), st.sampled_from([LoopStrategy.AUTO, LoopStrategy.RECOMPUTE]))
def test_plans_of_generated_loops(text: str, strategy: LoopStrategy) -> None:
    planned(mrql.compile(text, **EDGES).term, shrinking=frozenset(EDGES), strategy=strategy)
