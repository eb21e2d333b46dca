"""Statistics on Spark against those of the reference, and against Spark's own aggregate functions."""

from __future__ import annotations

import math

import pytest
from pyspark.sql import SparkSession

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.functions import Function
from mrql.algebra.terms import Lit, Prim, Var
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Value
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.layout import Atom
from tests.support.number_lists import HARD

pytestmark = pytest.mark.spark

NUMBERS, PAIRS = ty.BagType(ty.DOUBLE), ty.BagType(ty.TupleType((ty.DOUBLE, ty.DOUBLE)))
PARTS = (0.0, 0.1, 0.5, 0.9, 1.0)
OF_NUMBERS = (fn.VARIANCE, fn.VARIANCE_POP, fn.STDDEV, fn.STDDEV_POP, fn.MODE)
OF_PAIRS = (fn.COVAR, fn.COVAR_POP, fn.CORR)
PROMISED = 1e-12
"""The promised error, relative to the value; of a covariance, to the product of the deviations."""


def term(function: Function, name: str, t: Type) -> Prim:
    return Prim(function, (Var(name, t),))


def test_hard_numbers(spark: SparkSession) -> None:
    """Statistics of numbers that are hard to compute with are those of the reference, within the promised error."""
    rows = [(name, numbers) for name, numbers in HARD.items()]
    df = spark.createDataFrame(rows, "name string, xs array<double>")
    second = "transform(xs, (x, i) -> x * if(i % 2 = 0, 1D, -1D))"
    paired = f"zip_with(xs, {second}, (x, y) -> named_struct('_1', x, '_2', y)) AS ps"
    terms = [term(f, "xs", NUMBERS) for f in OF_NUMBERS]
    terms += [Prim(fn.PERCENTILE, (Var("xs", NUMBERS), Lit(part, ty.DOUBLE))) for part in PARTS]
    terms += [term(f, "ps", PAIRS) for f in OF_PAIRS]
    env = {"xs": Atom("xs", NUMBERS, False), "ps": Atom("ps", PAIRS, False)}
    found = df.selectExpr("name", "xs", paired).selectExpr(
        "name", "ps", *(f"{Expressions().sql(asked, env)} AS r{i}" for i, asked in enumerate(terms))
    )
    wrong = []
    for name, ps, *values in found.collect():
        given: dict[str, list[Value]] = {"xs": HARD[name], "ps": [tuple(p) for p in ps]}
        for asked, got in zip(terms, values, strict=True):
            expected = _expected(asked, given)
            if not _close(got, expected, asked, given["ps"]):
                wrong.append(f"{asked.function.name} of {name} is {got}, not {expected}")
    assert wrong == [], "; ".join(wrong)


def _expected(asked: Prim, given: dict[str, list[Value]]) -> Value:
    first, *others = asked.args
    assert isinstance(first, Var)
    constants = [other.value for other in others if isinstance(other, Lit)]
    return fn.apply(asked.function, [Bag(given[first.name]), *constants], [arg.type for arg in asked.args], ty.DOUBLE)


def _close(found: Value, expected: Value, asked: Prim, pairs: list[Value]) -> bool:
    if found is None or expected is None:
        return found is expected
    if math.isnan(expected) or math.isinf(expected):
        return math.isnan(found) if math.isnan(expected) else found == expected
    off = 0.0
    if asked.function in (fn.COVAR, fn.COVAR_POP):
        x, y = (fn.apply(fn.STDDEV_POP, [Bag(side)], [NUMBERS], ty.DOUBLE) for side in zip(*pairs, strict=True))
        off = PROMISED * x * y
    if asked.function == fn.CORR:
        off = PROMISED
    return math.isclose(found, expected, rel_tol=PROMISED, abs_tol=max(off, 5e-324))


def test_as_in_spark_sql(spark: SparkSession) -> None:
    """For ordinary numbers, statistics equal those of Spark SQL: `variance`, `stddev_pop`, `corr`, `percentile`."""
    rows = [(i % 3, float(i * 7 % 11) / 4, float(i * 5 % 13)) for i in range(40)]
    df = spark.createDataFrame(rows, "k int, x double, y double")
    own = [
        "variance(x)",
        "var_pop(x)",
        "stddev(x)",
        "stddev_pop(x)",
        "covar_samp(x, y)",
        "covar_pop(x, y)",
        "corr(x, y)",
    ]
    own += [f"percentile(x, {part})" for part in PARTS]
    collected = "collect_list(x) AS xs, collect_list(named_struct('_1', x, '_2', y)) AS ps"
    aggregated = ", ".join(f"{call} AS own{i}" for i, call in enumerate(own))
    df.createOrReplaceTempView("numbers")
    grouped = spark.sql(f"SELECT {collected}, {aggregated} FROM numbers GROUP BY k")
    env = {"xs": Atom("xs", NUMBERS, False), "ps": Atom("ps", PAIRS, False)}
    terms = [term(f, "xs", NUMBERS) for f in OF_NUMBERS[:4]] + [term(f, "ps", PAIRS) for f in OF_PAIRS]
    terms += [Prim(fn.PERCENTILE, (Var("xs", NUMBERS), Lit(part, ty.DOUBLE))) for part in PARTS]
    pairs = [f"abs({Expressions().sql(asked, env)} - own{i}) < 1e-12" for i, asked in enumerate(terms)]
    assert {tuple(row) for row in grouped.selectExpr(*pairs).collect()} == {(True,) * len(own)}
