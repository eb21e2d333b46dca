"""Files of the change data feed of a table, read by Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession

from mrql.algebra.catalog import SourceSpec
from mrql.runtime.sources.formats.change_feed import CHANGE_TYPE, WEIGHTS, with_change_type
from mrql.runtime.spark.expressions.layout import quote
from mrql.runtime.spark.io.csv import TAG
from mrql.runtime.spark.io.parquet import PARQUET
from mrql.runtime.spark.io.spark_format import FAULT, ParsedRows, SparkFormat


def read_change_feed(spark: SparkSession, spec: SourceSpec, paths: list[str], apart: bool) -> ParsedRows:
    """The rows of some files, each with its tag."""
    rows = PARQUET.read(spark, with_change_type(spec), paths, apart)
    signs = " ".join(f"WHEN '{name}' THEN '{'+' if weight > 0 else '-'}'" for name, weight in WEIGHTS.items())
    tag = f"CASE {quote(CHANGE_TYPE)} {signs} ELSE {FAULT} END AS {TAG}"
    return ParsedRows(rows.df, [*rows.columns[:-1], tag])


CHANGE_FEED = SparkFormat(read=read_change_feed, columns=PARQUET.columns, apart=PARQUET.apart)
