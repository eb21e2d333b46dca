"""States in one partition, which are never moved, and how they are distributed over several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.runtime.spark import jvm, partitions
from mrql.runtime.spark.jvm import executed_plan, persistent_rdds
from mrql.runtime.spark.relation.plan_cache import Template
from mrql.runtime.spark.state import compaction
from mrql.runtime.spark.state.run import Indexed
from mrql.runtime.spark.state.table import Table
from mrql.runtime.spark.view import SparkView
from tests.runtime.spark.maintenance.test_transaction import RANKS, WAYS
from tests.support.partitions import GROWING, IN_ONE, SEVERAL

pytestmark = [pytest.mark.spark, pytest.mark.partitions(IN_ONE)]

PAIRS = "bag((long, long))"
JOINED = "select (a, sum(f)) from (a, b) in S, (c, d) in T, (e, f) in P where b = c and d = e group by a"
OF_TWO = "select (a, sum(d)) from (a, b) in S, (c, d) in T where b = c group by a"
GROUPED = "select (k, sum(v)) from (k, v) in S group by k"


def pairs(spark: SparkSession, *rows: tuple[int, int]) -> DataFrame:
    return spark.createDataFrame([*rows], "_1 long, _2 long").coalesce(1)


def exchanges(view: mrql.View) -> list[str]:
    """The reusable plans of a view that have an exchange; there must be some reusable plans."""
    inner = view._view
    plans = [t.plan.plan.toString() for t in inner.plans._known.values() if isinstance(t, Template)]
    assert plans
    return [plan for plan in plans if "Exchange" in plan]


def spread(view: SparkView) -> set[int]:
    """The numbers of partitions of the runs of a view's states."""
    return {run.handle.getNumPartitions() for table in view.states.tables() for run in table.runs}


def answer(view: mrql.View) -> list[tuple[object, ...]]:
    return sorted(map(tuple, view.answer().collect()))


def test_nothing_is_moved(spark: SparkSession) -> None:
    """A join of three streams under groups, with deletions that are looked up, has no Exchange in any plan."""
    query = mrql.compile(JOINED, **dict.fromkeys("STP", PAIRS))
    with query.view(spark) as view:
        view._view.plans._known.clear()
        view.apply(S=pairs(spark, (1, 2), (2, 3)), T=pairs(spark, (2, 4), (3, 4)), P=pairs(spark, (4, 10)))
        for n in range(3):
            come, gone = pairs(spark, (n, 2)), pairs(spark, (n - 1, 2))
            view.apply(S=mrql.Delta(come, gone if n else None), P=mrql.Delta(pairs(spark, (4, n))))
        assert answer(view) == [(1, 13), (2, 26)]
        assert spread(view._view) == {1}
        assert exchanges(view) == []


def test_what_a_program_does_with_an_answer_knows_nothing_of_its_size(spark: SparkSession) -> None:
    """Spark is told that states are small, so that it does not distribute them, but not that an answer is: it is not
    broadcast for a join."""
    other = spark.range(10_000_000).selectExpr("id AS _1")
    with mrql.compile(GROUPED, S=PAIRS).view(spark) as view:
        for n in range(4):
            view.apply(S=pairs(spark, (n, n)))
            assert "Broadcast" not in executed_plan(view.answer().join(other, "_1"))


