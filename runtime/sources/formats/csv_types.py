"""Of which types the columns of CSV are, by the fields of the first records.

A type is taken where nothing of a field is lost by it: `007` stays a text, and so does a number of more digits than a
`long` has. A column without values is of texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mrql.algebra import types as ty
from mrql.algebra.catalog import AS_USUAL, TextOptions
from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions import INT_RANGES, convert
from mrql.algebra.types import Type

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_FRACTION = re.compile(r"-?((?:0|[1-9][0-9]*)\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NAMED = ("NaN", "Infinity", "-Infinity")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}.*")
DOUBLE_MAX_DIGITS = 17
"""A number with a fraction has no more digits than that, or a double would not hold it."""


def column_types(
    records: Iterable[Sequence[tuple[str, bool]]], names: Sequence[str], options: TextOptions = AS_USUAL
) -> list[Type]:
    """The types of columns of such names, by records of as many fields or more; an empty field in quotes is a text.

    >>> rows = [[("1", False), ("2024-01-01", False), ("", False)], [("2.5", True), ("", False), ("", False)]]
    >>> [str(t) for t in column_types(rows, ["a", "b", "c"])]
    ['double', 'date', 'string']
    """
    found: list[Type] = [ty.NOTHING] * len(names)
    for fields in records:
        for place, (name, (field, quoted)) in enumerate(zip(names, fields, strict=False)):
            if field or quoted:
                found[place] = joined_column(found[place], field_type(field, options, name), options, name)
    return [ty.STRING if t == ty.NOTHING else t for t in found]


def wider_type(known: Type, field: str, column: str, options: TextOptions) -> Type:
    """The type of a column of a type that a field does not fit.

    >>> print(wider_type(ty.LONG, "0.5", "a", AS_USUAL), wider_type(ty.LONG, "x", "a", AS_USUAL))
    double string
    """
    both = joined_column(known, field_type(field, options, column), options, column)
    return ty.STRING if both == known else both


def joined_column(a: Type, b: Type, options: TextOptions, column: str) -> Type:
    """The type of the fields of both; where a pattern is given, a date is not written as a timestamp is."""
    has_pattern = any(options.time_format(t, column) is not None for t in (ty.DATE, ty.TIMESTAMP))
    if has_pattern and {a, b} == {ty.DATE, ty.TIMESTAMP}:
        return ty.STRING
    return ty.join_types(a, b) or ty.STRING


def field_type(field: str, options: TextOptions = AS_USUAL, column: str = "") -> Type:
    """The type that a field of a column has by itself.

    >>> [str(field_type(text)) for text in ("7", "007", "1e3", "true", "2024-02-30", "2024-01-01 10:00", "9" * 20)]
    ['long', 'string', 'double', 'bool', 'string', 'timestamp', 'string']
    """
    number = _number_in(field, options)
    if _WHOLE.fullmatch(number):
        low, high = INT_RANGES[ty.LONG]
        return ty.LONG if low <= int(number) <= high else ty.STRING
    if field.lower() in ("true", "false"):
        return ty.BOOL
    if _is_fraction(number):
        return ty.DOUBLE
    for usual, t in ((_DAY, ty.DATE), (_MOMENT, ty.TIMESTAMP)):
        pattern = options.time_pattern(t, column)
        written = pattern.canonical(field) if pattern is not None else field if usual.fullmatch(field) else None
        if written is not None and _is_value(written, t):
            return t
    return ty.STRING


def _number_in(field: str, options: TextOptions) -> str:
    """A field as a number would be written without a locale; empty where it is none."""
    if options.numbers is None or field in _NAMED:
        return field
    return options.numbers.canonical(field) or ""


def _is_fraction(field: str) -> bool:
    """Whether a field is a number with a fraction, or an exponent, that a double holds."""
    number = _FRACTION.fullmatch(field)
    if number is None:
        return field in _NAMED
    has_more = len(number[1]) < len(field.lstrip("-")) or "." in field
    return has_more and len(number[1].replace(".", "").lstrip("0")) <= DOUBLE_MAX_DIGITS


def _is_value(field: str, t: Type) -> bool:
    try:
        return convert(field, t) is not None
    except EvaluationError:
        return False
