"""Loops that are kept up to date step by step, except for changes that are too small, `--loop exact --epsilon`.

The input of a step is never off by more than the threshold, and the answer by no more than the residual says.
"""

from __future__ import annotations

import math
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.algebra.terms import Term, element_type
from mrql.algebra.types import BagType
from mrql.algebra.values.values import Bag, Value, close
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.plan import Plan
from mrql.rewrite.plan.threshold import Threshold
from mrql.runtime.engine.residual import Residual, divided, relative_difference
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.spark import jvm
from mrql.runtime.spark.expressions.from_spark import from_spark
from mrql.runtime.spark.expressions.layout import to_sql
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.relation.frame import Frame, changes, from_dataframe
from mrql.runtime.spark.view import SparkView
from tests.loops.test_diffuse import RANKS, SHRINKING, STREAMS
from tests.runtime.checkpoint.streams import Stream, batch_answer
from tests.support.loop_files import FILES, pagerank, present
from tests.support.loop_queries import edge_histories
from tests.support.moving_points import MIDDLE, POINTS, assert_goes_on, write_batches
from tests.support.planning import planned

THRESHOLDS = (Threshold(0.01), Threshold(0.2), Threshold(absolute=0.1), Threshold(0.05, 0.2))


def exact(term: Term, threshold: Threshold | None = None) -> Plan:
    return planned(term, shrinking=SHRINKING, strategy=LoopStrategy.EXACT, threshold=threshold).plan


def check_bound(view: ReferenceView, expected: Value) -> None:
    """Asserts that the input of no step is off by more than the threshold, and the answer by no more than the
    residual."""
    for derived in view.plan.thresholded:
        withheld = view.present.get(derived.name, ZSet())
        due, residual = divided(withheld, element_type(derived.stream), derived.threshold)
        assert not due
        if not derived.threshold.absolute:
            assert residual.change <= derived.threshold.relative
    found = view.answer()
    assert isinstance(found, Bag)
    assert isinstance(expected, Bag)
    one, other = dict(found.items), dict(expected.items)  # type: ignore[arg-type]
    assert one.keys() == other.keys()
    off = max((relative_difference(one[page], other[page]) for page in one), default=0.0)
    assert off <= view.residual.change + 1e-9
    assert sum(abs(one[page] - other[page]) for page in one) <= view.residual.distance + 1e-9


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from((0.3, 0.85)), st.sampled_from((1, 2, 5)), st.sampled_from(THRESHOLDS), edge_histories())
def test_any_history(damping: float, steps: int, threshold: Threshold, history: list[dict[str, ZSet]]) -> None:
    """Over histories in which pages come, vanish and return, answers are within their residuals: a step of ranks
    increases neither a relative difference nor the sum of the differences."""
    term = mrql.compile(RANKS.format(damping=damping, steps=steps), **STREAMS).term
    view, all_of_it = ReferenceView(exact(term, threshold)), ReferenceView(exact(term))
    for batch in history:
        for each in (view, all_of_it):
            each.apply(batch)
        check_bound(view, all_of_it.answer())


@pytest.mark.parametrize("threshold", [Threshold(0.05), Threshold(absolute=0.05)], ids=["relative", "absolute"])
def test_small_changes_do_not_spread(tmp_path: Path, threshold: Threshold) -> None:
    """Over five batches with deletions, answers are within their residuals, and fewer keys are touched than without a
    threshold."""
    file = FILES["pagerank"]
    (query,) = file.program(tmp_path, steps=8).queries
    batches = file.history(4)
    view, all_of_it = (ReferenceView(exact(query.term, given)) for given in (threshold, None))
    touched, off = [0, 0], []
    for number, batch in enumerate(batches):
        for i, each in enumerate((view, all_of_it)):
            each.apply({"edges": ZSet.of(file.bag(batch.inserted)) - ZSet.of(file.bag(batch.deleted))})
            touched[i] += sum(len(state.touched_keys) for state in each.states)
        check_bound(view, pagerank(present(batches[: number + 1]), 8))
        off.append(view.residual.change)
    assert max(off) > 0
    assert all_of_it.residual == Residual()
    assert touched[0] < touched[1]


def test_a_batch_that_fails_changes_nothing() -> None:
    text = RANKS.format(damping=0.5, steps=3).replace("0.15 +", "1 / (if n = 9 then 0 else 1) +")
    view = ReferenceView(exact(mrql.compile(text, **STREAMS).term, Threshold(0.1)))
    view.apply({"E": ZSet.of([(1, 2), (2, 3), (2, 4), (4, 1)])})
    view.apply({"E": ZSet.of([(2, 5)])})
    before, withheld = view.answer(), dict(view.present)
    with pytest.raises(UserError, match="division by zero"):
        view.apply({"E": ZSet.of([(3, 9), (9, 1)])})
    assert view.answer() == before
    assert view.present == withheld


def rows_of(view: SparkView, frame: Frame) -> ZSet:
    """The rows of a frame, with their weights."""
    rows = view.plans.dataframe(frame.df.select(f"{to_sql(frame.value)} AS row", f"{frame.weight or '1L'} AS w"))
    return ZSet.weighted((from_spark(row["row"], frame.value.type), row["w"]) for row in rows.collect())


