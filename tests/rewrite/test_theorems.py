"""The theorems of [MRQL] as properties, over generated queries, data and splits."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mrql
from mrql.algebra import monoids
from mrql.algebra.evaluate import evaluate
from mrql.algebra.monoids import BAG, combine
from mrql.algebra.terms import Reduce, Term
from mrql.algebra.values import Bag, Value, same
from mrql.algebra.zset import ZSet
from mrql.rewrite.answer import drop_lineage
from mrql.rewrite.infer import infer, stream_names
from mrql.rewrite.multilinear import label_occurrences, stream_of
from mrql.rewrite.passes import rewrite
from mrql.rewrite.stages import Plan, Shape, Stage
from mrql.runtime.reference import ReferenceView
from tests.queries import ROWS, STREAMS, Batch, batches, net, queries, simple_queries

property_settings = settings(deadline=None, suppress_health_check=list(HealthCheck))


def compiled(text: str) -> Term:
    return mrql.compile(text, **STREAMS).term


def used(text: str) -> list[str]:
    """The streams that a query's text names."""
    return sorted(set(re.findall(r"\b[XYP]\b", text)))


def deletable(plan: Plan) -> bool:
    """Whether every state can take back what it was given."""
    return all(monoids.is_group(c.monoid) for stage in plan.stages for c in stage.components)


def apply(view: ReferenceView, batch: Batch, streams: Sequence[str]) -> None:
    deltas = {}
    for name in streams:
        if name in batch.inserted or name in batch.deleted:
            deltas[name] = ZSet.of(batch.inserted.get(name, ())) - ZSet.of(batch.deleted.get(name, ()))
    view.apply(deltas)


@settings(property_settings, max_examples=250)
@given(queries(), st.data())
def test_incremental_equals_batch(text: str, data: st.DataObject) -> None:
    """After every batch the answer is that of the net data, deletions included where states are groups."""
    term = compiled(text)
    plan = rewrite(term).plan
    streams = used(text)
    arrived = data.draw(batches(streams, deletions=deletable(plan)))
    view = ReferenceView(plan)
    for i, batch in enumerate(arrived):
        apply(view, batch, streams)
        expected = evaluate(term, net(arrived[: i + 1], streams))
        assert same(view.answer(), expected)


@settings(property_settings, max_examples=100)
@given(queries(), st.data())
def test_passes_keep_value_and_type(text: str, data: st.DataObject) -> None:
    """Each pass leaves the query's value and type as they were."""
    term = compiled(text)
    trace = rewrite(term, checked=True)
    contents = net(data.draw(batches(used(text), most=1)), used(text))
    expected = evaluate(term, contents)
    for step in trace.steps:
        assert same(evaluate(step.after, contents), expected), step.name


@settings(property_settings, max_examples=100)
@given(queries(), st.data())
def test_theorem_2_answer_of_h_is_the_query(text: str, data: st.DataObject) -> None:
    """`a(h(S)) = q(S)`, with each `h` evaluated as the term that it is."""
    term = compiled(text)
    plan = rewrite(term).plan
    contents = net(data.draw(batches(used(text), most=1)), used(text))
    states = {stage.name: evaluate(stage.derivation.h, contents) for stage in plan.stages}
    assert same(evaluate(plan.answer, contents, states), evaluate(term, contents))


def plus(contents: dict[str, Bag], stream: str, rows: Sequence[Value]) -> dict[str, Bag]:
    return {**contents, stream: contents[stream] + Bag(rows)}


def check_homomorphism(stage: Stage, contents: dict[str, Bag], stream: str, delta: Sequence[Value]) -> bool:
    """`h(S ⊎ Δ, T) = h(S, T) ⊗ h(Δ, T)` for one stream that occurs once; False where it does not apply."""
    labelled = label_occurrences(stage.derivation.h)
    if [stream_of(name) for name in stream_names(labelled)].count(stream) != 1:
        return False
    label = next(name for name in stream_names(labelled) if stream_of(name) == stream)
    merge = infer(labelled, {label: BAG})
    if merge is None:  # a union is a homomorphism summand by summand
        return False
    h = stage.derivation.h
    whole = evaluate(h, plus(contents, stream, delta))
    parts = [evaluate(h, {**contents, stream: bag}) for bag in (contents[stream], Bag(delta))]
    assert same(whole, combine(merge, parts[0], parts[1]))
    return True


@settings(property_settings, max_examples=150)
@given(queries(), st.data())
def test_theorem_1_h_is_a_homomorphism_of_each_stream(text: str, data: st.DataObject) -> None:
    """`h(S ⊎ Δ) = h(S) ⊗ h(Δ)` for each stream by itself, the others unchanged."""
    plan = rewrite(compiled(text)).plan
    streams = used(text)
    contents = net(data.draw(batches(streams, most=1)), streams)
    for stage in plan.stages:
        for stream in stage.streams:
            delta = data.draw(st.lists(ROWS[stream], max_size=3))
            if not monoid_has_invariant_key_only(stage):
                continue
            check_homomorphism(stage, contents, stream, delta)


