"""Loops on Spark: what they cost, what they leave behind, and how views maintain them."""

from __future__ import annotations

import gc
from unittest.mock import patch

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.types import BagType
from mrql.algebra.values.values import Bag, Value, same
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.runtime.spark import jvm
from mrql.runtime.spark.compiler.answers import evaluate as evaluate_on_spark
from mrql.runtime.spark.compiler.compiler import RelationCompiler
from mrql.runtime.spark.compiler.loop_checkpoints import LoopCheckpoints, passing
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.relation.frame import Frame, changes, from_dataframe
from mrql.runtime.spark.state import compaction
from mrql.runtime.spark.view import SparkView
from tests.runtime.spark.test_equivalence import as_rows
from tests.support.loop_queries import FOUND, adding_loops, edge_histories
from tests.support.loop_queries import STREAMS as EDGES_BY_NAME
from tests.support.planning import planned

pytestmark = pytest.mark.spark

T = parse_type("{(int, int)}")
EDGES = Bag([(1, 2), (2, 3), (3, 4), (5, 6), (4, 1)])
CLOSURE = """
repeat x = E step select distinct z from z in (x union (select (a, d) from (a, b) in x, (c, d) in E where b = c))
"""


def edges(spark: SparkSession, rows: Bag = EDGES) -> DataFrame:
    return to_dataframe(spark, rows, T)


def compiled(text: str) -> mrql.Query:
    return mrql.compile(text, E="bag((int, int))")


def test_a_loop_leaves_nothing_behind(spark: SparkSession) -> None:
    """The rows that steps are computed from are freed step by step, and the result with the block that keeps it."""
    gc.collect()
    before = jvm.persistent_rdds(spark)
    query = compiled("repeat x = E step select (b, a) from (a, b) in x where count(E) > 0 limit 9")
    with passing() as kept:
        answer = evaluate_on_spark(spark, query.term, {"E": from_dataframe(edges(spark), T.item)}, kept)
        assert len(kept.checkpoints) == 1
        assert jvm.persistent_rdds(spark) <= before + 1
        assert same(collect_value(answer, query.type), evaluate(query.term, {"E": EDGES}))
    assert jvm.persistent_rdds(spark) <= before


def test_a_loop_that_fails_leaves_nothing_behind(spark: SparkSession) -> None:
    """A step that has no value is an error with its place, and the rows kept by earlier steps are freed."""
    before = jvm.persistent_rdds(spark)
    query = compiled("repeat x = E step select (a, 6 / (b - 1)) from (a, b) in x limit 9")
    with pytest.raises(UserError, match="division by zero") as caught:
        query.batch(spark, E=edges(spark))
    assert caught.value.span is not None
    assert caught.value.span.text == "6 / (b - 1)"
    assert jvm.persistent_rdds(spark) <= before


def test_a_loop_that_does_not_end(spark: SparkSession) -> None:
    """A loop without a limit is an error after the maximum number of steps."""
    query = compiled("repeat x = E step select (a, b + 1) from (a, b) in x")
    term = attrs.evolve(query.term, most=3)  # type: ignore[arg-type]
    sources = {"E": from_dataframe(edges(spark), T.item)}
    with pytest.raises(UserError, match="this loop does not end: after 3 steps it still changes"), passing() as kept:
        evaluate_on_spark(spark, term, sources, kept)


def test_what_is_written_twice_is_run_once(spark: SparkSession) -> None:
    """A loop that occurs twice in a query is run once."""
    loop = "repeat x = E step select (b, a) from (a, b) in x limit 1"
    query = compiled(f"r = {loop}; (count(r), sum(select a from (a, b) in r))")
    kept = LoopCheckpoints()
    compiler = RelationCompiler(spark, {"E": from_dataframe(edges(spark), T.item)}, kept=kept)
    frame = compiler.one(query.term)
    assert (len(kept.checkpoints), len(compiler.loops)) == (1, 1)
    assert frame.df.dataframe(spark).count() == 1
    kept.free()


