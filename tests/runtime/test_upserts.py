"""Streams whose rows replace each other: the current rows are those of a dict, in both engines, and after restarts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import pytest
from hypothesis import given
from hypothesis import settings as cases
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.errors import AmbiguousRow, UserError
from mrql.algebra.row_key import RowKey
from mrql.algebra.values.values import Bag, Record, Value, same
from mrql.algebra.values.zset import ZSet
from mrql.api import Query
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.reference.checkpoint import ReferenceStates
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.spark.io.collect import collect_changes, collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from tests.support.planning import planned
from tests.support.saved_states import Saved
from tests.support.upserts import KINDS, Change, KeyKind, TableModel, bag_of, histories

ROWS = "select s from s in S"


def query_of(kind: KeyKind, text: str = ROWS) -> Query:
    return mrql.compile(text, S=bag_of(kind))


def plan_of(query: Query, key: RowKey) -> Plan:
    return planned(query.term, shrinking=frozenset({"S"}), keyed={"S": key}).plan


# --- the reference engine -----------------------------------------------------------------------


def gone_on(view: ReferenceView, plan: Plan, *, keeping: bool) -> ReferenceView:
    """A new view from the saved states of a view, `keeping` those of the query, or rebuilding them from the current row
    of each key."""
    with TemporaryDirectory() as directory:
        saved = Saved.of(plan, Path(directory))
        saved.write(ReferenceStates(view, saved.known))
        restored = saved.restored(plan)
        if not keeping:
            restored = attrs.evolve(restored, states={}, built=tuple(stage.name for stage in plan.stages))
        again = ReferenceView(plan, start=False)
        ReferenceStates(again, saved.known).load(restored)
        again.resume(restored.states, {})
        saved.store.close()
        return again


@cases(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.booleans(), st.data())
def test_rows_are_those_of_a_dict(name: str, versioned: bool, data: st.DataObject) -> None:
    """Whatever the history, the rows are those of a dict; neither a refused batch nor a restart changes them."""
    kind = KINDS[name]
    key = kind.key(versioned=versioned)
    plan, model = plan_of(query_of(kind), key), TableModel(key)
    view = ReferenceView(plan)
    for batch in data.draw(histories(kind, versioned=versioned)):
        if model.apply(batch):
            view.apply({"S": batch})
        else:
            with pytest.raises(AmbiguousRow):
                view.apply({"S": batch})
        assert same(view.answer(), model.rows)
        if data.draw(st.booleans()):
            view = gone_on(view, plan, keeping=data.draw(st.booleans()))
            assert same(view.answer(), model.rows)


@cases(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.data())
def test_the_order_does_not_matter(name: str, data: st.DataObject) -> None:
    """With versions, neither the order of rows in a batch nor their distribution over batches matters."""
    kind = KINDS[name]
    key = kind.key(versioned=True)
    plan = plan_of(query_of(kind), key)
    together = [change for batch in data.draw(histories(kind, versioned=True)) for change in batch]
    shuffled = data.draw(st.permutations(together))
    cut = data.draw(st.integers(0, len(shuffled)))
    if not TableModel(key).apply(together):
        return
    once, apart = ReferenceView(plan), ReferenceView(plan)
    once.apply({"S": together})
    for batch in (shuffled[:cut], shuffled[cut:]):
        apart.apply({"S": batch})
    assert same(once.answer(), apart.answer())


# --- Spark --------------------------------------------------------------------------------------


def delta(spark: SparkSession, kind: KeyKind, batch: Sequence[Change]) -> mrql.Delta:
    """A batch as DataFrames."""
    come, gone = ([row for row, weight in batch if weight == sign] for sign in (1, -1))
    frames = (to_dataframe(spark, rows, bag_of(kind)) if rows else None for rows in (come, gone))
    return mrql.Delta(upsert=next(frames), delete_keys=next(frames))


def assert_like_the_reference(
    spark: SparkSession, kind: KeyKind, history: Sequence[Sequence[Change]], *, versioned: bool, text: str = ROWS
) -> None:
    """A view with a checkpoint, opened again before each batch, refuses the batches that the reference engine refuses,
    and has the same answers and the changes between them."""
    key, query = kind.key(versioned=versioned), query_of(kind, text)
    reference = ReferenceView(plan_of(query, key))
    item = query.type.item  # type: ignore[union-attr]
    with TemporaryDirectory() as directory:
        for batch in history:
            before = ZSet.of(reference.answer())
            refused = _refusal(lambda batch=batch: reference.apply({"S": batch}))  # type: ignore[misc]
            with query.view(spark, keys={"S": key}, checkpoint=directory) as view:
                if refused is not None:
                    with pytest.raises(type(refused)):
                        view.apply(S=delta(spark, kind, batch))
                else:
                    changes = ZSet.weighted(collect_changes(view.apply(S=delta(spark, kind, batch)), item))
                    assert changes == ZSet.of(reference.answer()) - before
                assert same(collect_value(view.answer(), query.type), reference.answer())


def _refusal(apply: object) -> UserError | None:
    assert callable(apply)
    try:
        apply()
    except UserError as error:
        return error
    return None


def row(k: Value, v: Value, n: int, text: str = "a") -> Record:
    return Record({"k": k, "l": text, "v": v, "n": n})


OUT_OF_ORDER: Sequence[Sequence[Change]] = (
    [(row(1.0, 1.0, 5), 1), (row(1.0, 2.0, 7), 1), (row(float("nan"), 3.0, 1), 1), (row(None, 4.0, 1), 1)],
    [(row(1.0, None, 9), -1), (row(float("nan"), 5.0, 2), 1), (row(-0.0, 6.0, 3), 1), (row(None, 4.0, 1), 1)],
    [(row(1.0, 9.0, 8), 1), (row(0.0, 7.0, 4), 1), (row(None, None, 2), -1), (row(2.0, None, 1), -1)],
    [(row(0.0, 8.0, 4), 1)],
    [(row(1.0, 1.0, 10), 1), (row(2.0, 1.0, 0), 1), (row(None, 1.0, 3), 1)],
)
"""A history with a row that comes after a later deletion, one that comes twice, and one that is refused."""


@pytest.mark.spark
def test_spark_replaces_the_same_rows(spark: SparkSession) -> None:
    assert_like_the_reference(spark, KINDS["numbers"], OUT_OF_ORDER, versioned=True)


@pytest.mark.wide
@pytest.mark.spark
def test_spark_without_versions(spark: SparkSession) -> None:
    """Without versions, rows of a later batch replace earlier ones, deleting a key that is not there has no effect, and
    keys may be records."""
    keys = [Record({"a": a, "b": b}) for a, b in ((0.0, None), (-0.0, None), (float("nan"), "a"), (None, None))]
    history: list[list[Change]] = [
        [(row(keys[0], 1.0, 0), 1), (row(keys[2], 2.0, 0), 1), (row(keys[3], 0.1, 0), 1), (row(None, 0.1, 0), 1)],
        [(row(keys[1], 3.0, 0), 1), (row(keys[2], 2.0, 0), -1), (row(None, 0.1, 0), -1)],
        [(row(keys[2], 2.0, 0), -1), (row(keys[1], 4.0, 0), 1), (row(keys[0], 5.0, 0), 1)],
        [(row(keys[2], 6.0, 0), 1), (row(keys[3], 0.1, 0), 1)],
    ]
    text = "select (s.k, sum(s.v), max(s.v)) from s in S group by s.k"
    assert_like_the_reference(spark, KINDS["records"], history, versioned=False, text=text)


def test_no_row_is_later_than_one_of_its_own_version() -> None:
    view = ReferenceView(plan_of(query_of(KINDS["numbers"]), RowKey(("k",), "n")))
    view.apply({"S": [(row(1.0, 1.0, 5), 1)]})
    with pytest.raises(AmbiguousRow, match=r"the key 1\.0 and the version 5"):
        view.apply({"S": [(row(1.0, 2.0, 5), 1)]})
    with pytest.raises(UserError, match="has no version: `n` is missing"):
        view.apply({"S": [(row(1.0, 2.0, None), 1)]})  # type: ignore[arg-type]
    assert view.answer() == Bag([row(1.0, 1.0, 5)])
