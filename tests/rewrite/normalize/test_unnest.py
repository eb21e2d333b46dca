"""Nested selects: which become coGroups, and how many states that takes."""

from __future__ import annotations

import pytest

import mrql
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import CMap, CoGroup, Stream, Term, element_type
from mrql.algebra.values.values import Bag, close
from mrql.rewrite.passes import Trace
from mrql.rewrite.plan.circuit import circuit_of
from mrql.rewrite.plan.cost import Cost
from mrql.rewrite.plan.plan import Shape
from tests.support.incremental_cases import STREAMS


def traced(query: str) -> Trace:
    return mrql.compile(query, **STREAMS).trace()


def rewritten(query: str) -> Term:
    return traced(query).steps[-1].after


def nested_sources(term: Term) -> list[Term]:
    """The sources that stand inside a function, where they are read anew for each element."""
    bodies = [t.function.body for t in subterms(term) if isinstance(t, CMap)]
    return [t for body in bodies for t in subterms(body) if isinstance(t, Stream)]


NESTED = {
    "over one stream": "select a from (a, b) in S where b > sum(select d from (c, d) in T where c = a)",
    "over a join, by its first side": "select (a, p.V) from (a, b) in S, p in P "
    "where b = p.K and p.V > sum(select d from (c, d) in T where c = a)",
    "over a join, by its second side": "select (a, p.V) from (a, b) in S, p in P "
    "where b = p.K and a > sum(select d from (c, d) in T where c = p.V)",
    "over a join, by both sides": "select (a, p.V) from (a, b) in S, p in P "
    "where b = p.K and a > sum(select d from (c, d) in T where c = p.V and d = a)",
    "over a join of three": "select (a, p.V) from (a, b) in S, p in P, (e, f) in S "
    "where b = p.K and f = p.V and a > sum(select d from (c, d) in T where c = e)",
    "over the elements of nested bags": "select (p.K, i.U) from p in P, i in p.I "
    "where p.V > sum(select d from (c, d) in T where c = i.U)",
    "in the head of a join": "select (a, (select d from (c, d) in T where c = p.V)) from (a, b) in S, p in P "
    "where b = p.K",
    "in an aggregate over a join": "sum(select b from (a, b) in S, p in P "
    "where a = p.K and b < avg(select d from (c, d) in S where c = p.K))",
    "that is a join": "select a from (a, b) in S where b > sum(select p.V from (c, d) in T, p in P "
    "where d = p.K and c = a)",
    "that is a join, by its second side": "select a from (a, b) in S where b > sum(select d from (c, d) in T, p in P "
    "where d = p.K and p.V = a)",
    "that is a join of three": "select a from (a, b) in S where b in (select f from (c, d) in T, p in P, (e, f) in S "
    "where d = p.K and p.V = e and c = a)",
    "that is a join, in a condition of a join": "select (a, p.V) from (a, b) in S, p in P where b = p.K "
    "and a = min(select d from (c, d) in T, (e, f) in S where d = e and c = p.V)",
    "over elements of nested bags": "select a from (a, b) in S where b > sum(select i.U from p in P, i in p.I "
    "where i.U = a)",
}


@pytest.mark.parametrize("query", NESTED.values(), ids=NESTED.keys())
def test_a_correlated_select_is_a_co_group(query: str) -> None:
    """No source is read for each element, and a batch costs its keys, wherever the equality's variable comes from."""
    trace = traced(query)
    assert nested_sources(trace.steps[-1].after) == []
    circuit = circuit_of(trace.plan)
    made = ["answer", *(derived.name for derived in trace.plan.derived)]
    assert Cost.STATE not in [circuit.change(name).reads for name in made]


def test_sum_and_count_of_an_average_share_a_state() -> None:
    """One coGroup for both: two would hand the matches themselves from one stage to the next."""
    plan = traced("select a from (a, b) in S where b > avg(select d from (c, d) in T where c = a)").plan
    assert [(stage.shape, len(stage.components)) for stage in plan.stages] == [(Shape.KEYED, 3)]
    assert plan.derived == ()


def test_nested_selects_of_one_key_share_a_state() -> None:
    """Nested selects of one key share a coGroup, even if their conditions differ and one is in the head."""
    query = "select (a, max(select d from (c, d) in T where c = a and d < b)) from (a, b) in S "
    term = rewritten(query + "where exists(select d from (c, d) in T where c = a and d > 1)")
    assert len([t for t in subterms(term) if isinstance(t, CoGroup)]) == 1


def test_nested_selects_of_other_keys_do_not() -> None:
    """Nested selects of different keys have different matches, and a coGroup each."""
    query = "select (a, count(select d from (c, d) in T where c = b)) from (a, b) in S "
    term = rewritten(query + "where exists(select d from (c, d) in T where c = a)")
    assert len([t for t in subterms(term) if isinstance(t, CoGroup)]) == 2


def test_no_group_is_held_by_the_elements_of_a_join() -> None:
    """The joined rows that a nested select is over hold no groups of the join that they come from."""
    for name in ("over a join, by its first side", "over a join, by its second side", "over a join of three"):
        for term in subterms(rewritten(NESTED[name])):
            if isinstance(term, CoGroup):
                assert not ty.has_collection(element_type(term.left)), name


CALLED = [
    "select z from (a, b) in T, (y, z, ys) in W where y + b = ys and y in U",
    "select z from (ys, b) in T, (y, z, ys1) in W where y + b = ys1 and y in U",
    "select (ys1, c1) from (ys1, b) in T, (ys, c1) in T where b not in (select ys from (c, ys) in T where c = ys1)",
    "select (n, sum(select ys#0 from b in W)) from n in U, x = n, ys in T where n = ys#0 or exists(select 1 from "
    "(k, a, v) in W where v = x group by s: ys#0, x1: v having s = n)",
    "select (xs, j) from (xs, j) in T, (xs1, j1) in T where xs = xs1 and j in (select k from (k, s) in T where s = j)",
]
"""Queries whose variables have names that the passes invent."""


@pytest.mark.parametrize("text", CALLED)
def test_what_variables_are_called(text: str) -> None:
    """The query means the same after each pass."""
    pairs = "bag((long, long))"
    query = mrql.compile(text, T=pairs, W="bag((long, long, long))", U="bag(long)")
    contents = {
        "T": Bag([(1, 2), (3, 4), (2, 2), (4, 1)]),
        "W": Bag([(1, 7, 3), (3, 8, 7), (2, 9, 4), (1, 5, 1)]),
        "U": Bag([1, 3, 3]),
    }
    expected = evaluate(query.term, contents)
    for step in query.trace().steps:
        assert close(evaluate(step.after, contents), expected), step.name
