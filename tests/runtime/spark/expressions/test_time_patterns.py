"""Times read and written by patterns on Spark, against the reference and against Spark's own functions."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions.sql_text import text_sql
from mrql.algebra.functions.time_reading import read, read_sql
from mrql.algebra.functions.time_writing import WRITTEN, written, written_sql
from mrql.runtime.spark.session import session
from tests.support.time_patterns import pattern_of, patterns, texts

pytestmark = pytest.mark.spark

COUNT = 60
"""The number of texts for each pattern."""


def reference(text: str, pattern: str) -> datetime | None:
    """The time that a text is by a pattern; None if it is none."""
    with suppress(EvaluationError):
        return read(text, pattern)
    return None


def selected(frame: DataFrame, expressions: list[str]) -> list[list[object]]:
    """The values of each expression over the rows, in the order of their numbers."""
    rows = (
        frame.selectExpr("n", *(f"{sql} AS c{place}" for place, sql in enumerate(expressions))).orderBy("n").collect()
    )
    return [[row[place + 1] for row in rows] for place, _ in enumerate(expressions)]


def test_generated_patterns_are_read_alike(spark: SparkSession) -> None:
    """A text is the same time in both engines, or in neither. Where it is one, Spark's own function finds the same time
    or none (of `yyyyd`, whose digits are counted); where it is none, that may still find one, as it accepts missing
    digits."""
    draw = random.Random(7)
    asked = [(pattern_of(parts), texts(parts, draw, COUNT)) for parts in patterns(2026, 30)]
    assert {letter for pattern, _ in asked for letter in "yMdHhamsSXx["} <= {*"".join(pattern for pattern, _ in asked)}
    rows = [(n, *(given[n] for _, given in asked)) for n in range(COUNT)]
    names = [f"t{place}" for place, _ in enumerate(asked)]
    with session.settings(spark, session.STEP_SETTINGS):
        frame = spark.createDataFrame(rows, ", ".join(["n INT", *(f"{name} STRING" for name in names)])).cache()
        ours = selected(frame, [read_sql(name, pattern) for name, (pattern, _) in zip(names, asked, strict=True)])
        theirs = selected(
            frame,
            [
                f"CAST(try_to_timestamp({name}, {text_sql(pattern)}) AS TIMESTAMP_NTZ)"
                for name, (pattern, _) in zip(names, asked, strict=True)
            ],
        )
        frame.unpersist()
    different, fitting = [], 0
    for (pattern, given), found, native in zip(asked, ours, theirs, strict=True):
        for text, value, other in zip(given, found, native, strict=True):
            expected = reference(text, pattern)
            fitting += expected is not None
            if value != expected or (expected is not None and other not in (expected, None)):
                different.append(
                    f"{text!r} by {pattern}: {value} on Spark, {expected} in the reference, {other} by itself"
                )
    assert not different, "\n".join(different[:40])
    assert fitting > len(asked) * COUNT / 3
    assert sum(value is not None for native in theirs for value in native) > fitting * 0.8


def test_what_is_written_is_what_spark_writes(spark: SparkSession) -> None:
    """Each letter of patterns is written alike by both engines and by Spark's own function."""
    moments = [datetime(1, 1, 1), datetime(2024, 2, 29, 0, 5, 9, 7), datetime(2026, 11, 8, 12, 0, 59, 123_456)]
    moments += [datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(1969, 12, 31, 11, 59, 59, 500_000)]
    asked = [*WRITTEN, "yyyy-MM-dd'T'HH:mm[:ss[.SSS]]XXX", "'x'", "[h:mm a]"]
    with session.settings(spark, session.STEP_SETTINGS):
        frame = spark.createDataFrame([*enumerate(moments), (len(moments), None)], "n INT, t TIMESTAMP_NTZ")
        ours = selected(frame, [written_sql("t", pattern) for pattern in asked])
        theirs = selected(frame, [f"date_format(t, {text_sql(pattern)})" for pattern in asked])
    expected = [[*(written(moment, pattern) for moment in moments), None] for pattern in asked]
    assert ours == expected
    assert theirs == expected
