"""Answers as files, written by Spark: the same lines as those of the reference engine."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from mrql.algebra import types as ty
from mrql.algebra.catalog import LINE_BREAK, ONLY_MISSING, Format
from mrql.algebra.span import Span
from mrql.algebra.types import Type
from mrql.runtime.sinks.row_format import row_columns
from mrql.runtime.spark.expressions.casts import canonical, converted
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.layout import Atom, labels, quote, to_sql
from mrql.runtime.spark.expressions.literals import place
from mrql.runtime.spark.io.answer_rows import rows_alone
from mrql.runtime.spark.io.create_dataframe import to_write
from mrql.runtime.spark.io.paths import path_to_write
from mrql.runtime.spark.session.session import AS_WRITTEN, settings


def write_frame(df: DataFrame, format: Format, item: Type, directory: Path, span: Span | None) -> None:
    """Writes the rows of an answer to a directory; what an earlier attempt has left there is replaced."""
    with settings(df.sparkSession, AS_WRITTEN):
        if format is Format.JSON:
            writer = to_write(df, ty.BagType(item)).write.mode("overwrite")
            writer.option("ignoreNullFields", "false").json(path_to_write(df.sparkSession, directory))
        elif format is Format.PARQUET:
            df.write.mode("overwrite").parquet(path_to_write(df.sparkSession, directory))
        else:
            at = "" if span is None else place(span)
            df.selectExpr(f"{csv_line(df.columns, item, at)} AS line").write.mode("overwrite").text(
                path_to_write(df.sparkSession, directory)
            )


def csv_line(columns: list[str], item: Type, at: str) -> str:
    """A row as a line: strings in quotes, so that one without characters is not taken for a missing one."""
    match item:
        case ty.TupleType(items):
            types = items
        case ty.RecordType(parts):
            types = tuple(t for _, t in parts)
        case _:
            types = (item,)
    fields = []
    for column, t in zip(map(quote, columns), types, strict=True):
        if t == ty.STRING:
            broken = f"raise_error('{at}{LINE_BREAK}')"
            escaped = f"concat('\"', replace({column}, '\"', '\"\"'), '\"')"
            text = f"CASE WHEN {column} RLIKE '[\\\\r\\\\n]' THEN {broken} ELSE {escaped} END"
        else:
            text = converted(column, t, ty.STRING, "")
        missing = f"raise_error('{at}{ONLY_MISSING}')" if len(columns) == 1 else "''"
        fields.append(f"coalesce({text}, {missing})")
    return f"concat_ws(',', {', '.join(fields)})"


WEIGHT = "mrql_weight"


def write_copy(df: DataFrame, item: Type, directory: Path, *, changes: bool) -> None:
    """Writes rows as PostgreSQL's COPY takes them: csv, with the weight of a row as the last field.

    The bags in a value are sorted, so that equal values are equal texts.
    """
    with settings(df.sparkSession, AS_WRITTEN):
        df = rows_alone(df, item, weighted=changes)
        item = ty.TupleType(tuple(t for _, t in row_columns(item)))  # what they are called has no place in the lines
        columns, expressions = labels(item), Expressions()
        values = [f"{to_sql(canonical(expressions, Atom(quote(n), t)))} AS {quote(n)}" for n, t in columns]
        df = df.toDF(*(name for name, _ in columns), *([WEIGHT] if changes else []))
        in_order = df.selectExpr(*values, WEIGHT if changes else f"1L AS {WEIGHT}")
        fields = [_copied(quote(name), t) for name, t in columns]
        line = f"concat_ws(',', {', '.join(fields)}, CAST({WEIGHT} AS STRING))"
        written = to_write(in_order, ty.BagType(item)).selectExpr(f"{line} AS line")
        written.write.mode("overwrite").text(path_to_write(df.sparkSession, directory))


def _copied(column: str, t: Type) -> str:
    """A value as a field; a missing one has no quotes, the empty string has."""
    if t == ty.STRING:
        text = column
    elif (isinstance(t, ty.Basic | ty.Nothing) and not ty.is_document(t)) or t in (ty.UNIT, ty.RecordType(())):
        plain = converted(column, t, ty.STRING, "")
        return f"coalesce({plain}, '')"
    else:
        text = f"to_json({column}, map('ignoreNullFields', 'false'))"
    return f"coalesce(concat('\"', replace({text}, '\"', '\"\"'), '\"'), '')"
