"""Dates and timestamps on their way from files: texts, read by the language's rules, which are stricter than those of
Spark.
"""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.functions.time_parsing import date_sql, timestamp_sql
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions.layout import sql_type


def is_time(t: Type) -> bool:
    """Whether a type is that of dates or of timestamps."""
    return t in (ty.DATE, ty.TIMESTAMP)


def text_type(t: Type) -> str:
    """The Spark type with text for the dates and timestamps in it."""
    return sql_type(t, timestamp="STRING", date="STRING")


def time_of(text: str, t: Type) -> str:
    """A text as a date or timestamp, missing where it is none; a value of another type as it is."""
    match t:
        case ty.DATE:
            return date_sql(text)
        case ty.TIMESTAMP:
            return timestamp_sql(text)
        case _:
            return text
