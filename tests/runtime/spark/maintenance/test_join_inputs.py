"""Inputs of joins that are kept by several keys have the same rows by each, also after batches that fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.values import Value, close
from mrql.algebra.values.zset import ZSet
from mrql.runtime.spark.io.collect import collect_changes, collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.jvm import persistent_rdds
from mrql.runtime.spark.maintenance.join_inputs import InputState
from mrql.runtime.spark.state import compaction, packing
from mrql.runtime.spark.state.table import Table
from mrql.runtime.spark.view import SparkView
from tests.runtime.spark.test_equivalence import HISTORY, k
from tests.runtime.spark.test_restore import Restarted

pytestmark = pytest.mark.spark

PAIRS = parse_type("{(long, long)}")
CHAIN = "select (a, h) from (a, b) in S, (c, d) in T, (e, f) in P, (g, h) in Q where b = c and d = e and f = g"
STREAMS = "PQST"
VALUES = (None, 0, 1, 2, 3)


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treats all inputs as large, and keeps them in blocks."""
    monkeypatch.setattr(compaction, "LARGE_MIN_ROWS", 0)
    monkeypatch.setattr(compaction, "LOOKED_UP_IN_BLOCKS_MIN_ROWS", 0)


def inputs(view: SparkView) -> Iterator[InputState]:
    """The states of the inputs of a view's joins."""
    return (kept for stage in view.states.stages for kept in stage.inputs.values())


def rows(table: Table | None) -> list[str]:
    """The rows of a table, those of equal keys merged."""
    assert table is not None
    scanned = table.scan()
    assert scanned is not None
    found = table.plans.dataframe(scanned.where(table.schema.alive).select(*table.schema.columns)).collect()
    return sorted(map(repr, map(tuple, found)))


def some_rows(random: Random, count: int) -> list[Value]:
    return [(random.choice(VALUES), random.choice(VALUES)) for _ in range(count)]


@pytest.mark.wide(keep=4)
@pytest.mark.parametrize("rows_per_key", [0, 2, 1000], ids=["gathered", "some are gathered", "in blocks"])
@pytest.mark.parametrize("text", [CHAIN, CHAIN.replace("(a, h)", "(a, c, d, g, h)")], ids=["few", "all"])
def test_all_keys_have_the_same_rows(
    spark: SparkSession, text: str, rows_per_key: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables by all keys have the same rows after batches of one or several streams, and after failed ones."""
    monkeypatch.setattr(packing, "GATHERED_MIN_ROWS_PER_KEY", rows_per_key)
    random = Random(rows_per_key)
    query = mrql.compile(text, **dict.fromkeys(STREAMS, PAIRS))
    assert isinstance(query.type, ty.BagType)
    before = persistent_rdds(spark)
    present = {name: ZSet.of(some_rows(random, 9)) for name in STREAMS}

    def frame(rows: Sequence[Value]) -> DataFrame:
        return to_dataframe(spark, rows, PAIRS)

    def expected() -> Value:
        return evaluate(query.term, {name: there.bag() for name, there in present.items()})

    with query.view(spark) as view:
        first = {name: frame(list(there.bag())) for name, there in present.items()}
        answer = ZSet.weighted(collect_changes(view.apply(**first), query.type.item))
        for _ in range(6):
            deltas = dict[str, mrql.Delta]()
            for name in random.sample(STREAMS, random.choice([1, 1, 2, 4])):
                come, gone = some_rows(random, random.randrange(4)), random.sample(list(present[name].bag()), 2)
                present[name] = present[name] + ZSet.of(come) - ZSet.of(gone)
                deltas[name] = mrql.Delta(frame(come), frame(gone))
            with pytest.raises(mrql.MrqlError, match="8, 8"):
                view.apply(**{name: mrql.Delta(delta.insert, frame([(8, 8)])) for name, delta in deltas.items()})
            answer = answer + ZSet.weighted(collect_changes(view.apply(**deltas), query.type.item))
            assert close(answer.bag(), expected())
            assert close(collect_value(view.answer(), query.type), expected())
            for kept in inputs(view._view):
                assert all(rows(table) == rows(kept.table) for table in kept.by_other_keys.values())
        assert any(kept.by_other_keys for kept in inputs(view._view))
    assert persistent_rdds(spark) <= before


def test_rows_are_counted_and_written_once(spark: SparkSession, tmp_path: Path) -> None:
    """A table by another key is neither counted nor saved; after a restart it is made again when batches ask for it."""
    view = Restarted("select (a, p.V) from (a, b) in S, (c, d) in T, p in P where b = c and d = p.K", spark, tmp_path)
    for batch in HISTORY:
        view.apply(batch)
    for number in range(2):
        view.apply({"P": ([k(3, number)], [])})
    again = [table for kept in inputs(view.view) for table in kept.by_other_keys.values()]
    assert [table.schema.partition_by for table in again] == [("i1",)]
    once = [table for table in view.view.states.tables() if table not in again]
    assert view.view.sizes().rows == sum(run.rows or 0 for table in once for run in table.runs)
    view.restart()
    for number in range(2):
        assert not any(kept.by_other_keys for kept in inputs(view.view))
        view.apply({"P": ([k(4, number)], [])})
    assert sum(len(kept.by_other_keys) for kept in inputs(view.view)) == 1
    assert close(view.answer(), view.expected())
    view.close()
