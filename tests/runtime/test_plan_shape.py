"""The merge moves only the change: read off the physical plans."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.runtime.jvm import executed_plan, persistent_rdds
from mrql.runtime.session import settings
from mrql.runtime.state import MARK, TOUCHED, Table
from mrql.runtime.view import SparkView

pytestmark = pytest.mark.spark


NODE = re.compile(r"([ :]*(?:[+:]- )?)(?:\*\(\d+\) )?(.*)")
"""A line of a plan: the drawing of the tree, the number of the generated stage, the node."""


def exchanged_states(plan: str) -> int:
    """How many scans of a state's rows have an Exchange above them."""
    path: list[tuple[int, str]] = []
    count = 0
    for line in plan.splitlines():
        tree, stripped = NODE.match(line).groups()  # type: ignore[union-attr]
        depth = len(tree)
        path = [(d, node) for d, node in path if d < depth]
        if stripped.startswith("Scan ExistingRDD"):
            count += any(node.startswith(("Exchange", "BroadcastExchange", "ShuffleQueryStage")) for _, node in path)
        path.append((depth, stripped))
    return count


def groups(view: SparkView) -> Table:
    table = view.states[0].groups
    assert table is not None
    return table


def file_of(spark: SparkSession, path: str, columns: str) -> DataFrame:
    """Rows from a file, so that only states are scanned as RDDs."""
    spark.range(100).selectExpr(*columns.split("; ")).write.mode("overwrite").parquet(path)
    return spark.read.parquet(path)


@pytest.fixture
def grouped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[mrql.View, DataFrame]:
    path = str(tmp_path_factory.mktemp("rows"))
    query = mrql.compile("select (x, avg(y)) from (x, y) in S group by x", S="bag((long, long))")
    view = query.view(spark)
    rows = file_of(spark, path, "id % 10 AS _1; id AS _2")
    view.apply(S=rows)
    return view, rows


def test_merge_moves_only_the_change(spark: SparkSession, grouped: tuple[mrql.View, DataFrame]) -> None:
    """The plan of a merge has no Exchange above the state."""
    view, rows = grouped
    table = groups(view._view)
    with settings(spark, view._view.settings):
        changes = rows.selectExpr("_1 AS k0", "1L AS n0", "_2 AS v0", "1L AS v1", f"{MARK} AS {TOUCHED}")
        plan = executed_plan(table.merged_with(changes))
    assert plan.count("Scan ExistingRDD") == 1
    assert exchanged_states(plan) == 0
    view.close()


def test_the_check_sees_a_shuffled_state(spark: SparkSession, grouped: tuple[mrql.View, DataFrame]) -> None:
    """Merged as a full outer join, or with adaptive execution, the state is moved: the check above can fail."""
    view, rows = grouped
    state = groups(view._view).runs[0].df
    with settings(spark, view._view.settings):
        joined = state.join(rows.withColumnRenamed("_1", "k0"), "k0", "full_outer").groupBy("k0").count()
        assert exchanged_states(executed_plan(joined)) == 1
        elsewhere = state.groupBy("v0").count()
        assert exchanged_states(executed_plan(elsewhere)) == 1
    view.close()


def test_a_join_reads_the_state_where_it_is(spark: SparkSession, tmp_path: str) -> None:
    """A batch's side of a join is moved to the stored side, not the other way round."""
    query = mrql.compile(
        "select (a, count(d)) from (a, b) in S, (c, d) in T where b = c group by a",
        S="bag((long, long))",
        T="bag((long, long))",
    )
    with query.view(spark) as view:
        rows = file_of(spark, f"{tmp_path}/rows", "id % 10 AS _1; id AS _2")
        view.apply(S=rows)
        inner = view._view
        inner.advance({"T": query._frame("T", rows)})
        share = inner.states[0]
        plan = executed_plan(share.inputs[next(iter(share.inputs))].table.runs[0].df.limit(1))  # type: ignore[union-attr]
        assert exchanged_states(plan) <= 1
        with settings(spark, inner.settings):
            feed = share.stage.feeds[0]
            labels = [read.label for read in feed.rows.inputs]
            old = share.inputs[0, labels[0]]
            delta = share.inputs[0, labels[1]]
            assert old.table is not None
            assert delta.table is not None
            sources = {
                labels[0]: old.frame(old.table.rows()),
                labels[1]: delta.frame(rows.selectExpr("_1 AS i0", "_2 AS i1", "1L AS w"), changes=True),
            }
            joined = share._compiler(sources).bag(feed.rows.body)  # type: ignore[arg-type]
            plan = executed_plan(joined.df)
        inner.rollback()
    assert plan.count("Scan ExistingRDD") == 1
    assert "ShuffledHashJoin" in plan
    assert exchanged_states(plan) == 0


LEAK_QUERIES = [
    "select (k, avg(x#1)) from x in S group by k: x#0",
    "select (x#0, count(y)) from x in S, y in S where x#1 = y#1 group by x#0",
    "select (k, x) from x in S group by k: x#0",
    "select (n, count(k)) from (k, n) in (select (k, count(x)) from x in S group by k: x#0) group by n",
]


@pytest.mark.parametrize("text", LEAK_QUERIES)
def test_no_rdds_are_left_behind(spark: SparkSession, text: str) -> None:
    """Spark keeps no more RDDs after 50 batches than after 5, but for the logarithm of runs, and none after `close`."""
    spark.catalog.clearCache()
    before = persistent_rdds(spark)
    query = mrql.compile(text, S="bag((long, long))")
    view = query.view(spark)
    counts = []
    for batch in range(50):
        view.apply(S=spark.range(3).selectExpr("id % 2 AS _1", f"id + {batch} AS _2"))
        counts.append(persistent_rdds(spark) - before)
    assert max(counts[40:]) <= max(counts[5:15]) + 2 * len(view._view.all_tables()), counts
    view.close()
    assert persistent_rdds(spark) <= before
