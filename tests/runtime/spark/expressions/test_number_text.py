"""Doubles and floats as text on Spark, against the reference evaluator's text of them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.types import Type
from mrql.algebra.values.atom_text import show_double, show_single, to_single
from mrql.algebra.values.values import Bag, same
from mrql.runtime.spark.expressions.casts import numbered
from mrql.runtime.spark.expressions.number_text import number_text
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe

LONGER = [1e23, 5e22, 2e23, 2.0**54 + 8, 8.41e21, 5.209568948636991e18, 2.0**84 * (1 + 2**-52), -4.082563051969564e-202]
LEAST = [5e-324, 1e-323, 1e-322, 9.5e-322, 2.2250738585072014e-308, math.nextafter(2.2250738585072014e-308, 0)]
PLAIN = [0.0, -0.0, 1.0, -1.5, 1e7, math.nextafter(1e7, 0), 1e-3, math.nextafter(1e-3, 0), 0.1, math.pi]
NOT_FINITE = [math.nan, math.inf, -math.inf]


def doubles(random: Random) -> Iterator[float]:
    """Doubles of each kind: by their bits, whole numbers, short decimals, powers of two, subnormal ones."""
    while True:
        yield struct.unpack("d", random.randbytes(8))[0]
        yield struct.unpack("d", struct.pack("Q", random.getrandbits(random.randrange(1, 53))))[0]
        yield float(random.randrange(10**15, 2**63))
        yield float(f"{random.randrange(1, 1000)}e{random.randrange(-323, 305)}")
        yield random.choice((1, 3, 1 + 2**-52)) * 2.0 ** random.randrange(-1070, 1020)
        yield 2.0**84 * (1 + random.random())


def floats(random: Random) -> Iterator[float]:
    """Floats, likewise."""
    while True:
        yield struct.unpack("f", random.randbytes(4))[0]
        yield struct.unpack("f", struct.pack("I", random.getrandbits(random.randrange(1, 24))))[0]
        yield to_single(float(random.randrange(10**7, 2**40)))
        yield to_single(float(f"{random.randrange(1, 1000)}e{random.randrange(-44, 36)}"))


def texts(spark: SparkSession, numbers: list[float], t: Type) -> list[tuple[float, str]]:
    row = ty.TupleType((ty.INT, t))
    df = to_dataframe(spark, Bag(enumerate(numbers)), ty.BagType(row))
    found = df.selectExpr("_1", f"{number_text('_2', t, numbered('t'))} AS text").collect()
    return [(numbers[place], text) for place, text in found]


@pytest.mark.parametrize(("t", "drawn", "shown"), [(ty.DOUBLE, doubles, show_double), (ty.FLOAT, floats, show_single)])
def test_the_shortest_and_of_these_the_nearest(spark: SparkSession, t: Type, drawn, shown) -> None:
    numbers = [*islice(drawn(Random(7)), 6000), *NOT_FINITE]
    numbers += [to_single(x) if t == ty.FLOAT else x for x in LONGER + LEAST + PLAIN]
    found = texts(spark, numbers, t)
    assert len(found) == len(numbers)
    assert [(x, text) for x, text in found if text != shown(x)] == []


def test_what_is_rounded_are_the_digits_of_the_text(spark: SparkSession) -> None:
    """`round` rounds the digits of the text, also where Java has others, as for 5·10²²: with those, a half may be less
    than one."""
    halves = [float(f"{digits}5e{power}") for digits in (1, 4, 9, 84, 123) for power in range(-30, 31)]
    numbers = [*LONGER, *LEAST, *PLAIN, *halves, *islice(doubles(Random(5)), 300), *NOT_FINITE]
    digits = (-23, -22, -18, -8, -1, 0, 2, 9, 20, 30)
    query = mrql.compile(f"select ({', '.join(f'round(x, {n})' for n in digits)}) from x in S", S="bag(double)")
    frame = to_dataframe(spark, Bag(numbers), query.streams["S"])
    assert same(collect_value(query.batch(spark, S=frame), query.type), evaluate(query.term, {"S": Bag(numbers)}))
