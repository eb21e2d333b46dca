"""The columns of sums and products, such that only the one that is read may be out of range, not one in between.

Each column merges by an aggregate function, so that the merge of a state stays a union and an aggregation. An addend
is split into a number for each column, and the sum is put together again where it is read:

- a long into its halves (`WIDE`), whose sums are wider than a long: that a sum leaves the range of a long is found when
  it is read, not before;
- a double (`DOUBLES`) into four integers, the multiples of 2⁶⁴, 2³², 1 and 2⁻³² in it, which are added up without
  rounding, and the rest, which is less than 2⁻³². Huge numbers, of 2⁹⁴ and more, are added up with rounding in a column
  of their own, times 2⁻⁵¹², so that no sum of doubles becomes infinite; two more columns hold their number and the
  total size of all that were ever inserted or deleted, so that a sum with too few digits left is an error. Infinities
  are counted, positive ones in the lower half of a long and negative ones in the upper half; NaN counts as both. So
  nothing is left of a number that is deleted;
- a decimal into two parts (`decimal_sums.py`), or as it is where it has few digits.

A product of longs is one column, a decimal (`long_products.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import attrs

from mrql.algebra import types as ty
from mrql.algebra.errors import InternalError
from mrql.algebra.functions import side_sums
from mrql.algebra.monoids import PRODUCT, SUM, Aggregate, Monoid
from mrql.algebra.types import Type
from mrql.rewrite.plan.plan import Component
from mrql.runtime.spark.expressions import decimal_sums, long_products
from mrql.runtime.spark.expressions.aggregates import (
    DOWN,
    HALF_RADIX,
    UP,
    aggregate_sql,
    halves_sql,
    long_sql,
    zero_sql,
)
from mrql.runtime.spark.expressions.layout import sql_type
from mrql.runtime.spark.expressions.literals import place

WORDS, MASK = f"{HALF_RADIX}L", f"{HALF_RADIX - 1}L"

HUGE_MIN_SIZE = f"{side_sums.HUGE_MIN_SIZE!r}D"
"""From this size on doubles are added up with rounding."""

HUGE_MIN_MAGNITUDE = 6
"""The least magnitude of huge products that are added up by magnitude (`side_sums`): smaller ones are below 2⁹⁶."""

OF_EARLIER = 2**20
"""The number of huge numbers that a sum of an earlier version counts as, more than are likely to be deleted."""

ROUNDED_MIN_SIZE = f"{2.0**80!r}D"
"""A lower bound for the size of a number, or a product, that is added up with rounding."""

OF_TOTAL = 4
"""The most roundings in a sum of products by itself."""

TOO_FEW_DIGITS = "[TOO_FEW_DIGITS]"
"""The error that Spark raises for a sum with too few known digits (`session/errors.py`)."""

WITHIN = 1e-9
"""The largest error of a sum, relative to the total size of what is added up."""


@attrs.frozen
class SumColumn:
    """A part of a sum: the suffix of its column after the component's name, and its type."""

    suffix: str
    type: Type
    rounds: bool = False
    """Whether it is added up with rounding, and so is set to 0 where a count says that nothing is in it (`held`)."""
    counted_by: str | None = None
    """The column whose lower half is the number of numbers in it; None for a column of all numbers."""


class Carrier(Protocol):
    """How a sum or a product is kept in columns."""

    @property
    def columns(self) -> tuple[SumColumn, ...]:
        """The columns that it takes."""

    def shares(self, value: str, weight: str | None) -> tuple[str, ...]:
        """What a row adds to each column, as often as its weight says."""

    def merged(self, value: str, column: SumColumn) -> str:
        """The aggregate function that merges what rows add to a column."""

    def totals(self, parts: Sequence[str]) -> tuple[str, ...]:
        """What the sums of the sides of a join add to each column (`Feed.totals`)."""

    def value(self, columns: Sequence[str], at: str) -> str:
        """The sum or product that the columns hold; `at` is its place in the query."""


class Sums:
    """Columns that are added up."""

    def merged(self, value: str, column: SumColumn) -> str:
        return aggregate_sql(SUM, column.type, value, None)


@attrs.frozen
class Wide(Sums):
    """A sum of longs."""

    columns: tuple[SumColumn, ...] = (SumColumn("", ty.LONG), SumColumn("h", ty.LONG))

    def shares(self, value: str, weight: str | None) -> tuple[str, ...]:
        high, low = halves_sql(value)
        return _times((low, high), weight)

    def totals(self, parts: Sequence[str]) -> tuple[str, ...]:
        if len(parts) == 1:
            return self.shares(parts[0], None)
        high, low = parts
        return low, high

    def value(self, columns: Sequence[str], at: str) -> str:
        low, high = (f"coalesce({column}, 0L)" for column in columns)
        return long_sql(high, low, at)


