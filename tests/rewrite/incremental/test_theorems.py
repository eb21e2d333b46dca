"""The theorems that incremental evaluation rests on, for generated queries, data and batches.

The oracle is the reference evaluator over all the data that has arrived. [MRQL] Theorem 1: the homomorphism of a stage
merges, stream by stream; Theorem 2: the answer over the state is the query. Their consequence is tested by itself: any
sequence of batches, with deletions, leads to the answer that a single evaluation gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import attrs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import mrql
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import map_children
from mrql.algebra.analysis.variables import Names, stream_names
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.evaluation.merge import combine
from mrql.algebra.monoids import BAG, Keyed, Monoid, ProductMonoid
from mrql.algebra.notation.parser import parse
from mrql.algebra.notation.typecheck import check
from mrql.algebra.terms import (
    CMap,
    Lambda,
    PTuple,
    PVar,
    Reduce,
    Single,
    Stream,
    Term,
    Tup,
    Var,
    element_type,
    pair_type,
)
from mrql.algebra.types import Type
from mrql.algebra.values.exact_sums import Total
from mrql.algebra.values.values import Bag, Record, Value, same
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.analysis.infer_merge import infer, infer_multilinear, overlay
from mrql.rewrite.analysis.multilinear import label_occurrences, stream_of
from mrql.rewrite.incremental.answer import drop_lineage
from mrql.rewrite.normalize.extract_joins import extract_joins
from mrql.rewrite.normalize.unnest_subqueries import unnest_subqueries
from mrql.rewrite.passes import Trace
from mrql.rewrite.pipeline import NORMALIZE
from mrql.rewrite.plan.plan import Plan, Shape, Stage
from mrql.runtime.reference.view import ReferenceView
from mrql.verify.rounding import Rounding
from tests.support.construct_queries import construct_queries
from tests.support.histories import Batch, net
from tests.support.planning import planned
from tests.support.queries import ROWS, STREAMS, Tables, histories, queries, simple_queries, streams_of
from tests.support.queries import tables as tables_of
from tests.support.strategies import Streams, contents, group_functions, typed_terms, value_of, values
from tests.support.sum_queries import guarded_sums, sum_queries
from tests.support.wild import KINDS, Oracle, bags, begun, follow, overflows_without_need


def cases(n: int) -> settings:
    """Settings for n cases, without a deadline: the generated queries are large on purpose, and some take long."""
    return settings(max_examples=n, deadline=None, suppress_health_check=list(HealthCheck))


@lru_cache(maxsize=64)
def compiled(
    text: str,
    shrinking: frozenset[str] = frozenset(),
    static: frozenset[str] = frozenset(),
) -> tuple[Term, Trace]:
    term = streams_with_static(mrql.compile(text, **STREAMS).term, static)
    return term, planned(term, shrinking=shrinking)


def plan_of(text: str) -> Plan:
    return compiled(text)[1].plan


def rows_of(plan: Plan, label: str) -> st.SearchStrategy[Value]:
    """Rows of a stream, or of a derived stream."""
    for derived in plan.derived:
        if derived.name == stream_of(label):
            return made(element_type(derived.term))
    return ROWS[stream_of(label)]


def made(t: Type) -> st.SearchStrategy[Value]:
    """Values as a query makes them: tuples and records are not missing, only their parts may be.

    Two keys of a group are one tuple, which a rewrite may take apart and rebuild. A missing tuple, which no query
    makes, would become another key by that.
    """
    match t:
        case ty.TupleType(items):
            return st.tuples(*map(made, items))
        case ty.RecordType(fields):
            return st.tuples(*(made(item) for _, item in fields)).map(
                lambda parts: Record(zip((name for name, _ in fields), parts, strict=True))
            )
        case _:
            return values(t)


def with_derived(plan: Plan, held: Mapping[str, Bag]) -> dict[str, Bag]:
    """The streams and the derived streams."""
    view = ReferenceView(plan)
    view.apply({name: ZSet.of(bag) for name, bag in held.items()})
    return {**held, **{name: bag.bag() for name, bag in view.derived.items()}}


def streams_with_static(term: Term, tables: frozenset[str]) -> Term:
    if isinstance(term, Stream):
        return Stream(term.name, term.type, static=term.name in tables)
    return map_children(term, lambda child: streams_with_static(child, tables))


def assert_same(found: Value, expected: Value) -> None:
    assert same(found, expected), f"\n   found {found!r}\nexpected {expected!r}"


def assert_incremental(
    text: str, arriving: list[Batch], *, deletions: bool = False, tables: Tables | None = None, wild: str | None = None
) -> None:
    """After every batch, the view's answer is the query over all data so far.

    Over tame values the two are equal. Over `wild` ones, sums may be rounded differently, and the query need not have a
    value.
    """
    static = {} if tables is None else bags(tables)
    streams = [name for name in streams_of(text) if name not in static]
    shrinking = frozenset(streams) if deletions else frozenset[str]()
    query, trace = compiled(text, shrinking, frozenset(static))
    if wild is not None:
        view = begun(
            lambda: ReferenceView(trace.plan, static),
            lambda: evaluate(query, static | net([], streams)),
            may_overflow=overflows_without_need(text, wild),
        )
        if view is None:
            return
        follow(
            lambda batch: view.apply(batch.changes()),
            view.answer,
            Oracle.of(query, static, streams),
            arriving,
            Rounding.of(trace.plan),
            may_overflow=overflows_without_need(text, wild),
        )
        return
    view = ReferenceView(trace.plan, static)
    assert_same(view.answer(), evaluate(query, static | net([], streams)))
    for n, batch in enumerate(arriving, start=1):
        view.apply(batch.changes())
        assert_same(view.answer(), evaluate(query, static | net(arriving[:n], streams)))


# --- Theorem 2 and its consequences ---------------------------------------------------------------------------------


@cases(80)
@given(queries(), st.data())
def test_theorem_2(text: str, data: st.DataObject) -> None:
    """[MRQL] Theorem 2, `a(h(S)) = q(S)`: the answer over the state of one batch is the query's value."""
    assert_incremental(text, data.draw(histories(text, most=1)))


