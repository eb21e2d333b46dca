"""Elements that differ only in their numbers, compared on Spark."""

from __future__ import annotations

from itertools import count, product

import pytest
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.rewrite.plan.operators import Access
from mrql.runtime.spark.expressions.layout import Atom, Layout, Struct
from mrql.runtime.spark.maintenance.loops.element_groups import ElementGroups
from mrql.runtime.spark.relation.keys import Keys
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.session.session import step_settings
from mrql.runtime.spark.state.table import Table
from mrql.runtime.spark.state.table_schema import TableSchema

NUMBERED = ty.TupleType((ty.LONG, ty.DOUBLE, ty.FLOAT))


def numbered(page: Atom) -> Layout:
    """A page with two numbers."""
    return Struct((("_1", page), ("_2", Atom("x", ty.DOUBLE)), ("_3", Atom("y", ty.FLOAT))), NUMBERED)


PAGE = Atom("a", ty.LONG)
ALIKE = ElementGroups(Keys(numbered(PAGE), "r", frozenset({1, 2})))
COLUMNS = "r0 long, r1 double, r2 float, r_missing0 long, r_missing1 long, w long"

NUMBERS = (0.0, -0.0, 1.5, -2.0, float("inf"), float("-inf"), float("nan"), 5e-324)


def relation(spark: SparkSession, rows: list[tuple[object, ...]]) -> Relation:
    return Relation.of(spark.createDataFrame(rows, COLUMNS))


def collected(rows: Relation, spark: SparkSession) -> list[str]:
    return sorted(map(repr, map(tuple, rows.dataframe(spark).collect())))


@pytest.mark.spark
def test_pairs_are_groups_of_two(spark: SparkSession) -> None:
    """`pairs` finds the same differences as `groups`, whatever an element was and is, also if it is new or deleted."""
    sides = (None, *NUMBERS)
    rows: list[tuple[object, ...]] = []
    for page, (new, old) in zip(count(), product(sides, sides), strict=False):
        rows += [(page, new, 1.0, 0, 0, 1)] if new is not None else []
        rows += [(page, old, 1.5, 0, 0, -1)] if old is not None else []
    given = relation(spark, rows)
    found = [
        sorted(f"{row.r0} {row.difference} {row.distance}" for row in compared.dataframe(spark).collect())
        for compared in (ALIKE.pairs(given), ALIKE.groups(given))
    ]
    assert found[0] == found[1]
    for matters in ("difference > 0.5D", "distance <= 1D", "true"):
        of_pairs, of_groups = (ALIKE.of_groups(g, matters) for g in (ALIKE.pairs(given), ALIKE.groups(given)))
        assert collected(of_pairs, spark) == collected(of_groups, spark) != []


@pytest.mark.spark
def test_pairs_of_elements_without_numbers(spark: SparkSession) -> None:
    """An element without numbers has difference 0 if it was there before, and an infinite one if new or deleted."""
    alike = ElementGroups(Keys(PAGE, "r"))
    rows = spark.createDataFrame([(1, 0, 1), (1, 0, -1), (2, 0, 1), (3, 0, -1)], "r0 long, r_missing0 long, w long")
    pairs = alike.pairs(Relation.of(rows))
    assert sorted((row.r0, row.difference) for row in pairs.dataframe(spark).collect()) == [
        (1, 0.0),
        (2, float("inf")),
        (3, float("inf")),
    ]
    assert collected(alike.of_groups(pairs, "difference > 0D"), spark) == ["(2, 0, 1)", "(3, 0, -1)"]


@pytest.mark.spark
def test_numbers_are_merged_by_their_hashes(spark: SparkSession) -> None:
    """Rows that are grouped by the hashes of their numbers merge as if by the numbers: 0.0 equals −0.0, and NaN equals
    NaN."""
    plans = Plans(spark, step_settings(spark))
    rows = [(page, x, y, 0, 0, w) for page, x, y in product((1, 2), NUMBERS, NUMBERS) for w in (1, 2)]
    rows.append((1, 1.5, 1.5, 0, 0, -3))
    given = relation(spark, list(rows))
    by_hash, by_number = (
        ALIKE.table(plans, Access.STEPS),
        Table(plans, TableSchema.weighted(ALIKE.keys.names, ALIKE.lie_by)),
    )
    assert ALIKE.numbers == ("r1", "r2")
    for table in (by_hash, by_number):
        table.shrinks = True
    found, expected = (collected(table.merged([given]), spark) for table in (by_hash, by_number))
    assert [row.replace("-0.0", "0.0") for row in found] == expected
    # The smallest double is 0 as a float.
    assert len(expected) == 2 * 7 * 6 - 1


def test_what_tells_elements_apart() -> None:
    """A key tells elements apart if they contain exactly the key, in its order, and otherwise only numbers."""
    page = Keys(PAGE, "k")
    assert ALIKE.are_told_by(page, numbered(page.value))  # type: ignore[arg-type]
    assert not ALIKE.are_told_by(page, numbered(PAGE))
    pair = ty.TupleType((ty.LONG, ty.LONG))
    both = Keys(Struct((("_1", PAGE), ("_2", Atom("b", ty.LONG))), pair), "k")
    first, second = (part for _, part in both.value.fields)  # type: ignore[union-attr]
    assert not ALIKE.are_told_by(both, numbered(first))
    without_numbers = ElementGroups(Keys(both.shape, "r"))
    assert without_numbers.are_told_by(both, Struct((("_1", first), ("_2", second)), pair))
    assert not without_numbers.are_told_by(both, Struct((("_1", second), ("_2", first)), pair))
    number = Keys(Atom("a", ty.DOUBLE), "k")
    assert not ElementGroups(Keys(number.shape, "r", frozenset({0}))).are_told_by(number, number.value)
    # Nor does a key without parts tell a number: it does not say whether the number is missing.
    unit = Keys(Struct((), ty.TupleType(())), "k")
    assert not ElementGroups(Keys(number.shape, "r", frozenset({0}))).are_told_by(unit, number.shape)
    assert ElementGroups(Keys(unit.shape, "r")).are_told_by(unit, unit.value)
