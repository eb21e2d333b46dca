"""The SQL of monoids on basic values: each has an entry, and a new monoid is an entry here and one in the algebra."""

from __future__ import annotations

import operator
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from mrql.algebra import build as b
from mrql.algebra import monoids as mo
from mrql.algebra import types as ty
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Value
from mrql.algebra.values.zset import ZSet
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.spark.expressions.aggregates import SQL, Sql
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.relation.frame import Frame, changes, from_dataframe
from mrql.runtime.spark.view import SparkView
from tests.support.planning import planned


def test_every_monoid_has_its_sql() -> None:
    """The table has a row for each row of the algebra's, and no other."""
    assert list(SQL) == [op.name for op in mo.OPS.values()]


@pytest.mark.parametrize("op", mo.OPS.values(), ids=str)
def test_what_is_idempotent_needs_no_weights(op: mo.Op) -> None:
    """Exactly the idempotent monoids have no SQL for weights: otherwise an answer would be wrong without an error."""
    assert (SQL[op.name].weighted_rows is None) is op.idempotent
    assert (SQL[op.name].repeated is None) is op.idempotent


def _long(element: Type) -> Type | None:
    return ty.LONG if ty.is_integral(element) else None


def _itself(x: Value) -> Value:
    return x


XOR = mo.Op(
    "XOR",
    "xor",
    "the bits that are set in an odd number of integers",
    zero=0,
    combine=operator.xor,
    type_rule=_long,
    inverse=_itself,
)
XOR_SQL = Sql(
    zero="0",
    combine="({a} ^ {b})",
    over_rows="coalesce(bit_xor({value}), {zero})",
    weighted_rows="coalesce(bit_xor(if({weight} % 2 = 0, {zero}, {value})), {zero})",
    repeated="if({weight} % 2 = 0, {zero}, {value})",
)
ROW = ty.TupleType((ty.STRING, ty.LONG))
FIRST = [("a", 5), ("a", 5), ("a", 3), ("b", 12), ("c", None)]
THEN, GONE = [("a", 8), ("b", 12)], [("a", 5), ("b", 12), ("c", None)]


@pytest.mark.spark
def test_one_more_monoid_is_two_entries(spark: SparkSession) -> None:
    """Reductions by a new monoid are evaluated and kept up to date by both engines, with deletions."""
    with patch.dict(mo.OPS, {XOR.sign: XOR}), patch.dict(SQL, {XOR.name: XOR_SQL}):
        groups = b.group_by(b.stream("S", ty.BagType(ROW)))
        term = b.cmap(lambda k, vs: b.single((k, b.reduce("xor", vs))), groups).term
        plan = planned(term, shrinking=frozenset({"S"})).plan
        reference, view = ReferenceView(plan), SparkView(plan, spark)

        def frame(rows: list[tuple[str, int | None]]) -> Frame:
            return from_dataframe(to_dataframe(spark, rows, ty.BagType(ROW)), ROW)

        steps = [(ZSet.of(FIRST), frame(FIRST))]
        steps += [(ZSet.of(THEN) - ZSet.of(GONE), changes(frame(THEN), frame(GONE), view.columns))]
        present = ZSet()
        try:
            for delta, rows in steps:
                present += delta
                expected = evaluate(term, {"S": present.bag()})
                reference.apply({"S": delta})
                view.apply({"S": rows})
                assert reference.answer() == expected
                assert collect_value(view.answer(), term.type) == expected
        finally:
            view.close()
        assert expected == Bag([("a", 5 ^ 3 ^ 8), ("b", 12)])