@cases(100)
@given(queries(), st.data())
def test_any_split_into_batches(text: str, data: st.DataObject) -> None:
    """However the data is split into batches, the answer after each is that over all data so far."""
    assert_incremental(text, data.draw(histories(text)))


@cases(100)
@given(st.one_of(queries(), queries(), construct_queries()), st.data())
def test_deletions(text: str, data: st.DataObject) -> None:
    """A deletion undoes the insertion of the row, under any query: 600 cases.

    Each query follows six histories, since planning it takes longer than following one.
    """
    for _ in range(6):
        assert_incremental(text, data.draw(histories(text, deletions=True)), deletions=True)


@cases(40)
@given(st.one_of(queries(), queries(), construct_queries()), st.data())
def test_static_tables(text: str, data: st.DataObject) -> None:
    """Some of the streams may be static tables, known from the start, while the others lose rows."""
    assume(len(streams_of(text)) > 1)
    tables = data.draw(tables_of(text, fewest=1))
    for deletions in (False, True, False, True):
        history = data.draw(histories(text, tables=tables, deletions=deletions))
        assert_incremental(text, history, deletions=deletions, tables=tables)


@cases(120)
@given(st.one_of(queries(), queries(), construct_queries()), st.sampled_from(sorted(KINDS)), st.booleans(), st.data())
def test_wild_values(text: str, wild: str, deletions: bool, data: st.DataObject) -> None:
    """Whatever the values, the answer is that of the query as written; if the query has no value, that is an error."""
    assume(streams_of(text))
    tables = data.draw(tables_of(text, wild=wild))
    for _ in range(2):
        history = data.draw(histories(text, tables=tables, wild=wild, deletions=deletions))
        assert_incremental(text, history, deletions=deletions, tables=tables, wild=wild)


