"""The elements of a union, or of the branches of a conditional, keep the key of their row."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.notation.parser import parse
from mrql.algebra.notation.printer import pretty
from mrql.algebra.terms import Var
from mrql.runtime.spark.maintenance.keyed_elements import with_key
from tests.runtime.spark.test_equivalence import assert_equal_everywhere
from tests.support.histories import Batch

FOUND_AMONG_CONSTANTS = """
select (1 as long) from y in Y
where y#1 in ((select 1 from n in {0, 1, 2}, z in Y where z#0 = n and z = y) except (select 1 from n in (0..2), w in Y))
group by y#0
"""
IN_SEVERAL = """
select (k, (select z from w in y, z in {w#0, w#0 + 5})) from y in Y group by k: y#1
"""
IN_BRANCHES = """
select (k, (select z from w in y, z in (if w#0 > 1 then {w#0} else {w#0, w#0 + 10}))) from y in Y group by k: y#1
"""
ROW, OTHER = (0, 0, 0.0, True), (2, 1, 1.5, False)


@pytest.mark.parametrize("text", [FOUND_AMONG_CONSTANTS, IN_SEVERAL, IN_BRANCHES])
def test_the_key_is_there(spark: SparkSession, text: str) -> None:
    history = [
        Batch(inserted={"Y": (ROW, OTHER)}, deleted={}),
        Batch(inserted={"Y": ((1, 1, 2.0, True),)}, deleted={"Y": (OTHER,)}),
    ]
    assert_equal_everywhere(spark, text, history)


@pytest.mark.parametrize(
    ("bag", "pairs"),
    [
        ("{1} ⊎ {2}", "{(k, 1)} ⊎ {(k, 2)}"),
        ("if b then {1} else {2}", "if b then {(k, 1)} else {(k, 2)}"),
        ("cMap(λi. {i} ⊎ {1}, s)", "cMap(λi. {(k, i)} ⊎ {(k, 1)}, s)"),
        ("s", "cMap(λx. {(k, x)}, s)"),
    ],
)
def test_pairs(bag: str, pairs: str) -> None:
    variables = {"b": ty.BOOL, "s": ty.BagType(ty.INT)}
    term = parse(bag, {}, variables)
    assert pretty(with_key(term, Var("k", ty.LONG), "x"), types=False) == pairs