@pytest.mark.wide(keep=2)
@pytest.mark.spark
@pytest.mark.parametrize("threshold", [Threshold(0.15), Threshold(0.01, 0.1)], ids=["relative", "both"])
def test_on_spark(spark: SparkSession, tmp_path: Path, threshold: Threshold) -> None:
    """The answers and residuals on Spark are those of the reference engine, and no RDDs stay behind."""
    file = FILES["pagerank"]
    program = file.program(tmp_path, steps=2)
    (query,) = program.queries
    t = BagType(program.sources["edges"].row)
    plan = exact(query.term, threshold)
    assert len(plan.thresholded) == 2
    reference, left = ReferenceView(plan), jvm.persistent_rdds(spark)
    withheld = 0
    view = SparkView(plan, spark)
    for batch in file.history(1):
        change = ZSet.of(file.bag(batch.inserted)) - ZSet.of(file.bag(batch.deleted))
        sides = [from_dataframe(to_dataframe(spark, s, t), t.item) for s in (change.positive(), change.negative())]
        view.apply({"edges": changes(sides[0], sides[1], view.columns)})
        reference.apply({"edges": change})
        assert close(collect_value(view.answer(), query.type), reference.answer())
        assert view.residual.change == pytest.approx(reference.residual.change, abs=1e-9)
        assert view.residual.distance == pytest.approx(reference.residual.distance, abs=1e-9)
        assert view.residual.groups == reference.residual.groups
        withheld += view.residual.groups
        for derived in plan.thresholded:
            passed_on = reference.derived[derived.name] - reference.present.get(derived.name, ZSet())
            assert close(
                rows_of(view, view.states.residual_changes[derived.name].so_far()).positive(), passed_on.positive()
            )
    view.advance({"edges": sides[0]})
    view.rollback()
    view.complete()
    assert view.residual.groups == reference.residual.groups, "a batch that fails leaves nothing to compare"
    view.close()
    assert withheld > 0
    assert jvm.persistent_rdds(spark) <= left


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_stream_goes_on(request: pytest.FixtureRequest, tmp_path: Path, engine: str) -> None:
    """A restarted stream has the answers of one that is not: the withheld changes are in the checkpoint."""
    spark = request.getfixturevalue("spark") if engine == "spark" else None
    threshold = Threshold(0.5)
    stream = Stream(
        tmp_path, MIDDLE, engine, spark=spark, strategy=LoopStrategy.EXACT, threshold=threshold, max_files=None
    )
    assert_goes_on(stream, POINTS)


EDGES = 'edges = stream(csv, "edges", ",", type((long, long)), tagged);'
GRAPH = f"{EDGES}\n{RANKS.format(damping=0.85, steps=2).replace('in E', 'in edges')}"
LINKS = (
    ("+,1,2", "+,1,3", "+,2,3", "+,3,1", "+,4,1", "+,4,2", "+,4,3", "+,5,4"),
    ("-,5,4", "+,2,1", "+,6,1"),
    ("-,4,1", "-,4,2", "-,4,3", "-,6,1", "+,5,2"),
)
"""A page loses its only link, others vanish, and one returns."""


@pytest.mark.wide
@pytest.mark.spark
@pytest.mark.parametrize("strategy", [LoopStrategy.EXACT, LoopStrategy.DIFFUSE])
def test_a_stream_of_pages_goes_on(spark: SparkSession, tmp_path: Path, strategy: LoopStrategy) -> None:
    """A restarted stream has the answers of one that is not: what was passed on of each page, or fed, is in the
    checkpoint."""
    threshold = Threshold(0.1)
    stream = Stream(
        tmp_path, GRAPH, engine="spark", spark=spark, strategy=strategy, threshold=threshold, max_files=None
    )
    assert_goes_on(stream, LINKS)


@pytest.mark.wide
@pytest.mark.spark
def test_another_threshold(spark: SparkSession, tmp_path: Path) -> None:
    """With another threshold the steps after the first begin anew, and the answer is right."""
    strategy, threshold = LoopStrategy.EXACT, Threshold(0.5)
    coarse = Stream(tmp_path, GRAPH, engine="spark", spark=spark, strategy=strategy, threshold=threshold)
    write_batches(tmp_path, LINKS[:2])
    coarse.run()
    write_batches(tmp_path, LINKS[2:], start=2)
    fine = attrs.evolve(coarse, threshold=Threshold(1e-12))
    fine.run()
    found = fine.answers()
    assert len(found) == 3
    assert close(found[max(found)], batch_answer(fine))


def test_explain_says_what_is_kept_back() -> None:
    text = RANKS.format(damping=0.85, steps=3)
    explained = mrql.compile(text, **STREAMS).explanation(loop="exact", epsilon=0.001)
    assert "what changes by no more than 0.001 of its size is kept back" in explained
    both = mrql.compile(text, **STREAMS).explanation(loop="exact", epsilon=0.001, abs_epsilon=0.5)
    assert "what changes by no more than the larger of 0.001 of its size and 0.5 is kept back" in both
    assert "kept back" not in mrql.compile(text, **STREAMS).explanation(loop="exact")


def test_a_threshold_is_for_some_ways_only() -> None:
    query = mrql.compile(RANKS.format(damping=0.85, steps=3), **STREAMS)
    with pytest.raises(UserError, match="epsilon is a finite number, 0 or more, for loop='diffuse' or loop='exact'"):
        query.trace(epsilon=0.1)
    with pytest.raises(UserError, match="epsilon is a finite number, 0 or more"):
        query.trace(loop="exact", epsilon=-1.0)
    with pytest.raises(UserError, match="abs_epsilon is a finite number, 0 or more"):
        query.trace(loop="exact", epsilon=0.1, abs_epsilon=math.nan)