@cases(80)
@given(sum_queries(), st.sampled_from(sorted(KINDS)), st.booleans(), st.data())
def test_wild_sums_over_joins(text: str, wild: str, deletions: bool, data: st.DataObject) -> None:
    """Sums that are kept as sums of sides have the values of the query as written, too."""
    tables = data.draw(tables_of(text, wild=wild))
    for _ in range(2):
        history = data.draw(histories(text, tables=tables, wild=wild, deletions=deletions))
        assert_incremental(text, history, deletions=deletions, tables=tables, wild=wild)


@cases(80)
@given(guarded_sums(), st.sampled_from(["extremes", "extremes", *sorted(KINDS)]), st.booleans(), st.data())
def test_wild_sums_that_are_not_asked_for(text: str, wild: str, deletions: bool, data: st.DataObject) -> None:
    """A value that leaves its range is an error only where the query asks for it."""
    tables = data.draw(tables_of(text, wild=wild))
    for _ in range(2):
        history = data.draw(histories(text, tables=tables, wild=wild, deletions=deletions))
        assert_incremental(text, history, deletions=deletions, tables=tables, wild=wild)


# --- Theorem 1 ------------------------------------------------------------------------------------------------------


def assert_merges(h: Term, label: str, merge: Monoid, held: dict[str, Bag], change: Bag, *, affine: bool) -> None:
    """`h(S ⊎ Δ) = h(S) ⊗ h(Δ)` in one occurrence of a stream, the others unchanged.

    An `affine` h, a union with a part that does not read the stream, has that part once too often on the right:
    `h(S ⊎ Δ) ⊗ h({}) = h(S) ⊗ h(Δ)`. If one of them overflows, nothing is asserted: a state keeps wider numbers.
    """
    before = held[label]
    both, old, new, nothing = (value_of(h, held | {label: bag}) for bag in (before + change, before, change, Bag()))
    left = combine(merge, both, nothing) if affine else both
    assert_same(left, combine(merge, old, new))


@cases(100)
@given(queries(), st.data())
def test_theorem_1(text: str, data: st.DataObject) -> None:
    """[MRQL] Theorem 1, for each stream: h merges with `⊗`, or with `□` in the parts that do not read the stream."""
    plan = plan_of(text)
    for stage in plan.stages:
        h = label_occurrences(stage.derivation.h)
        held = {name: Bag(data.draw(st.lists(rows_of(plan, name), max_size=3))) for name in stream_names(h)}
        for label in held:
            judged = infer(h, {label: BAG})
            merge = stage.merge if judged is None else judged
            assert overlay(stage.merge, merge) == stage.merge
            change = Bag(data.draw(st.lists(rows_of(plan, label), max_size=2)))
            assert_merges(h, label, merge, held, change, affine=judged is None)


@attrs.frozen
class Homomorphism:
    """A homomorphism with all its lineage and without, and its merge."""

    annotated: Term
    pruned: Term
    merge: Monoid


def homomorphisms(stage: Stage) -> Iterator[Homomorphism]:
    """The homomorphisms that a stage stores; several totals over the same rows share a stage."""
    derivation = stage.derivation
    match derivation.annotated, derivation.h, derivation.merge:
        case Tup(annotated), Tup(pruned), ProductMonoid(merges):
            for parts in zip(annotated, pruned, merges, strict=True):
                yield Homomorphism(*parts)
        case annotated, pruned, merge:
            yield Homomorphism(annotated, pruned, merge)


@cases(60)
@given(simple_queries() | queries(), st.data())
def test_theorem_1_with_lineage(text: str, data: st.DataObject) -> None:
    """h annotated with the keys that led to each value merges as h does, since a lineage never changes."""
    plan = plan_of(text)
    for stage in plan.stages:
        for kept in homomorphisms(stage):
            if infer_multilinear(label_occurrences(kept.pruned)) != kept.merge:
                continue
            h = label_occurrences(kept.annotated)
            # A total is kept for each lineage.
            merge = Keyed(kept.merge) if stage.shape is Shape.TOTAL else kept.merge
            held = {name: Bag(data.draw(st.lists(rows_of(plan, name), max_size=3))) for name in stream_names(h)}
            for label in held:
                change = Bag(data.draw(st.lists(rows_of(plan, label), max_size=2)))
                assert_merges(h, label, merge, held, change, affine=False)


