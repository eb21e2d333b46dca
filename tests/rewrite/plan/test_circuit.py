"""The circuit of a plan: its operators, and the rule by which each follows a change."""

from __future__ import annotations

from itertools import chain, combinations

import pytest

import mrql
from mrql.explain import explain_json, explain_trace
from mrql.rewrite.analysis.multilinear import DeltaForm
from mrql.rewrite.plan.circuit import Circuit, circuit_of
from mrql.rewrite.plan.cost import Cost
from mrql.rewrite.plan.delta_rules import Rule, linear_stage, row_by_row, touched_stage
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.operators import Access, Linearity, OperatorKind
from mrql.rewrite.plan.plan import Stage
from tests.support.incremental_cases import CONSTRUCTS, Construct, plan_of
from tests.support.planning import planned

PAIRS = dict.fromkeys(("S", "T"), "{(long, long)}")
WAYS = """
repeat ways = select distinct e from e in S
  step select distinct w from w in (ways union (select (a, d) from (a, b) in ways, (c, d) in S where b = c))
"""
RANKS = """
repeat ranks = select (n, 1.0) from n in (select distinct a from (a, b) in S)
  step select (b, 0.15 + 0.85 * sum(r)) from (a, r) in ranks, (c, b) in S where a = c group by b
  limit 5
"""


def circuit(
    text: str, *, shrinking: frozenset[str] = frozenset(), strategy: LoopStrategy = LoopStrategy.AUTO
) -> Circuit:
    return circuit_of(planned(mrql.compile(text, **PAIRS).term, shrinking=shrinking, strategy=strategy).plan)


def test_the_operators_of_a_join_under_groups() -> None:
    """Both sides are kept by the join's key, and the groups by their own; the join is not kept."""
    found = circuit("select (a, count(d)) from (a, b) in S, (c, d) in T where b = c group by a")
    assert [(o.id, o.kind, o.inputs) for o in found.operators] == [
        ("S", OperatorKind.SOURCE, ()),
        ("T", OperatorKind.SOURCE, ()),
        ("X1.S", OperatorKind.INDEX, ("S",)),
        ("X1.T", OperatorKind.INDEX, ("T",)),
        ("X1.join", OperatorKind.JOIN, ("X1.S", "X1.T")),
        ("X1", OperatorKind.AGGREGATE, ("X1.join",)),
        ("answer", OperatorKind.ANSWER, ("X1",)),
    ]
    assert {o.id for o in found.operators if o.kept is not None} == {"X1.S", "X1.T", "X1"}
    join = found.by_id["X1.join"]
    assert (join.linearity, join.rule, join.cost) == (Linearity.BILINEAR, "ΔS ⋈ T ⊎ S' ⋈ ΔT", Cost.KEYS)
    assert found.by_id["answer"].rule == Rule.KEYS.value


DIVIDED = "select (a, sum(d / b)) from (a, b) in S, (c, d) in T where a = c group by a"


def test_a_join_that_may_fail_meets_what_is_there() -> None:
    """A join that may fail joins only rows that exist together, if rows may be deleted; otherwise pairs stay."""
    join = circuit(DIVIDED, shrinking=frozenset("T")).by_id["X1.join"]
    assert join.form == DeltaForm.THERE
    assert join.rule == "Δ⁺S ⋈ T' ⊎ Δ⁻S ⋈ T ⊎ (S∩S') ⋈ Δ⁺T ⊎ (S∩S') ⋈ Δ⁻T"
    grows = circuit(DIVIDED).by_id["X1.join"]
    assert (grows.form, grows.rule) == (DeltaForm.CHANGES, "ΔS ⋈ T ⊎ S' ⋈ ΔT")
    kept = circuit(DIVIDED.replace("d / b", "d"), shrinking=frozenset("T")).by_id["X1.join"]
    assert kept.form == DeltaForm.CHANGES


def test_what_is_derived_may_lose_rows() -> None:
    """A derived stream may lose rows: the new value of a group replaces the old one."""
    nested = "(select (a, max(b)) from (a, b) in S group by a)"
    found = circuit(DIVIDED.replace("(a, b) in S", f"(a, b) in {nested}"))
    (join,) = (o for o in found.operators if o.kind is OperatorKind.JOIN)
    assert join.form is DeltaForm.THERE


def test_explain_says_the_rule_that_is_run() -> None:
    query = mrql.compile(DIVIDED, S="{(long, long)}", T="{(long, long)}")
    trace = planned(query.term, shrinking=frozenset("T"))
    rule = trace.circuit.by_id["X1.join"].rule
    assert explain_json(trace)["stages"][0]["feeds"][0]["delta"] == rule
    assert rule in explain_trace(trace, width=200)


