"""Elements of XML, read by Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.values.json_text import quoted
from mrql.runtime.spark.expressions.layout import text_sql
from mrql.runtime.spark.io.spark_format import ParsedRows, SparkFormat


def read_xml(spark: SparkSession, spec: SourceSpec, paths: list[str], apart: bool) -> ParsedRows:
    """Well-formed files only: Spark's reader ends at a fault without a word about what stands behind it."""
    whole: DataFrame | None = None
    for tag in spec.tags:
        options = {
            "rowTag": tag,
            "singleVariantColumn": "v",
            "inferSchema": "false",  # 007 is a text
            "attributePrefix": "@",
            "valueTag": "#text",
            "mode": "FAILFAST",
        }
        elements = spark.read.format("xml").options(**options).load(paths)
        named = elements.selectExpr(f"concat({text_sql(f'{{{quoted(tag)}:')}, to_json(v), '}}') AS value")
        whole = named if whole is None else whole.union(named)
    assert whole is not None
    return ParsedRows(whole, ["value"])


XML = SparkFormat(read=read_xml, columns=lambda spec: ["value"])
