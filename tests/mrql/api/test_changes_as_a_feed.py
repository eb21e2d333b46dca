"""Changes as rows of a change feed: insertions and deletions, each with the number of its batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.errors import UserError
from tests.mrql.api.test_durable_views import found

pytestmark = pytest.mark.spark

ROWS = mrql.compile("select o.city from o in orders", orders="bag(<id: long, city: string>)")
COUNTS = mrql.compile(
    "select <city: c, n: count(o)> from o in orders group by c: o.city", orders="bag(<id: long, city: string>)"
)


def orders(spark: SparkSession, *rows: tuple[int, str]) -> DataFrame:
    return spark.createDataFrame([*rows], "id long, city string")


def test_a_row_is_there_as_often_as_it_came(spark: SparkSession, tmp_path: Path) -> None:
    """A feed, returned or delivered, has a row for each insertion and deletion; that of a repeated offset is empty."""
    delivered = []

    def deliver(changes: DataFrame, number: int) -> None:
        delivered.append((number, found(changes)))

    with ROWS.view(spark, checkpoint=tmp_path, change_feed=True) as view:
        rows = orders(spark, (1, "Rome"), (2, "Rome"), (3, "Rome"), (4, "Oslo"))
        changes = view.apply(orders=rows, offset=0, deliver=deliver)
        assert changes.dtypes == [("value", "string"), ("_change_type", "string"), ("_commit_version", "bigint")]
        assert found(changes) == [("Oslo", "insert", 0), *[("Rome", "insert", 0)] * 3]
    with ROWS.view(spark, checkpoint=tmp_path, change_feed=True) as view:
        again = view.apply(orders=rows, offset=0)
        assert (again.collect(), again.dtypes) == ([], changes.dtypes)
        gone = mrql.Delta(delete=orders(spark, (1, "Rome"), (2, "Rome")))
        assert found(view.apply(orders=gone, offset=1, deliver=deliver)) == [("Rome", "delete", 1)] * 2
    assert delivered == [(0, [("Oslo", "insert", 0), *[("Rome", "insert", 0)] * 3]), (1, [("Rome", "delete", 1)] * 2)]


def test_a_view_over_a_view(spark: SparkSession) -> None:
    """The change feed of one view can be applied to another as it is."""
    largest = mrql.compile("max(select c.n from c in counts)", counts="bag(<city: string, n: long>)")
    with COUNTS.view(spark, change_feed=True) as counts, largest.view(spark) as view:
        view.apply(counts=counts.apply(orders=orders(spark, (1, "Rome"), (2, "Rome"), (3, "Oslo"))))
        assert found(view.answer()) == [(2,)]
        changes = counts.apply(orders=mrql.Delta(delete=orders(spark, (1, "Rome"))))
        assert found(changes) == [("Rome", 1, "insert", 1), ("Rome", 2, "delete", 1)]
        view.apply(counts=changes)
        assert found(view.answer()) == [(1,)]
        counts.apply(orders=orders(spark, (4, "Oslo")))
        with pytest.raises(UserError, match="those of an earlier batch"):
            changes.collect()


def test_weights_are_not_lost_on_the_way_to_another_view(spark: SparkSession) -> None:
    """Changes with weights are refused as rows of another view, unless the type of its rows has a field `weight`."""
    largest = mrql.compile("max(select c.n from c in counts)", counts="bag(<city: string, n: long>)")
    weights = mrql.compile("sum(select c.weight from c in counts)", counts="bag(<city: string, weight: long>)")
    with COUNTS.view(spark) as counts, largest.view(spark) as view, weights.view(spark) as other:

        def deliver(changes: DataFrame, number: int) -> None:
            view.apply(counts=changes)

        with pytest.raises(UserError, match="`counts` has the changes of a view") as raised:
            counts.apply(orders=orders(spark, (1, "Rome")), deliver=deliver)
        assert "change_feed=True" in (raised.value.hint or "")
        changes = counts.apply(orders=orders(spark, (1, "Rome"), (2, "Oslo")))
        for call in (
            lambda: view.apply(counts=changes),
            lambda: view.apply(counts=mrql.Delta(insert=changes)),
            lambda: largest.batch(spark, counts=changes),
        ):
            with pytest.raises(UserError, match="`counts` has the changes of a view"):
                call()
        assert found(other.apply(counts=changes)) == [(0, -1), (2, 1)]
        came = changes.where("weight > 0").drop("weight")
        view.apply(counts=came)
        assert found(view.answer()) == [(1,)]


def test_columns_of_the_answer(spark: SparkSession) -> None:
    """An answer with a column named like one of a feed, or `weight`, is refused at once."""
    for name in ("_Commit_Version", "_change_type", "weight"):
        taken = mrql.compile(f"select <{name}: o.id> from o in orders", orders="bag(<id: long>)")
        with pytest.raises(UserError, match=f"this answer has a column `{name}`"):
            taken.view(spark, change_feed=True)
    with pytest.raises(UserError, match="change_feed is True or False, not a value"):
        ROWS.view(spark, change_feed=orders(spark))  # type: ignore[arg-type]