def test_what_is_kept_says_how_it_is_read() -> None:
    """Each state says how batches read it: by lookups, once as a whole, or in the steps of a loop."""
    once = circuit(
        "select (a, count(d)) from (a, b) in S, (c, d) in T where b = c group by a", shrinking=frozenset("S")
    )
    read = {o.id: o.access for o in once.operators if o.kept is not None}
    assert read == dict.fromkeys(("S", "X1.S", "X1.T", "X1"), Access.LOOKED_UP)
    whole = circuit("select (n, count(a)) from (a, n) in (select (a, count(b)) from (a, b) in S group by a) group by n")
    (keys, _) = whole.plan.stages
    assert whole.groups(keys.name).access == Access.LOOKED_UP
    sorted_whole = circuit("select (a, count(b)) from (a, b) in S group by a order by count(b)")
    assert sorted_whole.groups("X1").access == Access.ONCE
    steps = circuit(WAYS, shrinking=frozenset("S"), strategy=LoopStrategy.FIXPOINT)
    assert {o.access for o in steps.operators if o.kind is OperatorKind.INDEX and "F" in o.inputs} == {Access.STEPS}
    ranks = circuit(RANKS, shrinking=frozenset("S"), strategy=LoopStrategy.DIFFUSE)
    assert {o.access for o in ranks.operators if o.kind is OperatorKind.INDEX} == {Access.STEPS}
    assert {o.access for o in ranks.operators if o.kind is OperatorKind.DELAY} == {Access.STEPS}


def test_what_may_lose_rows_is_kept() -> None:
    found = circuit("select (a, sum(b)) from (a, b) in S group by a", shrinking=frozenset("S"))
    assert str(found.by_id["S"].kept) == "how many there are by (long, long)"
    assert circuit("select (a, sum(b)) from (a, b) in S group by a").by_id["S"].kept is None


def test_distinct_keeps_counts_alone() -> None:
    found = circuit("select distinct a from (a, b) in S").by_id["X1"]
    assert (found.kind, str(found.kept)) == (OperatorKind.DISTINCT, "how many there are by long")


def test_what_passes_from_stage_to_stage_is_differentiated() -> None:
    found = circuit("select (n, count(a)) from (a, n) in (select (a, count(b)) from (a, b) in S group by a) group by n")
    (passed,) = (o for o in found.operators if o.kind is OperatorKind.DIFFERENTIATE)
    assert passed.inputs == ("X1",)
    assert found.by_id["X2.map"].inputs == (passed.id,)


def test_a_loop_goes_round() -> None:
    """The facts of a fixpoint go back to the stage that they are made from; the bag of a diffused loop is a delay."""
    facts = circuit(WAYS, shrinking=frozenset("S"), strategy=LoopStrategy.FIXPOINT)
    back = facts.by_id["F"]
    assert back.kind is OperatorKind.DIFFERENTIATE
    (stage,) = back.inputs
    assert any("F" in o.inputs for o in facts.of_stage(stage))
    assert facts.access[stage] == Access.STEPS
    ranks = circuit(RANKS, shrinking=frozenset("S"), strategy=LoopStrategy.DIFFUSE)
    assert [o.kind for o in ranks.operators if o.kind is OperatorKind.DELAY] == [OperatorKind.DELAY]
    assert all(Access.SPARSE in access for access in ranks.access.values())


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda construct: construct.name)
def test_a_circuit_hangs_together(construct: Construct) -> None:
    """Every operator has a unique id, stable across plannings, and its inputs are operators of the circuit."""
    plan = plan_of(construct)
    found = circuit_of(plan)
    assert len(found.by_id) == len(found.operators)
    assert {given for o in found.operators for given in o.inputs} <= found.by_id.keys()
    assert found is circuit_of(plan)
    assert found.operators == circuit_of(plan_of(construct)).operators
    assert {stage.name for stage in plan.stages} <= found.by_id.keys()


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda construct: construct.name)
def test_the_rules_are_those_of_the_terms(construct: Construct) -> None:
    """For every set of changed stages, the rule that the circuit looks up is the one that the analyses give."""
    plan = plan_of(construct)
    found = circuit_of(plan)
    for rules in (found.answer, *found.derived.values()):
        by_row = row_by_row(rules.term, plan.stages)
        for changed in subsets(plan.stages):
            names = {stage.name for stage in changed}
            rule = rules.of(names)
            if by_row is not None and names & rules.reads - {by_row.name}:
                assert (rule.rule, rule.stage) == (Rule.ELEMENTS, by_row)
                continue
            linear, touched = linear_stage(rules.term, changed), touched_stage(rules.term, changed)
            expected = Rule.CHANGE if linear else Rule.KEYS if touched else Rule.WHOLE
            assert (rule.rule, rule.stage) == (expected, linear or touched)


def subsets(stages: tuple[Stage, ...]) -> list[tuple[Stage, ...]]:
    return list(chain.from_iterable(combinations(stages, n) for n in range(len(stages) + 1)))