def values_of(pairs: Term) -> Term:
    """`π2(X)`."""
    lineage_type, value_type = pair_type(pairs)
    names = Names()
    theta, v = PVar(names.fresh("θ"), lineage_type), PVar(names.fresh("v"), value_type)
    return CMap(Lambda(PTuple((theta, v)), Single(Var(v.name, v.type))), pairs)


@cases(60)
@given(simple_queries() | queries(), st.data())
def test_pruning(text: str, data: st.DataObject) -> None:
    """The pruned h is the annotated one with its lineage dropped (T) and the values of equal keys then merged."""
    plan = plan_of(text)
    held = with_derived(plan, net(data.draw(histories(text, most=1)), streams_of(text)))
    for stage in plan.stages:
        for kept in homomorphisms(stage):
            match stage.shape:
                case Shape.KEYED:
                    dropped: Term = Reduce(kept.merge, drop_lineage(kept.annotated))
                case Shape.TOTAL:
                    dropped = Reduce(kept.merge, values_of(kept.annotated))
                case Shape.BAG:
                    dropped = values_of(kept.annotated)
            assert_same(evaluate(kept.pruned, held), evaluate(dropped, held))


# --- the passes -----------------------------------------------------------------------------------------------------


def assert_passes_keep(term: Term, held: dict[str, Value]) -> None:
    """Each pass keeps the value and the type, and leaves a well-formed term."""
    expected = evaluate(term, held)
    current = term
    for step in NORMALIZE:
        current = step.run(current)
        check(current)
        assert current.type == term.type, step.name
        found = evaluate(current, held)
        assert same(found, expected), f"{step.name}: {found!r}, where {expected!r} was expected"


@cases(60)
@given(queries(), st.data())
def test_passes_keep_queries(text: str, data: st.DataObject) -> None:
    """Each pass keeps the value and the type of every query."""
    assert_passes_keep(
        mrql.compile(text, **STREAMS).term, net(data.draw(histories(text, most=1, largest=3)), streams_of(text))
    )


@cases(400)
@given(typed_terms(), contents())
def test_passes_keep_terms(term: Term, held: dict[str, Value]) -> None:
    """Each pass keeps the value and the type of every term, even of terms that no query is translated to."""
    value_of(term, held)
    assert_passes_keep(term, held)


@cases(200)
@given(typed_terms(), contents(), contents(), st.booleans())
def test_plans_of_terms(term: Term, first: dict[str, Bag], second: dict[str, Bag], deletes: bool) -> None:
    """Every term has a plan whose answer after each batch is the term's value."""
    assert_planned(term, first, second, deletes=deletes)


GROUPED: Streams = {
    "S": ty.BagType(ty.TupleType((ty.INT, ty.LONG))),
    "T": ty.BagType(ty.TupleType((ty.INT, ty.STRING))),
    "U": ty.BagType(ty.TupleType((ty.TupleType((ty.INT, ty.STRING)), ty.LONG))),
    "V": ty.BagType(ty.TupleType((ty.LONG, ty.LONG))),
    "R": Stream("R", ty.BagType(ty.TupleType((ty.INT, ty.LONG))), static=True),
}


@cases(200)
@given(group_functions(GROUPED), contents(GROUPED), contents(GROUPED), st.booleans())
def test_plans_of_functions_of_groups(term: Term, first: dict[str, Bag], second: dict[str, Bag], deletes: bool) -> None:
    """Functions of groups have plans, too, whether or not their patterns take the groups apart."""
    assert_planned(term, first, second, deletes=deletes)


@pytest.mark.parametrize("part", ["{(1, 5)}", "{(null:nothing, 5L)}", "{(null:int, 5)}", "null:{(long, long)}"])
def test_a_join_with_a_union_of_another_type(part: str) -> None:
    """A part of a union may have a narrower type than the union; its rows are rows of the join."""
    join = "cMap(λ(k, (xs, ys)). cMap(λx. cMap(λy. {(k, x, y)}, ys), xs), coGroup(S ⊎ %s, S))"
    term = parse(join % part, {"S": "{(long, long)}"})
    rows = Bag([(1, 2), (None, 3), None])
    assert_passes_keep(term, {"S": rows})
    view = ReferenceView(planned(term).plan)
    view.apply({"S": ZSet.of(rows)})
    assert_same(view.answer(), evaluate(term, {"S": rows}))


