"""Large runs, gathered by key or in blocks, are read, joined, looked up and merged like others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.types import Type
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, Value, close
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.plan.operators import Access
from mrql.runtime.spark import jvm
from mrql.runtime.spark.io.collect import collect_changes, collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.jvm import ColumnarRows, executed_plan
from mrql.runtime.spark.relation import plan_cache
from mrql.runtime.spark.relation.plan_cache import Checkpoint, Plans
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.session.session import settings, step_settings
from mrql.runtime.spark.state import compaction, packing
from mrql.runtime.spark.state.block_index import Blocks, PartitionedRows
from mrql.runtime.spark.state.lookup import narrowed
from mrql.runtime.spark.state.run import Gathered, Indexed, Run
from mrql.runtime.spark.state.table import Table
from mrql.runtime.spark.state.table_schema import TableSchema
from mrql.runtime.spark.view import SparkView
from tests.support.partitions import READ_APART, SEVERAL

pytestmark = pytest.mark.spark

Row = tuple[int | None, int | None]

PAIRS = parse_type("{(long, long)}")
STREAMS = ("S", "T", "U")

QUERIES = {
    "two streams": "select (a, avg(d)) from (a, b) in S, (c, d) in T where b = c group by a",
    "three streams": "select (a, e, f) from (a, b) in S, (c, d) in T, (e, f) in U where b = c and d = e",
    "one by two keys": "select (a, d, f) from (a, b) in S, (c, d) in T, (e, f) in U where b = c and a = e",
    "a nested join": "select (a, select d from (c, d) in T where c = b) from (a, b) in S",
    "groups": "select (b, select x from x in a) from (a, b) in S group by b",
}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treats all runs as large, and gathers them where possible, at once."""

    def compute(
        aside: compaction.BackgroundCompaction, computed: Callable[[int], Value], *, now: bool = False
    ) -> Future[Value]:
        done: Future[Value] = Future()
        done.set_result(computed(1))
        return done

    limits = (
        "MERGED_WHOLE_MAX_ROWS",
        "LARGE_MIN_ROWS",
        "WAITED_FOR_MAX_ROWS",
        "LOOKED_UP_MIN_ROWS",
        "IN_BLOCKS_MIN_ROWS",
    )
    for limit in (*limits, "LOOKED_UP_IN_BLOCKS_MIN_ROWS", *READ_APART):
        monkeypatch.setattr(compaction, limit, 0)
    monkeypatch.setattr(packing, "GATHERED_MIN_ROWS_PER_KEY", 0)
    monkeypatch.setattr(compaction.BackgroundCompaction, "compute", compute)


def gathered(view: SparkView) -> list[Gathered]:
    """The gathered runs of a view."""
    return [run.kept for table in view.states.tables() for run in table.runs if isinstance(run.kept, Gathered)]


