"""Casts between numbers and texts on Spark, against the reference evaluator."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError, UserError
from mrql.algebra.functions import convert_from, to_single
from mrql.algebra.showable import showable
from mrql.algebra.types import Type
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, Value, same
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.session.errors import translated

pytestmark = pytest.mark.spark

TARGETS = (ty.INT, ty.LONG, ty.FLOAT, ty.DOUBLE, ty.STRING)
INTS = (0, 1, -1, 16777215, 16777216, 16777217, 16777219, 33554435, 2**31 - 1, -(2**31))
LONGS = (*INTS, 2**31, -(2**31) - 1, 2**53, 2**53 + 1, 2**53 + 3, -(2**53) - 1, 2**54 + 2**30 + 1, 2**63 - 1, -(2**63))
DOUBLES = (
    *(0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 1e-3, 9.99e-4, 1e7, 1e15, 1e16, 1e22, 1e23, 16777217.0),
    *(2147483647.0, 2147483647.5, 2147483648.0, -2147483648.0, -2147483648.5, -2147483649.0),
    *(2.0**63, math.nextafter(2.0**63, 0), -(2.0**63), math.nextafter(-(2.0**63), -math.inf)),
    *(5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e-45, 7e-46, 1.1754943508222875e-38),
    *(3.4028235677973366e38, -3.4028235677973362e38),
    *(math.nan, math.inf, -math.inf),
)  # fmt: skip
TEXTS = (
    *(" 12\t", "+7", "-0", "2147483648", "9223372036854775808", "1.5", ".5", "5.", "1e3", "1E-400", "1e400", "-1e39"),
    *("inf", "-Infinity", "NaN", "nan", "1.00000017881393432617187499", "1.00000017881393432617187501"),
    *("16777217", "16777217.0000000000000000000000000001", "18014399583223809", "7.006492321624085e-46"),
    *("9007199254740993", "9007199254740993.00000000000000000000001", "1_0", "٣", "true", "1e", "--1", "1d", "0x1p3"),
    *("\ttrue", "true\n", " FALSE ", "tRuE\r", "\x0bfalse\f", "t", "yes", "1", "tru", "tr ue", ""),
    "\u00a0true",
)  # fmt: skip


def longs(random: Random) -> Iterator[int]:
    while True:
        size = 2 ** random.randrange(1, 63)
        yield random.choice((1, -1)) * (size + random.choice((0, 1, -1, size // 2**24 + 1, size // 2**24 * 3 // 2 - 1)))


def doubles(random: Random) -> Iterator[float]:
    while True:
        yield struct.unpack("d", random.randbytes(8))[0]
        yield random.choice((1, -1)) * (1 + random.randrange(2**25) / 2**24) * 2.0 ** random.randrange(-150, 130)
        yield random.randrange(-(2**65), 2**65) / random.choice((1, 2, 2**40))


def texts(random: Random) -> Iterator[str]:
    for whole, number in zip(longs(random), doubles(random), strict=True):
        yield str(whole)
        yield repr(number)
        halfway = to_single(number) if math.isfinite(to_single(number)) else 1.0
        yield f"{halfway * (1 + 2.0**-24):.60g}{random.choice(('', '1'))}"  # halfway between two floats, or beside that


DRAWN: dict[Type, tuple[tuple[Value, ...], Callable[[Random], Iterator[Value]]]] = {
    ty.INT: (INTS, lambda random: (n % 2**32 - 2**31 for n in longs(random))),
    ty.LONG: (LONGS, longs),
    ty.FLOAT: (tuple(map(to_single, DOUBLES)), lambda random: map(to_single, doubles(random))),
    ty.DOUBLE: (DOUBLES, doubles),
    ty.STRING: (TEXTS, texts),
}


def values(t: Type) -> list[Value]:
    odd, drawn = DRAWN[t]
    return [*odd, *islice(drawn(Random(7)), 200), None]


def casts(t: Type, target: Type) -> tuple[list[tuple[Value, Value]], list[tuple[Value, str]]]:
    """The values of a type with their casts to another one, and those that cannot be cast, with the error."""
    good: list[tuple[Value, Value]] = []
    bad: list[tuple[Value, str]] = []
    for value in values(t):
        try:
            good.append((value, convert_from(value, t, target)))
        except EvaluationError as error:
            bad.append((value, str(error)))
    return good, bad


def on_spark(spark: SparkSession, t: Type, target: Type, given: list[Value]) -> Bag:
    """Pairs of the position of each value and its cast to another type."""
    row = ty.BagType(ty.TupleType((ty.INT, t)))
    query = mrql.compile(f"select (n, x as {target}) from (n, x) in rows", rows=row)
    frame = to_dataframe(spark, Bag(enumerate(given)), row)
    with translated(None):
        return collect_value(query.batch(spark, rows=frame), query.type)


@pytest.mark.parametrize("t", [*DRAWN], ids=str)
def test_a_cast_has_the_same_value_in_both_engines(spark: SparkSession, t: Type) -> None:
    """Casts have the same values, texts and error messages in both engines."""
    wrong = []
    for target in (*TARGETS, *([ty.BOOL] if t == ty.STRING else [])):
        if t == target:
            continue
        good, bad = casts(t, target)
        for n, found in on_spark(spark, t, target, [value for value, _ in good]):
            value, expected = good[n]
            if not same(found, expected) or show_value(found) != show_value(expected):
                wrong.append(f"{value!r} as {target}: {found!r} on Spark, {expected!r} in the reference")
        for value, message in bad[:2] + bad[-2:]:
            with pytest.raises(UserError) as caught:
                on_spark(spark, t, target, [value])
            if caught.value.message != showable(message):
                wrong.append(f"{value!r} as {target}: {caught.value.message}, not {message}")
    assert wrong == []
