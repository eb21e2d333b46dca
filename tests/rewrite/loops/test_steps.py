"""Loops in the passes: steps are rewritten as queries of their own, and parts without the loop's variable are found."""

from __future__ import annotations

import pytest

import mrql
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import Names, alpha_equal
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse
from mrql.algebra.notation.printer import show
from mrql.algebra.terms import CoGroup, Let, Reduce, Repeat, Stream, Term
from mrql.algebra.values.values import Bag, same
from mrql.algebra.values.zset import ZSet
from mrql.api.query import with_static
from mrql.explain import explain_trace
from mrql.explain.strict import require_incremental
from mrql.rewrite.loops.invariants import invariants
from mrql.rewrite.loops.rewrite_steps import rewrite_steps
from mrql.rewrite.pipeline import normal_form
from mrql.rewrite.plan.circuit import circuit_of
from mrql.rewrite.plan.cost import Cost
from mrql.runtime.reference.view import ReferenceView
from tests.support.planning import planned

STREAMS = {"S": "bag((long, long))", "T": "bag((long, long))"}
DATA = {"S": Bag([(1, 2), (2, 3), (3, 1), (4, 4)]), "T": Bag([(2, 5), (3, 6), (3, 7)])}


def rewritten(text: str) -> Term:
    """The normal form of a query; asserts that it has the value of the query."""
    term = mrql.compile(text, **STREAMS).term
    after = normal_form(term, checked=True)
    assert same(evaluate(after, DATA), evaluate(term, DATA))
    return after


def kinds(term: Term) -> list[type]:
    return [type(part) for part in subterms(term)]


def test_a_join_with_what_a_loop_carries() -> None:
    """A join with the bag that a loop carries is a coGroup, as any other join."""
    term = rewritten("repeat x = S step select (a, d) from (a, b) in x, (c, d) in S where b = c limit 2")
    assert isinstance(term, Repeat)
    assert CoGroup in kinds(term.function.body)


def test_a_nested_select_over_what_a_loop_carries() -> None:
    """A nested select over the bag that a loop carries is a coGroup, as any other."""
    term = rewritten(
        "repeat x = S step select (a, sum(select d from (c, d) in x where c = b)) from (a, b) in S limit 2"
    )
    assert isinstance(term, Repeat)
    assert CoGroup in kinds(term.function.body)


def test_the_parts_of_a_tuple_are_carried_by_themselves() -> None:
    """A bag that is a part of the tuple carried by a loop can be joined, too."""
    term = rewritten(
        "repeat p = (S, 0) step ((select (a, d) from (a, b) in p#0, (c, d) in S where b = c), p#1 + 1) limit 2"
    )
    assert isinstance(term, Repeat)
    assert show(term.function.body).startswith("(cMap(")
    assert CoGroup in kinds(term.function.body)


def test_a_loop_with_a_name_is_computed_once() -> None:
    """A `let` of a loop that is used twice stays, and its body may join the value of the loop."""
    term = rewritten(
        "let x = (repeat x = S step select (b, a) from (a, b) in x limit 3) "
        "in (count(x), select (a, d) from (a, b) in x, (c, d) in T where b = c)"
    )
    assert isinstance(term, Let)
    assert kinds(term).count(Repeat) == 1
    assert CoGroup in kinds(term.body)


def test_names_of_a_loop_do_not_capture() -> None:
    """A source, a variable of the step and the variable of the loop may have the same name."""
    rewritten("repeat S = S step select (S, x) from (x, y) in S, S in {y, x} where S <> 3 limit 2")
    term = parse("repeat(λx. cMap(λx. cMap(λ(x1, b). {x + x1}, S), x), 2, {1L})", {"S": "{(long, long)}"})
    after = rewrite_steps(term, lambda step: normal_form(step))
    assert same(evaluate(after, DATA), evaluate(term, DATA))


def test_loops_in_loops() -> None:
    """The step of an inner loop is rewritten as a query that may join the bag of the outer loop."""
    text = (
        "repeat x = S step (repeat y = x step select (a, d) from (a, b) in y, (c, d) in x where b = c limit 1) limit 2"
    )
    term = rewritten(text)
    assert isinstance(term, Repeat)
    inner = next(part for part in subterms(term.function.body) if isinstance(part, Repeat))
    assert CoGroup in kinds(inner.function.body)