@pytest.mark.parametrize("body", ["cMap(λx. {(k * k, x)}, xs)", "cMap(λx. cMap(λy. {(k * k, x, y)}, ys), xs)"])
@pytest.mark.parametrize("sides", ["S, T", "T, S"])
def test_the_key_of_one_side_may_be_narrower(body: str, sides: str) -> None:
    """The function gets the key in the type of the coGroup, also where it is applied to the elements of one side."""
    sources = {"S": "{(int, long)}", "T": "{(long, long)}"}
    term = parse(f"cMap(λ(k, (xs, ys)). {body}, coGroup({sides}))", sources)
    held = {"S": Bag([(100_000, 1), (None, 2)]), "T": Bag([(100_000, 3)])}
    assert_passes_keep(term, held)
    view = ReferenceView(planned(term).plan)
    view.apply({name: ZSet.of(rows) for name, rows in held.items()})
    assert_same(view.answer(), evaluate(term, held))


def assert_planned(term: Term, first: dict[str, Bag], second: dict[str, Bag], *, deletes: bool) -> None:
    """Two batches of rows, and, where the streams may lose rows, a third that deletes those of the first."""
    tables, changing = {"R": first["R"]}, first.keys() - {"R"}
    view = ReferenceView(planned(term, shrinking=frozenset(changing) if deletes else frozenset()).plan, tables)
    held = {name: Bag() for name in changing}
    for rows, weight in ((first, 1), (second, 1), (first, -1))[: 3 if deletes else 2]:
        changes = {name: ZSet.of(rows[name], weight) for name in changing}
        held = {name: (ZSet.of(held[name]) + changes[name]).bag() for name in changing}
        expected = value_of(term, held | tables)
        view.apply(changes)
        assert_same(view.answer(), expected)


# --- the worked examples --------------------------------------------------------------------------------------------

EXAMPLES = {
    "S1": "bag(<A: long, B: long>)",
    "S2": "bag(<C: long, D: long>)",
    "P": "bag(<X: string, Y: long>)",
    "X": "bag(<A: long, D: long>)",
    "Y": "bag(<B: long, C: long>)",
}


def view_of(text: str) -> ReferenceView:
    return ReferenceView(planned(mrql.compile(text, **EXAMPLES).term).plan)


def rows(*records: Record, weight: int = 1) -> ZSet:
    return ZSet.of(records, weight)


def s1(a: int, b: int) -> Record:
    return Record({"A": a, "B": b})


def s2(c: int, d: int) -> Record:
    return Record({"C": c, "D": d})


def p(x: str, y: int) -> Record:
    return Record({"X": x, "Y": y})


def stored(view: ReferenceView, stage: int = 0) -> dict[Value, Value]:
    """The values that a stage holds, by key."""
    found = {}
    for entry in view.states[stage].entries.values():
        values = tuple(value.value if isinstance(value, Total) else value for value in entry.values)
        found[entry.key] = values if len(values) > 1 else values[0]
    return found


def test_example_1_the_papers_query() -> None:
    """A join grouped by a column, with an average: partners in different batches, keys that vanish with their rows."""
    view = view_of("select (x.A, avg(y.D)) from x in S1, y in S2 where x.B = y.C group by x.A")
    (stage,) = view.plan.stages
    assert stage.shape is Shape.KEYED
    assert str(stage.merge) == "⇑(+ × +)"
    table = [
        ({"S1": rows(s1(1, 7))}, {}, []),
        ({"S2": rows(s2(7, 5))}, {1: (5, 1)}, [(1, 5.0)]),
        ({"S2": rows(s2(7, 0)), "S1": rows(s1(2, 7))}, {1: (5, 2), 2: (5, 2)}, [(1, 2.5), (2, 2.5)]),
        ({"S2": rows(s2(7, 5), weight=-1)}, {1: (0, 1), 2: (0, 1)}, [(1, 0.0), (2, 0.0)]),
        ({"S2": rows(s2(7, 0), weight=-1)}, {}, []),
    ]
    for batch, state, answer in table:
        view.apply(batch)
        assert stored(view) == state
        assert_same(view.answer(), Bag(answer))


