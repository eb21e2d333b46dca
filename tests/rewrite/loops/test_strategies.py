"""The strategies that keep loops over streams up to date: each gives the value of the loop over all data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mrql
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import Names
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.terms import Lit, Repeat, Term
from mrql.algebra.values.values import Bag, Value, same
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.loops.semi_naive import NotAdding, fixpoint
from mrql.rewrite.passes import Trace
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.runtime.reference.view import ReferenceView
from mrql.translate.compile_program import compile_program
from tests.support.loop_queries import STREAMS, adding_loops, edge_histories
from tests.support.planning import planned

History = list[dict[str, ZSet]]

CLOSURE = """
repeat x = E step select distinct z from z in (x union (select (a, d) from (a, b) in x, (c, d) in E where b = c))
"""
HOPS = """
repeat x = {(1, 0)}
  step select (n, min(d)) from (n, d) in (x union (select (b, d + 1) from (a, d) in x, (c, b) in E where a = c))
       group by n
"""
RANKS = """
repeat r = select (a, 1.0) from (a, b) in E group by a
  step select (n, 0.15 + 0.85 * sum(s))
         from (n, s) in ((select (n, 0.0) from (n, v) in r) union
                         (select (b, v / 4) from (a, v) in r, (c, b) in E where a = c))
        group by n
 limit 4
