"""Operators built in Python, on Spark: the documents' own examples, and a view as a stream of changes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra import build as b
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.values.values import Bag
from mrql.algebra.values.zset import ZSet
from mrql.runtime.spark.io.collect import collect_changes, collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from tests.support.operator_cases import EXAMPLES, NUMBERS, Example, by_name, zset

pytestmark = pytest.mark.spark

INTS = ty.BagType(ty.INT)


def deltas(spark: SparkSession, query: mrql.Query, batch: Mapping[str, ZSet]) -> dict[str, mrql.Delta]:
    def frame(name: str, rows: Bag) -> DataFrame | None:
        return to_dataframe(spark, rows, query.streams[name]) if len(rows) else None

    return {name: mrql.Delta(frame(name, z.positive()), frame(name, z.negative())) for name, z in batch.items()}


@pytest.mark.wide(keep=5)
@pytest.mark.parametrize("example", EXAMPLES, ids=by_name)
def test_examples_of_the_documents(spark: SparkSession, example: Example) -> None:
    """The changes of each batch are those of the example, and the answer is their sum."""
    query = mrql.compile(example.built)
    assert isinstance(query.type, ty.BagType)
    with query.view(spark) as view:
        for batch, rows in zip(example.batches, example.changes, strict=True):
            changes = view.apply(**deltas(spark, query, {name: zset(delta) for name, delta in batch.items()}))
            assert ZSet.weighted(collect_changes(changes, query.type.item)) == zset(rows)
        whole = sum(map(zset, example.changes), ZSet())
        assert ZSet.of(collect_value(view.answer(), query.type)) == whole


def test_a_view_is_integrated_delayed_and_differentiated(spark: SparkSession) -> None:
    """`answer = before + changes` after every batch, and a batch that fails leaves the answer as it was."""
    query = mrql.compile(b.distinct(NUMBERS))

    def rows(*numbers: int) -> DataFrame:
        return to_dataframe(spark, numbers, INTS)

    with query.view(spark) as view:
        with pytest.raises(UserError, match="no batch yet"):
            view.before()
        before = ZSet()
        for delta in (mrql.Delta(rows(1, 1, 2)), mrql.Delta(rows(3), rows(1, 2)), mrql.Delta()):
            changes = view.apply(S=delta)
            found = ZSet.weighted(collect_changes(changes, ty.INT))
            after = ZSet.of(collect_value(view.answer(), INTS))
            assert ZSet.of(collect_value(view.before(), INTS)) == before == after - found
            before = after
        assert before == zset({1: 1, 3: 1})
        with pytest.raises(UserError):
            view.apply(S=mrql.Delta(delete=rows(7)))
        assert ZSet.of(collect_value(view.answer(), INTS)) == before
    with pytest.raises(UserError, match="closed"):
        view.before()


def test_what_is_there_of_nothing_is_no_change(spark: SparkSession) -> None:
    """The first changes are relative to the answer over no rows: a count of 0 is deleted."""
    query = mrql.compile(b.single(b.count(NUMBERS)))
    with query.view(spark) as view:
        changes = view.apply(S=mrql.Delta(to_dataframe(spark, [7], INTS)))
        assert ZSet.weighted(collect_changes(changes, ty.LONG)) == zset({0: -1, 1: 1})
        assert collect_value(view.before(), query.type) == Bag([0])


def test_batches_are_a_group(spark: SparkSession) -> None:
    """[RZ] 2.9.8, 2.9.14 and 2.9.15: a batch is taken back by its negation."""
    one, two = mrql.Delta(to_dataframe(spark, [1, 2], INTS)), mrql.Delta(to_dataframe(spark, [2, 3], INTS))
    query = mrql.compile(NUMBERS)
    with query.view(spark) as view:
        view.apply(S=one + two)
        assert collect_value(view.answer(), INTS) == Bag([1, 2, 2, 3])
        view.apply(S=-two)
        assert collect_value(view.answer(), INTS) == Bag([1, 2])
        view.apply(S=two - one)
        assert collect_value(view.answer(), INTS) == Bag([2, 3])


def test_terms_are_compiled(spark: SparkSession) -> None:
    """A term names its streams itself, and says which of them are tables; it can also be evaluated once."""
    table = b.table("T", "{int}")
    query = mrql.compile(b.join(NUMBERS, table, lambda x: x, lambda x: x))
    assert query.streams == {"S": INTS, "T": INTS}
    rows = to_dataframe(spark, [1, 2, 2], INTS)
    answer = collect_value(query.batch(spark, S=rows, T=to_dataframe(spark, [2], INTS)), query.type)
    assert answer == Bag([(2, 2), (2, 2)])
    with pytest.raises(UserError, match="the table `T` is missing"):
        query.view(spark)
    with pytest.raises(UserError, match="names its streams itself"):
        mrql.compile(NUMBERS, S="bag(int)")
    with pytest.raises(UserError, match="n is not bound"):
        mrql.compile(b.filter(lambda x: x > b.var("n", "int"), NUMBERS))
