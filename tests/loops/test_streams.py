"""The query files in `queries/loops` over streams, kept up to date in every way that applies, in both engines."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from pyspark.sql import SparkSession

from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.values import Bag, Value, close
from mrql.rewrite.pipeline import normal_form
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.reference.engine import ReferenceEngine
from mrql.runtime.sinks.sink import Passing, Several
from mrql.runtime.streaming.stream_loop import Engine, Options, run
from mrql.translate.program import Program
from queries.loops.generate import Batch, Size, history, rmat
from tests.support.loop_files import EVERY_WAY, FILES, pagerank, present
from tests.support.planning import planned

BATCHES = 5
"""The number of batches; `make soak` has ten."""
ON_SPARK = (("paths", LoopStrategy.FIXPOINT), ("pagerank", LoopStrategy.EXACT), ("kmeans", LoopStrategy.RECOMPUTE))


def plan_of(program: Program, strategy: LoopStrategy) -> Plan:
    (query,) = program.queries
    plan = planned(query.term, shrinking=program.shrinking, strategy=strategy).plan
    assert [chosen.strategy for chosen in plan.strategies] == [strategy]
    return plan


def answers(engine: Engine, program: Program) -> list[Value]:
    """The answers after the batches in the directories of a program, one file per batch."""
    found: list[Value] = []
    sink = Passing(lambda answer: found.append(answer.snapshot().collect()))
    for _ in run(engine, program.sources, Options(once=True, max_files=1), Several((sink,))):
        pass
    engine.close()
    return found


def in_the_reference(program: Program, strategy: LoopStrategy) -> list[Value]:
    engine = ReferenceEngine(plan_of(program, strategy), program.sources)
    return answers(engine, program)


@pytest.mark.parametrize(("name", "strategy"), EVERY_WAY)
def test_kept_up_to_date(name: str, strategy: LoopStrategy, tmp_path: Path) -> None:
    """The reference engine keeps each query file up to date in each way, over the first rows and some batches of
    changes."""
    assert_kept_in_the_reference(tmp_path, name, strategy, FILES[name].history(BATCHES))


def assert_kept_in_the_reference(home: Path, name: str, strategy: LoopStrategy, batches: list[Batch]) -> None:
    """Asserts that after each batch the answer is that of networkx or plain Python, and that of the reference
    evaluator."""
    file = FILES[name]
    assert any(batch.deleted for batch in batches)
    file.fill(home, batches)
    program = file.program(home)
    (query,) = program.queries
    ((stream, _),) = program.sources.items()
    term = normal_form(query.term)
    found = in_the_reference(program, strategy)
    for number, answer in enumerate(found):
        rows = present(batches[: number + 1])
        assert close(answer, file.expected(rows)), f"batch {number}"
        assert close(answer, evaluate(term, {stream: file.bag(rows)})), f"batch {number}"
    assert len(found) == len(batches)


@pytest.mark.wide(keep=4)
@pytest.mark.spark
@pytest.mark.parametrize(("name", "strategy"), ON_SPARK)
def test_kept_up_to_date_on_spark(name: str, strategy: LoopStrategy, tmp_path: Path, spark: SparkSession) -> None:
    """Spark keeps query files up to date over a handful of rows, of which one is deleted: one file for each way."""
    assert_kept_on_spark(spark, tmp_path, name, strategy, FILES[name].short_history())


def assert_kept_on_spark(
    spark: SparkSession, home: Path, name: str, strategy: LoopStrategy, batches: list[Batch]
) -> None:
    """Asserts that the answer after each batch is the expected one, and that no RDDs stay behind. `make soak` has ten
    batches of each."""
    from mrql.runtime.spark import jvm
    from mrql.runtime.spark.engine import SparkEngine

    file = FILES[name]
    file.fill(home, batches)
    program = file.program(home)
    (query,) = program.queries
    before = jvm.persistent_rdds(spark)
    engine = SparkEngine(plan_of(program, strategy), program.sources, spark, query.span.source)
    found = answers(engine, program)
    for number, answer in enumerate(found):
        assert close(answer, file.expected(present(batches[: number + 1]))), f"batch {number}"
    assert len(found) == len(batches)
    assert jvm.persistent_rdds(spark) <= before


def test_ranks_are_those_of_networkx(tmp_path: Path) -> None:
    """After enough steps the ranks, divided by their sum, are those of networkx: a surfer starts anew where there are
    no links."""
    file = FILES["pagerank"]
    batches = file.history(BATCHES)
    file.fill(tmp_path, batches)
    found = in_the_reference(file.program(tmp_path, steps=100), LoopStrategy.RECOMPUTE)
    for number, answer in enumerate(found):
        graph = nx.DiGraph(present(batches[: number + 1]))
        moves = nx.google_matrix(graph, alpha=0.85)
        ranks = np.linalg.matrix_power(moves, 200)[0]
        assert isinstance(answer, Bag)
        total = sum(rank for _, rank in answer)
        assert close(
            Bag((page, rank / total) for page, rank in answer), Bag(zip(graph, ranks.tolist(), strict=True)), 1e-5
        )


@pytest.mark.parametrize("steps", [1, 20])
def test_ranks_without_dead_ends(steps: int) -> None:
    """Where each page has links, the ranks are those of networkx after each step, times the number of pages."""
    circle = [(n, (n + 1) % 9) for n in range(9)]
    edges = sorted({*circle, *next(history(rmat(9), Size(20), seed=1)).inserted})
    graph = nx.DiGraph(edges)
    ranks = np.ones(9) @ np.linalg.matrix_power(nx.google_matrix(graph, alpha=0.85), steps)
    assert close(pagerank(edges, steps), Bag(zip(graph, ranks.tolist(), strict=True)))
