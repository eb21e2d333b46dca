"""Values read from files as texts, and parsed by the language's rules, which are stricter than those of Spark: dates
and timestamps, bytes, and decimals, whose surplus digits Spark would round away.
"""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.catalog import TextOptions
from mrql.algebra.functions.binary import base64_sql
from mrql.algebra.functions.number_locales import NumberLocale
from mrql.algebra.functions.sql_text import text_sql
from mrql.algebra.functions.time_parsing import date_sql, timestamp_sql
from mrql.algebra.types import Type
from mrql.algebra.values.atom_text import show_atom
from mrql.algebra.values.decimals import decimal_text
from mrql.runtime.sources.formats.csv_values import NAMED
from mrql.runtime.spark.expressions.layout import sql_type


def is_read_as_text(t: Type) -> bool:
    """Whether values of a basic type are read as texts."""
    return t in (ty.DATE, ty.TIMESTAMP, ty.BYTES) or isinstance(t, ty.DecimalType)


def text_type(t: Type) -> str:
    """The Spark type in which values of a basic type are read."""
    return "STRING" if is_read_as_text(t) else sql_type(t)


def value_of(text: str, t: Type) -> str:
    """The value of a text that was read for a type, null where it has none; a value of another type as it is."""
    match t:
        case ty.DATE:
            return date_sql(text)
        case ty.TIMESTAMP:
            return timestamp_sql(text)
        case ty.BYTES:
            return base64_sql(text)
        case ty.DecimalType():
            return f"if({text} RLIKE '^\\\\s*{decimal_text(t)}\\\\s*\\\\z', CAST({text} AS {sql_type(t)}), NULL)"
        case _:
            return text


def written_value(text: str, t: Type, column: str, texts: TextOptions, encoding: str = "UTF-8") -> str:
    """The value of a text of a column, where `texts` may say how its values are written; `encoding` is the one in which
    the text was read."""
    if texts.numbers is not None and ty.is_numeric(t):
        return _local_number(text, texts.numbers, t, encoding)
    pattern = texts.time_pattern(t, column)
    return value_of(text, t) if pattern is None else pattern.sql(text, sql_type(t), encoding=encoding)


def _local_number(text: str, locale: NumberLocale, t: Type, encoding: str) -> str:
    """The number of a text that is written as in a locale, null where it is none; it was read in an `encoding`."""
    is_fraction = t in ty.FRACTIONS
    regex = text_sql(f"^{locale.regex(encoding, whole=not is_fraction and not isinstance(t, ty.DecimalType))}\\z")
    written = f"regexp_replace({text}, {text_sql(locale.separator(encoding))}, '')"
    written = f"replace({written}, {text_sql(locale.point)}, '.')"
    number = value_of(written, t) if isinstance(t, ty.DecimalType) else f"try_cast({written} AS {sql_type(t)})"
    named = f"try_cast(map({_NAMES})[{text}] AS {sql_type(t)})" if is_fraction else "NULL"
    return f"if({text} RLIKE {regex}, {number}, {named})"


_NAMES = ", ".join(f"'{name}', '{show_atom(value)}'" for name, value in NAMED.items())
