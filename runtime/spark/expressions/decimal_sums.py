"""Exact sums of decimals in SQL: only the sum that is read may be out of range, not one in between.

Spark has no decimals of more than 38 digits: a sum may leave that range although later deletions bring it back, and a
sum or product that may need more digits loses the last ones. So a decimal is added up in two parts, its last 20 digits
and those before them,

    v = h · 10^(20 - s) + l,   |h| < 10¹⁸,   |l| < 10^(20 - s)

each of which has room for a sum of 10¹⁷, and none is rounded. A decimal of 20 digits needs no `h`. Where there are more
digits behind the point than Spark keeps in any case, the integer of the digits is added up instead of the decimal.
"""

from __future__ import annotations

import attrs

from mrql.algebra.functions import LAST_DIGITS, Function
from mrql.algebra.functions.decimals import LOW_DIGITS, last_digits
from mrql.algebra.functions.function import fails
from mrql.algebra.functions.sql_text import let_sql
from mrql.algebra.types import MAX_PRECISION, DecimalType, Type
from mrql.algebra.values.decimals import out_of_range

WEIGHT = MAX_PRECISION - 1 - LOW_DIGITS
"""The most digits of a weight: its product with a low part loses none."""


_PAIR, _L, _H, _C = (f"{name}__v_0" for name in ("pair", "low", "high", "carry"))
_A, _X, _E = (f"{name}__v_0" for name in ("added", "x", "end"))
"""Variables of lambdas, whose bodies read no other variables."""


@attrs.frozen
class Halves:
    """How decimals of a type are added up in two parts."""

    type: DecimalType

    @property
    def scale(self) -> int:
        """The number of digits behind the point in the low parts."""
        return self.low_type.scale

    @property
    def low_type(self) -> DecimalType:
        """The type of the sum of the low parts; that of the high parts is an integer."""
        return last_digits(self.type)

    def of(self, value: str) -> tuple[str, str]:
        """The low and the high part of a value."""
        whole = self._scaled(value)
        rest = whole if self.type.precision <= LOW_DIGITS else f"{whole} % {self._unit}"
        low = f"CAST({rest} AS DECIMAL({LOW_DIGITS}, {self.scale}))"
        return low, f"CAST({whole} div {self._unit} AS DECIMAL({MAX_PRECISION - LOW_DIGITS}, 0))"

    def value(self, low: str, high: str, at: str) -> str:
        """The decimal that sums of low and high parts stand for."""
        unit = self._unit
        rest, carried = f"{low} % {unit}", f"CAST({high} + {low} div {unit} AS DECIMAL(38, 0))"
        # The rest is given the sign of the high part: neither is too large then.
        back = f"CASE WHEN {_H} > 0 AND {_L} < 0 THEN -1 WHEN {_H} < 0 AND {_L} > 0 THEN 1 ELSE 0 END"
        words = f"CAST(({_H} + {_C}) * {unit} AS DECIMAL(38, {self.scale}))"
        whole = f"CAST(({words} + ({_L} - {_C} * {unit})) AS DECIMAL(38, {self.scale}))"
        held = f"abs({_H} + {_C}) < {10 ** (MAX_PRECISION - LOW_DIGITS)}BD"
        wrong = fails(at, out_of_range(self.type))
        made = f"CASE WHEN {held} THEN {self.unscaled(whole)} ELSE {wrong} END"
        inner = let_sql(_L, f"{_PAIR}.l", let_sql(_H, f"{_PAIR}.h", let_sql(_C, back, made)))
        return let_sql(_PAIR, f"named_struct('l', {rest}, 'h', {carried})", inner)

    @property
    def _unit(self) -> str:
        return f"{10 ** (LOW_DIGITS - self.scale)}BD"

    def _scaled(self, value: str) -> str:
        if self.scale == self.type.scale:
            return value
        return f"CAST(replace(CAST({value} AS STRING), '.', '') AS DECIMAL(38, 0))"

    def unscaled(self, whole: str) -> str:
        """The decimal that a number of the low type stands for."""
        if self.scale == self.type.scale:
            return whole
        t = f"DECIMAL(38, {self.type.scale})"
        return f"CAST(concat(CAST({whole} AS STRING), 'E-{self.type.scale}') AS {t})"


def digits_sql(function: Function, value: str, t: Type) -> str:
    """The first digits of a decimal of a type, or the last ones (`algebra/functions/side_sums.py`)."""
    assert isinstance(t, DecimalType)
    low, high = Halves(t).of(value)
    return low if function == LAST_DIGITS else high


def of_sides(last: str, t: DecimalType) -> str:
    """A sum of decimals of few digits, from the sum of their last digits."""
    return Halves(t).unscaled(last)


def times_sql(part: str, weight: str | None) -> str:
    """A part times a weight, if there is one."""
    return part if weight is None else f"{part} * CAST({weight} AS DECIMAL({WEIGHT}, 0))"


def narrow_sql(value: str, t: DecimalType) -> str:
    """A decimal of few digits, in the type in which it is added up."""
    return f"CAST({value} AS DECIMAL({LOW_DIGITS}, {t.scale}))"


def over_rows(value: str, t: DecimalType, weight: str | None, narrow: bool, at: str) -> str:
    """The sum over rows of a value, of the type of the sum, times a weight, if there is one."""
    if narrow:
        return f"CAST(coalesce(sum({times_sql(narrow_sql(value, t), weight)}), 0BD) AS {_sql(t)})"
    halves = Halves(t)
    low, high = halves.of(value)
    return halves.value(_summed(low, weight, halves.scale), _summed(high, weight, 0), at)


def _summed(part: str, weight: str | None, scale: int) -> str:
    return f"CAST(coalesce(sum({times_sql(part, weight)}), 0BD) AS DECIMAL(38, {scale}))"


def of_array(array: str, t: DecimalType, at: str) -> str:
    """The sum of an array of values of the type of the sum."""
    halves = Halves(t)
    low, high = halves.of(_X)
    types = (f"DECIMAL(38, {halves.scale})", "DECIMAL(38, 0)")
    start = f"named_struct('l', CAST(0 AS {types[0]}), 'h', CAST(0 AS {types[1]}))"
    step = f"named_struct('l', CAST({_A}.l + {low} AS {types[0]}), 'h', CAST({_A}.h + {high} AS {types[1]}))"
    value = halves.value(f"{_E}.l", f"{_E}.h", at)
    return f"aggregate({array}, {start}, ({_A}, {_X}) -> {step}, {_E} -> {value})"


def _sql(t: DecimalType) -> str:
    return f"DECIMAL({t.precision}, {t.scale})"
