"""Numbers as text, written as Spark writes them."""

from __future__ import annotations

import math
from decimal import Decimal

from mrql.algebra.values import Value


def show_atom(value: Value) -> str:
    """An atomic value as a string, written as Spark's `cast(… as string)` does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _show_double(value)
    return str(value)


def _show_double(x: float) -> str:
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
