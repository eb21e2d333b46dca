"""Running aggregates over a list of pairs `(row, value)`, as Catalyst expressions of `n log n` steps.

Spark has no expression for the intermediate results of a reduction, and to append them to an array takes `n²` steps. So
they are found in `log n` rounds: in each, every value is merged with the one `d` places before it, and then `d` is
doubled. Any associative merge will do; it need not commute.

A sum is kept in parts, as elsewhere: some rounds add up rows that do not begin with the first, and these sums must not
leave a range that the sums from the first row on do not leave.

*Source*: W. D. Hillis, G. L. Steele: Data parallel algorithms, CACM 29 (1986), "computing all partial sums".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from mrql.algebra import types as ty
from mrql.algebra.functions.decimals import COUNT, average_of_many, sum_of_many
from mrql.algebra.functions.function import Function
from mrql.algebra.functions.running import RUNNING_AVG, RUNNING_MAX, RUNNING_MIN, RUNNING_SUM, beside
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions.aggregates import UP, halves_sql, long_sql, sizes_sql
from mrql.runtime.spark.expressions.canonical_order import Fresh, let
from mrql.runtime.spark.expressions.decimal_sums import Halves
from mrql.runtime.spark.expressions.layout import sql_type


@attrs.frozen
class PrefixScan:
    """A running aggregate in SQL: the unit of a value, the merge of two units or of a window, and the value read from a
    unit."""

    unit: Callable[[str], str]
    merge: Callable[[str, str], str]
    over: Callable[[str, str], str]
    value: Callable[[str], str]


def running_sql(function: Function, t: Type, pairs: str, fresh: Fresh, at: str) -> str:
    """A running function over a list of pairs of this type."""
    return _scanned(_SCANS[function.name](beside(t), at), pairs, fresh)


def running_over_sql(
    function: Function, pairs: Type, value: str, window: str, at: str
) -> tuple[str, Callable[[str], str]]:
    """A running function over a window of Spark: the merged parts, and how the result is read from them."""
    scan = _SCANS[function.name](beside(pairs), at)
    return scan.over(value, window), scan.value


def _scanned(scan: PrefixScan, pairs: str, fresh: Fresh) -> str:
    p, k, i, v, so_far = (fresh(name) for name in ("p", "k", "i", "v", "a"))

    def over(rows: str) -> str:
        units = f"transform({rows}, {p} -> {scan.unit(f'{p}._2')})"
        distances = f"filter(transform(sequence(0, 30), {k} -> shiftleft(1, {k})), {k} -> {k} < size({rows}))"
        taken_in = f"if({i} < {k}, {v}, {scan.merge(f'get({so_far}, {i} - {k})', v)})"
        found = f"aggregate({distances}, {units}, ({so_far}, {k}) -> transform({so_far}, ({v}, {i}) -> {taken_in}))"
        return let(fresh, found, lambda all_of: _beside(rows, all_of))

    def _beside(rows: str, found: str) -> str:
        value = scan.value(f"get({found}, {i})")
        return f"transform({rows}, ({p}, {i}) -> named_struct('_1', {p}._1, '_2', {value}))"

    return let(fresh, pairs, over)


def _in_parts(units: Mapping[str, str], types: Mapping[str, str], value: Callable[[str], str]) -> PrefixScan:
    """A scan by sums of several parts, each of them SQL over `{x}`."""

    def unit(x: str) -> str:
        return _struct({name: f"CAST({part.format(x=x)} AS {types[name]})" for name, part in units.items()})

    def merge(a: str, b: str) -> str:
        return _struct({name: f"CAST({a}.{name} + {b}.{name} AS {types[name]})" for name in units})

    def over(x: str, window: str) -> str:
        parts = {name: f"sum(CAST({part.format(x=x)} AS {types[name]})) {window}" for name, part in units.items()}
        return _struct({name: f"CAST({total} AS {types[name]})" for name, total in parts.items()})

    return PrefixScan(unit, merge, over, value)


def _struct(parts: Mapping[str, str]) -> str:
    return f"named_struct({', '.join(f'{name!r}, {part}' for name, part in parts.items())})"


_COUNTED, _COUNTS = {"c": "if({x} IS NULL, 0L, 1L)"}, {"c": "BIGINT"}


def _sum(t: Type, at: str) -> PrefixScan:
    if isinstance(t, ty.DecimalType):
        return _in_parts(*_decimal_parts(t), lambda c: _decimal_sum(t, c, at))
    if t == ty.DOUBLE:
        return _in_parts(*_double_parts(), _double_sum)
    high, low = halves_sql("coalesce(CAST({x} AS BIGINT), 0L)")  # a value that is always missing has no type
    return _in_parts({"h": high, "l": low}, {"h": "BIGINT", "l": "BIGINT"}, lambda c: long_sql(f"{c}.h", f"{c}.l", at))


def _average(t: Type, at: str) -> PrefixScan:
    decimal = t if isinstance(t, ty.DecimalType) else None
    units, types = _double_parts() if decimal is None else _decimal_parts(decimal)

    def value(c: str) -> str:
        if decimal is None:
            return f"({_double_sum(c)} / nullif({c}.c, 0L))"
        count = f"nullif(CAST({c}.c AS {sql_type(COUNT)}), 0)"
        return f"CAST({_decimal_sum(decimal, c, at)} / {at}{count} AS {sql_type(average_of_many(decimal))})"

    return _in_parts({**units, **_COUNTED}, {**types, **_COUNTS}, value)


def _double_parts() -> tuple[dict[str, str], dict[str, str]]:
    near, far = sizes_sql("coalesce({x}, 0D)")
    return {"n": near, "f": far}, {"n": "DOUBLE", "f": "DOUBLE"}


def _double_sum(c: str) -> str:
    return f"({c}.n + {c}.f * {UP})"


def _decimal_parts(t: ty.DecimalType) -> tuple[dict[str, str], dict[str, str]]:
    halves = Halves(t)
    low, high = halves.of(f"coalesce({{x}}, CAST(0 AS {sql_type(t)}))")
    return {"l": low, "h": high}, {"l": sql_type(halves.low_type), "h": sql_type(ty.DecimalType(38))}


def _decimal_sum(t: ty.DecimalType, c: str, at: str) -> str:
    return f"CAST({Halves(t).value(f'{c}.l', f'{c}.h', at)} AS {sql_type(sum_of_many(t))})"


def _extreme(better: str, best: str) -> Callable[[Type, str], PrefixScan]:
    """A running minimum or maximum: `least`, `greatest`, `min` and `max` skip nulls."""
    scan = PrefixScan(lambda x: x, lambda a, b: f"{better}({a}, {b})", lambda x, w: f"{best}({x}) {w}", lambda c: c)
    return lambda t, at: scan


_SCANS: Mapping[str, Callable[[Type, str], PrefixScan]] = {
    RUNNING_SUM.name: _sum,
    RUNNING_AVG.name: _average,
    RUNNING_MIN.name: _extreme("least", "min"),
    RUNNING_MAX.name: _extreme("greatest", "max"),
}
