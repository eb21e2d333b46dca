"""Lines of JSON, read and written by Spark.

They are read as text and parsed strictly: Spark's own JSON reader takes single quotes, a key twice, and whatever stands
behind the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from pyspark.sql import DataFrame, SparkSession

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.runtime.engine.answer import Output
from mrql.runtime.spark.expressions import json_variant
from mrql.runtime.spark.expressions.layout import label
from mrql.runtime.spark.io.create_dataframe import to_write
from mrql.runtime.spark.io.spark_format import FILE, ParsedRows, SparkFormat

NUMBER = "monotonically_increasing_id() AS mrql_number"
"""A column that Spark may not compute twice: no filter is pushed below it, where it would parse the row again."""


def read_json(spark: SparkSession, spec: SourceSpec, paths: list[str], apart: bool) -> ParsedRows:
    numbers = count()

    def fresh(base: str = "j") -> str:
        return f"{base}_{next(numbers)}"

    lines = spark.read.text(paths).selectExpr("value", FILE).where(r"value RLIKE '[^ \\t]'")
    # Inside an array, what stands behind the value is no JSON, or a second element.
    parsed = "if(is_valid_utf8(value), try_parse_json(concat('[', value, ']')), NULL)"
    arrays = lines.selectExpr("mrql_file", NUMBER, f"{parsed} AS mrql_array")
    faults = ["mrql_array IS NULL", "try_variant_get(mrql_array, '$[1]', 'variant') IS NOT NULL", "mrql_number < 0L"]
    row = "try_variant_get(mrql_array, '$[0]', 'variant')"
    if not isinstance(spec.row, ty.RecordType):
        return ParsedRows(
            arrays.selectExpr("*", f"{json_variant.held(row, spec.row, fresh)} AS value"),
            ["value"],
            _any(faults),
            apart,
        )
    faults.append(f"NOT {json_variant.is_object(row)}")
    parts = [f"{json_variant.member('mrql_array', name, 0)} AS m{i}" for i, name in enumerate(spec.row.names)]
    members = arrays.selectExpr("mrql_file", "mrql_number", f"({_any(faults)}) AS mrql_wrong", *parts)
    held, unfit = [], ["mrql_wrong"]
    for i, (_, t) in enumerate(spec.row.fields):
        held.append(f"{json_variant.held(f'm{i}', t, fresh)} AS {label(i)}")
        test = json_variant.unfit(f"m{i}", t, fresh)
        unfit += [test] if test != "false" else []
    df = members.selectExpr("mrql_file", "mrql_number", f"({_any(unfit)}) AS mrql_unfit", *held)
    return ParsedRows(df, [label(i) for i, _ in enumerate(spec.row.names)], "mrql_unfit", apart)


def _any(faults: Sequence[str]) -> str:
    return " OR ".join(faults)


def columns_of(spec: SourceSpec) -> list[str]:
    """A column for each field of a record, or one for the value."""
    return [label(i) for i, _ in enumerate(spec.row.names)] if isinstance(spec.row, ty.RecordType) else ["value"]


def write_json(df: DataFrame, output: Output, path: str) -> None:
    """An object a line."""
    writer = to_write(df, ty.BagType(ty.RecordType(output.columns))).write.mode("overwrite")
    writer.option("ignoreNullFields", "false").json(path)


JSON = SparkFormat(read=read_json, columns=columns_of, write=write_json)