@attrs.frozen
class Doubles(Sums):
    """A sum of doubles: `2⁶⁴ d + 2³² a + b + 2⁻³² c + rest + 2⁵¹² h`.

    With n huge numbers inserted or deleted, of total size 2⁵¹² g, the sum h is known up to n · 2⁻⁵³ · g, which may be
    more than is left. The upper half of `k` is n, the lower half the number of huge numbers that are there.
    """

    columns: tuple[SumColumn, ...] = (
        SumColumn("", ty.DOUBLE, rounds=True),
        SumColumn("d", ty.LONG),
        SumColumn("a", ty.LONG),
        SumColumn("b", ty.LONG),
        SumColumn("c", ty.LONG),
        SumColumn("h", ty.DOUBLE, rounds=True, counted_by="k"),
        SumColumn("g", ty.DOUBLE, rounds=True, counted_by="k"),
        SumColumn("k", ty.LONG, rounds=True, counted_by="k"),
        SumColumn("o", ty.LONG),
    )

    def shares(self, value: str, weight: str | None) -> tuple[str, ...]:
        ordinary, infinite = f"abs({value}) < {HUGE_MIN_SIZE}", f"abs({value}) >= DOUBLE('Infinity')"
        huge = f"NOT ({ordinary} OR {infinite})"
        positive = f"if({value} > 0D, 1L, 0L)"  # as NaN is, in Spark
        negative = f"if({value} < 0D OR {value} = DOUBLE('NaN'), {WORDS}, 0L)"
        times = weight or "1L"
        far, odd = f"if({huge}, {value} * {DOWN}, 0D)", f"if({infinite}, {positive} + {negative}, 0L)"
        *linear, odd = _times((*_limbs(ordinary, value), far, odd), weight)
        gross = f"if({huge}, abs({value}) * {DOWN} * abs({times}), 0D)"
        counts = f"if({huge}, abs({times}) * {WORDS} + {times}, 0L)"
        return *linear, gross, counts, odd

    def totals(self, parts: Sequence[str]) -> tuple[str, ...]:
        if len(parts) == 2:
            words, ones = parts
            return "0D", "0L", words, ones, "0L", "0D", "0D", "0L", "0L"
        magnitude, mantissas, count, *limbed = parts
        if not limbed:
            return *_of_magnitude(magnitude, mantissas), *_huge(magnitude, mantissas, count)
        times, rest, *integers = limbed
        limbs = _carried(*_times(_carried(*integers), times))
        return f"{rest} * {times}", *limbs, *_huge(magnitude, f"({mantissas} * {times})", f"({count} * {times})")

    def value(self, columns: Sequence[str], at: str) -> str:
        rest, *integers, huge, gross, counts, odd = columns
        # Numbers inserted as one total may be deleted one by one: then one limb has more, and another less.
        limbs = _carried(*(f"coalesce({column}, 0L)" for column in integers))
        most, words, ones, fractions = (f"CAST({limb} AS DOUBLE)" for limb in limbs)
        far = f"({most} * {2.0**64!r}D + {words} * {2.0**32!r}D)"
        near = f"({far} + {ones} + ({fractions} * {2.0**-32!r}D + coalesce({rest}, 0D)))"
        ever, now = f"shiftright({counts}, 32)", f"({counts} & {MASK})"
        inexact = f"({ever} * {2.0**-53!r}D * {gross})"
        least = f"greatest(abs({huge}) - {inexact}, {now} * {ROUNDED_MIN_SIZE} * {DOWN})"
        is_known = f"{ever} = {now} OR {inexact} <= {WITHIN!r}D * {least}"
        return (
            f"CASE WHEN coalesce({odd}, 0L) <> 0L THEN"
            f" CASE WHEN ({odd} & {MASK}) = 0L THEN DOUBLE('-Infinity')"
            f" WHEN shiftright({odd}, 32) = 0L THEN DOUBLE('Infinity') ELSE DOUBLE('NaN') END"
            f" WHEN coalesce({now}, 0L) = 0L THEN {near}"
            f" WHEN {is_known} THEN {huge} * {UP} + {near}"
            f" ELSE CAST(raise_error('{at}{TOO_FEW_DIGITS}') AS DOUBLE) END"
        )

    def of_earlier(self, name: str, suffix: str) -> str:
        """The value of a column that a state of an earlier version lacks. The `h` of such a state is the sum of numbers
        of 2⁶² and more. If it is not 0, it counts as many of them, and is used until a huge number is deleted: from
        then on its error is unknown."""
        some = f"coalesce({name}h, 0D) <> 0D"
        return {
            "d": "0L",
            "g": f"if({some}, DOUBLE('Infinity'), 0D)",
            "k": f"if({some}, {OF_EARLIER}L * ({WORDS} + 1L), 0L)",
        }[suffix]


