"""The listed passes, and the traces that they leave."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any

import attrs
import pytest

import mrql
from mrql.algebra.analysis.variables import alpha_equal
from mrql.algebra.errors import InternalError
from mrql.algebra.notation.parser import parse
from mrql.algebra.terms import Lit, Term, Var
from mrql.algebra.types import LONG
from mrql.rewrite import pipeline
from mrql.rewrite.analysis.multilinear import Multilinear
from mrql.rewrite.passes import PLAN, QUERY, AnyPass, Pass, PassRun, Phase, Trace
from mrql.rewrite.pipeline import (
    INCREMENTALIZE,
    LOOPS,
    NORMALIZE,
    OPTIMIZE,
    PREPARE,
    PlanOptions,
    normal_form,
    plan_query,
)
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.plan import Plan
from tests.support.golden_cases import program_traces, traces
from tests.support.planning import planned

BY_PHASE: dict[Phase, tuple[AnyPass, ...]] = {
    Phase.PREPARE: PREPARE,
    Phase.LOOPS: (*LOOPS.values(),),
    Phase.NORMALIZE: NORMALIZE,
    Phase.INCREMENTALIZE: INCREMENTALIZE,
    Phase.OPTIMIZE: OPTIMIZE,
}
ALL = [rule for rules in BY_PHASE.values() for rule in rules]

CLOSURE = (
    "repeat x = E step select distinct z from z in (x union (select (a, d) from (a, b) in x, (c, d) in E where b = c))"
)
EDGES = {"E": "{(long, long)}"}


@cache
def all_traces() -> dict[str, Trace]:
    loops = {
        f"closure, {strategy.value}": planned(mrql.compile(f"{CLOSURE} limit 3", **EDGES).term, strategy=strategy)
        for strategy in LoopStrategy
    }
    return {**traces(), **{name: trace for name, (trace, *_) in program_traces().items()}, **loops}


def test_each_pass_says_where_it_comes_from_and_when_it_holds() -> None:
    names = [rule.name for rule in ALL]
    assert len({*names}) == len(names)
    for rule in ALL:
        assert rule.requires
        assert rule.source == "ours" or re.match(r"\[(MRQL|DBSP|CU)\]", rule.source)


@pytest.mark.parametrize("name", all_traces())
def test_a_trace_has_the_passes_of_each_phase_in_order(name: str) -> None:
    """The phases run in order, each pass in its own phase; the passes over the query and the plan run as listed."""
    runs = all_traces()[name].runs
    phases = [run.phase for run in runs]
    assert phases == sorted(phases, key=list(Phase).index)
    unrolled = (Phase.INCREMENTALIZE, LOOPS[LoopStrategy.EXACT])  # chosen in Phase.LOOPS, but run inside `derive`
    for run in runs:
        assert run.rule in BY_PHASE[run.phase] or (run.phase, run.rule) == unrolled
    for phase in (Phase.PREPARE, Phase.NORMALIZE):
        assert [run.rule for run in runs if run.phase is phase and run.subject == QUERY] == [*BY_PHASE[phase]]
    assert [run.rule for run in runs if run.subject == PLAN] == [*OPTIMIZE]


@pytest.mark.parametrize("name", all_traces())
def test_what_one_pass_gives_the_next_one_gets(name: str) -> None:
    trace = all_traces()[name]
    whole = [run for run in trace.runs if run.subject == QUERY and run.phase is not Phase.PREPARE]
    for one, other in pairwise(whole):
        assert other.before is one.after
    optimized = [run for run in trace.runs if run.phase is Phase.OPTIMIZE]
    for one, other in pairwise([whole[-1], *optimized]):
        assert other.before is one.after
    assert optimized[-1].after is trace.plan


@pytest.mark.parametrize("name", all_traces())
def test_a_pass_has_run_as_it_is_told(name: str) -> None:
    """The trace of `lineage` and `prune`, which run inside `derive`, has what their functions return."""
    runs = [run for run in all_traces()[name].runs if run.rule.name in ("lineage", "prune")]
    assert runs
    for run in runs:
        assert alpha_equal(run.rule.run(run.before), term(run.after))


def term(found: Any) -> Term:
    assert not isinstance(found, Plan)
    return found


@pytest.mark.parametrize("strategy", LoopStrategy)
def test_the_way_of_a_loop_is_a_pass(strategy: LoopStrategy) -> None:
    """The strategy of a loop is traced as one pass, with its reason; only a fixpoint changes the term here."""
    (run,) = (run for run in all_traces()[f"closure, {strategy.value}"].runs if run.phase is Phase.LOOPS)
    taken = LoopStrategy.FIXPOINT if strategy in (LoopStrategy.AUTO, LoopStrategy.DIFFUSE) else strategy
    assert run.rule is LOOPS[taken]
    assert run.has_changed is (taken is LoopStrategy.FIXPOINT)
    assert run.reason


@pytest.mark.parametrize("broken", [Lit("text", LONG), Lit(1, LONG)], ids=["not typed", "of another type"])
def test_a_pass_that_breaks_a_term_is_named(broken: Term, monkeypatch: pytest.MonkeyPatch) -> None:
    query = mrql.compile("select a from (a, b) in E", **EDGES).term
    monkeypatch.setattr(pipeline, "NORMALIZE", (*NORMALIZE, Pass("break", lambda _: broken, "ours", "nothing")))
    normal_form(query)
    with pytest.raises(InternalError, match="internal error in break"):
        plan_query(query, PlanOptions(checked=True))


def test_a_pass_that_breaks_a_plan_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the pass and the stage."""
    query = mrql.compile("select (a, sum(b)) from (a, b) in E group by a", **EDGES).term

    def without_components(plan: Plan) -> Plan:
        return attrs.evolve(plan, stages=tuple(attrs.evolve(stage, components=()) for stage in plan.stages))

    monkeypatch.setattr(pipeline, "OPTIMIZE", (*OPTIMIZE, Pass("break", without_components, "ours", "nothing")))
    plan_query(query)
    with pytest.raises(InternalError, match=r"internal error in break: stage X1: "):
        plan_query(query, PlanOptions(checked=True))