def test_invariants_are_the_largest_parts_without_the_loop() -> None:
    """A part that occurs twice is one invariant; a part that uses a variable of the step is none."""
    total = "reduce(+, cMap(λ(a, b). {a}, S))"
    step = (
        f"cMap(λ(k, v). cMap(λ(a, b). if a = k then {{(k, b + {total} + {total})}} else {{}}:{{(long, long)}}, S), x)"
    )
    loop = parse(f"repeat(λx. {step}, 2, S)", {"S": "{(long, long)}"})
    assert isinstance(loop, Repeat)
    found, parts = invariants(loop, Names(), lambda part: isinstance(part, Reduce | Stream))
    assert sorted(map(show, parts.values())) == ["S", total]
    assert isinstance(found.source, Stream)
    assert not {Stream, Reduce} & {*kinds(found.function.body)}


@pytest.mark.parametrize(
    "text",
    [
        "repeat x = S step x union T limit 2",
        "select (a, count(b)) from (a, b) in (repeat x = S step x union T limit 2) group by a",
        "repeat n = count(S) step n * 2 limit 2",
    ],
)
def test_a_loop_over_streams_is_recomputed(text: str) -> None:
    """A change of its value reads the whole state, and strict runs refuse it; it reads states, not streams."""
    trace = planned(mrql.compile(text, **STREAMS).term, shrinking=frozenset(STREAMS))
    circuit = circuit_of(trace.plan)
    terms = {"answer": trace.plan.answer, **{derived.name: derived.term for derived in trace.plan.derived}}
    ((name, looping),) = ((name, term) for name, term in terms.items() if Repeat in kinds(term))
    cost = circuit.change(name)
    assert cost.reads is Cost.STATE
    assert cost.reason is not None
    assert cost.reason.startswith("a loop: it runs again from its start, over all of X1")
    assert Stream not in kinds(looping)
    assert "a loop: it runs again from its start" in explain_trace(trace)
    with pytest.raises(UserError, match="a loop: it runs again from its start") as caught:
        require_incremental(trace.plan)
    assert caught.value.span is not None


def test_a_loop_over_an_element_follows_the_elements() -> None:
    """A loop over an element is a function like any other: a batch costs its changes."""
    text = "select (a, repeat n = a step n * 2 limit 3) from (a, b) in S"
    plan = planned(mrql.compile(text, **STREAMS).term, shrinking=frozenset(STREAMS)).plan
    assert circuit_of(plan).change("answer").reads is Cost.DELTA
    (stage,) = plan.stages
    assert alpha_equal(plan.answer, stage.var)


def test_a_loop_over_tables_is_run_once() -> None:
    """A loop over tables is a table of its own beside the streams, even if it occurs twice."""
    text = (
        "r = repeat x = T step select distinct z from z in (x union (select (a, d) from (a, b) in x, (c, d) in T "
        "where b = c)); (select (a, d) from (a, b) in S, (c, d) in r where b = c) union "
        "(select (a, d) from (a, b) in S, (c, d) in r where a = c)"
    )
    term = with_static(mrql.compile(text, **STREAMS).term, frozenset({"T"}))
    trace = planned(term, shrinking=frozenset({"S"}))
    ((name, loop),) = trace.plan.loops
    assert name == "L1"
    assert isinstance(loop, Repeat)
    assert not any(Repeat in kinds(feed.rows.body) for stage in trace.plan.stages for feed in stage.feeds)
    assert "Table L1: a loop over tables that no batch changes" in explain_trace(trace)
    view = ReferenceView(trace.plan, {"T": DATA["T"]})
    view.apply({"S": ZSet.of(DATA["S"])})
    assert same(view.answer(), evaluate(term, DATA))


def test_a_loop_over_tables_has_no_name_of_another_table() -> None:
    """A loop that becomes a table gets a new name, even if a table of that name is read only by a loop over streams."""
    pairs = "bag((long, long))"
    closure = "repeat x = {} step select distinct z from z in (x union (select (a, d) from (a, b) in x, (c, d) in {}"
    text = (
        f"l = {closure.format('R', 'R')} where b = c)); f = {closure.format('S', 'L1')} where b = c));"
        " select (a, d) from (a, b) in f, (c, d) in l where b = c"
    )
    term = with_static(mrql.compile(text, S=pairs, R=pairs, L1=pairs).term, frozenset({"R", "L1"}))
    trace = planned(term, shrinking=frozenset({"S"}))
    tables = {"R": Bag([(1, 2), (2, 3)]), "L1": Bag([(9, 1)])}
    view = ReferenceView(trace.plan, tables)
    view.apply({"S": ZSet.of([(8, 9)])})
    assert same(view.answer(), evaluate(term, {**tables, "S": Bag([(8, 9)])}))
