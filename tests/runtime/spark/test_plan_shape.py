"""Physical plans: merges, lookups and joins move only the change, and plans are made once."""

from __future__ import annotations

import functools
import re
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.values.values import Bag
from mrql.api.frames import StreamRows
from mrql.rewrite.plan.operators import Access
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.jvm import executed_plan, persistent_rdds
from mrql.runtime.spark.jvm.handles import items
from mrql.runtime.spark.maintenance.loops.element_groups import ElementGroups
from mrql.runtime.spark.maintenance.snapshot import Touched
from mrql.runtime.spark.relation import plan_cache
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.relation.plan_cache import Checkpoint, Plans, Template
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.session.session import settings, step_settings
from mrql.runtime.spark.state import compaction
from mrql.runtime.spark.state.measures import MARK, TOUCHED
from mrql.runtime.spark.state.run import Indexed, Run
from mrql.runtime.spark.state.table import Table
from mrql.runtime.spark.view import SparkView
from tests.support.partitions import SEVERAL
from tests.support.spark_settings import interpreted

pytestmark = [pytest.mark.spark, pytest.mark.partitions(SEVERAL)]


@pytest.fixture
def spark(compiled_spark: SparkSession) -> SparkSession:
    """A session that compiles plans to code, as in a program."""
    return compiled_spark


@pytest.fixture
def uncompiled(spark: SparkSession) -> Iterator[None]:
    """Turns code generation off, for tests of many batches that look at no plan: code that differs from batch to batch
    would be compiled each time."""
    with interpreted(spark):
        yield


PAIRS = "bag((long, long))"


NODE = re.compile(r"((?:[ :]  )*(?:[+:]- )?)(?:\*\(\d+\) )?(.*)")
"""A line of a plan: the drawing of the tree, the number of the generated stage, the node."""


def exchanged_states(plan: str) -> int:
    """The number of scans of a state's rows that have an exchange above them."""
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
    table = view.states.stages[0].groups
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
        plan = planned(spark, table.merged([table.runs[0].relation, table.partitioned(change_of(rows))]))
    assert plan.count("Scan ExistingRDD") == 1
    assert exchanged_states(plan) == 0
    view.close()


def planned(spark: SparkSession, relation: Relation) -> str:
    return executed_plan(relation.dataframe(spark))


def change_of(rows: DataFrame) -> Relation:
    """Rows as a change of the groups' table; some keys are missing."""
    key = "if(_1 = 0, NULL, _1)"
    keys = f"coalesce({key}, 0L) AS k0; if({key} IS NULL, 1L, 0L) AS k_missing0; 1L AS n0"
    total = "0D AS v0; 0L AS v0d; 0L AS v0a; _2 AS v0b; 0L AS v0c; 0D AS v0h; 0D AS v0g; 0L AS v0k; 0L AS v0o"
    return Relation.of(rows).select(*keys.split("; "), *total.split("; "), "1L AS v1", f"{MARK} AS {TOUCHED}")


def test_a_lookup_moves_only_the_keys(spark: SparkSession, grouped: tuple[mrql.View, DataFrame]) -> None:
    """The plan that looks up keys in two runs at once and merges the rows found has no exchange above the runs."""
    view, rows = grouped
    table = groups(view._view)
    with settings(spark, view._view.settings):
        run = table.append(table.partitioned(change_of(rows)))
        found = table.schema.lookup([table.runs[0].relation, run.relation], table.partitioned(change_of(rows)))
        assert found is not None
        plan = planned(spark, table.merged([found, run.relation], whole=False))
    assert plan.count("ShuffledHashJoin") == 1
    assert plan.count("Scan ExistingRDD") == 2
    assert exchanged_states(plan) == 0
    view.close()