"""


def cases(examples: int) -> Any:
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


def traced(text: str, strategy: LoopStrategy, streams: Mapping[str, str] = STREAMS) -> tuple[Term, Trace]:
    term = mrql.compile(text, **streams).term
    return term, planned(term, shrinking=frozenset(streams), strategy=strategy)


def assert_kept(
    text: str, history: History, strategy: LoopStrategy, streams: Mapping[str, str] = STREAMS
) -> ReferenceView:
    """After each batch the answer is the value over all data so far."""
    term, trace = traced(text, LoopStrategy.AUTO if strategy is LoopStrategy.RECOMPUTE else strategy, streams)
    assert {chosen.strategy for chosen in trace.plan.strategies} == {strategy}
    view = ReferenceView(trace.plan)
    held = {name: ZSet() for name in streams}
    for batch in ({}, *history):
        view.apply(batch)
        held = {name: rows + batch.get(name, ZSet()) for name, rows in held.items()}
        expected = evaluate(term, {name: rows.bag() for name, rows in held.items()})
        assert same(view.answer(), expected), f"\n   found {view.answer()!r}\nexpected {expected!r}"
    return view


def changes(*batches: tuple[list[Value], list[Value]]) -> History:
    """Batches of inserted and deleted edges."""
    return [{"E": ZSet.of(inserted) - ZSet.of(deleted)} for inserted, deleted in batches]


# --- fixpoints ------------------------------------------------------------------------------------------------------


@cases(80)
@given(adding_loops(), edge_histories())
def test_what_only_adds_is_kept_as_a_fixpoint(text: str, history: History) -> None:
    """A loop whose step only adds is kept as a fixpoint under insertions and deletions, with any cycles of edges."""
    assert_kept(text, history, LoopStrategy.FIXPOINT)


def test_closure() -> None:
    """[DBSP] §6.1: the transitive closure, under insertions and deletions of edges."""
    assert_kept(
        CLOSURE,
        changes(([(1, 2), (2, 3)], []), ([(3, 4)], []), ([], [(2, 3)]), ([(2, 4)], [(1, 2)])),
        LoopStrategy.FIXPOINT,
    )


def test_a_cycle_does_not_support_itself() -> None:
    """A fact derived from an edge, and then again from itself, is retracted with the edge."""
    cycle = [(2, 3), (3, 4), (4, 2)]
    view = assert_kept(CLOSURE, changes(([(1, 2), *cycle], []), ([], [(1, 2)])), LoopStrategy.FIXPOINT)
    assert not any(a == 1 for a, _ in view.answer())  # type: ignore[union-attr]


def test_distinct_with_times() -> None:
    """[RZ] 2.9.11: a fact that two steps give is kept once, with the first step; if that goes, with the other."""
    text = "repeat x = E step select distinct z from z in (x union (select (b, a) from (a, b) in x)) limit 2"
    view = assert_kept(text, changes(([(1, 2), (2, 1)], []), ([], [(1, 2)])), LoopStrategy.FIXPOINT)
    facts = next(iter(view.derived.values()))
    assert sorted(fact for fact, _ in facts) == [((1, 2), 1), ((2, 1), 0)]


def test_what_a_fixpoint_begins_with_may_be_no_stream() -> None:
    """A constant start is in the answer before any batch."""
    assert_kept(HOPS, changes(([(1, 2), (2, 3)], []), ([(1, 3)], []), ([], [(1, 3), (1, 2)])), LoopStrategy.FIXPOINT)


@pytest.mark.parametrize(
    "step",
    [
        "select distinct z from z in (x union (select (b, a) from (a, b) in x where exists(select w from (w, *, *) in W"
        " where w = a)))",
        "select (n, min(v)) from (n, v) in (x union (select (b, v) from (a, v) in x, (c, b) in E where a = c and"
        " exists(select w from (w, *, *) in W where w = b))) group by n",
    ],
)
def test_what_comes_back_by_way_of_another_stage(step: str) -> None:
    """If a condition on another stream becomes a stage that reads the facts of the loop, the loop is recomputed."""
    text = f"repeat x = E step {step}"
    edges, weighted = [(1, 2), (2, 3)], [(1, 9, 0), (3, 4, 0)]
    history = [{"E": ZSet.of(edges), "W": ZSet.of(weighted)}, {"E": ZSet.of([(3, 1)])}, {"W": -ZSet.of(weighted)}]
    assert_kept(text, history, LoopStrategy.RECOMPUTE)
    _, trace = traced(text, LoopStrategy.AUTO)
    assert "is a stage of its own, which reads what it has found" in trace.plan.strategies[0].reason
    with pytest.raises(UserError, match="this loop cannot be kept up to date as a fixpoint"):
        traced(text, LoopStrategy.FIXPOINT)


def test_a_fixpoint_that_does_not_end() -> None:
    """A cycle of negative length raises the error of a loop that runs from its start; the state stays."""
    text = HOPS.replace("d + 1", "d - 1")
    term = mrql.compile(text, max_steps=20, **STREAMS).term
    view = ReferenceView(planned(term, shrinking=frozenset(STREAMS)).plan)
    view.apply({"E": ZSet.of([(1, 2), (2, 3)])})
    before = view.answer()
    with pytest.raises(UserError, match="this loop does not end: after 20 steps it still changes"):
        view.apply({"E": ZSet.of([(3, 1)])})
    assert same(view.answer(), before)
    view.apply({"E": ZSet.of([(3, 4)])})
    assert same(view.answer(), evaluate(term, {"E": Bag([(1, 2), (2, 3), (3, 4)])}))


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ("select z from z in (x union E)", "its step is no group by, nor a select distinct"),
        ("select distinct z from z in E", "its step does not keep what it had"),
        (
            "select distinct z from z in (x union (select (a, b) from (a, b) in E where count(x) < 9))",
            "reads the bag that it carries",
        ),
        ("select (a, sum(b)) from (a, b) in (x union E) group by a", "more of a group than its least"),
        (
            "select (a, min(b)) from (a, b) in (x union (select (b, 9 - a) from (b, a) in x)) group by a",
            "a better value",
        ),
        (
            "select (a, min(b)) from (a, b) in (x union (select (b, a) from (a, b) in x)) group by a",
            "whether there is a row, or its key, depends on the value",
        ),
        (
            "select (a, min(b)) from (a, b) in (x union (select (b, b) from (a, b) in x where b > 3)) group by a",
            "whether there is a row, or its key, depends on the value",
        ),
        ("select (a + 1, min(b)) from (a, b) in (x union E) group by a", "its step does not keep what it had"),
    ],
)
def test_what_is_not_known_to_only_add(step: str, reason: str) -> None:
    """A loop that is not known to only add is recomputed, and the plan gives the reason."""
    text = f"repeat x = E step {step} limit 3"
    term, trace = traced(text, LoopStrategy.AUTO)
    assert [chosen.strategy for chosen in trace.plan.strategies] == [LoopStrategy.RECOMPUTE]
    assert reason in trace.plan.strategies[0].reason
    with pytest.raises(NotAdding, match="|".join([reason])):
        fixpoint(next(part for part in subterms(term) if isinstance(part, Repeat)), Names())
    with pytest.raises(UserError, match="this loop cannot be kept up to date as a fixpoint"):
        traced(text, LoopStrategy.FIXPOINT)


BEST = """
repeat x = X step select (n, {best}(v)) from (n, v) in (x union (select {found})) group by n limit 2
"""
INFINITE = {"X": "bag((long, double))", "Y": "bag((long, long, double))"}


@pytest.mark.parametrize("best", ["min", "max"])
@pytest.mark.parametrize("found", ["v + w", "w + 1 + v", "v - (0.0 - w)"])
def test_the_worse_of_two_values_may_have_no_sum(best: str, found: str) -> None:
    """-∞ + ∞ is NaN, which is greater than all numbers: every start value is followed, not only the best one."""
    text = BEST.format(best=best, found=f"(c, {found}) from (a, v) in x, (b, c, w) in Y where a = b")
    begins = ZSet.of([(1, 0.0), (1, -math.inf), (1, -math.inf)])
    history = [{"X": begins}, {"Y": ZSet.of([(1, 2, math.inf)])}, {"X": -ZSet.of([(1, -math.inf)] * 2)}]
    view = assert_kept(text, history[:2], LoopStrategy.FIXPOINT, INFINITE)
    assert same(dict(view.answer())[2], math.nan if best == "max" else math.inf)  # type: ignore[call-overload]
    assert_kept(text, history, LoopStrategy.FIXPOINT, INFINITE)


def test_a_sum_of_two_facts_may_have_no_value() -> None:
    """A loop that adds two of its facts is a fixpoint over longs, but not over doubles, where -∞ + ∞ is NaN."""
    text = BEST.format(best="max", found="(a, v + u) from (a, v) in x, (b, u) in x where a = b")
    history = [{"X": ZSet.of([(1, 0.0), (1, -math.inf), (1, math.inf)])}]
    assert_kept(text, history, LoopStrategy.RECOMPUTE, INFINITE)
    _, trace = traced(text, LoopStrategy.AUTO, INFINITE)
    assert "is made of two of its facts" in trace.plan.strategies[0].reason
    whole = {"X": "bag((long, long))", "Y": INFINITE["Y"]}
    assert traced(text, LoopStrategy.AUTO, whole)[1].plan.strategies[0].strategy is LoopStrategy.FIXPOINT


PAIRED = "bag((long, (long, long)))"
PASSED_ON = "select (d, z#1) from z in x, (c, d) in E where z#0 = c"


@pytest.mark.parametrize(
    ("of", "step", "batch"),
    [
        pytest.param(
            PAIRED,
            f"select (k, min(v)) from (k, v) in (x union ({PASSED_ON})) group by k",
            [(1, (0, None)), (2, (5, 5))],
            id="(0, null) is before (5, 5), though no comparison says so",
        ),
        pytest.param(
            PAIRED,
            f"select (k#0, (min(v), k#1)) from (q, (v, w)) in (x union ({PASSED_ON} and z#1 > (1, 1)))"
            " group by k: (q, w) limit 4",
            [(1, (0, 7)), (1, (3, 7))],
            id="a condition on a pair that the value is in",
        ),
        pytest.param(
            PAIRED,
            f"select (k, min(v)) from (k, v) in (x union ({PASSED_ON} and z#1#0 > 1)) group by k limit 4",
            [(1, (0, 7)), (1, (3, 7))],
            id="a condition on a part of the value",
        ),
        pytest.param(
            "bag((long, long, long))",
            "select (let m = min((v, w)) in (k, m#0, m#1)) from (k, v, w) in"
            " (x union (select (d, v, w) from (a, v, w) in x, (c, d) in E where a = c and v > 1)) group by k limit 4",
            [(1, 0, 7), (1, 3, 7)],
            id="a condition on a part of the pair that is kept",
        ),
        pytest.param(
            "bag((long, string))",
            'select (k, min(v)) from (k, v) in (x union (select (d, v + "b") from (a, v) in x, (c, d) in E'
            " where a = c)) group by k limit 4",
            [(1, "a"), (1, "ab"), (1, "a!")],
            id="what is less with nothing behind it may be more with something",
        ),
    ],
)
def test_a_better_value_that_does_not_lead_to_a_better_one(of: str, step: str, batch: list[Value]) -> None:
    """A loop in which a better value may lead to a worse one, or to none, is recomputed."""
    history = [{"N": ZSet.of(batch), "E": ZSet.of([(1, 2), (2, 3)])}, {"E": ZSet.of([(1, 3)])}]
    assert_kept(f"repeat x = N step {step}", history, LoopStrategy.RECOMPUTE, {"N": of, "E": STREAMS["E"]})


def test_numbers_of_which_some_are_missing() -> None:
    """The least of nulls alone is null; beside numbers, nulls do not count."""
    step = "select (k, min(v)) from (k, v) in (x union (select (d, v + 1) from (a, v) in x, (c, d) in E where a = c))"
    history = [
        {"N": ZSet.of([(1, None), (2, None), (2, 5)]), "E": ZSet.of([(1, 2), (2, 3)])},
        {"N": ZSet.of([(1, 0), (3, None)])},
        {"N": -ZSet.of([(2, 5)]), "E": -ZSet.of([(1, 2)])},
    ]
    text = f"repeat x = N step {step} group by k limit 4"
    assert_kept(text, history, LoopStrategy.FIXPOINT, {"N": "bag((long, long))", "E": STREAMS["E"]})


# --- step by step ---------------------------------------------------------------------------------------------------


@pytest.mark.wide
@cases(60)
@given(adding_loops().filter(lambda text: "limit" in text), edge_histories(most=3))
def test_steps_that_only_add(text: str, history: History) -> None:
    """A loop that can be a fixpoint can be kept step by step, too."""
    assert_kept(text, history, LoopStrategy.EXACT)


@cases(20)
@given(edge_histories(most=4))
def test_steps_of_ranks(history: History) -> None:
    """Sums that pass back and forth between nodes are kept step by step."""
    assert_kept(RANKS, history, LoopStrategy.EXACT)


@cases(20)
@given(edge_histories(most=3), st.integers(0, 3))
def test_steps_over_two_bags(history: History, steps: int) -> None:
    """The two bags of a pair are passed from step to step separately."""
    text = f"""
    repeat (x, y) = (E, select (b, a) from (a, b) in E)
      step ((select (a, count(d)) from (a, b) in x, (c, d) in y where b = c group by a),
            (select (a, b) from (a, b) in y, (c, d) in x where a = c))
     limit {steps}
    """
    assert_kept(text, history, LoopStrategy.EXACT)


@pytest.mark.parametrize(
    ("strategy", "step"),
    [
        (LoopStrategy.EXACT, "select (b, a) from (a, b) in x"),
        (LoopStrategy.FIXPOINT, "select distinct z from z in x"),
        (LoopStrategy.DIFFUSE, "select (b, a) from (a, b) in x"),
    ],
)
def test_a_limit_made_of_arguments(strategy: LoopStrategy, step: str) -> None:
    """A limit computed from arguments alone is a constant; a malformed argument is an error with its place."""
    text = f"select z from z in (repeat x = E step {step} limit (args[0] as int) + 1);"
    streams = {"E": parse_type("{(long, long)}")}
    (query,) = compile_program(text, "test", streams=streams, args=["2"]).queries
    (chosen,) = planned(query.term, strategy=strategy).plan.strategies
    assert (chosen.strategy, chosen.loop.limit) == (strategy, Lit(3, ty.INT))
    (query,) = compile_program(text, "test", streams=streams, args=["two"]).queries
    with pytest.raises(UserError, match='"two" is not a value of type int') as caught:
        planned(query.term, strategy=strategy)
    assert caught.value.span is not None


@pytest.mark.parametrize(
    ("loop", "reason"),
    [
        ("repeat x = E step select distinct z from z in x", "it has no limit"),
        ("repeat x = E step select (b, a) from (a, b) in x limit 200", "it takes more than 100 steps"),
        ("repeat x = E step select (b, a) from (a, b) in x limit count(E)", "its limit depends on the data"),
        ("repeat x = E step select ((b, a), b < 9) from (a, b) in x limit 3", "the data say when it ends"),
        ("repeat n = 1 step n + count(E) limit 3", "it carries more than bags"),
    ],
)
def test_what_cannot_be_told_step_by_step(loop: str, reason: str) -> None:
    """The error gives the reason and the place."""
    with pytest.raises(UserError, match=f"this loop cannot be kept up to date step by step: {reason}") as caught:
        traced(loop, LoopStrategy.EXACT)
    assert caught.value.span is not None
