"""JSON values on Spark have the canonical text of the reference, whatever numbers and strings are in them."""

from __future__ import annotations

import json
from itertools import islice
from random import Random

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.json_text import document, read
from mrql.algebra.values.values import Bag
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.session.errors import translated
from tests.runtime.spark.expressions.test_number_text import LEAST, LONGER, NOT_FINITE, PLAIN, doubles

TEXTS = ["1.0000000000000001E22", '",9.999999999999999E22,"', "\\", '\\"', '\\\\",4.9E-324', "\u0001\u0002\n", "E", ""]


def numbers_and_texts() -> list[tuple[float, str]]:
    numbers = [*LONGER, *LEAST, *PLAIN, *islice(doubles(Random(11)), 400)]
    return [(x, TEXTS[i % len(TEXTS)]) for i, x in enumerate(numbers) if x - x == 0]


def test_doubles_in_json_are_written_as_the_reference_writes_them(spark: SparkSession) -> None:
    """Doubles in JSON have the reference's text as they are read, as extracted parts, and in constructed values."""
    given = [f'{{"A":[{x!r},{json.dumps(text)}],"B":{{"C":{x!r}}}}}' for x, text in numbers_and_texts()]
    query = mrql.compile(
        """
        data Tree = Leaf: double | Node: [Tree] | Kept: any;
        select (v, v.A, v.B.C, Node([Leaf(v.B.C as double), Kept(v.A)]), v.A as {any}) from v in V
        """,
        V="bag(any)",
    )
    documents = Bag(document(read(text)) for text in given)
    frame = to_dataframe(spark, documents, query.streams["V"])
    assert collect_value(query.batch(spark, V=frame), query.type) == evaluate(query.term, {"V": documents})
    raw = spark.createDataFrame([(text,) for text in given], "value string")
    assert collect_value(query.batch(spark, V=raw), query.type) == evaluate(query.term, {"V": documents})


def test_doubles_as_json(spark: SparkSession) -> None:
    rows = Bag([*numbers_and_texts(), *((x, "x") for x in NOT_FINITE)])
    query = mrql.compile("select (d as any, <a: [d], b: s> as any) from (d, s) in V", V="bag((double, string))")
    frame = to_dataframe(spark, rows, query.streams["V"])
    assert collect_value(query.batch(spark, V=frame), query.type) == evaluate(query.term, {"V": rows})


def test_constants_are_equal_to_what_is_read(spark: SparkSession) -> None:
    """A constant equals the same number in a document, whatever digits Java gives it."""
    constants = ", ".join(f"({x!r}) as any" for x in LONGER + LEAST)
    query = mrql.compile(f"select v.A from v in V, c in {{{constants}}} where v.A = c", V="bag(any)")
    documents = Bag(document(read(f'{{"A":{x!r}}}')) for x in LONGER + LEAST)
    frame = to_dataframe(spark, documents, query.streams["V"])
    found = collect_value(query.batch(spark, V=frame), query.type)
    assert found == evaluate(query.term, {"V": documents})
    assert len(found) == len(LONGER + LEAST)


def test_the_text_of_a_value_is_that_of_the_reference(spark: SparkSession) -> None:
    """The text of JSON numbers, of values that contain them, and of strings that look like them, is the reference's."""
    rows = Bag(numbers_and_texts())
    query = mrql.compile(
        """
        select (d, v as string, v.a as string, v.b as string, length(v as string), v.a as [string])
        from (d, s) in V, v in {<a: [d], b: s> as any}
        """,
        V="bag((double, string))",
    )
    frame = to_dataframe(spark, rows, query.streams["V"])
    assert collect_value(query.batch(spark, V=frame), query.type) == evaluate(query.term, {"V": rows})


def test_what_python_has_made_equals_what_spark_makes(spark: SparkSession) -> None:
    """A JSON value made in Python equals one extracted by Spark, and one cast by Spark."""
    numbers = [x for x, _ in numbers_and_texts()]
    rows = Bag([(x, document([x]), document({"A": [x]})) for x in numbers])
    query = mrql.compile("select d from (d, v, w) in V where v = ([d] as any) and v = w.A", V="bag((double, any, any))")
    expected = evaluate(query.term, {"V": rows})
    assert len(expected) > 400  # doubles between 10⁷ and 10¹⁵ are written without an exponent when they are cast
    frame = to_dataframe(spark, rows, query.streams["V"])
    assert collect_value(query.batch(spark, V=frame), query.type) == expected


@pytest.mark.parametrize("number", [*LONGER, *LEAST])
def test_an_error_quotes_a_value_as_the_reference_writes_it(spark: SparkSession, number: float) -> None:
    query = mrql.compile("select ([d] as any) as int from d in V", V="bag(double)")
    with pytest.raises(UserError) as expected:
        evaluate(query.term, {"V": Bag([number])})
    frame = to_dataframe(spark, Bag([number]), query.streams["V"])
    with pytest.raises(UserError) as found, translated(None):
        query.batch(spark, V=frame).collect()
    assert found.value.message == expected.value.message