def batches(count: int, seed: int) -> list[dict[str, tuple[list[Row], list[Row]]]]:
    """Random insertions and deletions of each batch, of rows with few keys, some of which are missing."""
    random, present = Random(seed), {name: list[Row]() for name in STREAMS}
    found = []
    for _ in range(count):
        batch = {}
        for name in random.sample(STREAMS, random.randint(1, 3)):
            gone = random.sample(present[name], len(present[name]) // 3)
            for row in gone:
                present[name].remove(row)
            come = [(random.choice((0, 1, 2, None)), random.choice((0, 1, 2, None))) for _ in range(6)]
            present[name] += come
            batch[name] = (come, gone)
        found.append(batch)
    return found


@pytest.mark.wide(keep=3)
@pytest.mark.parametrize("name", QUERIES)
def test_answers_and_changes(spark: SparkSession, name: str) -> None:
    """Answers and changes over gathered runs are the reference's, after each batch."""
    query = mrql.compile(QUERIES[name], **dict.fromkeys(STREAMS, PAIRS))
    streams = query.trace().plan.streams
    present = {stream: ZSet() for stream in streams}
    accumulated, seen = ZSet(), 0
    with query.view(spark) as view:
        for batch in batches(4, seed=7):
            deltas = {}
            for stream, (come, gone) in batch.items():
                if stream in present:
                    present[stream] = present[stream] + ZSet.of(come) - ZSet.of(gone)
                    deltas[stream] = mrql.Delta(frame(spark, come), frame(spark, gone))
            accumulated = accumulated + ZSet.weighted(collect_changes(view.apply(**deltas), query.type.item))
            expected = evaluate(query.term, {stream: rows.bag() for stream, rows in present.items()})
            assert close(accumulated.bag(), expected), f"{accumulated!r}, not {show_value(expected)}"
            found = collect_value(view.answer(), query.type)
            assert close(found, expected), f"{show_value(found)}, not {show_value(expected)}"
            seen += len(gathered(view._view))
    assert seen, "nothing was gathered"


@pytest.mark.partitions(SEVERAL)
def test_a_join_comes_before_its_rows_are_opened(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of gathered rows, a batch opens only those that its keys have found."""
    monkeypatch.setattr(plan_cache, "PLANNED_BEFORE_KEPT", 0)
    query = mrql.compile(QUERIES["two streams"], **dict.fromkeys("ST", PAIRS))
    before = {*plan_cache._PLANS.get(spark, ())}
    with query.view(spark) as view:
        for _ in range(3):
            view.apply(S=frame(spark, [(1, 2), (2, 2)]), T=frame(spark, [(2, 3)]))
        assert gathered(view._view)
    made = [plan for key, plan in plan_cache._PLANS[spark].items() if key not in before]
    texts = [str(template.plan.plan.toString()) for template in made if isinstance(template, plan_cache.Template)]
    opened = [text for text in texts if re.search(r"Generate inline.*\n.*Project.*\n.*ShuffledHashJoin", text)]
    assert opened, "\n".join(texts)


@pytest.mark.partitions(SEVERAL)
@pytest.mark.parametrize(
    ("limit", "value", "types", "layout"),
    [
        ("GATHERED_MIN_ROWS_PER_KEY", 100, PAIRS, Indexed),
        ("GATHERED_MAX_KEYS", 0, PAIRS, Indexed),
        ("TOGETHER_MAX_ROWS_PER_KEY", 1, PAIRS, ColumnarRows),
        ("TOGETHER_MAX_ROWS_PER_KEY", 1, parse_type("{([long], long)}"), Checkpoint),
    ],
)
def test_others_are_not_gathered(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, types: Type, layout: type
) -> None:
    """Rows with few per key, or of too many keys, are kept in blocks; rows of which one key has too many are kept by
    columns, or else row by row."""
    monkeypatch.setattr(packing, limit, value)
    query = mrql.compile("select (a, d) from (a, b) in S, (c, d) in T where b = c", S=types, T=PAIRS)
    firsts = [[n] for n in range(9)] if layout is Checkpoint else range(9)
    packed = list[Run]()
    with query.view(spark) as view:
        view.apply(S=to_dataframe(spark, [(first, 2) for first in firsts], types), T=frame(spark, [(2, 3)]))
        (kept,) = (kept for (_, name), kept in view._view.states.stages[0].inputs.items() if name[0] == "S")
        assert kept.table is not None
        for n in range(2):
            view.apply(T=frame(spark, [(n, 3)]))
            packed += kept.table.runs[:1]
            assert isinstance(packed[-1].kept, layout)
    assert packed[0] is packed[1], "it was packed again"


def test_what_is_looked_up_has_the_columns_of_the_table(spark: SparkSession) -> None:
    """A lookup has the columns of the table in order, also if a later column partitions the rows, gathered or not."""
    held = step_settings(spark)
    with settings(spark, held):
        table = Table(Plans(spark, held), TableSchema.weighted(("a", "b"), ("b",)))
        for rows in ("(1L, 10.0D, 1L), (2L, 10.0D, 1L), (3L, 30.0D, 1L)", "(4L, 10.0D, 1L)"):
            change = Relation.of(spark.sql(f"SELECT * FROM VALUES {rows} AS rows (a, b, w)"))
            run = table.append(table.partitioned(change))
            run.rows = jvm.compute(run.rdd, 2)
            if len(table.runs) == 1:
                table.merge_aside(compaction.BackgroundCompaction(spark))
                table.take_merged()
        assert [type(run.kept) for run in table.runs] == [Gathered, Checkpoint]
        wanted = table.partitioned(Relation.of(spark.sql("SELECT 10.0D AS b")))
        found = table.schema.lookup([run.relation for run in table.runs], wanted)
        assert found is not None
        assert {*map(tuple, found.dataframe(spark).collect())} == {(1, 10.0, 1), (2, 10.0, 1), (4, 10.0, 1)}
        table.close()


LOOPS = {
    "ways": "repeat ways = select distinct e from e in S"
    " step select distinct w from w in (ways union (select (a, d) from (a, b) in ways, (c, d) in ways where b = c))",
    "one edge more": "repeat ways = select distinct e from e in S"
    " step select distinct w from w in (ways union (select (a, d) from (a, b) in ways, (c, d) in S where b = c))",
}


@pytest.mark.wide(keep=2)
@pytest.mark.parametrize("name", LOOPS)
def test_a_fixpoint_over_blocks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The steps of a loop look rows up in blocks, and its answers are the reference's, with deletions."""
    monkeypatch.setattr(packing, "GATHERED_MIN_ROWS_PER_KEY", 1_000_000)
    found = list[Blocks]()
    search = Indexed.found
    monkeypatch.setattr(Indexed, "found", lambda self, wanted: found.append(self.blocks) or search(self, wanted))
    random = Random(3)
    query = mrql.compile(LOOPS[name], S=PAIRS)
    present = list[Row]()
    with query.view(spark, loop="fixpoint") as view:
        for _ in range(3):
            gone = random.sample(present, len(present) // 4)
            come = [(random.randrange(8), random.randrange(8)) for _ in range(6)]
            for row in gone:
                present.remove(row)
            present += come
            view.apply(S=mrql.Delta(frame(spark, come), frame(spark, gone)))
            expected = evaluate(query.term, {"S": Bag(present)})
            answer = collect_value(view.answer(), query.type)
            assert close(answer, expected), f"{show_value(answer)}, not {show_value(expected)}"
        assert any(isinstance(run.kept, Indexed) for table in view._view.states.tables() for run in table.runs)
    assert {len(blocks.by) for blocks in found} >= {1, 3}, "inputs of joins, or groups, were not looked up in blocks"


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ("CAST(id % 97 AS BIGINT)", "CAST(id * 5 AS INT)"),
        ("CAST(id % 97 AS STRING)", "CAST(id * 5 AS STRING)"),
        ("IF(id % 3 = 0, -0.0D, CAST(id % 97 AS DOUBLE))", "CAST(id * 5 AS DOUBLE)"),
    ],
    ids=["long", "string", "double"],
)
def test_blocks_have_all_that_is_wanted(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, keys: str, wanted: str
) -> None:
    """A lookup finds all rows of the wanted keys, in blocks and in other runs, planned as usual and from a template; of
    other keys, only rows in the same blocks are read."""
    held = step_settings(spark)
    monkeypatch.setattr(packing, "GATHERED_MIN_ROWS_PER_KEY", 1_000_000)
    monkeypatch.setattr(compaction, "ROWS_PER_BLOCK", 4)
    with settings(spark, held):
        table = Table(Plans(spark, held), TableSchema.weighted(("a", "b"), ("b",)), access=Access.STEPS)
        for start, end in ((0, 1000), (1000, 1010)):
            change = Relation.of(spark.range(start, end).selectExpr("id AS a", f"{keys} AS b", "1L AS w"))
            run = table.append(table.partitioned(change))
            run.rows = jvm.compute(run.rdd, 2)
            if len(table.runs) == 1:
                table.merge_aside(compaction.BackgroundCompaction(spark))
        assert [type(run.kept) for run in table.runs] == [Indexed, Checkpoint]
        rows = spark.range(1010).selectExpr("id AS a", f"{keys} AS b", "1L AS w")
        assert collected(table.runs[0].df.union(table.runs[1].df)) == collected(rows)
        for _ in range(3):
            run = Run.of(table.plans, table.partitioned(Relation.of(spark.range(9).selectExpr(f"{wanted} AS b"))))
            here = table.schema.lookup([run.relation for run in table.runs], run.relation)
            assert here is not None
            expected = rows.join(spark.range(9).selectExpr(f"{wanted} AS b"), "b", "left_semi").select("a", "b", "w")
            assert collected(table.plans.dataframe(here)) == collected(expected)
        placed = narrowed(table.runs[0].relation, ("b",), run.relation).rows
        assert isinstance(placed, PartitionedRows)
        assert placed.df.count() < 500
        assert "Exchange" not in executed_plan(placed.rows.dataframe(spark)), "blocks are moved"
        run.free()
        table.close()


@pytest.mark.partitions(SEVERAL)
@pytest.mark.parametrize(
    ("of_t", "is_kept_again"), [("{(long, long)}", True), ("{(long, int)}", False)], ids=["of one type", "of two types"]
)
def test_what_is_joined_already_is_looked_up(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, of_t: str, is_kept_again: bool
) -> None:
    """A batch of S looks up blocks of T, and what it has found there looks up blocks of U. A batch of U joins T by
    another key than that of T's table: from the second such batch on, T is kept by that key, too. Where it cannot be,
    since an int has another hash than a long, such a batch reads all of T, which is not in blocks from then on."""
    monkeypatch.setattr(packing, "GATHERED_MIN_ROWS_PER_KEY", 1_000_000)
    opened = list[tuple[str, ...]]()
    search = Indexed.found
    monkeypatch.setattr(Indexed, "found", lambda self, wanted: opened.append(self.by) or search(self, wanted))
    types = {"S": PAIRS, "T": parse_type(of_t), "U": PAIRS}
    query = mrql.compile(QUERIES["three streams"], **types)
    there = {name: [(n % 5, n % 7) for n in range(40)] for name in STREAMS}
    with query.view(spark, insert_only=True) as view:

        def applied(**rows: list[Row]) -> None:
            for name, come in rows.items():
                present[name] += come
            view.apply(**{name: to_dataframe(spark, come, types[name]) for name, come in rows.items()})
            expected = evaluate(query.term, {name: Bag(rows) for name, rows in present.items()})
            assert close(collect_value(view.answer(), query.type), expected)

        present = {name: list[Row]() for name in STREAMS}
        applied(**there)
        (joins,) = view._view.states.stages
        t, u = (kept for (_, label), kept in joins.inputs.items() if label[0] in "TU")
        for kept in (t, u):
            assert in_blocks(kept.table)
        opened.clear()
        applied(S=[(8, 1), (9, None)])
        assert len(opened) == 2
        for n in range(2):
            applied(U=[(1, n)])
        opened.clear()
        applied(U=[(3, 8), (None, 9)], T=[(4, 3), (2, None)])
        by_first, by_second = ("i0",), ("i1",)
        assert {*opened} == {by_first, *([by_second] if is_kept_again else [])}
        applied(S=[(8, 2)])
        assert in_blocks(t.table) == is_kept_again
        assert [in_blocks(table) for table in t.by_other_keys.values()] == [True] * is_kept_again
        assert in_blocks(u.table)


def in_blocks(table: Table | None) -> bool:
    """Whether some rows of a table are in blocks."""
    return table is not None and any(isinstance(run.kept, Indexed) for run in table.runs)


def collected(rows: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, rows.collect()))


def frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame | None:
    return to_dataframe(spark, rows, PAIRS) if rows else None
