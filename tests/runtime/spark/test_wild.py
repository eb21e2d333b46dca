"""Queries on Spark over unusual values (`tests.support.wild`), against the reference evaluator."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.values.values import Value
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.session.errors import translated
from mrql.verify.rounding import Rounding
from tests.runtime.spark.test_equivalence import few
from tests.support.construct_queries import construct_queries
from tests.support.generated import each_another, short
from tests.support.histories import Batch
from tests.support.on_spark import deltas_of
from tests.support.queries import STREAMS, Tables, histories, queries, streams_of, tables
from tests.support.shown_rows import in_columns
from tests.support.sum_queries import sum_queries
from tests.support.wild import KINDS, Oracle, follow, overflows_without_need

pytestmark = pytest.mark.spark


def assert_follows_wild(
    spark: SparkSession, text: str, arriving: list[Batch], static: Tables, wild: str, *, deletions: bool
) -> None:
    """The answer after each batch is the query's; if it has none, the batch is refused without effect, or reading
    fails."""
    query = mrql.compile(text, **STREAMS)
    streams = [name for name in streams_of(text) if name not in static]
    frames = {name: to_dataframe(spark, [*rows], STREAMS[name]) for name, rows in static.items()}
    with query.view(spark, insert_only=not deletions, **frames) as view:

        def answer() -> Value:
            with translated(None):
                return collect_value(view.answer(), query.type)

        follow(
            lambda batch: view.apply(**deltas_of(spark, batch, STREAMS)),
            answer,
            Oracle.of(query.term, static, streams, lambda value: in_columns(value, query.type)),
            arriving,
            Rounding.of(query.trace().plan),
            may_overflow=overflows_without_need(text, wild, gone=deletions),
        )


@each_another()
@seed(2026)
@settings(few, max_examples=26)
@given(short(queries() | construct_queries() | sum_queries()), st.sampled_from(sorted(KINDS)), st.booleans(), st.data())
def test_wild_values(spark: SparkSession, text: str, wild: str, deletions: bool, data: st.DataObject) -> None:
    assume(streams_of(text))
    static = data.draw(tables(text, wild=wild))
    history = data.draw(histories(text, tables=static, wild=wild, deletions=deletions, fewest=2, most=2, largest=3))
    assert_follows_wild(spark, text, history, static, wild, deletions=deletions)
