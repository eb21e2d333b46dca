"""Dates and timestamps on their way from files and foreign DataFrames.

They are read as text, by the language's rules, which are stricter than Spark's. A timestamp of Spark's other kind, a
moment, becomes the fields of the UTC clock.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from mrql.algebra import types as ty
from mrql.algebra.functions.time_text import parsed_date_sql, parsed_timestamp_sql
from mrql.algebra.types import Type
from mrql.runtime.layout import labels, quote, row_columns, sql_type

MALFORMED = "[MALFORMED_TIME]"


def has_times(t: Type) -> bool:
    """Whether a date or a timestamp is anywhere in a type."""
    return any(part in (ty.DATE, ty.TIMESTAMP) for part in ty.walk(t))


def text_type(t: Type) -> str:
    """The Spark type with text for the dates and timestamps in it."""
    return sql_type(t, timestamp="STRING", date="STRING")


def with_times(df: DataFrame, row: Type) -> DataFrame:
    """A DataFrame of text types as one of a row type; a text that is none is an error where it is looked at."""
    if not has_times(row):
        return df
    return df.selectExpr(*(f"{time_of(quote(name), t)} AS {quote(name)}" for name, t in row_columns(row)))


def time_of(value: str, t: Type, depth: int = 0) -> str:
    """A value of a text type as one of the type."""
    if not has_times(t):
        return value
    match t:
        case ty.DATE:
            return parsed_date_sql(value, MALFORMED)
        case ty.TIMESTAMP:
            return parsed_timestamp_sql(value, MALFORMED)
        case ty.BagType(item) | ty.ListType(item):
            return f"transform({value}, t{depth} -> {time_of(f't{depth}', item, depth + 1)})"
        case _:
            made = (f"'{name}', {time_of(f'({value}).{quote(name)}', part, depth)}" for name, part in labels(t))
            return f"if({value} IS NULL, NULL, named_struct({', '.join(made)}))"