@pytest.mark.parametrize("failing", [False, True])
def test_states_that_have_grown_are_distributed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, failing: bool
) -> None:
    """The batch that finds the states too large distributes all of them; the earlier ones can be read until that batch
    is committed, and are freed then. If the batch fails, they stay distributed."""
    monkeypatch.setattr(partitions, "IN_ONE_MAX_ROWS", 13)
    before = persistent_rdds(spark)
    query = mrql.compile("select (k, sum(v), 100 / min(v)) from (k, v) in S group by k", S=PAIRS)
    with query.view(spark) as view:
        for n in range(1, 5):
            view.apply(S=pairs(spark, (n, n)))
        assert spread(view._view) == {1}
        changes = view.apply(S=mrql.Delta(pairs(spark, (5, 5), (1, 2)), pairs(spark, (1, 1))))
        sides = view.before()
        assert spread(view._view) == {1}
        if failing:
            with pytest.raises(mrql.MrqlError, match="9, 9"):
                view.apply(S=mrql.Delta(pairs(spark, (6, 6)), pairs(spark, (9, 9))))
            assert spread(view._view) == {2}
        assert sorted(map(tuple, changes.collect())) == [(1, 1, 100, -1), (1, 2, 50, 1), (5, 5, 20, 1)]
        assert sorted(row[0] for row in sides.collect()) == [1, 2, 3, 4]
        view.apply(S=mrql.Delta(pairs(spark, (7, 1)), pairs(spark, (2, 2))))
        assert spread(view._view) == {2}
        assert answer(view) == [(1, 2, 50), (3, 3, 33), (4, 4, 25), (5, 5, 20), (7, 1, 100)]
        for n in range(8, 12):
            view.apply(S=mrql.Delta(pairs(spark, (n, n)), pairs(spark, (n - 1, n - 1 if n > 8 else 1))))
        assert [row[0] for row in answer(view)] == [1, 3, 4, 5, 11]
    assert persistent_rdds(spark) <= before


@pytest.mark.parametrize(
    ("text", "ways", "parts"),
    [
        (WAYS, {"loop": "fixpoint"}, 1),
        (WAYS, {"loop": "recompute"}, 2),
        (RANKS, {"loop": "exact"}, 2),
        (RANKS, {"loop": "exact", "abs_epsilon": 0.1}, 1),
        (RANKS, {"loop": "diffuse"}, 2),
        (RANKS, {"loop": "diffuse", "abs_epsilon": 0.1}, 1),
    ],
    ids=str,
)
def test_states_that_steps_go_through_are_distributed_earlier(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, text: str, ways: dict[str, Any], parts: int
) -> None:
    """The steps of a loop that is run again go through all rows, and so do those that pass most changes on; with an
    absolute threshold few changes go on, and a fixpoint looks up the rows of its keys."""
    monkeypatch.setattr(partitions, "IN_ONE_MAX_ROWS_OF_STEPS", 3)
    with mrql.compile(text, S=PAIRS).view(spark, **ways) as view:
        view.apply(S=pairs(spark, (1, 2), (2, 3), (3, 4), (4, 1)))
        assert spread(view._view) == {1}
        view.apply(S=pairs(spark, (4, 5)))
        assert spread(view._view) == {parts}