def test_partitions_do_not_add_up(spark: SparkSession) -> None:
    """A union adds up the partitions of its sides, but after many such steps there are only a few per core."""
    query = compiled("repeat x = E step x union E limit 12")
    with passing() as kept:
        answer = evaluate_on_spark(spark, query.term, {"E": from_dataframe(edges(spark).repartition(4), T.item)}, kept)
        assert answer.rdd.getNumPartitions() <= 12
        assert answer.count() == 13 * len(EDGES)


@pytest.mark.wide
def test_a_view_runs_its_loop_over_the_states(spark: SparkSession) -> None:
    """After each batch, with deletions, the answer and its changes are those of an evaluation from scratch."""
    query = compiled(f"select (a, count(b)) from (a, b) in ({CLOSURE}) group by a")
    loop = compiled(CLOSURE)
    batches: list[tuple[Bag, Bag]] = [
        (EDGES, Bag()),
        (Bag([(6, 5)]), Bag([(4, 1)])),
    ]
    before = jvm.persistent_rdds(spark)
    with query.view(spark, loop="recompute") as view, loop.view(spark, loop="recompute") as other:
        present: list[Value] = []
        closure = ZSet()
        for inserted, deleted in batches:
            for row in deleted:
                present.remove(row)
            present += inserted
            delta = mrql.Delta(insert=edges(spark, inserted), delete=edges(spark, deleted))
            view.apply(E=delta)
            changes = ZSet.weighted((tuple(row)[:-1], row[-1]) for row in other.apply(E=delta).collect())
            for asked, q in ((view, query), (other, loop)):
                found = collect_value(asked.answer(), q.type)
                assert same(found, evaluate(q.term, {"E": Bag(present)}))
            closure += changes
            assert same(closure.bag(), found)
    assert jvm.persistent_rdds(spark) <= before


