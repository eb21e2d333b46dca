"""The names of the variables and streams of a query make no difference to its answer."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.values import Bag, Record
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from tests.support.on_spark import assert_on_spark

pytestmark = pytest.mark.spark

PAIRS = parse_type("{(long, long)}")
CONTENTS = {"S": Bag([(7, 70), (8, 80), (7, 71)]), "T": Bag([(1, 5), (7, 6), (3, 7)])}

QUERIES = (
    "select (A, B + count(T)) from (A, B) in S",
    "select (A, B) from (A, B) in S where B > avg(select D from (C, D) in T) + 65",
    "select (A, sum(B), count(B), max(B), avg(B)) from (A, B) in S group by A",
    "select (A, sum(B), sum(select D + A from (C, D) in T)) from (A, B) in S group by A",
    "select (A, B, D) from (A, B) in S, (C, D) in T where A = C",
    "select (A, sum(select D from (C, D) in T where C = A)) from (A, B) in S",
    "select (A, (select (C, D, count(T)) from (C, D) in T where D > B - 65)) from (A, B) in S",
    "select (A, sum(B * D), A + count(D)) from (A, B) in S, (C, D) in T where A = C group by A",
    "(sum(select A + B from (A, B) in S), count(select A from (A, B) in S where B > count(T) + 70))",
    "repeat A = S step select (B, D + count(T)) from (B, C) in A, (C, D) in S limit 2",
)
"""A, B, C and D stand for variables."""

CALLED = ("tsxy", "cktx", "ntvx", "xyst")
"""Names that the compiler also gives to variables of its own, such as a total `t` and a key `c`, which might hide those
of a query."""


@pytest.mark.wide(keep=4)
@pytest.mark.parametrize("called", CALLED)
def test_variables(spark: SparkSession, called: str) -> None:
    """Ten queries in one have the reference's answer on Spark, whatever their variables are called."""
    names = dict(zip("ABCD", called, strict=True))
    text = f"({', '.join(f'({query})' for query in QUERIES)})"
    assert_equal(spark, re.sub(r"\b[ABCD]\b", lambda found: names[found[0]], text))


OVER_GROUPS = """
select (n, count(k)) from (k, n) in (select (a, count(b)) from (a, b) in S, (c, d) in T where a = c or b > 0 group by a)
group by n
"""


@pytest.mark.parametrize("called", [("X1", "X2"), ("D1", "C"), ("F", "V"), ("t", "x")])
def test_streams(spark: SparkSession, called: tuple[str, str]) -> None:
    """Streams may be called like states, derived streams or variables."""
    assert_equal(spark, re.sub(r"\b[ST]\b", lambda found: called["ST".index(found[0])], OVER_GROUPS), *called)


def assert_equal(spark: SparkSession, text: str, s: str = "S", t: str = "T") -> None:
    assert_on_spark(spark, text, {s: CONTENTS["S"], t: CONTENTS["T"]}, {s: PAIRS, t: PAIRS})


@pytest.mark.parametrize("name", ["a-b", "a b", "a`b", "select", "ä:ö", "1"])
def test_a_field_that_is_not_read(spark: SparkSession, name: str) -> None:
    """From the second batch on, plans are kept, and columns that they do not read are null, of types that name the
    fields of records."""
    nested = ty.RecordType(((name, ty.LONG), ("l", ty.ListType(ty.RecordType(((name, ty.STRING),))))))
    rows = ty.BagType(ty.RecordType((("A", ty.LONG), ("H", nested))))
    with mrql.compile("select (a, count(x)) from x in S group by a: x.A mod 2", S=rows).view(spark) as view:
        for n in range(4):
            held = Record({name: n, "l": [Record({name: "x"})]})
            view.apply(S=to_dataframe(spark, [Record({"A": n, "H": held})], rows))
        assert sorted(map(tuple, view.answer().collect())) == [(0, 2), (1, 2)]
