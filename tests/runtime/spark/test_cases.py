"""The cases of `tests/language/*.case` on Spark.

A query over a handful of rows costs mainly its planning, so many are combined into one: a tuple of their values.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import Tup
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import close
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.session.errors import translated
from mrql.translate.program import CompiledExpression
from tests.runtime.spark.test_equivalence import assert_equal_everywhere, few
from tests.support.cases import Case, cases
from tests.support.construct_queries import construct_queries
from tests.support.generated import each_another, short
from tests.support.queries import histories
from tests.support.spark_settings import compiled

pytestmark = pytest.mark.spark

AT_ONCE = 10


def _batches() -> Iterator[tuple[Case, ...]]:
    """The cases without an error, in groups from one file that are evaluated together."""
    for _, found in groupby((case for case in cases() if case.error is None), lambda case: case.file):
        together = list(found)
        yield from (tuple(together[i : i + AT_ONCE]) for i in range(0, len(together), AT_ONCE))


RECURSIVE = next(together for together in _batches() if together[0].file == "recursion")[:3]
"""Cases of functions that call themselves, and each other."""


def _failing() -> Iterator[Case]:
    """The cases that compile, and whose errors are those of the data."""
    return (case for case in cases() if case.error is not None and _is_compiled(case))


def _is_compiled(case: Case) -> bool:
    try:
        return case.compiled is not None
    except UserError:
        return False


def _frames(spark: SparkSession, case: Case) -> dict[str, DataFrame]:
    return {name: to_dataframe(spark, case.data[name], t) for name, t in case.streams.items() if name in case.reads}


@pytest.mark.wide(keep=8)
@pytest.mark.parametrize("together", list(_batches()), ids=lambda together: together[0].name)
def test_answers(spark: SparkSession, together: tuple[Case, ...]) -> None:
    """Each query of a group has its expected value."""
    assert_answers(spark, together)


def test_what_calls_itself_is_compiled(spark: SparkSession) -> None:
    """Recursive functions run as generated code, although they are large and Spark limits the code of an expression."""
    with compiled(spark):
        assert_answers(spark, RECURSIVE)


def assert_answers(spark: SparkSession, together: tuple[Case, ...]) -> None:
    queries = [case.compiled for case in together]
    term = Tup(tuple(query.term for query in queries))
    whole = mrql.Query(CompiledExpression(term, queries[0].span), dict(together[0].streams))
    frames = {name: frame for case in together for name, frame in _frames(spark, case).items()}
    found = collect_value(whole.batch(spark, **frames), whole.type)
    for case, query, value in zip(together, queries, found, strict=True):
        expected = case.expected(query.type)
        assert close(value, expected), f"{case.name}: {show_value(value)}, not {show_value(expected)}"


@pytest.mark.wide(keep=2)
@pytest.mark.parametrize("case", list(_failing()), ids=lambda case: case.name)
def test_errors(spark: SparkSession, case: Case) -> None:
    """An error of the data is the same as in the reference evaluator, at the same place."""
    query = mrql.Query(case.compiled, dict(case.streams))
    answer = query.batch(spark, **_frames(spark, case))
    with pytest.raises(UserError) as caught, translated(query.query.span.source):
        collect_value(answer, query.type)
    with pytest.raises(UserError) as expected:
        evaluate(query.term, case.data)
    assert (caught.value.message, caught.value.span) == (expected.value.message, expected.value.span)


@each_another()
@seed(2026)
@settings(few, max_examples=5)
@given(short(construct_queries()), st.data())
def test_generated_queries(spark: SparkSession, text: str, data: st.DataObject) -> None:
    """Generated queries that have these constructs, over generated batches with deletions."""
    assert_equal_everywhere(spark, text, data.draw(histories(text, deletions=True, most=2)))