@attrs.frozen
class NarrowDecimals(Sums):
    """A sum of decimals of few digits."""

    type: ty.DecimalType

    @property
    def columns(self) -> tuple[SumColumn, ...]:
        return (SumColumn("", self.type),)

    def shares(self, value: str, weight: str | None) -> tuple[str, ...]:
        share = decimal_sums.times_sql(decimal_sums.narrow_sql(value, self.type), weight)
        return (f"CAST({share} AS {sql_type(self.type)})",)

    def totals(self, parts: Sequence[str]) -> tuple[str, ...]:
        _, last = parts  # there are no digits before the last ones
        return (f"CAST({decimal_sums.of_sides(last, self.type)} AS {sql_type(self.type)})",)

    def value(self, columns: Sequence[str], at: str) -> str:
        return f"coalesce({columns[0]}, CAST(0 AS {sql_type(self.type)}))"


@attrs.frozen
class WideDecimals(Sums):
    """A sum of decimals."""

    type: ty.DecimalType

    @property
    def columns(self) -> tuple[SumColumn, ...]:
        return SumColumn("", self._halves.low_type), SumColumn("h", ty.DecimalType(ty.MAX_PRECISION))

    def shares(self, value: str, weight: str | None) -> tuple[str, ...]:
        parts = zip(self._halves.of(value), self.columns, strict=True)
        return tuple(
            f"CAST({decimal_sums.times_sql(part, weight)} AS {sql_type(column.type)})" for part, column in parts
        )

    def totals(self, parts: Sequence[str]) -> tuple[str, ...]:
        first, last = parts
        return last, first

    def value(self, columns: Sequence[str], at: str) -> str:
        low, high = (f"coalesce({column}, 0BD)" for column in columns)
        return self._halves.value(low, high, at)

    @property
    def _halves(self) -> decimal_sums.Halves:
        return decimal_sums.Halves(self.type)


@attrs.frozen
class LongProducts:
    """A product of longs."""

    columns: tuple[SumColumn, ...] = (SumColumn("", long_products.CARRIER),)

    def shares(self, value: str, weight: str | None) -> tuple[str, ...]:
        return (long_products.power(value, weight),)

    def merged(self, value: str, column: SumColumn) -> str:
        return long_products.over_rows(value, None)

    def totals(self, parts: Sequence[str]) -> tuple[str, ...]:
        raise InternalError("sums", "products are not made of those of sides")

    def value(self, columns: Sequence[str], at: str) -> str:
        return long_products.as_long(long_products.as_carrier(columns[0]), at)


def _of_magnitude(magnitude: str, mantissas: str) -> tuple[str, ...]:
    """The limbs of a sum of numbers of one magnitude, if they are not huge, else zeros."""
    near = f"{mantissas} * {_half(magnitude)} * {_half(magnitude)}"
    return _limbs(f"({magnitude} <> 0L AND {_power(magnitude)} < {HUGE_MIN_MAGNITUDE}L)", f"({near})")


def _huge(magnitude: str, mantissas: str, count: str) -> tuple[str, ...]:
    """The columns for huge and infinite numbers of a magnitude; those below `HUGE_MIN_MAGNITUDE` have limbs."""
    power = _power(magnitude)
    finite = f"({magnitude} <> 0L AND {power} < {side_sums.INFINITE_MIN_MAGNITUDE}L)"
    huge = f"({finite} AND {power} >= {HUGE_MIN_MAGNITUDE}L)"
    far = f"{mantissas} * {_half(magnitude, 256)} * {_half(magnitude, 256)}"
    infinite = f"({magnitude} <> 0L AND {power} >= {side_sums.INFINITE_MIN_MAGNITUDE}L)"
    is_none = f"abs({magnitude}) = {side_sums.NO_NUMBER}L"
    signs = f"(if({magnitude} > 0L, 1L, 0L) + if({magnitude} < 0L OR {is_none}, {WORDS}, 0L))"
    return (
        f"if({huge}, {far}, 0D)",
        f"if({huge}, abs({far}), 0D)",
        f"if({huge}, (abs({count}) + {OF_TOTAL}L) * {WORDS} + {count}, 0L)",
        f"if({infinite}, {count} * {signs}, 0L)",
    )


