"""Rows as PostgreSQL's COPY takes them, written by Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.runtime.engine.answer import Output
from mrql.runtime.engine.row_format import row_columns
from mrql.runtime.spark.expressions.casts import canonical, converted, numbered
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.layout import Atom, labels, quote, to_sql
from mrql.runtime.spark.expressions.number_text import json_text
from mrql.runtime.spark.io.create_dataframe import to_write

WEIGHT = "mrql_weight"


def write_copy(df: DataFrame, output: Output, path: str) -> None:
    """CSV, with the weight of a row as the last field.

    The bags in a value are sorted, so that equal values are equal texts.
    """
    item = ty.TupleType(tuple(t for _, t in row_columns(output.item)))  # the lines have no names
    columns, expressions = labels(item), Expressions()
    values = [f"{to_sql(canonical(expressions, Atom(quote(n), t)))} AS {quote(n)}" for n, t in columns]
    df = df.toDF(*(name for name, _ in columns), *([WEIGHT] if output.changes else []))
    in_order = df.selectExpr(*values, WEIGHT if output.changes else f"1L AS {WEIGHT}")
    fields = [_copied(quote(name), t) for name, t in columns]
    line = f"concat_ws(',', {', '.join(fields)}, CAST({WEIGHT} AS STRING))"
    written = to_write(in_order, ty.BagType(item)).selectExpr(f"{line} AS line")
    written.write.mode("overwrite").text(path)


def _copied(column: str, t: Type) -> str:
    """A value as a field; a missing one has no quotes, the empty string has."""
    if t == ty.STRING:
        text = column
    elif t == ty.BYTES:
        return f"coalesce(concat('\\\\x', lower(hex({column}))), '')"
    elif (isinstance(t, ty.Basic | ty.Nothing) and not ty.is_document(t)) or t in (ty.UNIT, ty.RecordType(())):
        plain = converted(column, t, ty.STRING, "")
        return f"coalesce({plain}, '')"
    else:
        text = json_text(f"to_json({column}, map('ignoreNullFields', 'false'))", numbered("c"))
    return f"coalesce(concat('\"', replace({text}, '\"', '\"\"'), '\"'), '')"
