"""The passes compared with files that show what each does, and with the reference evaluator.

A file that differs is either a fault or an intended change: `python -m tests.regenerate` rewrites the files, and the
differences are to be reviewed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import alpha_equal, stream_names
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.evaluation.merge import combine
from mrql.algebra.monoids import BAG, Keyed, ProductMonoid, is_group
from mrql.algebra.notation.parser import parse
from mrql.algebra.notation.readable_names import tidy
from mrql.algebra.terms import CMap, Lambda, PTuple, PVar, Reduce, Single, Stream, Term, Tup, Var, pair_type
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Record, Value, close, same
from mrql.algebra.values.zset import ZSet
from mrql.explain.lineage import lineage_of
from mrql.rewrite.analysis.infer_merge import infer
from mrql.rewrite.analysis.multilinear import label_occurrences, stream_of
from mrql.rewrite.incremental.answer import drop_lineage
from mrql.rewrite.incremental.diminish import diminish
from mrql.rewrite.passes import PassRun, Trace
from mrql.rewrite.plan.plan import Plan, Shape, Stage
from mrql.runtime.reference.view import ReferenceView
from tests.support.golden_cases import CASES, GOLDEN, TYPES, Case, golden_files, program_traces, terms_in, traces

SEEDS = range(3)


@cache
def all_traces() -> dict[str, Trace]:
    """Every case, and every query of the files in `queries/`."""
    from_files = {f"{name}.mrql:{i}": t for name, ts in program_traces().items() for i, t in enumerate(ts)}
    return {**traces(), **from_files}


def all_steps() -> dict[str, PassRun]:
    return {f"{name}-{step.name}": step for name, trace in all_traces().items() for step in trace.steps}


def all_stages() -> dict[str, Stage]:
    return {f"{name}-{stage.name}": stage for name, trace in all_traces().items() for stage in trace.plan.stages}


def states(plan: Plan, data: Mapping[str, Bag]) -> dict[str, Value]:
    """The states of the stages of a plan over some data."""
    return {stage.name: evaluate(stage.derivation.h, data) for stage in plan.stages}


steps = pytest.mark.parametrize("step", all_steps().values(), ids=all_steps().keys())
stages = pytest.mark.parametrize("stage", all_stages().values(), ids=all_stages().keys())
seeds = pytest.mark.parametrize("seed", SEEDS)


def stages_where(holds: Callable[[Stage], bool]) -> pytest.MarkDecorator:
    """Parametrizes a test with the stages for which a condition holds."""
    chosen = {name: stage for name, stage in all_stages().items() if holds(stage)}
    return pytest.mark.parametrize("stage", chosen.values(), ids=chosen.keys())


# --- the files ----------------------------------------------------------------------------------


def test_the_golden_files_are_those_of_the_cases() -> None:
    """No file is missing, and none is left over."""
    found = {path.relative_to(GOLDEN) for path in GOLDEN.rglob("*.txt")}
    assert found == set(golden_files()), "python -m tests.regenerate"


@pytest.mark.parametrize("path", sorted(golden_files()), ids=str)
def test_golden(path: Path) -> None:
    """A golden file has the text that is generated from the passes."""
    assert (GOLDEN / path).read_text(encoding="utf-8") == golden_files()[path], "python -m tests.regenerate"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_terms_in_golden_files_read_back(case: Case) -> None:
    """Each term in the files of a case is, up to bound names, a term of its plan."""
    name = case.name
    trace = traces()[name]
    known = list(_terms(trace))
    sources = {t.name: t for t in subterms(trace.plan.query) if isinstance(t, Stream)}
    sources |= {derived.name: derived.stream for derived in trace.plan.derived}
    variables = {stage.name: stage.var.type for stage in trace.plan.stages}
    shown = [found for path in GOLDEN.glob(f"*/{name}.txt") for found in terms_in(path.read_text(encoding="utf-8"))]
    assert len(shown) >= 7
    for title, text in shown:
        term = parse(text, sources, variables)
        assert any(alpha_equal(term, other) for other in known), f"{title} is not of this plan:\n{text}"


def _terms(trace: Trace) -> Iterator[Term]:
    for step in trace.steps:
        yield from (step.before, step.after)
    for stage in trace.plan.stages:
        d = stage.derivation
        yield from (d.query, d.lineage, d.annotated, d.h, d.answer)
    yield from (derived.term for derived in trace.plan.derived)
    yield trace.plan.answer


# --- the values ---------------------------------------------------------------------------------


def values_of(t: Type, rng: random.Random) -> Value:
    """A small random value of a type; sums of them are exact, and one in eight basic values is missing."""
    match t:
        case ty.Basic():
            return None if rng.random() < 1 / 8 else _atom(t, rng)
        case ty.TupleType(items):
            return tuple(values_of(item, rng) for item in items)
        case ty.RecordType(fields):
            return Record({name: values_of(item, rng) for name, item in fields})
        case ty.BagType(item):
            return Bag(values_of(item, rng) for _ in range(rng.randrange(3)))
        case ty.ListType(item):
            return [values_of(item, rng) for _ in range(rng.randrange(3))]
        case _:
            return None


def _atom(t: ty.Basic, rng: random.Random) -> Value:
    match t:
        case ty.STRING:
            return rng.choice("ab")
        case ty.BOOL:
            return rng.random() < 1 / 2
        case ty.FLOAT | ty.DOUBLE:
            return rng.randrange(-8, 8) / 4
        case _:
            return rng.randrange(4)


def rows(t: Type, rng: random.Random, count: int = 7) -> Bag:
    assert isinstance(t, ty.BagType)
    return Bag(values_of(t.item, rng) for _ in range(count))


def data_for(term: Term, seed: int) -> dict[str, Bag]:
    """Contents for the sources of a term, the same ones for the same seed."""
    sources = {t.name: t.type for t in subterms(term) if isinstance(t, Stream)}
    return {name: rows(sources[name], random.Random(f"{seed} {name}")) for name in sorted(sources)}


def data_for_plan(plan: Plan, seed: int) -> dict[str, Bag]:
    """Contents for the sources of a plan, and the streams derived from them."""
    data = data_for(plan.query, seed)
    view = ReferenceView(plan, {name: data[name] for name in plan.tables})
    view.apply({name: ZSet.of(data[name]) for name in plan.streams})
    return {**data, **{name: rows.bag() for name, rows in view.derived.items()}}


@seeds
@steps
def test_a_pass_keeps_the_value(step: PassRun, seed: int) -> None:
    """`⟦after⟧ = ⟦before⟧`."""
    data = data_for(step.before, seed)
    assert close(evaluate(step.after, data), evaluate(step.before, data))


@seeds
@pytest.mark.parametrize("name", all_traces())
def test_the_answer_over_the_states_is_the_query(name: str, seed: int) -> None:
    """`q(S) = a(h(S))` ([MRQL] §2)."""
    plan = all_traces()[name].plan
    data = data_for_plan(plan, seed)
    assert close(evaluate(plan.answer, data, states(plan, data)), evaluate(plan.query, data))


@seeds
@pytest.mark.parametrize("name", all_traces())
def test_a_stage_answers_its_part_of_the_query(name: str, seed: int) -> None:
    """`q = a(h)`, for the part of a query that one stage answers; what is nested in it has a stage of its own."""
    plan = all_traces()[name].plan
    data = data_for_plan(plan, seed)
    for stage in plan.stages:
        expected = evaluate(stage.derivation.query, data)
        assert close(evaluate(stage.derivation.answer, data, states(plan, data)), expected), stage.name


@seeds
@pytest.mark.parametrize("name", all_traces())
def test_theorem_2(name: str, seed: int) -> None:
    """`A[[q]]x = q` for `x = T[[q]]` ([MRQL] Theorem 2), after the split of what does not merge."""
    plan = all_traces()[name].plan
    data = data_for_plan(plan, seed)
    for stage in plan.stages:
        env = {**states(plan, data), stage.name: evaluate(stage.derivation.annotated, data)}
        expected = evaluate(stage.derivation.query, data)
        assert close(evaluate(lineage_of(stage).answer, data, env), expected), stage.name


def answers_alone(stage: Stage) -> bool:
    """Whether the values of the annotated query are those of the query: nothing is left for the answer to merge."""
    return stage.shape is Shape.BAG or (stage.shape is Shape.KEYED and not lineage_of(stage).dropped)


@seeds
@stages_where(answers_alone)
def test_lineage_is_beside_the_values(stage: Stage, seed: int) -> None:
    """`π2(T[[q]]) = q`, where lineage only repeats the key of a group, and for every bag."""
    data = data_for(stage.derivation.query, seed)
    values = evaluate(second(stage.derivation.lineage), data)
    assert close(values, evaluate(stage.derivation.query, data))


@seeds
@stages
def test_pruning_merges_what_only_lineage_tells_apart(stage: Stage, seed: int) -> None:
    """`reduce(⇑⊗, T(h')) = h`, and `reduce(⊕, π2(h')) = h` for a total, `π2(h') = h` for a bag."""
    annotated = stage.derivation.annotated
    match stage.shape:
        case Shape.KEYED:
            merged: Term = Reduce(stage.merge, drop_lineage(annotated))
        case Shape.TOTAL if isinstance(annotated, Tup):
            assert isinstance(stage.merge, ProductMonoid)
            pairs = zip(stage.merge.items, annotated.items, strict=True)
            merged = Tup(tuple(Reduce(monoid, second(part)) for monoid, part in pairs))
        case Shape.TOTAL:
            merged = Reduce(stage.merge, second(annotated))
        case Shape.BAG:
            merged = second(annotated)
    data = data_for(annotated, seed)
    assert close(evaluate(merged, data), evaluate(stage.derivation.h, data))


def second(pairs: Term) -> Term:
    """`π2(X)`."""
    key_type, value_type = pair_type(pairs)
    theta, v = PVar("θ", key_type), PVar("v", value_type)
    return CMap(Lambda(PTuple((theta, v)), Single(Var("v", value_type))), pairs)


# --- the merge ----------------------------------------------------------------------------------


def values_over_parts(labelled: Term, label: str, seed: int) -> tuple[Value, Value, Value]:
    """`h(A)`, `h(B)` and `h(A ⊎ B)` for two parts of an occurrence of a stream, the other occurrences unchanged."""
    types = {t.name: t.type for t in subterms(labelled) if isinstance(t, Stream)}
    fixed = {name: rows(t, random.Random(f"{seed} {name}")) for name, t in types.items()}
    a, b = (rows(types[label], random.Random(f"{seed} {label} {part}"), 4) for part in "AB")
    first, second, whole = (evaluate(labelled, {**fixed, label: bag}) for bag in (a, b, a + b))
    return first, second, whole


@seeds
@stages
def test_h_merges_as_it_is_judged(stage: Stage, seed: int) -> None:
    """`[Si: ⊎, others: □] ⊢ h : ⊗` says `h(…, A ⊎ B, …) = h(…, A, …) ⊗ h(…, B, …)`."""
    h = stage.derivation.h
    for part in map(label_occurrences, h.items if isinstance(h, Tup) else (h,)):
        for label in stream_names(part):
            merge = infer(part, {label: BAG})
            if merge is None:
                assert stage.components == () or len(stage.feeds) > 1, "only keys, or the sides of a union"
                continue
            first, second, whole = values_over_parts(part, label, seed)
            assert close(combine(merge, first, second), whole), f"{stream_of(label)}: {merge}"


@seeds
@stages_where(lambda stage: is_group(stage.merge))
def test_theorem_3(stage: Stage, seed: int) -> None:
    """`(X ⊗ Y) ⊗̃ Y = X` ([MRQL] Theorem 3), up to keys that are left without support."""
    merge = stage.merge
    data = data_for(stage.derivation.h, seed), data_for(stage.derivation.h, seed + 100)
    x, y = (evaluate(stage.derivation.h, contents) for contents in data)
    result = diminish(merge, combine(merge, x, y), y)
    if isinstance(merge, Keyed):
        keys = [key for key, _ in x]
        result = Bag((key, value) for key, value in result if any(same(key, other) for other in keys))
    assert close(result, x)


# --- the notation -------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_tidy_names_only(case: Case) -> None:
    """The terms in the files are those that the passes made, up to bound names."""
    for term in _terms(traces()[case.name]):
        assert alpha_equal(tidy(term), term)


def test_every_pass_is_shown() -> None:
    """Each pass changes something in some case, so that a file shows it; every kind of stage occurs."""
    shown = {path.parts[0] for path in golden_files()}
    passes = {step.name for step in all_traces()["paper"].steps}
    assert shown == passes | {"lineage", "split", "prune", "answer", "diminish", "queries"}
    assert {stage.shape for stage in all_stages().values()} == set(Shape)


def test_every_stream_is_used() -> None:
    """The cases read all of the streams that are declared for them."""
    used = {t.name for trace in traces().values() for t in subterms(trace.plan.query) if isinstance(t, Stream)}
    assert used == set(TYPES)