def monoid_has_invariant_key_only(stage: Stage) -> bool:
    """The value-level law needs a value under each key: a bare set of keys is judged by its support alone."""
    return bool(stage.components)


@settings(property_settings, max_examples=100)
@given(simple_queries(), st.data())
def test_pruned_h_is_the_annotated_one_regrouped(text: str, data: st.DataObject) -> None:
    """`reduce(⇑⊗, T(h')) = h` for the h' with all lineage ([MRQL] Def. 4)."""
    plan = rewrite(compiled(text)).plan
    streams = used(text)
    contents = net(data.draw(batches(streams, most=1)), streams)
    for stage in plan.stages:
        if stage.shape is Shape.KEYED and stage.components:
            regrouped = Reduce(stage.merge, drop_lineage(stage.derivation.annotated))
            assert same(evaluate(regrouped, contents), evaluate(stage.derivation.h, contents))


# --- the worked examples --------------------------------------------------------------------------------------------


@attrs.frozen
class Line:
    """What a batch brings and what is the answer after it."""

    deltas: dict[str, ZSet]
    answer: Value


def check_lines(text: str, types: dict[str, str], lines: Sequence[Line]) -> None:
    view = ReferenceView(rewrite(mrql.compile(text, **types).term).plan)
    for number, line in enumerate(lines):
        view.apply(line.deltas)
        assert same(view.answer(), line.answer), f"after batch {number}: {view.answer()!r}"


def plus_rows(*rows: Value) -> ZSet:
    return ZSet.of(rows)


def test_paper_join_group_by_across_batches() -> None:
    """Partners in different batches meet; a key lives while it has support, also with sum 0."""
    check_lines(
        "select (a, avg(d)) from (a, b) in S1, (c, d) in S2 where b = c group by a",
        {"S1": "bag((long, long))", "S2": "bag((long, long))"},
        [
            Line({"S1": plus_rows((1, 7))}, Bag()),
            Line({"S2": plus_rows((7, 5))}, Bag([(1, 5.0)])),
            Line({"S2": plus_rows((7, 0)), "S1": plus_rows((2, 7))}, Bag([(1, 2.5), (2, 2.5)])),
            Line({"S2": -plus_rows((7, 5))}, Bag([(1, 0.0), (2, 0.0)])),
            Line({"S2": -plus_rows((7, 0))}, Bag()),
        ],
    )


def test_groups_of_groups() -> None:
    """A group that grows leaves the count that it was counted under."""
    check_lines(
        "select (c, count(k)) from (k, c) in (select (k, count(p)) from p in P group by k: p#0) group by c",
        {"P": "bag((long, long))"},
        [
            Line({"P": plus_rows((1, 1), (1, 2), (2, 1))}, Bag([(2, 1), (1, 1)])),
            Line({"P": plus_rows((1, 3), (2, 2))}, Bag([(3, 1), (2, 1)])),
        ],
    )


def test_correlated_aggregate_in_a_filter() -> None:
    """A row whose key has no partner is compared with the sum of nothing."""
    check_lines(
        "select x from x in X where x#1 > sum(select y#1 from y in Y where x#0 = y#0)",
        {"X": "bag((long, long))", "Y": "bag((long, long))"},
        [
            Line({"X": plus_rows((1, 5), (2, 1))}, Bag([(1, 5), (2, 1)])),
            Line({"Y": plus_rows((1, 9))}, Bag([(2, 1)])),
            Line({"Y": plus_rows((1, -8))}, Bag([(1, 5), (2, 1)])),
        ],
    )


def test_distinct_under_deletion() -> None:
    """An element is there while one of its occurrences is."""
    check_lines(
        "select distinct p#0 from p in P",
        {"P": "bag((long, long))"},
        [
            Line({"P": plus_rows((1, 1), (1, 2))}, Bag([1])),
            Line({"P": -plus_rows((1, 1))}, Bag([1])),
            Line({"P": -plus_rows((1, 2))}, Bag()),
        ],
    )


def test_self_join_meets_old_and_new_rows_once() -> None:
    """Each occurrence of a stream is a stream of its own."""
    check_lines(
        "select (x#1, y#1) from x in S, y in S where x#0 = y#0",
        {"S": "bag((long, string))"},
        [
            Line({"S": plus_rows((1, "a"))}, Bag([("a", "a")])),
            Line({"S": plus_rows((1, "b"))}, Bag([("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")])),
        ],
    )


def test_min_refuses_deletions() -> None:
    """A merge without an inverse says so and leaves a clear message."""
    view = ReferenceView(rewrite(mrql.compile("min(S)", S="bag(long)").term).plan)
    view.apply({"S": plus_rows(3, 1)})
    with pytest.raises(mrql.UserError, match="min has no inverse"):
        view.apply({"S": -plus_rows(1)})
