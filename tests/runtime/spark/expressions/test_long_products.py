"""Products of longs on Spark: an overflow of the product itself is an error, one of an intermediate product is not."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra import build as b
from mrql.algebra import types as ty
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.values import Bag
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.session.errors import translated

pytestmark = pytest.mark.spark

PAIRS = ty.BagType(ty.TupleType((ty.INT, ty.LONG)))
STREAM = b.stream("S", PAIRS)
BY_KEY = b.cmap(lambda k, vs: b.single((k, b.reduce("*", vs))), b.group_by(STREAM)).term
TOTAL = b.reduce("*", b.cmap(lambda k, v: b.single(v), STREAM)).term
LEAST, LARGE = -(2**63), 2**62
FACTORS = [
    [2**40, 2**40, 0],
    [LARGE, 2, -1],
    [LEAST, LEAST, LEAST, 0],
    [LEAST, -1, -1],
    [*[-1] * 101, None, 7],
    [None, None],
    [2, 3, 2**40, -(2**19)],
]


def frame(spark: SparkSession, rows: list[tuple[int, int | None]]) -> DataFrame:
    return to_dataframe(spark, Bag(rows), PAIRS)


@pytest.mark.parametrize("insert_only", [True, False], ids=["kept as products", "with deletions"])
def test_products_that_leave_the_range_and_come_back(spark: SparkSession, insert_only: bool) -> None:
    spark, query = spark, mrql.compile(BY_KEY)
    rows = [(k, v) for k, factors in enumerate(FACTORS) for v in factors]
    assert collect_value(query.batch(spark, S=frame(spark, rows)), query.type) == evaluate(BY_KEY, {"S": Bag(rows)})
    with query.view(spark, insert_only=insert_only) as view:
        # After each batch a group has a product: the zeros and the signs come first, in a batch of their own.
        batches = [[(0, 0), (1, -1), (4, -1), (4, -1)], [(0, 2**40), (0, 2**40), (1, 2), (1, LARGE), (4, None)]]
        present: list[tuple[int, int | None]] = []
        for batch in batches:
            present += batch
            view.apply(S=frame(spark, batch))
            assert collect_value(view.answer(), query.type) == evaluate(BY_KEY, {"S": Bag(present)})
        if not insert_only:
            view.apply(S=mrql.Delta(delete=frame(spark, [(1, -1), (1, 2)])))
            assert collect_value(view.answer(), query.type) == Bag([(0, 0), (1, LARGE), (4, 1)])


def test_products_of_rows_and_of_nested_bags(spark: SparkSession) -> None:
    spark, query = spark, mrql.compile(TOTAL)
    for factors in FACTORS:
        rows = [(0, v) for v in factors]
        expected = evaluate(TOTAL, {"S": Bag(rows)})
        assert collect_value(query.batch(spark, S=frame(spark, rows)), query.type) == expected
    bags = ty.BagType(ty.BagType(ty.LONG))
    term = b.cmap(lambda vs: b.single(b.reduce("*", vs)), b.stream("N", bags)).term
    nested = mrql.compile(term)
    given = Bag(map(Bag, FACTORS))
    found = collect_value(nested.batch(spark, N=to_dataframe(spark, given, bags)), nested.type)
    assert found == evaluate(term, {"N": given})


@pytest.mark.parametrize("factors", [[2**40, 2**40], [LARGE, 2], [LEAST, -1], [LEAST, LEAST, LEAST]])
def test_a_product_that_is_no_long(spark: SparkSession, factors: list[int]) -> None:
    spark, query = spark, mrql.compile(BY_KEY)
    rows = [(0, v) for v in factors]
    with pytest.raises(mrql.UserError, match="integer overflow"):
        evaluate(BY_KEY, {"S": Bag(rows)})

    def answer(insert_only: bool) -> None:
        with query.view(spark, insert_only=insert_only) as view, translated(None):
            view.apply(S=frame(spark, rows))
            collect_value(view.answer(), query.type)

    for insert_only in (True, False):
        with pytest.raises(mrql.UserError, match="integer overflow"):
            answer(insert_only)
