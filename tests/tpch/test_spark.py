"""TPC-H on Spark compared with DuckDB: once over all data, and as streams with insertions and deletions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Value, same
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from queries.tpch.generate import Batch, Row, history
from tests.tpch.cases import FIXED, NAMES, Case, case, expected, net

pytestmark = pytest.mark.spark

STREAMED = ("q03", "q20")
"""The queries that are run over six batches. In the reference engine all queries are, and on Spark, over ten, those of
`make soak`."""


@cache
def arriving(batches: int, seed: int = 7) -> tuple[tuple[Batch, ...], tuple[dict[str, Value], ...]]:
    """Batches with some four hundred line items in all, and the answers in SQL after each of them."""
    arrived = history(100, seed, batches)
    return tuple(arrived), tuple(map(expected, net(arrived)))


def frame(spark: SparkSession, wanted: Case, table: str, rows: Sequence[Row]) -> DataFrame:
    return to_dataframe(spark, wanted.values(table, rows), wanted.sources[table].type)


def deltas(spark: SparkSession, wanted: Case, batch: Batch) -> dict[str, mrql.Delta]:
    """A batch as the DataFrames that a view takes."""

    def changed(rows: Mapping[str, Sequence[Row]], table: str) -> DataFrame | None:
        return frame(spark, wanted, table, rows[table]) if rows.get(table) else None

    return {
        table: mrql.Delta(changed(batch.inserted, table), changed(batch.deleted, table)) for table in wanted.streams
    }


@pytest.mark.parametrize("name", NAMES)
def test_batch(spark: SparkSession, name: str) -> None:
    """Evaluated once, a query has the answer of its SQL."""
    wanted = case(name)
    batches, answers = arriving(3)
    *_, contents = net(batches)
    frames = {table: frame(spark, wanted, table, contents[table]) for table in wanted.sources}
    found = collect_value(wanted.query.batch(spark, **frames), wanted.query.type)
    assert same(found, answers[-1][name]), f"{show_value(found)}, not {show_value(answers[-1][name])}"


@pytest.mark.wide(keep=2)
@pytest.mark.parametrize("name", STREAMED)
def test_stream(spark: SparkSession, name: str) -> None:
    """After each batch of insertions and deletions the answer is that of SQL over the rows that are left."""
    follow(spark, name, *arriving(6))


def follow(spark: SparkSession, name: str, batches: Sequence[Batch], in_sql: Sequence[Mapping[str, Value]]) -> None:
    """Keeps a query up to date, and compares each answer with that of SQL."""
    wanted = case(name)
    fixed = {table: frame(spark, wanted, table, FIXED[table]) for table in wanted.fixed}
    with wanted.query.view(spark, **fixed) as view:
        for number, (batch, answers) in enumerate(zip(batches, in_sql, strict=True)):
            view.apply(**deltas(spark, wanted, batch))
            found = collect_value(view.answer(), wanted.query.type)
            assert same(found, answers[name]), f"batch {number}: {show_value(found)}, not {show_value(answers[name])}"