def test_example_2_groups_of_groups() -> None:
    """The outer key is a value of the inner group: a group that grows leaves its old outer group."""
    view = view_of("select (c, count(k)) from (k, c) in (select (k, count(p)) from p in P group by k: p.X) group by c")
    assert [str(stage.merge) for stage in view.plan.stages] == ["⇑+", "⇑+"]
    assert view.plan.stages[1].streams == ("D1",)
    before = ZSet.of(view.answer())
    table = [
        (rows(p("a", 1), p("a", 2), p("b", 1)), {"a": 2, "b": 1}, {(2, 1): 1, (1, 1): 1}),
        (rows(p("a", 1)), {"a": 3, "b": 1}, {(2, 1): -1, (3, 1): 1}),
        (rows(p("b", 1), p("b", 1)), {"a": 3, "b": 3}, {(1, 1): -1, (3, 1): -1, (3, 2): 1}),
        (rows(p("a", 1), weight=-1), {"a": 2, "b": 3}, {(3, 2): -1, (3, 1): 1, (2, 1): 1}),
    ]
    for batch, state, changes in table:
        view.apply({"P": batch})
        assert stored(view) == state
        after = ZSet.of(view.answer())
        assert after - before == ZSet.weighted(changes.items())
        before = after


def test_example_3_a_correlated_aggregate_in_a_filter() -> None:
    """The rows and the sum of their partners, by the join key; a row without partners is compared with the sum 0."""
    view = view_of("select x from x in X where x.D > sum(select y.C from y in Y where x.A = y.B)")
    (stage,) = view.plan.stages
    assert sorted(str(component.monoid) for component in stage.components) == ["+", "⊎"]

    def x(a: int | None, d: int) -> Record:
        return Record({"A": a, "D": d})

    def y(b: int | None, c: int) -> Record:
        return Record({"B": b, "C": c})

    table = [
        ({"X": rows(x(1, 3), x(2, 0), x(None, 1))}, [x(1, 3), x(None, 1)]),
        ({"Y": rows(y(1, 2), y(None, 9))}, [x(1, 3), x(None, 1)]),
        ({"Y": rows(y(1, 2), y(2, -1))}, [x(2, 0), x(None, 1)]),
        ({"Y": rows(y(1, 2), weight=-1), "X": rows(x(1, 3))}, [x(1, 3), x(1, 3), x(2, 0), x(None, 1)]),
        ({"Y": rows(y(2, -1), weight=-1), "X": rows(x(1, 3), weight=-1)}, [x(1, 3), x(None, 1)]),
    ]
    for batch, answer in table:
        view.apply(batch)
        assert_same(view.answer(), Bag(answer))


def test_example_4_the_extreme_distinct_and_top_k() -> None:
    """A maximum under insertions; distinct by support; the first rows in order."""
    greatest = view_of("select (k, max(p.Y)) from p in P group by k: p.X")
    for batch, state in ((rows(p("a", 1), p("b", 7)), {"a": 1, "b": 7}), (rows(p("a", 3)), {"a": 3, "b": 7})):
        greatest.apply({"P": batch})
        assert stored(greatest) == state
        assert_same(greatest.answer(), Bag(state.items()))

    distinct = view_of("select distinct p.X from p in P")
    for batch, support in (
        (rows(p("a", 1), p("a", 2), p("b", 1)), {"a": 2, "b": 1}),
        (rows(p("a", 1), p("b", 1), weight=-1), {"a": 1}),
        (rows(p("a", 2), weight=-1), {}),
    ):
        distinct.apply({"P": batch})
        assert {entry.key: entry.support for entry in distinct.states[0].entries.values()} == {
            key: [n] for key, n in support.items()
        }
        assert_same(distinct.answer(), Bag(support))

    top = view_of("select (p.X, p.Y) from p in P order by p.Y desc limit 2")
    for batch, answer in (
        (rows(p("a", 1), p("b", 7)), [("b", 7), ("a", 1)]),
        (rows(p("c", 3), p("d", 7)), [("b", 7), ("d", 7)]),
        (rows(p("b", 7), p("d", 7), weight=-1), [("c", 3), ("a", 1)]),
    ):
        top.apply({"P": batch})
        assert_same(top.answer(), answer)


