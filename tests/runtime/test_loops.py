"""Loops on Spark: what they cost, what they leave behind, and how a view has them."""

from __future__ import annotations

import gc

import attrs
import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.algebra.evaluate import evaluate
from mrql.algebra.reader import parse_type
from mrql.algebra.values import Bag, Value, same
from mrql.algebra.zset import ZSet
from mrql.runtime import jvm, session
from mrql.runtime.bulk import Compiler
from mrql.runtime.collect import collect_value
from mrql.runtime.frames import from_dataframe
from mrql.runtime.loops import Kept, passing
from mrql.runtime.rows import to_dataframe
from mrql.runtime.view import evaluate as evaluate_on_spark
from tests.runtime.test_equivalence import INTERPRETED

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
    """What the steps were computed from is freed step by step, and the result with what it was kept in."""
    gc.collect()
    before = jvm.persistent_rdds(spark)
    query = compiled("repeat x = E step select (b, a) from (a, b) in x where count(E) > 0 limit 9")
    with session.settings(spark, INTERPRETED), passing() as kept:
        answer = evaluate_on_spark(spark, query.term, {"E": from_dataframe(edges(spark), T.item)}, kept)
        assert len(kept.checkpoints) == 1
        assert jvm.persistent_rdds(spark) <= before + 1
        assert same(collect_value(answer, query.type), evaluate(query.term, {"E": EDGES}))
    assert jvm.persistent_rdds(spark) <= before


def test_a_loop_that_fails_leaves_nothing_behind(spark: SparkSession) -> None:
    """A step that has no value is an error with its place, and frees what the steps before it have kept."""
    before = jvm.persistent_rdds(spark)
    query = compiled("repeat x = E step select (a, 6 / (b - 1)) from (a, b) in x limit 9")
    with pytest.raises(UserError, match="division by zero") as caught:
        query.batch(spark, E=edges(spark))
    assert caught.value.span is not None
    assert caught.value.span.text == "6 / (b - 1)"
    assert jvm.persistent_rdds(spark) <= before


def test_a_loop_that_does_not_end(spark: SparkSession) -> None:
    """Without a limit a loop may take so many steps and no more."""
    query = compiled("repeat x = E step select (a, b + 1) from (a, b) in x")
    term = attrs.evolve(query.term, most=3)  # type: ignore[arg-type]
    sources = {"E": from_dataframe(edges(spark), T.item)}
    with pytest.raises(UserError, match="this loop does not end: after 3 steps it still changes"), passing() as kept:
        evaluate_on_spark(spark, term, sources, kept)


def test_what_is_written_twice_is_run_once(spark: SparkSession) -> None:
    """The same loop in two places of a query has one value."""
    loop = "repeat x = E step select (b, a) from (a, b) in x limit 1"
    query = compiled(f"r = {loop}; (count(r), sum(select a from (a, b) in r))")
    with session.settings(spark, INTERPRETED):
        kept = Kept()
        compiler = Compiler(spark, {"E": from_dataframe(edges(spark), T.item)}, kept=kept)
        frame = compiler.one(query.term)
        assert (len(kept.checkpoints), len(compiler.loops)) == (1, 1)
        assert frame.df.dataframe(spark).count() == 1
        kept.free()


def test_partitions_do_not_add_up(spark: SparkSession) -> None:
    """A step that is a union has the partitions of both sides; after many steps there are no more than a few a core."""
    query = compiled("repeat x = E step x union E limit 12")
    with session.settings(spark, INTERPRETED), passing() as kept:
        answer = evaluate_on_spark(spark, query.term, {"E": from_dataframe(edges(spark).repartition(4), T.item)}, kept)
        assert answer.rdd.getNumPartitions() <= 12
        assert answer.count() == 13 * len(EDGES)


def test_a_view_runs_its_loop_over_the_states(spark: SparkSession) -> None:
    """After each batch, with deletions, the answer and its changes are those of an evaluation from scratch."""
    query = compiled(f"select (a, count(b)) from (a, b) in ({CLOSURE}) group by a")
    loop = compiled(CLOSURE)
    batches: list[tuple[Bag, Bag]] = [
        (EDGES, Bag()),
        (Bag([(6, 5)]), Bag([(4, 1)])),
    ]
    with session.settings(spark, INTERPRETED):
        before = jvm.persistent_rdds(spark)
        with query.view(spark) as view, loop.view(spark) as other:
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
    """Before the first batch; its value is freed with the view."""
    text = f"select (s, d) from (s, k) in S, (c, d) in ({CLOSURE}) where k = c"
    query = mrql.compile(text, S="bag((int, int))", E="bag((int, int))")
    rows = [(7, 1), (8, 2), (9, 5)]
    with session.settings(spark, INTERPRETED):
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
