"""Regular expressions on Spark, matched by Java, against the reference, where Python matches them."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.functions import FUNCTIONS
from mrql.algebra.functions.regex import compiled
from mrql.runtime.spark.session import session
from tests.runtime.spark.expressions.test_functions import on_spark
from tests.support.function_calls import Call, split
from tests.support.regular import expressions, subjects

pytestmark = pytest.mark.spark

S, N = ty.STRING, ty.LONG


def test_generated_expressions(spark: SparkSession) -> None:
    """Matches, groups and replacements of hundreds of generated expressions are the reference's."""
    draw = random.Random(5)
    rows = tuple((text,) for text in subjects(3, 23))
    asked = []
    for pattern in expressions(2026, 260):
        fits = compiled(pattern)
        call = Call(FUNCTIONS["regexp_like"], (S, S), {1: pattern}, tuple((*row, pattern) for row in rows))
        if draw.random() < 0.6:
            group = draw.randint(0, fits.groups)
            given = tuple((*row, pattern, group) for row in rows)
            call = Call(FUNCTIONS["regexp_extract"], (S, S, N), {1: pattern, 2: group}, given)
        elif FUNCTIONS["regexp_replace"].constant((pattern, "<$0>")) is None:  # type: ignore[misc]
            given = tuple((*row, pattern, "<$0>") for row in rows)
            call = Call(FUNCTIONS["regexp_replace"], (S, S, S), {1: pattern, 2: "<$0>"}, given)
        asked.append((call, split(call)[0]))
    with session.settings(spark, session.STEP_SETTINGS):
        found = on_spark(spark, [(call, [row for row, _ in good]) for call, good in asked])
    different = [
        f"{call} at {row[0]!r}: {value!r} on Spark, {expected!r} in the reference"
        for (call, good), values in zip(asked, found, strict=True)
        for (row, expected), value in zip(good, values, strict=True)
        if value != expected
    ]
    assert not different, "\n".join(different[:40])


def test_repeated_groups_over_long_texts(spark: SparkSession) -> None:
    """Repeated groups can be matched with long texts. Java repeats some groups recursively, which needs room on the
    stack of a task; for a choice between single characters it does not."""
    row = (("ab" * 25_000,),)
    long = (("ab" * 500_000,),)
    like = FUNCTIONS["regexp_like"]
    patterns = [(row, "^(ab|c)*$"), (row, "^(?:a|(?:b|c))*$"), (long, "^(a|b)*$"), (long, "^(?:[a]|[^a-z]|b)*c")]
    asked = [
        (Call(like, (S, S), {1: pattern}, tuple((*r, pattern) for r in rows)), [(*r, pattern) for r in rows])
        for rows, pattern in patterns
    ]
    with session.settings(spark, session.STEP_SETTINGS):
        assert on_spark(spark, asked) == [[True], [True], [True], [False]]