def _power(magnitude: str) -> str:
    return f"(abs({magnitude}) - {side_sums.ONE}L)"


def _half(magnitude: str, less: int = 0) -> str:
    """The square root of the factor between numbers of a magnitude and their mantissas, divided by 2 to the power of
    `less`; the factor itself may be out of the range of a double."""
    return f"power(2D, {side_sums.MAGNITUDE_BITS // 2}D * {_power(magnitude)} - {less}D)"


def _limbs(ordinary: str, value: str) -> tuple[str, ...]:
    """The limbs of a number, if it is `ordinary`, else zeros."""
    rest, *integers = side_sums.limbs_sql(value)
    return (
        f"if({ordinary}, {rest}, 0D)",
        *(f"if({ordinary}, CAST({integer} AS BIGINT), 0L)" for integer in integers),
    )


def _carried(pairs: str, words: str, ones: str, fractions: str) -> tuple[str, str, str, str]:
    """Limbs of the same number, all but the first of 32 bits: sums of many of them fit in longs, and so does each times
    the number of its partners."""
    half = HALF_RADIX // 2
    carried, kept = f"shiftright({{}} + {half}L, 32)", f"((({{}} + {half}L) & {MASK}) - {half}L)"
    ones = f"({ones} + {carried.format(fractions)})"
    words = f"({words} + {carried.format(ones)})"
    pairs = f"({pairs} + {carried.format(words)})"
    return pairs, kept.format(words), kept.format(ones), kept.format(fractions)


def _times(parts: Sequence[str], weight: str | None) -> tuple[str, ...]:
    return tuple(parts) if weight is None else tuple(f"{part} * {weight}" for part in parts)


WIDE, DOUBLES, LONG_PRODUCTS = Wide(), Doubles(), LongProducts()


def carrier(component: Component) -> Carrier | None:
    """How a component of a state is kept; None where one column holds its value."""
    return carrier_of(component.monoid, component.type, narrow=component.narrow)


def carrier_of(monoid: Monoid, t: Type, *, narrow: bool) -> Carrier | None:
    """How values of a type that merge with a monoid are kept; None where one column holds the value."""
    if monoid == SUM and isinstance(t, ty.DecimalType):
        return NarrowDecimals(t) if narrow else WideDecimals(t)
    if monoid == PRODUCT and t == ty.LONG:
        return LONG_PRODUCTS
    if monoid != SUM or narrow:
        return None
    return DOUBLES if t == ty.DOUBLE else WIDE


def columns(index: int, component: Component) -> dict[str, SumColumn]:
    """The columns of the component with the number `index`, by name."""
    kept = carrier(component)
    own = (SumColumn("", component.type),) if kept is None else kept.columns
    return {f"v{index}{column.suffix}": column for column in own}


def of_earlier(components: Sequence[Component], columns_there: Collection[str]) -> dict[str, str]:
    """The columns of sums that a state of an earlier version lacks, each with its value in SQL."""
    return {
        name: DOUBLES.of_earlier(f"v{i}", column.suffix)
        for i, component in enumerate(components)
        if isinstance(component.monoid, Aggregate) and carrier(component) is DOUBLES
        for name, column in columns(i, component).items()
        if name not in columns_there
    }


def held(index: int, column: SumColumn, support: str) -> str | None:
    """The condition under which a rounded column holds something, None for any other column; `support` is the condition
    under which there are rows behind the component."""
    if not column.rounds:
        return None
    return support if column.counted_by is None else f"(v{index}{column.counted_by} & {MASK}) <> 0L"


def merged(name: str, column: SumColumn, component: Component) -> str:
    """The aggregate function that merges the rows of a column."""
    assert isinstance(component.monoid, Aggregate)
    kept = carrier(component)
    return aggregate_sql(component.monoid, column.type, name, None) if kept is None else kept.merged(name, column)


def read(index: int, component: Component) -> str:
    """The value of a component from its columns, its zero where it has none."""
    assert isinstance(component.monoid, Aggregate)
    kept, names = carrier(component), [*columns(index, component)]
    if kept is None:
        return f"coalesce({names[0]}, {zero_sql(component.monoid, component.type)})"
    return kept.value(names, place(component.span))
