"""CSV fields as values of the types of their columns."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from fractions import Fraction

from mrql.algebra import types as ty
from mrql.algebra.catalog import AS_USUAL, TextOptions
from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions import INT_RANGES, convert, single_from_text, to_single
from mrql.algebra.functions.number_locales import NumberLocale
from mrql.algebra.types import Type
from mrql.algebra.values.atom_conversion import from_base64
from mrql.algebra.values.file_names import is_odd
from mrql.algebra.values.values import Value
from mrql.algebra.values.xml_elements import BLANKS
from mrql.runtime.files.compression import NOT_UTF8

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[dDfF]?")
_AS_EVER = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.*")
"""A text written as dates are without a pattern, even if there is no such date."""
_PATTERNED = re.compile(r".*[0-9][^0-9]+[0-9].*|[0-9]{8}")
"""A text that may be a date in some pattern."""
PATTERNS = {ty.DATE: 'dateFormat("dd.MM.yyyy")', ty.TIMESTAMP: 'timestampFormat("dd.MM.yyyy HH:mm")'}
"""An example of the option that says how dates are written."""
NAMED = {"NaN": math.nan, "Inf": math.inf, "-Inf": -math.inf}
NAMED |= {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf, "+NaN": math.nan, "-NaN": math.nan}
"""The texts of NaN and of the infinities."""


class UnfitField(ValueError):
    """A field that is not a value of its column's type, with a hint at an option that the source may lack."""

    def __init__(self, reason: str, hint: str | None, field: str, column: str) -> None:
        super().__init__(reason)
        self.hint, self.field, self.column = hint, field, column


def is_missing(field: str, options: TextOptions) -> bool:
    """Whether a field without quotes stands for a missing value."""
    return field == "" or field in options.null_values


def value_of(field: str, t: Type, column: str, options: TextOptions = AS_USUAL) -> Value:
    """A field as a value of its column's type.

    Raises: UnfitField where it is not one.
    """
    if t == ty.STRING:
        if is_odd(field):
            raise UnfitField(f"{NOT_UTF8} (column {column})", None, field, column)
        return field
    found: Value = None
    with suppress(EvaluationError):
        if t == ty.BOOL:
            found = {"true": True, "false": False}.get(field.lower())
        elif t in (ty.DATE, ty.TIMESTAMP):
            written = options.usual_text(field, t, column)
            found = None if written is None else convert(written, t)
        elif t == ty.BYTES:
            found = from_base64(field)
        else:
            found = _number_of(field, t) if options.numbers is None else _local_number_of(field, t, options.numbers)
    if found is None:
        how = f", written as {given}" if (given := options.way_of(t, column)) is not None else ""
        reason = f'"{field}" is not a value of type {t}{how} (column {column})'
        raise UnfitField(reason, _time_hint(field, t, column, options), field, column)
    return found


def _time_hint(field: str, t: Type, column: str, options: TextOptions) -> str | None:
    """The hint for a date or timestamp that is not written as without a pattern, and may need one."""
    if t not in PATTERNS or options.time_pattern(t, column) is not None:
        return None
    if _AS_EVER.fullmatch(field) or not _PATTERNED.fullmatch(field):
        return None
    return f"an option says how it is written: `{PATTERNS[t]}`, for example"


def _number_of(field: str, t: Type) -> Value:
    """A field as a number; None if it is not one of type `t`."""
    if t in INT_RANGES and _INTEGER.fullmatch(field):
        low, high = INT_RANGES[t]
        return int(field) if len(field.lstrip("+-0")) < 30 and low <= int(field) <= high else None
    if t in ty.FRACTIONS:
        return _fraction_of(field, t)
    return convert(field, t) if isinstance(t, ty.DecimalType) else None


def _fraction_of(field: str, t: Type) -> Value:
    """A field as a float or a double. Blanks around it, which it has in quotes only, do not count, as in Java."""
    text = field.strip(BLANKS)
    if number := _NUMBER.fullmatch(text):
        return single_from_text(number[1]) if t == ty.FLOAT else float(number[1])
    if _HEXADECIMAL.fullmatch(text):
        return _from_hexadecimal(text, t)
    # These two names are not Java's.
    return NAMED.get(field if text in ("Inf", "-Inf") else text)


def _local_number_of(field: str, t: Type, locale: NumberLocale) -> Value:
    """A field as a number written in a locale; NaN and infinities are written as without one."""
    written = locale.canonical(field)
    if written is not None:
        return _number_of(written, t)
    return NAMED.get(field) if t in ty.FRACTIONS else None


def _from_hexadecimal(field: str, t: Type) -> float:
    """A hexadecimal number, as Java reads it: one too large is infinite. A letter after the exponent is ignored."""
    digits = field.rstrip("dDfF")
    try:
        double = float.fromhex(digits)
    except OverflowError:
        return float("-inf" if digits.startswith("-") else "inf")
    if t == ty.DOUBLE or not double:
        return double
    mantissa, exponent = digits[digits.lower().index("x") + 1 :].lower().split("p")
    whole, _, fraction = mantissa.partition(".")
    size = Fraction(int(whole + fraction, 16)) * Fraction(2) ** (int(exponent) - 4 * len(fraction))
    return to_single(-size if digits.startswith("-") else size)