def test_a_view_runs_a_loop_over_tables_once(spark: SparkSession) -> None:
    """A loop over static tables is run once, before the first batch, and its value is freed with the view."""
    text = f"select (s, d) from (s, k) in S, (c, d) in ({CLOSURE}) where k = c"
    query = mrql.compile(text, S="bag((int, int))", E="bag((int, int))")
    rows = [(7, 1), (8, 2), (9, 5)]
    before = jvm.persistent_rdds(spark)
    with query.view(spark, E=edges(spark)) as view:
        kept = list(view._view.table_loops.checkpoints)
        for n in (1, 3):
            view.apply(S=edges(spark, Bag(rows[n // 2 : n])))
            found = collect_value(view.answer(), query.type)
            assert same(found, evaluate(query.term, {"S": Bag(rows[:n]), "E": EDGES}))
        assert view._view.table_loops.checkpoints == kept
        assert len(kept) == 1
    assert jvm.persistent_rdds(spark) <= before


# --- fixpoints --------------------------------------------------------------------------------------------------------


def kept_up_to_date(spark: SparkSession, text: str, history: list[dict[str, ZSet]], strategy: LoopStrategy) -> None:
    """After each batch the answer is the value over all data so far, and its changes have as much weight as the
    difference from the answer before."""
    query = mrql.compile(text, **EDGES_BY_NAME)
    trace = planned(query.term, shrinking=frozenset(EDGES_BY_NAME), strategy=strategy)
    view = SparkView(trace.plan, spark)
    held = {name: ZSet() for name in EDGES_BY_NAME}
    before = as_rows(collect_value(view.answer(), query.type), query.type)
    for batch in history:
        frames = {name: change_frame(spark, view, name, change) for name, change in batch.items() if len(change)}
        changed = view.apply(frames).collect()
        held = {name: rows + batch.get(name, ZSet()) for name, rows in held.items()}
        expected = evaluate(query.term, {name: rows.bag() for name, rows in held.items()})
        found = collect_value(view.answer(), query.type)
        assert same(found, expected), f"\n   found {found!r}\nexpected {expected!r}"
        after = as_rows(found, query.type)
        assert sum(abs(row["weight"]) for row in changed) == sum(abs(weight) for _, weight in after - before)
        before = after
    view.close()


def change_frame(spark: SparkSession, view: SparkView, name: str, change: ZSet) -> Frame:
    t = parse_type(EDGES_BY_NAME[name].replace("bag(", "{").removesuffix(")") + "}")
    assert isinstance(t, BagType)
    sides = [from_dataframe(to_dataframe(spark, rows, t), t.item) for rows in (change.positive(), change.negative())]
    return changes(sides[0], sides[1], view.columns)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(adding_loops(), edge_histories(most=2, nodes=4))
def test_fixpoints(spark: SparkSession, text: str, history: list[dict[str, ZSet]]) -> None:
    """Loops that only add rows are kept as fixpoints with the reference's answers, also where each step adds runs."""
    with patch.object(compaction, "STEPS_MERGED_WHOLE_MAX_ROWS", -1):
        kept_up_to_date(spark, text, history, LoopStrategy.FIXPOINT)


ALONE = "select distinct z from z in (x union ({}))"
LITTLE = [
    {"E": ZSet.of([(1, 1), (1, 2), (2, 4)]), "W": ZSet.of([(2, 3, 1)])},
    {"E": ZSet.of([(4, 1)]) - ZSet.of([(1, 1)])},
    {"E": -ZSet.of([(1, 2), (2, 4), (4, 1)])},
]


@pytest.mark.wide(keep=4)
@pytest.mark.parametrize("part", FOUND)
def test_each_step_by_itself(spark: SparkSession, part: str) -> None:
    kept_up_to_date(spark, f"repeat x = E step {ALONE.format(part)}", LITTLE, LoopStrategy.FIXPOINT)


@pytest.mark.parametrize("part", ["select (a, b) from (a, b) in E where a = b", "select (a, b) from (a, b, w) in W"])
@pytest.mark.parametrize("limit", ["", " limit 1"])
def test_a_step_that_makes_nothing_of_what_it_has_found(spark: SparkSession, part: str, limit: str) -> None:
    """If a step makes nothing of the rows found so far, the state of its loop does not read what is made from it."""
    kept_up_to_date(spark, f"repeat x = E step {ALONE.format(part)}{limit}", LITTLE, LoopStrategy.FIXPOINT)


def test_a_fixpoint_under_deletions(spark: SparkSession) -> None:
    """A cycle does not support itself, and deleting the first edge of a path deletes all that was found from it."""
    edges = [(1, 2), (2, 3), (3, 4), (4, 2)]
    history = [{"E": ZSet.of(edges)}, {"E": ZSet.of([(4, 5)]) - ZSet.of([(1, 2)])}, {"E": -ZSet.of([(3, 4)])}]
    kept_up_to_date(spark, CLOSURE, history, LoopStrategy.FIXPOINT)


@pytest.mark.wide
def test_steps_one_by_one(spark: SparkSession) -> None:
    """Each step of a loop with a limit follows the changes of the one before it."""
    ranks = """
    repeat r = select (a, 1.0) from (a, b) in E group by a
      step select (n, 0.15 + 0.85 * sum(s))
             from (n, s) in ((select (n, 0.0) from (n, v) in r) union
                             (select (b, v / 4) from (a, v) in r, (c, b) in E where a = c))
            group by n
     limit 3
    """
    history = [{"E": ZSet.of([(1, 2), (2, 3), (3, 1)])}, {"E": ZSet.of([(2, 4)]) - ZSet.of([(3, 1)])}]
    kept_up_to_date(spark, ranks, history, LoopStrategy.EXACT)


@pytest.mark.wide
def test_a_fixpoint_that_does_not_end(spark: SparkSession) -> None:
    """A fixpoint that does not end is the error of a loop that runs from its start, and the view stays as it was."""
    text = """
    repeat x = {(1, 0)}
      step select (n, min(d)) from (n, d) in (x union (select (b, d - 1) from (a, d) in x, (c, b) in E where a = c))
           group by n
    """
    query = mrql.compile(text, max_steps=4, E="bag((int, int))")
    with query.view(spark) as view:
        view.apply(E=edges(spark, Bag([(1, 2)])))
        with pytest.raises(UserError, match="this loop does not end: after 4 steps it still changes"):
            view.apply(E=edges(spark, Bag([(2, 1)])))
        view.apply(E=edges(spark, Bag([(2, 3)])))
        expected = evaluate(query.term, {"E": Bag([(1, 2), (2, 3)])})
        assert same(collect_value(view.answer(), query.type), expected)