@pytest.mark.parametrize("fails", ["repartitioned", "compute_all"])
def test_a_growth_that_fails_changes_nothing(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    """If the states cannot be distributed, none of the tables is, and the batch fails; the next batch tries again."""
    query = mrql.compile(JOINED, **dict.fromkeys("STP", PAIRS))
    done = []

    def failing(*arguments: object) -> object:
        done.append(arguments)
        if fails == "compute_all" or len(done) == 3:
            raise RuntimeError("no room")
        return plain(*arguments)

    with query.view(spark) as view:
        view.apply(S=pairs(spark, (1, 2)), T=pairs(spark, (2, 4)), P=pairs(spark, (4, 10)))
        kept = persistent_rdds(spark)
        with monkeypatch.context() as patched:
            patched.setattr(partitions, "IN_ONE_MAX_ROWS", 1)
            owner = Table if fails == "repartitioned" else jvm
            plain = getattr(owner, fails)
            patched.setattr(owner, fails, failing)
            for _ in range(2):
                with pytest.raises(RuntimeError, match="no room"):
                    view.apply(S=pairs(spark, (3, 2)))
                done.clear()
            assert persistent_rdds(spark) == kept
        assert spread(view._view) == {1}
        view.apply(S=mrql.Delta(pairs(spark, (4, 2)), pairs(spark, (1, 2))))
        assert spread(view._view) == {1}
        assert answer(view) == [(4, 10)]
        monkeypatch.setattr(partitions, "IN_ONE_MAX_ROWS", 1)
        view.apply(S=mrql.Delta(pairs(spark, (5, 2)), pairs(spark, (4, 2))))
        assert spread(view._view) == {2}
        assert answer(view) == [(5, 10)]


@pytest.mark.wide
def test_what_was_in_blocks_can_be_read_after_states_have_grown(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changes of a batch can be read for the first time after the next batch has found states too large, and
    failed."""
    for limit in ("MERGED_WHOLE_MAX_ROWS", "WAITED_FOR_MAX_ROWS", "LOOKED_UP_MIN_ROWS", "IN_BLOCKS_MIN_ROWS"):
        monkeypatch.setattr(compaction, limit, 0)
    monkeypatch.setattr(compaction, "LOOKED_UP_IN_BLOCKS_MIN_ROWS", 0)
    query = mrql.compile("select (k, sum(v), max(v)) from (k, v) in S group by k", S=PAIRS)
    with query.view(spark) as view:
        for n in range(8):
            changes = view.apply(S=mrql.Delta(pairs(spark, (1, n)), pairs(spark, (1, n - 1)) if n else None))
        kept = [run.kept for table in view._view.states.tables() for run in table.runs]
        assert any(isinstance(each, Indexed) for each in kept)
        assert spread(view._view) == {1}
        monkeypatch.setattr(partitions, "IN_ONE_MAX_ROWS", 0)
        with pytest.raises(mrql.MrqlError, match="9, 9"):
            view.apply(S=mrql.Delta(delete=pairs(spark, (9, 9))))
        assert spread(view._view) == {2}
        assert sorted(map(tuple, changes.collect())) == [(1, 6, 6, -1), (1, 7, 7, 1)]
        view.apply(S=mrql.Delta(pairs(spark, (1, 8)), pairs(spark, (1, 7))))
        assert answer(view) == [(1, 8, 8)]


def test_what_spark_knows_no_size_of_is_not_taken_for_large(spark: SparkSession) -> None:
    """A batch of unknown size leaves states in one partition, although Spark estimates the size of some of its columns
    as a part of the largest possible one."""
    rdd = spark.sparkContext.parallelize([(1, 2, "x", "y", "z")])
    unknown = spark.createDataFrame(rdd, "_1 long, _2 long, a string, b string, c string")
    rows = unknown.selectExpr("_1", "_2")
    assert jvm.estimated_bytes(unknown) > jvm.estimated_bytes(rows) > partitions.IN_ONE_MAX_BATCH_BYTES
    with mrql.compile(GROUPED, S=PAIRS).view(spark) as view:
        view.apply(S=rows)
        assert spread(view._view) == {1}
        assert answer(view) == [(1, 2)]


def test_a_large_batch_finds_states_distributed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spark.range(1000).selectExpr("id % 10 AS _1", "id AS _2").write.parquet(str(tmp_path / "rows"))
    rows = spark.read.parquet(str(tmp_path / "rows"))
    query = mrql.compile(GROUPED, S=PAIRS)
    with query.view(spark) as view:
        view.apply(S=rows)
        assert spread(view._view) == {1}
    monkeypatch.setattr(partitions, "IN_ONE_MAX_BATCH_BYTES", 100)
    with query.view(spark) as view:
        view.apply(S=rows)
        assert spread(view._view) == {2}
        assert answer(view) == [(k, sum(range(k, 1000, 10))) for k in range(10)]


def test_a_batch_is_large_by_all_of_its_streams_together(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither side of a join is large by itself, but one task would hold the hash tables of both."""
    spark.range(100).selectExpr("id AS _1", "id AS _2").write.parquet(str(tmp_path / "rows"))
    rows = spark.read.parquet(str(tmp_path / "rows"))
    size = jvm.estimated_bytes(rows)
    query = mrql.compile("select (a, d) from (a, b) in S, (c, d) in T where b = c", S=PAIRS, T=PAIRS)
    for most, wanted in ((2 * size, {1}), (2 * size - 1, {2})):
        monkeypatch.setattr(partitions, "IN_ONE_MAX_BATCH_BYTES", most)
        with query.view(spark) as view:
            view.apply(S=rows, T=rows)
            assert spread(view._view) == wanted
            assert answer(view) == [(n, n) for n in range(100)]


@pytest.mark.parametrize(("most", "wanted"), [(16 << 20, {1}), (0, {2})])
def test_beside_a_large_table_states_are_distributed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, most: int, wanted: set[int]
) -> None:
    """Beside a large static table, states are distributed; a small one is read by one task, and nothing is moved."""
    monkeypatch.setattr(partitions, "IN_ONE_MAX_TABLE_BYTES", most)
    spark.range(10).selectExpr("id AS _1", "id * 10 AS _2").write.parquet(str(tmp_path / "table"))
    table = spark.read.parquet(str(tmp_path / "table"))
    query = mrql.compile("select (d, sum(a)) from (a, b) in S, (c, d) in T where b = c group by d", S=PAIRS, T=PAIRS)
    with query.view(spark, T=table) as view:
        view._view.plans._known.clear()
        for n in range(5):
            view.apply(S=pairs(spark, (n, n % 2)))
        assert answer(view) == [(0, 6), (10, 4)]
        assert spread(view._view) == wanted
        if wanted == {1}:
            assert exchanges(view) == []


@pytest.mark.wide(keep=4)
@pytest.mark.parametrize(("first", "then"), [(10, -1), (-1, 10), (2, 10), (10, 2)])
def test_a_checkpoint_goes_on_in_other_partitions(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: int, then: int
) -> None:
    query = mrql.compile(OF_TWO, **dict.fromkeys("ST", PAIRS))
    wanted = []
    for most, numbers in ((first, range(2)), (then, range(2, 4))):
        monkeypatch.setattr(partitions, "IN_ONE_MAX_ROWS", most)
        with query.view(spark, checkpoint=str(tmp_path / "checkpoint")) as view:
            assert answer(view) == wanted
            for n in numbers:
                come, gone = pairs(spark, (n, 2)), pairs(spark, (n - 1, 2))
                view.apply(S=mrql.Delta(come, gone if n else None), T=pairs(spark, (2, 4)))
            wanted = answer(view)
            assert wanted == [(numbers[-1], 4 * (numbers[-1] + 1))]


@pytest.mark.wide
@pytest.mark.partitions(GROWING)
@pytest.mark.parametrize("loop", ["fixpoint", "recompute"])
def test_a_loop_grows_between_its_batches(spark: SparkSession, loop: mrql.api.Loop) -> None:
    query = mrql.compile(
        """
        repeat ways = select distinct e from e in S
          step select distinct w
                 from w in (ways union (select (a, d) from (a, b) in ways, (c, d) in ways where b = c))
        """,
        S=PAIRS,
    )
    with query.view(spark, loop=loop) as view:
        for edges in ([(0, 1)], [(1, 2), (2, 3)], [(3, 4), (4, 5)]):
            view.apply(S=pairs(spark, *edges))
        view.apply(S=mrql.Delta(delete=pairs(spark, (2, 3))))
        assert answer(view) == [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)]
        assert spread(view._view) == {2}


@pytest.mark.partitions(SEVERAL)
def test_states_may_be_distributed_from_the_start(spark: SparkSession) -> None:
    with mrql.compile(GROUPED, S=PAIRS).view(spark) as view:
        view.apply(S=pairs(spark, (1, 1)))
        assert spread(view._view) == {2}