@pytest.mark.parametrize("head", ["(x, sum(y))", "(x, y)"])
def test_changes_move_no_state(spark: SparkSession, tmp_path: str, head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values of the touched keys before and after a batch are read from the states in place, with no exchange."""
    monkeypatch.setattr(compaction, "MERGED_WHOLE_MAX_ROWS", 0)
    query = mrql.compile(f"select {head} from (x, y) in S group by x", S="bag((long, long))")
    with query.view(spark) as view:
        rows = file_of(spark, f"{tmp_path}/rows", "id % 10 AS _1; id AS _2")
        view.apply(S=rows)
        step = view._view.advance({"S": StreamRows(query.streams).frame("S", rows, rows.sparkSession)})
        with settings(spark, view._view.settings):
            touched = Touched(step._before[0], step._after[0], view._view.states.deltas.temporaries.lookups.append)
            sides = [touched.before().df, touched.after().df]
            plans = [planned(spark, side) for side in sides]
        view._view.rollback()
    assert all("Scan ExistingRDD" in plan for plan in plans)
    assert all("Exchange" not in plan for plan in plans), plans


def test_runs_are_merged_beside_the_batches(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large runs are merged in the background while batches go on, with a correct answer and no RDD left behind."""
    monkeypatch.setattr(compaction, "MERGED_WHOLE_MAX_ROWS", 0)
    monkeypatch.setattr(compaction, "WAITED_FOR_MAX_ROWS", 0)
    monkeypatch.setattr(compaction, "LOOKED_UP_IN_BLOCKS_MIN_ROWS", 0)
    spark.catalog.clearCache()
    before = persistent_rdds(spark)
    query = mrql.compile("select (x, sum(y)) from (x, y) in S group by x", S="bag((long, long))")
    with query.view(spark) as view:
        table = None
        merged = 0
        for batch in range(12):
            gone = spark.range(5).selectExpr("id AS _1", f"id + {batch - 1} AS _2")
            come = spark.range(5).selectExpr("id AS _1", f"id + {batch} AS _2")
            view.apply(S=mrql.Delta(insert=come, delete=gone if batch else None))
            table = groups(view._view)
            if table.merging is not None:
                merged += 1
                table.merging.made.result()
        assert table is not None
        assert merged > 2
        assert len(table.runs) <= 4
        assert isinstance(table.runs[0].kept, Indexed)
        assert collect_value(view.answer(), query.type) == Bag((x, x + 11) for x in range(5))
    assert persistent_rdds(spark) <= before


def test_keys_that_are_never_missing(spark: SparkSession) -> None:
    """For keys that Spark knows are never null, neither a merge nor a lookup moves the state."""
    query = mrql.compile("select (x, avg(y)) from (x, y) in S group by x", S="bag((long, long))")
    rows = spark.range(100).selectExpr("id % 10 AS _1", "id AS _2")
    with query.view(spark) as view:
        view.apply(S=rows)
        table = groups(view._view)
        with settings(spark, view._view.settings):
            change = table.partitioned(change_of(rows))
            merged = planned(spark, table.merged([table.runs[0].relation, change]))
            found = table.schema.lookup([table.runs[0].relation], change)
            assert found is not None
            looked_up = planned(spark, found)
    assert exchanged_states(merged) == 0
    assert exchanged_states(looked_up) == 0


def test_rows_kept_by_columns_stay_where_they_are(
    spark: SparkSession, grouped: tuple[mrql.View, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a lookup in rows that are kept by columns nor a merge with them moves these rows."""
    monkeypatch.setattr(compaction, "MERGED_WHOLE_MAX_ROWS", 0)
    monkeypatch.setattr(compaction, "WAITED_FOR_MAX_ROWS", 0)
    view, rows = grouped
    table = groups(view._view)
    table.access = Access.ONCE
    with settings(spark, view._view.settings):
        table.merge_aside(view._view.aside)
        assert table.merging is not None
        table.merging.made.result()
        table.take_merged()
        change = table.partitioned(change_of(rows))
        found = table.schema.lookup([table.runs[0].relation], change)
        assert found is not None
        whole = table.runs[0].relation
        merged, apart = table.merged([whole, change]), table.schema.merged_into(whole, [change], shrunk=True)
        plans = [planned(spark, relation) for relation in (found, merged, apart)]
    for plan, scans in zip(plans, (1, 1, 2), strict=True):
        assert plan.count("InMemoryTableScan") == scans
        assert exchanged_states(plan.replace("InMemoryTableScan", "Scan ExistingRDD")) == 0
    view.close()


@pytest.mark.usefixtures("uncompiled")
def test_a_plan_is_made_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some batches no relation is planned anew, unless a state has a number of runs that it never had before."""
    query = mrql.compile(
        "select (a, sum(d)) from (a, b) in S, (c, d) in T where b = c group by a", **dict.fromkeys("ST", PAIRS)
    )
    planned_anew = []
    plain = Relation.dataframe

    def spied(relation: Relation, *arguments: Any) -> DataFrame:
        planned_anew.append(relation)
        return plain(relation, *arguments)

    monkeypatch.setattr(Relation, "dataframe", spied)
    monkeypatch.setattr(plan_cache, "_PLANS", WeakKeyDictionary())
    with query.view(spark) as view:
        counts = []
        for batch in range(16):
            rows = spark.range(20).selectExpr("id % 5 AS _1", f"id % 7 + {batch} AS _2")
            planned_anew.clear()
            view.apply(S=rows, T=mrql.Delta(insert=rows))
            counts.append(len(planned_anew))
        everything = [spark.range(20).selectExpr("id % 5 AS _1", f"id % 7 + {batch} AS _2") for batch in range(16)]
        whole = functools.reduce(DataFrame.union, everything)
        expected = collect_value(query.batch(spark, S=whole, T=whole), query.type)
        assert collect_value(view.answer(), query.type) == expected
    assert counts[0] >= 3
    assert statistics.median(counts[-8:]) == 0, counts


@pytest.mark.usefixtures("uncompiled")
def test_a_plan_beside_static_tables_is_made_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan over static tables can be copied: Spark does not filter one table by a query over another inside the plan,
    as it might, since it takes the states beside them to be large."""
    nations, regions = str(tmp_path / "nations"), str(tmp_path / "regions")
    spark.range(20).selectExpr("id AS N", "id % 5 AS R").write.parquet(nations)
    spark.range(5).selectExpr("id AS R", "concat('region ', id) AS name").write.parquet(regions)
    query = mrql.compile(
        "select (n.N, count(v)) from (k, v) in S, (c, d) in T, n in nations, r in regions"
        ' where k = c and d + v = n.N and n.R = r.R and r.name = "region 1" group by n.N',
        **dict.fromkeys("ST", PAIRS),
        nations="bag(<N: long, R: long>)",
        regions="bag(<R: long, name: string>)",
    )
    monkeypatch.setattr(plan_cache, "_PLANS", WeakKeyDictionary())
    with query.view(spark, nations=spark.read.parquet(nations), regions=spark.read.parquet(regions)) as view:
        for batch in range(4):
            rows = spark.range(20).selectExpr("id AS _1", f"{batch} AS _2")
            view.apply(S=rows, **({} if batch else {"T": spark.range(20).selectExpr("id AS _1", "id AS _2")}))
        assert sorted(map(tuple, view.answer().collect())) == [(1, 2), (6, 4), (11, 4), (16, 4)]
    (known,) = plan_cache._PLANS.values()
    assert None not in known.values()


def test_a_task_is_not_sent_what_its_rows_come_from(spark: SparkSession) -> None:
    """Of steps that are computed together, each with a shuffle, the RDD of the last is serialized to no more bytes than
    the one before it."""
    wanted = step_settings(spark)
    plans = Plans(spark, wanted)
    serializer = spark.sparkContext._gateway.jvm.org.apache.spark.serializer.JavaSerializer(
        spark.sparkContext._jsc.sc().getConf()
    ).newInstance()

    def sizes() -> list[int]:
        rows = Run.of(plans, Relation.of(spark.range(20)).select("id AS a", "id % 3 AS b"))
        steps = [rows]
        for _ in range(8):
            sums = steps[-1].relation.aggregate(["b"], ["sum(a) AS a", "collect_list(a) AS all"])
            steps.append(Run.of(plans, sums.select("a", "(a + size(all)) % 3 AS b")))
        written = [serializer.serialize(run.rdd, run.rdd.elementClassTag()).limit() for run in steps]
        assert sum(a for a, _ in steps[-1].df.collect()) == sum(range(20))
        for run in steps:
            run.free()
        return written

    with settings(spark, wanted):
        sizes()
        *_, before, last = sizes()
    assert last <= before


def test_only_what_is_read_of_a_batch_is_asked_for(spark: SparkSession, tmp_path: str) -> None:
    """A reused plan still reads only the columns of a file that it needs."""
    spark.range(50).selectExpr("id AS A", "id % 3 AS B", "'x' AS C").write.parquet(f"{tmp_path}/rows")
    rows = spark.read.parquet(f"{tmp_path}/rows")
    query = mrql.compile("select (b, sum(r.A)) from r in S group by b: r.B", S="bag(<A: long, B: long, C: string>)")
    with query.view(spark, insert_only=True) as view:
        for _ in range(4):
            view.apply(S=rows)
        templates = [t for t in view._view.plans._known.values() if isinstance(t, Template) and t.read]
        assert {columns for t in templates for columns in t.read.values()} >= {("A", "B")}
        assert collect_value(view.answer(), query.type) == Bag((b, 4 * sum(range(b, 50, 3))) for b in range(3))


def test_the_check_sees_a_shuffled_state(spark: SparkSession, grouped: tuple[mrql.View, DataFrame]) -> None:
    """A full outer join with the state, or grouping it by another column, moves it: the check above can fail."""
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
        inner.advance({"T": StreamRows(query.streams).frame("T", rows, rows.sparkSession)})
        share = inner.states.stages[0]
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
                labels[1]: delta.frame(Relation.of(rows).select("_1 AS i0", "_2 AS i1", "1L AS w"), changes=True),
            }
            joined = share._compiler(sources).bag(feed.rows.body)  # type: ignore[arg-type]
            plan = planned(spark, joined.df)
        inner.rollback()
    assert plan.count("Scan ExistingRDD") == 1
    assert "ShuffledHashJoin" in plan
    assert exchanged_states(plan) == 0


@pytest.mark.wide(keep=2)
@pytest.mark.parametrize(("steps", "kept"), [(1, []), (2, [5])])
def test_a_change_that_several_stages_read_is_computed_once(spark: SparkSession, steps: int, kept: list[int]) -> None:
    """A change of groups that several steps of a loop read is computed and kept once; with a single step it is not
    kept."""
    text = f"""
        c = select (k, count(x)) from (k, x) in S group by k;
        repeat r = c step select (k, n + m) from (k, n) in r, (l, m) in c where k = l limit {steps}
    """
    with mrql.compile(text, S=PAIRS).view(spark, loop="exact") as view:
        for batch in range(2):
            view.apply(S=spark.range(4).selectExpr(f"id % (2 + {batch}) AS _1", "id AS _2"))
        assert sorted(map(tuple, view.answer().collect())) == [(0, 4 + 4 * steps), (1, 3 + 3 * steps), (2, 1 + steps)]
        # Two keys existed before and one is new: two rows are deleted, three are inserted.
        assert [run.df.count() for run in view._view.states.deltas.temporaries.changes] == kept


@pytest.mark.wide
@pytest.mark.usefixtures("uncompiled")
def test_what_several_joins_read_is_kept_once(spark: SparkSession) -> None:
    """The groups that each step of a loop joins are in one table, to which a batch adds its change once."""
    text = """
        c = select (k, count(x)) from (k, x) in S group by k;
        repeat r = c step select (k, n + m) from (k, n) in r, (l, m) in c where k = l limit 4
    """
    with mrql.compile(text, S=PAIRS).view(spark, loop="exact") as view:
        for batch in range(3):
            gone = spark.range(2).selectExpr("id AS _1", f"id + {batch - 1} AS _2")
            come = spark.range(2).selectExpr("id AS _1", f"id + {batch} AS _2")
            view.apply(S=mrql.Delta(insert=come.union(come), delete=gone if batch else None))
            found = {0: 5 * (batch + 2), 1: 5 * (batch + 2)}
            assert dict(map(tuple, view.answer().collect())) == found
        reads = [(kept, name) for state in view._view.states.stages for (_, name), kept in state.inputs.items()]
        tables = {id(kept.table) for kept, _ in reads}
        assert len(reads) == 8
        assert len(tables) == 5
        assert len({id(table) for table in view._view.states.tables()}) == len(view._view.states.tables())


@pytest.mark.wide
@pytest.mark.parametrize("loop", ["exact", "diffuse"])
def test_what_is_kept_back_lies_where_the_states_lie(
    spark: SparkSession, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the columns that make elements alike are the key of a step's state, its changes are compared in place."""
    text = """
        links = select (k, n) from (k, n) in S group by k;
        repeat r = select (k, 1.0) from (k, n) in links
          step select (k, 0.5 + 0.5 * sum(x))
                 from (k, x) in ((select (k, 0.0) from (k, n) in links)
                                 union (select (m, x / count(n)) from (k, x) in r, (l, n) in links, m in n where k = l))
                group by k
         limit 3
    """
    compared, rows_of = list[str](), ElementGroups.rows

    def rows(self: ElementGroups, sides: Sequence[Frame], plans: Plans) -> Relation:
        found = rows_of(self, sides, plans)
        compared.append(planned(spark, found))
        return found

    with mrql.compile(text, S=PAIRS).view(spark, loop=loop, epsilon=0.01) as view:
        view.apply(S=spark.range(40).selectExpr("id % 10 AS _1", "id % 7 AS _2"))
        monkeypatch.setattr(ElementGroups, "rows", rows)
        view.apply(S=spark.range(3).selectExpr("id AS _1", "9L AS _2"))
    assert compared
    assert not any("Exchange" in plan for plan in compared)


LEAK_QUERIES = [
    ("select (x#0, count(y)) from x in S, y in S where x#1 = y#1 group by x#0", 32),
    ("select (n, count(k)) from (k, n) in (select (k, count(x)) from x in S group by k: x#0) group by n", 25),
    ("select (k, x) from x in S group by k: x#0", 25),
]


@pytest.mark.wide(keep=4)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(("text", "batches"), LEAK_QUERIES)
def test_no_rdds_are_left_behind(spark: SparkSession, text: str, batches: int) -> None:
    """The number of RDDs that Spark keeps grows by at most two for each table over all batches; after `close` none is
    left."""
    spark.catalog.clearCache()
    before = persistent_rdds(spark)
    query = mrql.compile(text, S="bag((long, long))")
    view = query.view(spark)
    counts = []
    for batch in range(batches):
        view.apply(S=spark.range(3).selectExpr("id % 2 AS _1", f"id + {batch} AS _2"))
        counts.append(persistent_rdds(spark) - before)
    assert max(counts[-10:]) <= max(counts[5:15]) + 2 * len(view._view.states.tables()), counts
    view.close()
    assert persistent_rdds(spark) <= before


def test_a_join_under_a_sum_stores_two_maps(spark: SparkSession) -> None:
    """[CU]: for `sum(price × rate)` over orders and items, the sum of rates and the sum of prices are kept for each key
    and magnitude. Only without deletions, since a product is rounded."""
    query = mrql.compile(
        "sum(select i.price * o.rate from o in orders, i in items where o.key = i.key)",
        orders="bag(<key: long, rate: double, note: string>)",
        items="bag(<key: long, price: double, tax: double>)",
    )
    orders = spark.range(6).selectExpr("id % 3 AS key", "id + 0.5D AS rate", "'x' AS note")
    items = spark.range(8).selectExpr("id % 4 AS key", "id * 2.0D + 1 AS price", "0.1D AS tax")
    with query.view(spark, insert_only=True) as view:
        view.apply(orders=orders.where("key <> 1"))
        view.apply(items=items)
        (state,) = view._view.states.stages
        stored = []
        for kept in state.inputs.values():
            assert kept.table is not None
            rows = kept.table.merged([run.relation for run in kept.table.runs]).order(("i0", False))
            stored.append([tuple(row) for row in rows.dataframe(spark).collect()])
        expected = query.batch(spark, orders=orders.where("key <> 1"), items=items).head()
        assert view.answer().head() == expected
    # The key, the magnitude, the number of rows, the sum.
    assert stored == [
        [(0, 1000, 2, 4.0), (2, 1000, 2, 8.0)],
        [(0, 1000, 2, 10.0), (1, 1000, 2, 14.0), (2, 1000, 2, 18.0), (3, 1000, 2, 22.0)],
    ]


def moved(plan: str) -> int:
    """The number of scans of stored rows that are moved whole, and not only the rows that a join has found in them."""
    path: list[tuple[int, str]] = []
    count = 0
    for line in plan.splitlines():
        tree, stripped = NODE.match(line).groups()  # type: ignore[union-attr]
        path = [(d, node) for d, node in path if d < len(tree)]
        if stripped.startswith("Scan ExistingRDD"):
            above = next((node for _, node in reversed(path) if "Join" in node or "Exchange" in node), "")
            count += "Exchange" in above
        path.append((len(tree), stripped))
    return count


def test_a_join_of_three_moves_only_the_batch(
    spark: SparkSession, tmp_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of any of three joined inputs is moved to the others one after the other; no state is moved."""
    monkeypatch.setattr(compaction, "MERGED_WHOLE_MAX_ROWS", 0)
    monkeypatch.setattr(compaction, "LARGE_MIN_ROWS", 0)
    query = mrql.compile(
        "select (a, f) from (a, b) in S, (c, d) in T, (e, f) in P where b = c and d = e",
        **dict.fromkeys("STP", "bag((long, long))"),
    )
    rows = file_of(spark, f"{tmp_path}/rows", "id % 10 AS _1; id % 10 AS _2")
    with query.view(spark, insert_only=True) as view:
        view.apply(**dict.fromkeys("STP", rows))
        plans = []
        plain = Plans.checkpoint

        def spied(known: Plans, relation: Relation, *, small: bool) -> Checkpoint:
            plans.append(planned(spark, relation))
            return plain(known, relation, small=small)

        monkeypatch.setattr(Plans, "checkpoint", spied)
        for name in "STP":
            plans.clear()
            view._view.advance({name: StreamRows(query.streams).frame(name, rows, rows.sparkSession)})
            # Only the scan of the batch's own rows is moved.
            assert moved(plans[-1]) <= 1, plans[-1]
            assert plans[-1].count("Scan ExistingRDD") == 3
            view._view.rollback()


def test_a_small_table_is_sent_once(spark: SparkSession, tmp_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small static table is broadcast once, and later batches reuse the broadcast."""
    monkeypatch.setattr(plan_cache, "_PLANS", WeakKeyDictionary())
    spark.range(5).selectExpr("id AS _1", "id % 2 AS _2").write.parquet(f"{tmp_path}/names")
    names = spark.read.parquet(f"{tmp_path}/names")
    query = mrql.compile(
        "select (d, sum(b)) from (a, b) in S, (c, d) in N where a = c group by d", **dict.fromkeys("SN", PAIRS)
    )
    sent = list[int]()
    rows = spark.range(20).selectExpr("id % 5 AS _1", "id AS _2")
    with query.view(spark, N=names) as view:
        for batch in range(6):
            before = _broadcasts(spark)
            view.apply(S=rows)
            sent.append(len(_broadcasts(spark) - before))
            expected = {(d, (batch + 1) * sum(n for n in range(20) if n % 5 % 2 == d)) for d in (0, 1)}
            assert set(map(tuple, view.answer().collect())) == expected
        templates = [plan for plan in view._view.plans._known.values() if isinstance(plan, Template)]
    texts = [str(template.plan.plan.toString()) for template in templates]
    assert any("BroadcastHashJoin" in text and "ReusedExchange" in text for text in texts)
    assert sent[0] > 0
    assert sent[-3:] == [0, 0, 0], sent


def _broadcasts(spark: SparkSession) -> set[int]:
    """The ids of the jobs, of those that Spark remembers, that collect rows to be broadcast."""
    jobs = list(items(spark.sparkContext._jsc.sc().statusStore().jobsList(None)))
    return {job.jobId() for job in jobs if "broadcast exchange" in str(job.jobTags().toString())}


def test_a_short_answer_is_sorted_in_one_task(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short answer is sorted in one task, since for a partitioning by ranges Spark computes it twice, in two jobs:
    first to find the bounds. A long one is partitioned by ranges."""
    rows = spark.range(500).selectExpr("id AS _1", "id * 7 % 11 AS _2")
    query = mrql.compile("select (a, b) from (a, b) in S order by b desc, a", S=PAIRS)
    wanted = sorted(((n, n * 7 % 11) for n in range(500)), key=lambda row: (-row[1], row[0]))
    with query.view(spark) as view:
        view.apply(S=rows)
        for most, shuffled in ((500, False), (499, True)):
            monkeypatch.setattr("mrql.runtime.spark.compiler.answers.SORTED_ALONE_MAX_ROWS", most)
            answer = view.answer()
            assert ("rangepartitioning" in executed_plan(answer)) == shuffled
            assert list(map(tuple, answer.collect())) == wanted