# --- found by generated cases ---------------------------------------------------------------------------------------


def x(a: int = 0, b: int = 0, d: float = 0.0, s: str = "a") -> Record:
    return Record({"A": a, "B": b, "D": d, "S": s})


def test_joins_that_feed_one_state_keep_their_inputs_apart() -> None:
    """Each of two joins in a union keeps inputs of its own, even if both read the same streams."""
    side = "select (x.A, y.A) from x in X, y in X where x.B = y.B"
    assert_incremental(
        f"distinct(({side} and x.A = 0) union ({side} and x.A = 1))",
        [Batch({"X": (x(0, 1), x(1, 1))}), Batch({"X": (x(2, 1), x(0, 1))}), Batch({"X": (x(1, 1),)})],
    )


def test_a_condition_on_another_stream_over_a_join() -> None:
    """A join whose condition reads a third stream stores each side by itself, each row of a side once."""
    assert_incremental(
        "select (x.A, y.A) from x in X, y in X where x.B = y.B and exists(select p from p in P)",
        [
            Batch({"X": (x(1, 1), x(2, 1))}),
            Batch({"P": (Record({"K": 1, "V": 0.5, "I": Bag()}),)}),
            Batch({"X": (x(3, 1),)}),
        ],
    )


def test_an_answer_over_a_state_beside_another_stream() -> None:
    """A part that reads a state changes with it, and so is no part of another state."""
    assert_incremental(
        "select (g.n, p.K) from g in (select <n: avg(x.A)> from x in X group by x.B), p in P",
        [
            Batch({"X": (x(1, 1), x(2, 1))}),
            Batch({"P": (Record({"K": 1, "V": 0.5, "I": Bag()}),)}),
            Batch({"X": (x(3, 1),)}),
        ],
    )


def test_groups_of_constants_beside_a_stream() -> None:
    """A group-by over constants never changes, whatever streams the function above it reads."""
    assert_incremental(
        "select (k, count(v), sum(select x.B from x in X where x.A = k)) from v in {0, 1, 1} group by k: v",
        [Batch({"X": (x(1, 5),)}), Batch({"X": (x(1, 2), x(0, 1))})],
    )


def test_a_table_beside_a_stream() -> None:
    """A side of a coGroup that no batch changes is judged `□`, and merges."""
    query = streams_with_static(
        mrql.compile("select (x.A, sum(select y#1 from y in Y where y#0 = x.A)) from x in X", **STREAMS).term,
        frozenset({"Y"}),
    )
    view = ReferenceView(planned(query).plan, {"Y": Bag([(1, 5, 0.0, True), (1, 6, 0.0, True)])})
    view.apply({"X": rows(x(1), x(2))})
    assert_same(view.answer(), Bag([(1, 11), (2, 0)]))


def test_a_total_over_a_table_beside_a_stream() -> None:
    """Rows made from a table for each row of a stream are not taken for the rows of that stream."""
    streams = dict.fromkeys("STU", "bag((long, long))")
    text = "select a from (a, b) in S, (c, d) in T where a = c and (all (u, w) in U, t in T: t#0 = u)"
    query = streams_with_static(mrql.compile(text, **streams).term, frozenset({"U"}))
    view = ReferenceView(planned(query).plan, {"U": Bag([(0, 0)])})
    view.apply({"S": ZSet.of([(0, 0)]), "T": ZSet.of([(0, 1)])})
    assert_same(view.answer(), Bag([0]))
    view.apply({"T": ZSet.of([(1, 1)])})
    assert_same(view.answer(), Bag([]))


