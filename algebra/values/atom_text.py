"""Atomic values as text, written as Spark writes them."""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from datetime import date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from mrql.algebra.values.values import Value


def show_atom(value: Value) -> str:
    """An atomic value as a string, written as Spark's `cast(… as string)` does; bytes as base64, as in Spark's JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return show_double(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return show_timestamp(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value.isoformat() if isinstance(value, date) else str(value)


def unsigned(x: float) -> float:
    """The number, with 0.0 for −0.0: the two are equal, and which of them a group has is arbitrary. So no function and
    no output distinguishes them."""
    return x + 0.0


def show_timestamp(value: datetime) -> str:
    """`2026-01-31 10:00:00`, with the second's fraction less its trailing zeros."""
    whole = f"{value.year:04d}-{value.month:02d}-{value.day:02d} {value.hour:02d}:{value.minute:02d}:{value.second:02d}"
    fraction = f"{value.microsecond:06d}".rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def show_double(x: float) -> str:
    """A double as text: the shortest that reads back as it, with a digit behind the point; of several, the nearest.

    −0.0 equals 0.0, and has its text. Otherwise this is the text of Java 19 and later.
    """
    two = f"{x:.1e}"
    return _written(x, Decimal(two if float(two) == x else repr(x)) if math.isfinite(x) else Decimal())


def show_single(x: float) -> str:
    """A 32-bit float as text, likewise."""
    return _written(x, single_digits(x, 2) if math.isfinite(x) else Decimal())


def single_digits(x: float, least: int = 1) -> Decimal:
    """The shortest decimal, of at least `least` digits, that rounds to the 32-bit float; of several, the nearest.

    >>> single_digits(0.10000000149011612)
    Decimal('0.1')
    """
    exact = Decimal(x)
    for digits in range(least, 10):
        nearest = Context(digits, ROUND_HALF_EVEN).plus(exact)
        # Floats are denser below a power of two than above it: the decimal on the other side may be the only one.
        other = Context(digits, ROUND_CEILING if nearest < exact else ROUND_FLOOR).plus(exact)
        for decimal in (nearest, other):
            if to_single(decimal) == x:
                return decimal
    return exact


def to_single(x: float | Decimal | Fraction) -> float:
    """The nearest 32-bit float to a number: rounded once, also where the number is no double.

    >>> to_single(2**54 + 2**30 + 1) == 2.0**54 + 2.0**31
    True
    """
    double = _to_odd(x)
    try:
        return float(struct.unpack("f", struct.pack("f", double))[0])
    except OverflowError:
        return math.copysign(math.inf, double)


def single_from_text(digits: str) -> float:
    """The nearest 32-bit float to a number that is written as Python and Java both read it."""
    double = float(digits)
    return to_single(Decimal(digits) if double and math.isfinite(double) else double)


def _to_odd(x: float | Decimal | Fraction) -> float:
    """The number if it is a double; otherwise the one of the two doubles around it whose last bit is odd.

    The midpoint of two floats has an even last bit, so a number beside it is not mistaken for the midpoint.

    Source: Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008: double rounding and rounding to odd.
    """
    double = float(x)
    if isinstance(x, float) or double == x or not math.isfinite(double):
        return double
    is_odd = struct.unpack("q", struct.pack("d", double))[0] & 1
    return double if is_odd else math.nextafter(double, math.inf if x > double else -math.inf)


def _written(x: float, decimal: Decimal) -> str:
    """A number as Java writes it, given its decimal if it is finite."""
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "Infinity" if x > 0 else "-Infinity"
    if x == 0:
        return "0.0"
    if 1e-3 <= abs(x) < 1e7:
        text = format(decimal, "f")
        text = text.rstrip("0") if "." in text else text
        return text + "0" if text.endswith(".") else text if "." in text else text + ".0"
    digits, exponent = format(decimal, "E").split("E")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"
