"""Atomic values as text, written as Spark writes them."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal

from mrql.algebra.values import Value


def show_atom(value: Value) -> str:
    """An atomic value as a string, written as Spark's `cast(… as string)` does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return show_double(value)
    if isinstance(value, datetime):
        return show_timestamp(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def unsigned(x: float) -> float:
    """The number, and 0.0 for −0.0: the two are equal, and which of them a group has is a matter of chance. So no
    function and no output tells them apart."""
    return x + 0.0


def show_timestamp(value: datetime) -> str:
    """`2026-01-31 10:00:00`, with as many digits of the second's fraction as it has."""
    whole = f"{value.year:04d}-{value.month:02d}-{value.day:02d} {value.hour:02d}:{value.minute:02d}:{value.second:02d}"
    fraction = f"{value.microsecond:06d}".rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def show_double(x: float) -> str:
    """A double as text: the shortest that reads back. −0.0 equals 0.0, and has its text."""
    x = unsigned(x)
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "Infinity" if x > 0 else "-Infinity"
    if x == 0 or 1e-3 <= abs(x) < 1e7:
        text = format(Decimal(repr(x)), "f")
        return text if "." in text else text + ".0"
    digits, exponent = format(Decimal(repr(x)), "E").split("E")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"