def test_a_run_tells_changes_from_new_names() -> None:
    one, same, other = (parse(f"cMap(λ{v}. {{{e}}}, S)", {"S": "{long}"}) for v, e in ("xx", "yy", ("x", "x + 1L")))
    rule = NORMALIZE[0]
    assert not PassRun(Phase.NORMALIZE, rule, one, same).has_changed
    assert PassRun(Phase.NORMALIZE, rule, one, other).has_changed


class Replaced(Exception):
    """Raised by a pass whose function was replaced."""


@contextmanager
def replaced(rule: AnyPass, run: Callable[..., object]) -> Iterator[None]:
    """Replaces the function of a pass within the context; passes are frozen, so nothing else does this."""
    before = rule.run
    object.__setattr__(rule, "run", run)
    try:
        yield
    finally:
        object.__setattr__(rule, "run", before)


NESTED = "select (n, count(a)) from (a, n) in (select (a, count(b)) from (a, b) in E group by a) group by n"


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name)
def test_the_pass_that_is_listed_is_the_one_that_runs(rule: AnyPass) -> None:
    """This holds in every phase, and for the passes that run inside others."""

    def fail(*_: object, **__: object) -> object:
        raise Replaced

    is_way = rule in LOOPS.values()
    strategy = next((strategy for strategy, own in LOOPS.items() if own is rule), LoopStrategy.AUTO)
    # DIFFUSE is taken only for a loop that is no fixpoint: this one counts the rows of its bag.
    text = DIFFUSED if strategy is LoopStrategy.DIFFUSE else f"{CLOSURE} limit 3" if is_way else NESTED
    query = mrql.compile(text, **EDGES).term
    plan_query(query, PlanOptions(strategy=strategy))
    with replaced(rule, fail), pytest.raises(Replaced):
        plan_query(query, PlanOptions(strategy=strategy))


DIFFUSED = "repeat x = E step select (a, count(b)) from (a, b) in x group by a limit 3"


@pytest.mark.parametrize("name", ["lineage", "split", "prune", "answer"])
def test_a_pass_inside_derive_is_traced(name: str) -> None:
    """A pass inside `derive` is traced once for each run."""
    rule, query = named(name), mrql.compile(NESTED, **EDGES).term
    run, given = rule.run, []

    def counted(*args: Any, **options: Any) -> Any:
        given.append(run(*args, **options))
        return given[-1]

    with replaced(rule, counted):
        trace = plan_query(query)
    assert len(given) == len([each for each in trace.runs if each.rule is rule]) == 2


@pytest.mark.parametrize("name", [rule.name for rule in INCREMENTALIZE])
def test_what_runs_is_what_the_tuple_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that replaces another one in the tuple runs in its place."""
    query = mrql.compile(NESTED, **EDGES).term

    def fails(*args: Any, **options: Any) -> Any:
        raise InternalError("test", name)

    instead = tuple(attrs.evolve(rule, run=fails) if rule.name == name else rule for rule in INCREMENTALIZE)
    monkeypatch.setattr(pipeline, "INCREMENTALIZE", instead)
    with pytest.raises(InternalError, match=f"test: {name}"):
        planned(query)


def test_the_feeds_are_checked() -> None:
    """A feed whose type differs from that of the rows it is made from is an error."""
    query = mrql.compile(NESTED, **EDGES).term
    wrong = Multilinear(Lit(1, LONG), ())
    with replaced(named("feeds"), lambda *_: wrong), pytest.raises(InternalError, match="error in feeds: the type"):
        planned(query)


@pytest.mark.parametrize("name", ["lineage", "prune", "answer"])
def test_a_pass_inside_derive_is_checked(name: str) -> None:
    """An error in the term that a pass returns names the pass."""
    rule, query = named(name), mrql.compile(NESTED, **EDGES).term
    with replaced(rule, lambda *_: Var("nowhere", LONG)), pytest.raises(InternalError, match=f"error in {name}: "):
        planned(query)


def named(name: str) -> AnyPass:
    return next(rule for rule in INCREMENTALIZE if rule.name == name)


def test_the_first_way_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the allowed strategies, the first in the order of `LOOPS` is taken."""
    query = mrql.compile(f"{CLOSURE} limit 3", **EDGES).term
    assert [chosen.strategy for chosen in planned(query).plan.strategies] == [LoopStrategy.FIXPOINT]
    monkeypatch.setattr(pipeline, "LOOPS", dict(reversed(LOOPS.items())))
    assert [chosen.strategy for chosen in planned(query).plan.strategies] == [LoopStrategy.RECOMPUTE]
