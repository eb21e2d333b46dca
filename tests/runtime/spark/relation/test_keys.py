"""Keys as columns that are never null, and keys that are made of other keys."""

from __future__ import annotations

from itertools import product

import pytest
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.runtime.spark.expressions.layout import Atom, Layout, Struct
from mrql.runtime.spark.relation.keys import Keys

PAIR = ty.TupleType((ty.LONG, ty.STRING))
NUMBERED = ty.TupleType((PAIR, ty.DOUBLE))

KEY = Struct((("_1", Atom("a", ty.LONG)), ("_2", Atom("b", ty.STRING))), PAIR)
NUMBER = Atom("x", ty.DOUBLE)
KEYS = Keys(KEY, "k")


def numbered(key: Layout) -> Struct:
    """A key and a number."""
    return Struct((("_1", key), ("_2", NUMBER)), NUMBERED)


APART = Keys(numbered(KEY), "r", frozenset({2}))


def test_what_is_apart_has_bits_of_its_own() -> None:
    assert APART.names == ("r0", "r1", "r2", "r_missing0", "r_missing1")
    assert APART.in_common == ("r0", "r1", "r_missing0")
    assert KEYS.in_common == KEYS.names == ("k0", "k1", "k_missing0")


def test_a_key_without_parts_has_a_column() -> None:
    """A key without parts has one column, since nothing could be grouped or looked up by none."""
    unit = Struct((), ty.TupleType(()))
    keys = Keys(unit, "k")
    assert keys.names == keys.in_common == ("k0",)
    assert keys.columns(unit) == keys.columns(Atom("true", unit.type)) == ["true AS k0"]
    assert keys.value == unit


def test_a_key_of_another_is_its_columns() -> None:
    """A key that contains another key consists of its columns, so that Spark sees rows as partitioned by both."""
    key_columns = ["`k0` AS r0", "`k1` AS r1", "k_missing0 AS r_missing0"]
    found = APART.columns(numbered(KEYS.value))
    assert [found[0], found[1], found[3]] == key_columns


@pytest.mark.parametrize("kept", [(0,), (1, 0)])
def test_some_parts_of_a_key_are_not_the_key(kept: tuple[int, ...]) -> None:
    """A key of some parts of another, or of all in another order, has columns of its own: the bits of the other do not
    fit."""
    parts = [part for _, part in KEYS.value.fields]  # type: ignore[union-attr]
    value = Struct(
        tuple((f"_{n}", parts[i]) for n, i in enumerate(kept)), ty.TupleType(tuple(parts[i].type for i in kept))
    )
    assert all("coalesce" in column for column in Keys(value, "r").columns(value))


@pytest.mark.spark
def test_values_of_a_key_of_another(spark: SparkSession) -> None:
    """Columns made from another key equal those made from the value, whichever parts are missing."""
    rows = [*product((None, 0, 1), (None, "", "x"), (None, 0.0, 1.5))]
    df = spark.createDataFrame(rows, "a long, b string, x double")
    made = df.selectExpr(*APART.columns(numbered(KEY)))
    of_another = df.selectExpr(*KEYS.columns(KEY), "x").selectExpr(*APART.columns(numbered(KEYS.value)))
    found = [*map(tuple, of_another.collect())]
    assert found == [*map(tuple, made.collect())]
    assert len({*found}) == len(rows)
    assert None not in {value for row in found for value in row}
    key, number = APART.value.fields  # type: ignore[union-attr]
    (_, a), (_, b) = key[1].fields  # type: ignore[union-attr]
    read = made.selectExpr(f"{a.sql} AS a", f"{b.sql} AS b", f"{number[1].sql} AS x")
    assert [*map(tuple, read.collect())] == rows
