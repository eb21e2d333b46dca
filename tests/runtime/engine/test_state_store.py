"""The state stores of both engines keep the contract of `StateStore`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Any

import attrs
import pytest
from pyspark.sql import SparkSession

from mrql.algebra import build as b
from mrql.algebra.values.values import canonical
from mrql.runtime.engine.state_store import StateStore
from mrql.runtime.reference.stage_state import Entry, Share, StageState
from mrql.runtime.spark import jvm
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.session.session import settings, step_settings
from mrql.runtime.spark.state.table import Table
from mrql.runtime.spark.state.table_schema import TableSchema
from tests.support.planning import planned

Weights = dict[int, int]
"""The number of rows of each key."""


@attrs.frozen
class Kept:
    """A store of the number of rows of each key, and how this test adds to it and reads it."""

    store: StateStore[Any, Any, Any, Any]
    changes: Callable[[Mapping[int, int]], Any]
    keys: Callable[[Sequence[int]], Any]
    weights: Callable[[Any], Weights]
    complete: Callable[[], None]
    """Ends a batch."""

    def append(self, change: Mapping[int, int]) -> None:
        self.store.append(self.changes(change))

    def scan(self) -> Weights:
        return self._read(self.store.scan())

    def lookup(self, *keys: int) -> Weights:
        return self._read(self.store.lookup(self.keys(keys)))

    def _read(self, rows: Any) -> Weights:
        found = {} if rows is None else self.weights(rows)
        return {key: weight for key, weight in found.items() if weight}


@contextmanager
def in_python() -> Iterator[Kept]:
    """The entries of a stage that counts, in the reference engine."""
    counted = b.aggregate(b.count, b.stream("S", "{(int, string)}"))
    (stage,) = planned(counted.term, shrinking=frozenset("S")).plan.stages
    state = StageState(stage)

    def weights(entries: Sequence[Entry]) -> Weights:
        assert all(entry.values == entry.support for entry in entries)
        return {entry.key: entry.support[0] for entry in entries}  # type: ignore[misc]

    yield Kept(
        state,
        lambda change: [Share(0, key, n, {0: (1, n)}) for key, n in change.items()],
        lambda keys: [canonical(key) for key in keys],
        weights,
        lambda: None,
    )


@contextmanager
def on_spark(spark: SparkSession) -> Iterator[Kept]:
    """A table of weighted rows, with a run for each batch."""
    held = step_settings(spark)
    with settings(spark, held):
        table = Table(Plans(spark, held), TableSchema.weighted(("k",)), shrinks=True)

        def relation(rows: Sequence[tuple[int, ...]], columns: str) -> Relation:
            values = ", ".join(f"({', '.join(f'{number}L' for number in row)})" for row in rows)
            return table.partitioned(Relation.of(spark.sql(f"SELECT * FROM VALUES {values} AS rows ({columns})")))

        def weights(rows: Relation) -> Weights:
            merged = table.merged([rows], whole=False)
            return {key: weight for key, weight in merged.dataframe(spark).collect()}  # noqa: C416

        def complete() -> None:
            for run in table.uncomputed():
                run.rows = jvm.compute(run.rdd, 1)
            for run in table.begin():
                run.free()

        yield Kept(
            table,
            lambda change: relation([*change.items()], "k, w"),
            lambda keys: relation([(key,) for key in keys], "k"),
            weights,
            complete,
        )
        table.close()


@pytest.fixture(params=["reference", pytest.param("spark", marks=pytest.mark.spark)])
def kept(request: pytest.FixtureRequest) -> Iterator[Kept]:
    """An empty store of each engine."""
    if request.param == "reference":
        opened: AbstractContextManager[Kept] = in_python()
    else:
        opened = on_spark(request.getfixturevalue("spark"))
    with opened as found:
        yield found


def test_there_is_nothing_in_an_empty_store(kept: Kept) -> None:
    """An empty store can be read, compacted and restored."""
    before = kept.store.snapshot()
    kept.store.compact()
    assert kept.scan() == kept.lookup(1) == {}
    kept.append({1: 1})
    kept.store.restore(before)
    assert kept.scan() == {}


def test_what_is_added_to_a_key_merges(kept: Kept) -> None:
    """What is added to a key in one batch or several is summed; a key with the sum 0 is absent."""
    kept.append({1: 1, 2: 2})
    kept.append({2: 3, 3: 1})
    kept.complete()
    kept.append({1: -1, 3: 1})
    assert kept.scan() == {2: 5, 3: 2}
    kept.append({1: 4})
    assert kept.scan() == {1: 4, 2: 5, 3: 2}


def test_only_what_is_asked_for_is_looked_up(kept: Kept) -> None:
    """A lookup finds those of the given keys that are there, and no others."""
    kept.append({1: 1, 2: 2, 3: 3})
    kept.complete()
    kept.append({2: 1})
    assert kept.lookup(2, 3, 7) == {2: 3, 3: 3}
    assert kept.lookup(7) == {}


def test_a_snapshot_stays_as_it_is(kept: Kept) -> None:
    """A snapshot can be restored, and added to, repeatedly, whatever has happened to the store since."""
    kept.append({1: 1, 2: 2})
    kept.complete()
    before = kept.store.snapshot()
    for change in ({1: 1}, {2: -2, 3: 3}):
        kept.append({4: 4})
        kept.append(change)
        kept.store.compact()
        kept.store.restore(before)
        assert kept.scan() == {1: 1, 2: 2}
        assert kept.lookup(2, 3) == {2: 2}


def test_compaction_changes_nothing_but_how_it_is_kept(kept: Kept) -> None:
    """Compaction leaves the content as it is, and reduces the number of runs, or of entries."""
    for change in ({1: 1, 2: 2}, {2: 1, 3: 1}, {1: 2, 2: -3}):
        kept.append(change)
        kept.complete()
    before = size(kept.store)
    kept.store.compact()
    assert kept.scan() == {1: 3, 3: 1}
    assert size(kept.store) < before


def size(store: StateStore[Any, Any, Any, Any]) -> int:
    """The size of a store: its runs, or entries."""
    return len(store.runs) if isinstance(store, Table) else len(store.entries) if isinstance(store, StageState) else 0


def test_any_history(kept: Kept) -> None:
    """A store holds what a dictionary does, over batches, restored snapshots and compactions."""
    random, expected = Random(7), Weights()
    for _ in range(12 if isinstance(kept.store, Table) else 300):
        before = kept.store.snapshot()
        change = {key: random.choice((-1, 1, 2)) for key in random.sample(range(6), 3)}
        kept.append(change)
        if random.random() < 0.3:
            kept.store.restore(before)
        else:
            expected = {key: expected.get(key, 0) + change.get(key, 0) for key in {*expected, *change}}
        kept.complete()
        if random.random() < 0.5:
            kept.store.compact()
        there = {key: weight for key, weight in expected.items() if weight}
        wanted = random.sample(range(6), 2)
        assert kept.scan() == there
        assert kept.lookup(*wanted) == {key: there[key] for key in wanted if key in there}
