"""Lines of text, read by Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession

from mrql.algebra.catalog import SourceSpec
from mrql.runtime.spark.io.file_reader import file_reader
from mrql.runtime.spark.io.spark_format import FILE, ParsedRows, SparkFormat


def read_text(spark: SparkSession, spec: SourceSpec, paths: list[str], apart: bool) -> ParsedRows:
    df = file_reader(spark).text(paths).selectExpr("value", FILE)
    return ParsedRows(df, ["value"], "NOT is_valid_utf8(value)", apart)


TEXT = SparkFormat(read=read_text, columns=lambda spec: ["value"])
