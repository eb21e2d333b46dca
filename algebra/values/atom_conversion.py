"""Conversions of atoms to other types, and of texts to atoms.

int, long, float, double     to each other; a value that is not finite, or out of range, is an error for an integer type
decimal(p, s)                from and to these; rounded to s digits from its decimal text, halves away from zero
date, timestamp              a date becomes the timestamp at its start, a timestamp the date that it is on
string                       from any atomic type, and to it if the text is one of its values
binary                       a string becomes its UTF-8; bytes that are not UTF-8 are an error
"""

from __future__ import annotations

import binascii
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal

from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError, IntegerOverflow
from mrql.algebra.types import Type
from mrql.algebra.values.atom_text import show_atom, single_from_text, to_single, unsigned
from mrql.algebra.values.decimals import from_text, of_type, out_of_range
from mrql.algebra.values.values import Value

INT_RANGES = {ty.INT: (-(2**31), 2**31 - 1), ty.LONG: (-(2**63), 2**63 - 1)}

NOT_A_TEXT = "these bytes are no UTF-8"

BLANKS = " \t\n\x0b\f\r"
# Written so that Java and Python read them alike.
INTEGER_TEXT = r"[+-]?[0-9]+"
NUMBER_TEXT = r"[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|(?i:inf|infinity))|(?i:nan)"
DATE_TEXT = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME_TEXT = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?"
ZONE_HOUR_TEXT = "(?:[01][0-7]|0[89])"
ZONE_TEXT = rf"(Z|[+-]{ZONE_HOUR_TEXT}:[0-5][0-9])"
TIMESTAMP_TEXT = rf"{DATE_TEXT}([ T]{TIME_TEXT}{ZONE_TEXT}?)?"


def check_range(value: int, t: Type) -> int:
    """The value, when the integer type holds it.

    Raises: EvaluationError on overflow.
    """
    low, high = INT_RANGES[t]  # type: ignore[index]
    if not low <= value <= high:
        raise IntegerOverflow
    return value


def convert_atom(value: Value, t: ty.Basic) -> Value:
    """A present atom, widened or cast to type `t`.

    Raises: EvaluationError when the value has no counterpart in `t`.
    """
    if t == ty.STRING:
        return _text_of_bytes(value) if isinstance(value, bytes) else show_atom(value)
    if t == ty.BYTES:
        return value.encode() if isinstance(value, str) else value
    if isinstance(value, str):
        return parse_atom(value, t)
    if isinstance(t, ty.DecimalType):
        return _to_decimal(value, t)
    if t == ty.BOOL:
        return bool(value)
    if t == ty.DATE:
        return value.date() if isinstance(value, datetime) else value
    if t == ty.TIMESTAMP:
        return value if isinstance(value, datetime) else datetime.combine(value, time())
    if ty.is_integral(t):
        return _to_integer(value, t)
    if t == ty.FLOAT:
        return unsigned(to_single(value))
    return unsigned(value if isinstance(value, float) else float(value))  # a measured one stays measured


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise EvaluationError(NOT_A_TEXT) from None


def _to_decimal(value: Value, t: ty.DecimalType) -> Value:
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            raise EvaluationError(out_of_range(t))
        return of_type(Decimal(repr(float(value))), t)
    return of_type(value, t)


def _to_integer(value: Value, t: ty.Basic) -> int:
    if isinstance(value, float) and not math.isfinite(value):
        raise EvaluationError(f"{show_atom(value)} is no whole number")
    return check_range(int(value), t)


def parse_atom(text: str, t: ty.Basic) -> Value:
    """The value of a text; blanks around it are ignored. Bytes are written in base64, without blanks.

    Raises: EvaluationError if it is not a value of the type.
    """
    value = from_base64(text) if t == ty.BYTES else _parsed(text.strip(BLANKS), t)
    if value is None:
        raise EvaluationError(f'"{text}" is not a value of type {t}')
    return value


def _parsed(text: str, t: ty.Basic) -> Value:
    if isinstance(t, ty.DecimalType):
        return from_text(text, t)
    if t == ty.BOOL:
        return {"true": True, "false": False}.get(text.lower())
    if t in INT_RANGES and re.fullmatch(INTEGER_TEXT, text):
        low, high = INT_RANGES[t]
        number = int(text) if len(text.lstrip("+-0")) < 100 else high + 1
        return number if low <= number <= high else None
    if t in ty.FRACTIONS and re.fullmatch(NUMBER_TEXT, text):
        return single_from_text(text) if t == ty.FLOAT else float(text)
    if t == ty.DATE and re.fullmatch(DATE_TEXT, text):
        return _of_calendar(date.fromisoformat, text)
    if t == ty.TIMESTAMP and re.fullmatch(TIMESTAMP_TEXT, text):
        return _of_calendar(_timestamp, text)
    return None


def from_base64(text: str) -> bytes | None:
    """The bytes of a text in canonical, padded base64; None if it is not.

    >>> from_base64("AP8="), from_base64("AP9="), from_base64("AP8")
    (b'\\x00\\xff', None, None)
    """
    try:
        found = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return found if b64encode(found).decode() == text else None


def _of_calendar(read: Callable[[str], date], text: str) -> Value:
    try:
        return read(text)
    except (ValueError, OverflowError):
        return None


def _timestamp(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
