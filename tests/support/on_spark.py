"""A query on Spark, run once and as a view, compared with the reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Value, close
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from tests.support.histories import Batch


def deltas_of(spark: SparkSession, batch: Batch, types: Mapping[str, Type]) -> dict[str, mrql.Delta]:
    """A batch as the DataFrames that a view takes."""

    def frame(rows: Mapping[str, Sequence[Value]], name: str) -> DataFrame | None:
        return to_dataframe(spark, rows[name], types[name]) if rows.get(name) else None

    names = {*batch.inserted, *batch.deleted}
    return {name: mrql.Delta(frame(batch.inserted, name), frame(batch.deleted, name)) for name in sorted(names)}


def assert_on_spark(spark: SparkSession, text: str, contents: Mapping[str, Bag], types: Mapping[str, Type]) -> None:
    """The answers of both are that of the reference evaluator."""
    query = mrql.compile(text, **types)
    expected = evaluate(query.term, contents)
    read = query.trace().plan.streams
    frames = {name: to_dataframe(spark, rows, types[name]) for name, rows in contents.items() if name in read}
    with query.view(spark) as view:
        found = collect_value(query.batch(spark, **frames), query.type)
        assert close(found, expected), f"batch: {found!r}, not {expected!r}"
        view.apply(**frames)
        found = collect_value(view.answer(), query.type)
        assert close(found, expected), f"view: {found!r}, not {expected!r}"
