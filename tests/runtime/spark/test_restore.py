"""States that are written to Parquet and read again have the same rows, in the same partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.values import Bag, Value, close
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.plan.operators import Access
from mrql.runtime.checkpoint import policy
from mrql.runtime.checkpoint.restore import Restored
from mrql.runtime.spark.checkpoint import BY_PARTITION, CheckpointReader, SparkStates
from mrql.runtime.spark.io.collect import collect_changes, collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.jvm import executed_plan, persistent_rdds
from mrql.runtime.spark.relation import plan_cache
from mrql.runtime.spark.relation.frame import Frame, changes, from_dataframe
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.session.session import settings
from mrql.runtime.spark.state import compaction
from mrql.runtime.spark.state.measures import TOUCHED
from mrql.runtime.spark.view import SparkView
from tests.rewrite.incremental.test_theorems import streams_with_static
from tests.runtime.spark.test_equivalence import HISTORY, as_rows
from tests.runtime.spark.test_plan_shape import exchanged_states
from tests.support.incremental_cases import CONSTRUCTS, Construct
from tests.support.incremental_cases import STREAMS as TYPES
from tests.support.partitions import SEVERAL
from tests.support.planning import planned
from tests.support.saved_states import Saved

pytestmark = pytest.mark.spark

TOGETHER = 2
"""The number of constructs in one query."""

TRIED = ["filter and map", "group-by on recursive data"]
"""The first constructs of the queries that are tried on Spark; in the reference engine all are (`test_restore.py`).
Types of recursive data are saved by name."""


def together(constructs: Sequence[Construct]) -> str:
    """Several queries as one, whose value is the tuple of theirs."""
    parts = [construct.query.split("; ") for construct in constructs]
    definitions = [f"{definition};" for part in parts for definition in part[:-1]]
    return " ".join([*dict.fromkeys(definitions), f"({', '.join(f'({part[-1]})' for part in parts)})"])


@attrs.define(slots=False)
class Restarted:
    """A view on Spark whose states are saved, and which is restarted from them."""

    text: str
    spark: SparkSession
    home: Path
    tables: Mapping[str, Sequence[Value]] = attrs.Factory(dict)
    """The rows of those streams that are static tables."""

    def __attrs_post_init__(self) -> None:
        self.query = mrql.compile(self.text, **TYPES)
        self.streams = sorted(self.query.trace().plan.streams.keys() - self.tables.keys())
        term = streams_with_static(self.query.term, frozenset(self.tables))
        self.plan = planned(term, shrinking=frozenset(self.streams)).plan
        self.saved = Saved.of(self.plan, self.home)
        self.present = {name: ZSet() for name in self.streams}
        self.view = SparkView(self.plan, self.spark, self.frames())
        self.states = SparkStates(self.view, self.saved.known)

    def frame(self, rows: Sequence[Value], name: str) -> Frame:
        t = TYPES[name]
        assert isinstance(t, ty.BagType)
        return from_dataframe(to_dataframe(self.spark, rows, t), t.item)

    def frames(self) -> dict[str, Frame]:
        return {name: self.frame(rows, name) for name, rows in self.tables.items()}

    def apply(self, batch: Mapping[str, tuple[list[Value], list[Value]]]) -> ZSet:
        """Applies a batch, saves the states, and returns the changes of the answer."""
        frames = {}
        for name in sorted(batch.keys() & self.present.keys()):
            come, gone = batch[name]
            self.present[name] = self.present[name] + ZSet.of(come) - ZSet.of(gone)
            frames[name] = changes(self.frame(come, name) if come else None, self.frame(gone, name), self.view.columns)
        found = ZSet.weighted(collect_changes(self.view.apply(frames), self.item))
        self.saved.write(self.states)
        return found

    @property
    def item(self) -> ty.Type:
        t = self.query.type
        return t.item if isinstance(t, ty.BagType | ty.ListType) else t

    def restart(self, lost: int | None = None) -> None:
        """Restarts the view from the saved states; with `lost`, without every other one, from that number on."""
        self.view.close()
        restored = self.saved.restored(self.plan, lost=lost)
        self.view = SparkView(self.plan, self.spark, self.frames(), start=False)
        self.states = SparkStates(self.view, self.saved.known)
        self.states.load(restored)
        self.view.resume(restored.states, self.arrived(restored))

    def arrived(self, restored: Restored) -> dict[str, Frame]:
        if not restored.built:
            return {}
        return {name: self.frame(list(rows.bag()), name) for name, rows in self.present.items() if len(rows)}

    def expected(self) -> Value:
        tables = {name: Bag(rows) for name, rows in self.tables.items()}
        return evaluate(self.query.term, {**tables, **{name: rows.bag() for name, rows in self.present.items()}})

    def answer(self) -> Value:
        return collect_value(self.view.answer(), self.query.type)

    def close(self) -> None:
        self.view.close()
        self.saved.store.close()


@pytest.mark.wide(keep=2)
@pytest.mark.slow
@pytest.mark.parametrize("first", TRIED)
def test_every_construct(spark: SparkSession, tmp_path: Path, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queries of `docs/incremental.md` have the right answers and changes if they are restarted after each batch,
    with all states or with every other one.

    By turns, states are kept like large ones, in runs that changes are appended to, and like small ones, merged whole;
    both are saved as runs.
    """
    start = [construct.name for construct in CONSTRUCTS].index(first)
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 0)
    monkeypatch.setattr(plan_cache, "PLANNED_BEFORE_KEPT", 0)
    if start // TOGETHER % 3:
        monkeypatch.setattr(compaction, "MERGED_WHOLE_MAX_ROWS", 0)
        monkeypatch.setattr(compaction, "LARGE_MIN_ROWS", 0)
    view = Restarted(together(CONSTRUCTS[start : start + TOGETHER]), spark, tmp_path)
    for lost, batch in zip((None, start // TOGETHER % 2, None), HISTORY, strict=True):
        before = as_rows(view.expected(), view.query.type)
        changed = view.apply(batch)
        assert close((before + changed).bag(), as_rows(view.expected(), view.query.type).bag())
        view.restart(lost)
        assert close(view.answer(), view.expected())
    view.close()


@pytest.mark.wide
def test_a_static_table_beside_a_stream(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletions after a restart take effect in queries that read a static table beside a stream."""
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 0)
    text = (
        "((select x from (x, y) in S where not exists(select d from (c, d) in T where c = x)),"
        " (select (x, count(y)) from (x, y) in S where y not in (select d from (c, d) in T) group by x))"
    )
    view = Restarted(text, spark, tmp_path, {"T": [(1, 5), (2, 0)]})
    for lost, batch in zip((None, 0, None), HISTORY, strict=True):
        view.apply(batch)
        assert close(view.answer(), view.expected())
        view.restart(lost)
        assert close(view.answer(), view.expected())
    view.close()


@pytest.mark.parametrize(
    ("aside", "scan"), [(compaction.WAITED_FOR_MAX_ROWS, "Scan ExistingRDD["), (0, "InMemoryTableScan [")]
)
def test_what_is_restored_lies_where_it_lay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aside: int, scan: str
) -> None:
    """A batch after a restart moves no state: no plan has an exchange above it. No RDD is left behind.

    A large state is restored to rows that are kept by columns.
    """
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 0)
    monkeypatch.setattr(compaction, "WAITED_FOR_MAX_ROWS", aside)
    kept = persistent_rdds(spark)
    view = Restarted("select (x, sum(y), count(y)) from (x, y) in S group by x", spark, tmp_path)
    view.apply(HISTORY[0])
    view.restart()
    groups = view.view.states.stages[0].groups
    assert groups is not None
    written = next(iter(view.saved.states.values())).tables["groups"]
    rows = spark.read.parquet(str(tmp_path / written.runs[0].path))
    change = groups.partitioned(Relation.of(rows))
    state = groups.runs[0].relation
    with settings(spark, view.view.settings):
        found = groups.schema.lookup([state], change)
        assert found is not None
        plans = [executed_plan(r.dataframe(spark)) for r in (groups.merged([state, change]), groups.merged([found]))]
    assert [plan.count(scan) for plan in plans] == [1, 1]
    assert groups.runs[0].rows == state.dataframe(spark).count()
    assert [exchanged_states(plan) for plan in plans] == [0, 0]
    view.apply(HISTORY[1])
    assert close(view.answer(), view.expected())
    view.close()
    assert persistent_rdds(spark) == kept


def test_what_is_restored_is_looked_up_as_before(spark: SparkSession, tmp_path: Path) -> None:
    """Restored tables have the same `access` as before: groups, bags, inputs of joins, and rows that may be deleted."""
    text = "select (x, count(b), b) from (x, y) in S, (a, b) in T where y = a group by x"
    view = Restarted(text, spark, tmp_path)
    view.apply(HISTORY[0])
    before = [table.access for table in view.view.states.tables()]
    view.restart()
    assert [table.access for table in view.view.states.tables()] == before
    assert {Access.ONCE, Access.LOOKED_UP} <= {*before}
    view.close()


@pytest.mark.partitions(SEVERAL)
@pytest.mark.parametrize(("partitions", "moved"), [(2, 0), (3, 1)])
def test_what_was_written_by_partition_is_read_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, moved: int
) -> None:
    """Saved rows are shuffled when they are read only if there are more or fewer partitions than were written."""
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 0)
    monkeypatch.setattr(compaction, "MERGED_WHOLE_MAX_ROWS", 0)
    view = Restarted("select (x, sum(y), count(y)) from (x, y) in S group by x", spark, tmp_path)
    view.apply(HISTORY[0])
    view.apply(HISTORY[1])
    groups = view.view.states.stages[0].groups
    assert groups is not None
    written = next(iter(view.saved.states.values())).tables["groups"]
    assert len(written.runs) > 1
    reader = CheckpointReader(view.view.plans, view.saved.store.root)
    columns = [name for name in groups.schema.columns if name != TOUCHED]
    with settings(spark, {**view.view.settings, **BY_PARTITION, "spark.sql.shuffle.partitions": str(partitions)}):
        rows = reader.merged(written)
        assert executed_plan(rows).count("Exchange") == moved
        found = {*map(tuple, rows.select(columns).collect())}
    state = groups.merged([run.relation for run in groups.runs]).dataframe(spark)
    assert found == {*map(tuple, state.where(groups.schema.alive).select(columns).collect())}
    view.close()