def test_parts_of_what_is_merged_as_a_whole() -> None:
    """The greatest pair of a group merges, but its two parts by themselves do not; nor are they unchanged."""
    assert_incremental(
        "flatten(select (let (m, n) = max(select (y.A, y.B) from y in p) in (select z.B - m * n from z in p))"
        " from p in X group by k: p.A)",
        [Batch({"X": (x(1, 2),)}), Batch({"X": (x(1, 1),)}), Batch({"X": (x(1, 3), x(0, 1))})],
    )


def test_sources_that_all_depend_on_a_range() -> None:
    """If all sources depend on a range, none of them can come first in a join."""
    assert_incremental(
        "select (i, z, w) from i in 1..3, z in (select (k, count(u)) from u in X where u.A = i group by k: u.B),"
        " w in (select (k, count(u)) from u in X where u.B = i group by k: u.A)",
        [Batch({"X": (x(1, 2), x(2, 1))}), Batch({"X": (x(3, 3), x(2, 2))})],
    )


def test_more_than_ten_columns() -> None:
    """The columns that are used keep their order, even those with numbers from 10 on, which sort as text before 2."""
    record = ", ".join(f"x.A + {i}" for i in range(12))
    used = ", ".join(f"max(t#{i})" for i in range(12))
    assert_incremental(
        f"select ({used}) from t in (select ({record}) from x in X), y in Y where t#0 = y#0 group by y#1",
        [Batch({"X": (x(1),)}), Batch({"Y": ((1, 1, 0.0, True),)})],
    )


PAIRS = {"X": "{(long, long)}", "Y": "{(long, long)}", "Z": "{(long, {long})}"}
HELD = {
    "X": Bag([(1, 10), (2, 20)]),
    "Y": Bag([(1, 1), (1, 2), (2, 2), (3, 1)]),
    "Z": Bag([(7, Bag([1, 2])), (8, Bag([3]))]),
}


@pytest.mark.parametrize("rule", [unnest_subqueries, extract_joins])
@pytest.mark.parametrize(
    "text",
    [
        # The nested select's own `a` shadows the outer one, and its condition refers to its own.
        "cMap(λ(a, b). {(b, reduce(+, cMap(λ(a, c). if a = c then {c} else {}:{long}, Y)))}, X)",
        # A generator over the outer `r` must not be moved to where another generator binds `r`.
        "cMap(λ(z, r). {reduce(+, cMap(λu. cMap(λ(r, c). cMap(λ(d, e). {u}, X), Y), r))}, Z)",
    ],
)
def test_names_that_cover_outer_ones(rule: object, text: str) -> None:
    """Moving a part of a term keeps each name with its binder."""
    term = parse(text, PAIRS)
    assert callable(rule)
    rewritten = rule(term)
    check(rewritten)
    assert_same(evaluate(rewritten, HELD), evaluate(term, HELD))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The key of the outer group-by stands for itself in a nested group-by too.
        ("select (select (y, x.B) from y in {7} group by y) from x in X group by x.B", [Bag([(7, 1)]), Bag([(7, 2)])]),
        # An aggregate over the group may use the variables of the nested select around it.
        ("select (k, (select sum(x.A * y) from y in {1, 2})) from x in X group by k: x.B", [
            (1, Bag([3, 6])),
            (2, Bag([5, 10])),
        ]),
        # A nested variable shadows the group's variable of the same name.
        ("select (k, (select count(x) from x in {{1, 2}})) from x in X group by k: x.B", [
            (1, Bag([2])),
            (2, Bag([2])),
        ]),
        # After `group by b: b + 1` the name is the key, even in an expression that is written like the key's.
        ("select b + 1 from <B: b> in X group by b: b + 1", [3, 4]),
    ],
)  # fmt: skip
def test_names_after_group_by(text: str, expected: list[Value]) -> None:
    """The meaning of names after `group by`, and inside selects that are nested there."""
    held = {"X": Bag([x(1, 1), x(2, 1), x(5, 2)])}
    assert_same(evaluate(mrql.compile(text, **STREAMS).term, held), Bag(expected))
