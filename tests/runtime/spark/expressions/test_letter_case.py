"""Upper and lower case on Spark are those of the reference, whatever the locale of Java."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.values.values import Bag
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe

pytestmark = pytest.mark.spark

QUERY = "select (s, upper(s), lower(s)) from s in S"
IN_CONTEXT = [
    "ΑΣ",
    "ΑΣ Σ",
    "'ΑΣ'",
    "Σ",
    "ΑΣ\u0301",
    "Α\u00adΣ",
    "ΑΣΑ",
    "Σ\u0345",
    "İI",
    "éi",
    "ÉI",
    "i\u0307\u0301",
    "ŉ",
    "ßẞ",
    "ﬁ",
    "Ǆǅǆ",
]


@contextmanager
def locale(spark: SparkSession, tag: str) -> Iterator[None]:
    """A block in which Java has another default locale."""
    locales = spark._jvm.java.util.Locale
    before = locales.getDefault()
    locales.setDefault(locales.forLanguageTag(tag))
    try:
        yield
    finally:
        locales.setDefault(before)


def wrong(spark: SparkSession, texts: list[str]) -> list[tuple[str, str, str]]:
    """The texts whose upper or lower case on Spark differs from Python's, each with Spark's.

    Those with characters that Python's version of Unicode does not have are left out.
    """
    query = mrql.compile(QUERY, S="bag(string)")
    frame = to_dataframe(spark, Bag(texts), query.streams["S"])
    found = list(collect_value(query.batch(spark, S=frame), query.type))
    assert len(found) == len(texts)
    others = [made for made in found if made[1:] != (made[0].upper(), made[0].lower())]
    return [made for made in others if not any(unicodedata.category(c) == "Cn" for c in "".join(made))]


@pytest.mark.parametrize("tag", ["en", "tr", "lt"])
def test_letters_that_are_others_in_a_locale(spark: SparkSession, tag: str) -> None:
    """Case does not depend on the locale: dots of `i` in Turkish and Lithuanian, and sigma at the end of a word."""
    with locale(spark, tag):
        assert wrong(spark, [*IN_CONTEXT, *(f"é{chr(code)}" for code in range(1, 0x250))]) == []


def test_all_characters(spark: SparkSession) -> None:
    """All characters of Python's version of Unicode have the same upper and lower case on Spark."""
    characters = (chr(code) for code in range(1, sys.maxunicode + 1))
    known = (character for character in characters if unicodedata.category(character) not in ("Cn", "Cs"))
    assert wrong(spark, [f"é{character}" for character in known]) == []
