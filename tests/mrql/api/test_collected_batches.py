"""Batches of several steps: one commit at the end of a `with` block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.api import Delta, View
from mrql.api.collected_batch import CollectedBatch
from tests.mrql.api.test_durable_views import QUERY, found, left, right

pytestmark = pytest.mark.spark


def in_steps(view: View, *steps: dict[str, Any], offset: Any = None) -> None:
    """Applies some steps to a view as one batch."""
    with view.batch(offset=offset) as batch:
        for step in steps:
            batch.apply(**step)


def fail_in(begun: CollectedBatch, **step: Any) -> None:
    """Applies a step of a batch, and fails in its block."""
    with begun as batch:
        batch.apply(**step)
        raise ZeroDivisionError


def test_the_steps_are_one_commit(spark: SparkSession, tmp_path: Path) -> None:
    """The steps of a block are one commit at its end; a reopened view ignores them with the same offset."""
    delivered: list[int] = []

    def deliver(changes: DataFrame, number: int) -> None:
        delivered.append(number)

    for applied in (True, False):
        with QUERY.view(spark, checkpoint=tmp_path) as view:
            with view.batch(offset=7, deliver=deliver) as batch:
                batch.apply(left=left(spark, (1, 5)))
                batch.apply(right=right(spark, (5, 10)))
                assert view.batches == (0 if applied else 1)
            assert found(batch.changes) == ([(1, 10, 10, 1)] if applied else [])
            assert (view.batches, view.offsets) == (1, {"left": 7, "right": 7})
            assert found(view.answer()) == [(1, 10, 10)]
    assert delivered == [0]


def test_a_stream_in_several_steps(spark: SparkSession) -> None:
    """The steps are added up: a row may be inserted in one and deleted in another, in either order."""
    with QUERY.view(spark) as view:
        with view.batch() as batch:
            batch.apply(left=Delta(delete=left(spark, (2, 5))), right=right(spark, (5, 10)))
            batch.apply(left=left(spark, (1, 5), (2, 5)))
            batch.apply(left=left(spark, (1, 5)).select("B", "A"))
        assert found(batch.changes) == [(1, 20, 10, 1)]
        with view.batch() as batch:
            batch.apply(left=left(spark, (3, 5)))
            batch.apply(left=Delta(delete=left(spark, (1, 5), (3, 5))))
        assert found(batch.changes) == [(1, 10, 10, 1), (1, 20, 10, -1)]


def test_rows_that_replace_each_other(spark: SparkSession) -> None:
    """Of two rows with one key in different steps, the later version stays; without a version they are an error."""
    query = mrql.compile("select (o.id, o.n) from o in O", O="bag(<id: long, n: long>)")
    first, second = (spark.createDataFrame([(1, n)], "id long, n long") for n in (2, 3))
    with query.view(spark, keys={"O": mrql.key("id", version="n")}) as view:
        with view.batch() as batch:
            batch.apply(O=second)
            batch.apply(O=first)
        assert found(view.answer()) == [(1, 3)]
    with query.view(spark, keys={"O": "id"}) as view:
        with pytest.raises(UserError, match="have the key 1"):
            in_steps(view, {"O": first}, {"O": second})
        assert view.batches == 0


def test_a_batch_has_one_block(spark: SparkSession) -> None:
    """Steps outside of a `with` block, which would be lost, and a second block, are errors."""
    with QUERY.view(spark, right=right(spark, (5, 10))) as view:
        batch = view.batch(offset=1)
        with pytest.raises(UserError, match="has none here") as raised:
            batch.apply(left=left(spark, (1, 5)))
        assert raised.value.hint == "with view.batch(…) as batch: batch.apply(…)"
        with batch:
            batch.apply(left=left(spark, (1, 5)))
            with pytest.raises(UserError, match="the batch has a block already"):
                batch.__enter__()
        assert view.batches == 1
        assert found(view.answer()) == [(1, 10, 10)]


def test_nothing_is_applied_where_the_block_raises(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is applied if the program fails, a name is wrong, or rows are wrong, which is found at the end."""
    with QUERY.view(spark, checkpoint=tmp_path, right=right(spark, (5, 10))) as view:
        batch = view.batch(offset=1)
        with pytest.raises(ZeroDivisionError):
            fail_in(batch, left=left(spark, (1, 5)))
        with pytest.raises(UserError, match="the batch has no changes yet"):
            _ = batch.changes
        with pytest.raises(UserError, match="the batch has ended with its block"):
            batch.apply(left=left(spark, (1, 5)))
        with pytest.raises(UserError, match="the batch has ended with its block"):
            batch.__enter__()
        assert view.batches == 0
        for wrong, said in (("wrong", "the query has no stream `wrong`"), ("right", "a static table of this view")):
            with pytest.raises(UserError, match=said):
                in_steps(view, {"left": left(spark, (1, 5))}, {wrong: left(spark, (1, 5))}, offset=1)
        with pytest.raises(UserError, match="that is not there"):
            in_steps(view, {"left": left(spark, (1, 5))}, {"left": Delta(delete=left(spark, (9, 9)))}, offset=1)
        with pytest.raises(UserError, match="an offset is that of streams, and none is named"):
            in_steps(view, offset=1)
        assert (view.batches, view.offsets, found(view.answer())) == (0, {}, [])
