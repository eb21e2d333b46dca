"""Functions of all numbers of a collection at once: quantiles, variances and correlations, and the most frequent value.

They are functions of a bag, whose elements are sorted first, so that their values do not depend on the order in which
rows arrived, and a batch can exactly undo the effect of an earlier one. Missing values do not count.

No sums of squares are kept for them. `Σx² − (Σx)²/n` loses twice as many digits as the mean has more than the
deviation: for `1e9 + 1` and `1e9 + 2` none are left. Instead, values are computed from the deviations from the middle
element `c`, which lies within one standard deviation of the mean, in units of the largest deviation, `r`:

    Σ(x − μ)² = r² · (Σy² − (Σy)²/n),   y = (x − c) / r

so that the difference loses one bit at most, and no square overflows or underflows on the way. The reference computes
with fractions, and rounds once.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any

from mrql.algebra.functions.function import Function, Sql, version
from mrql.algebra.functions.sql_text import let_sql
from mrql.algebra.values.values import Bag, Value, canonical

# --- in Python --------------------------------------------------------------------------------------------------------


def _there(bag: Bag) -> list[Any]:
    """The elements that are not missing, in ascending order."""
    return sorted((x for x in bag if x is not None), key=canonical)


def _pairs(bag: Bag) -> list[tuple[float, float]]:
    """The pairs without a missing part."""
    return [pair for pair in _there(bag) if None not in pair]


def _percentile(bag: Bag, part: float) -> float | None:
    numbers: list[float] = _there(bag)
    if not numbers:
        return None
    position = part * (len(numbers) - 1)
    low, high = math.floor(position), math.ceil(position)
    a, b = numbers[low], numbers[high]
    return a if a == b else (high - position) * a + (position - low) * b


def _spread(of: Callable[[list[float]], float], least: int) -> Callable[[Bag], float | None]:
    """A variance or a standard deviation; missing for fewer than `least` numbers."""

    def value(bag: Bag) -> float | None:
        numbers = _there(bag)
        if len(numbers) < least:
            return None
        if not all(map(math.isfinite, numbers)):
            return math.nan
        try:
            return of(numbers)
        except OverflowError:
            return math.inf

    return value


def _covariance(taken: int) -> Callable[[Bag], float | None]:
    """A covariance; its divisor is the number of pairs less `taken`."""

    def value(bag: Bag) -> float | None:
        pairs = _pairs(bag)
        if len(pairs) <= taken:
            return None
        if not all(math.isfinite(x) for pair in pairs for x in pair):
            return math.nan
        return _rounded(_products(pairs, 0, 1) / (len(pairs) - taken))

    return value


def _correlation(bag: Bag) -> float | None:
    pairs = _pairs(bag)
    if len(pairs) < 2:
        return None
    if not all(math.isfinite(x) for pair in pairs for x in pair):
        return math.nan
    of_both, of_x, of_y = _products(pairs, 0, 1), _products(pairs, 0, 0), _products(pairs, 1, 1)
    if not (of_x and of_y):
        return None
    size = math.sqrt(of_both * of_both / (of_x * of_y))
    return -size if of_both < 0 else size


def _products(pairs: Sequence[tuple[float, float]], i: int, j: int) -> Fraction:
    """`Σ(aᵢ − μᵢ)(aⱼ − μⱼ)`."""
    xs, ys = ([Fraction(pair[k]) for pair in pairs] for k in (i, j))
    products = sum((x * y for x, y in zip(xs, ys, strict=True)), Fraction())
    return products - sum(xs, Fraction()) * sum(ys, Fraction()) / len(pairs)


def _rounded(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _mode(bag: Bag) -> Value:
    """The most frequent element; of several, the least, since `max` takes the first."""
    runs = [list(run) for _, run in groupby(_there(bag), key=canonical)]
    return max(runs, key=len)[0] if runs else None


# --- in SQL -----------------------------------------------------------------------------------------------------------

_INFINITE = "DOUBLE('Infinity')"


def _sorted_sql(array: str, there: str = "x IS NOT NULL") -> str:
    return f"sort_array(filter({array}, x -> {there}))"


def _percentile_sql(numbers: str, part: str, at: str) -> str:
    low, high = "xs[CAST(floor(at) AS INT)]", "xs[CAST(ceil(at) AS INT)]"
    between = f"if({low} = {high}, {low}, (ceil(at) - at) * {low} + (at - floor(at)) * {high})"
    position = f"CAST({part} AS DOUBLE) * (size(xs) - 1)"
    return let_sql("xs", _sorted_sql(numbers), f"CASE WHEN size(xs) > 0 THEN {let_sql('at', position, between)} END")


def _deviations(numbers: str) -> str:
    """The middle `c`, the factor `k` and the unit `r` of sorted numbers, for `y = (x · k − c) / r`; and whether all of
    them are finite, or the same.

    Where the unit would overflow, all numbers are scaled by a quarter.
    """
    first, last, middle = "n[0]", "n[size(n) - 1]", "n[CAST(size(n) DIV 2 AS INT)]"
    finite = f"{first} > -{_INFINITE} AND {last} < {_INFINITE}"
    factor = f"if({last} - {first} < {_INFINITE}, 1D, 0.25D)"
    unit = f"if({last} = {first}, 1D, greatest({last} * k - {middle} * k, {middle} * k - {first} * k))"
    parts = f"named_struct('c', {middle} * k, 'k', k, 'r', {unit}, 'finite', {finite}, 'same', {last} = {first})"
    return let_sql("n", numbers, let_sql("k", factor, parts))


def _variance_sql(least: int, result: str) -> Sql:
    """The SQL of a variance; `result` is an expression of the variance `q` in units, and of the deviations `d`."""

    def sql(numbers: str, at: str) -> str:
        step = "named_struct('s', m.s + y, 'q', m.q + y * y)"
        spread = f"(m.q - m.s * m.s / size(xs)) / (size(xs) - {least - 1})"
        deviations = "transform(xs, x -> (x * d.k - d.c) / d.r)"
        in_units = f"aggregate({deviations}, named_struct('s', 0D, 'q', 0D), (m, y) -> {step}, m -> {spread})"
        some = (
            f"CASE WHEN NOT d.finite THEN DOUBLE('NaN') WHEN d.same THEN 0D ELSE {let_sql('q', in_units, result)} END"
        )
        return let_sql(
            "xs",
            _sorted_sql(numbers),
            f"CASE WHEN size(xs) >= {least} THEN {let_sql('d', _deviations('xs'), some)} END",
        )

    return sql


def _pairs_sql(least: int, without: str, result: str) -> Sql:
    """The SQL of a function of pairs; `result` is an expression of the sums `m` over pairs in units, and of the
    deviations `d` and `e` of the two sides. If one side has no spread, the value is `without`."""

    def sql(pairs: str, at: str) -> str:
        start = f"named_struct({', '.join(f'{name!r}, 0D' for name in ('s', 't', 'ss', 'tt', 'st'))})"
        step = (
            "named_struct('s', m.s + y.s, 't', m.t + y.t, 'ss', m.ss + y.s * y.s, 'tt', m.tt + y.t * y.t,"
            " 'st', m.st + y.s * y.t)"
        )
        units = "named_struct('s', (p._1 * d.k - d.c) / d.r, 't', (p._2 * e.k - e.c) / e.r)"
        sums = f"aggregate(transform(ps, p -> {units}), {start}, (m, y) -> {step}, m -> {result})"
        odd = f"WHEN NOT (d.finite AND e.finite) THEN DOUBLE('NaN') WHEN d.same OR e.same THEN {without}"
        some = f"CASE {odd} ELSE {sums} END"
        left, right = "transform(ps, p -> p._1)", "sort_array(transform(ps, p -> p._2))"
        deviations = (_deviations(side) for side in (left, right))
        both = let_sql("d", next(deviations), let_sql("e", next(deviations), some))
        there = "x._1 IS NOT NULL AND x._2 IS NOT NULL"
        return let_sql("ps", _sorted_sql(pairs, there), f"CASE WHEN size(ps) >= {least} THEN {both} END")

    return sql


def _covariance_sql(taken: int) -> Sql:
    in_units = f"(m.st - m.s * m.t / size(ps)) / (size(ps) - {taken})"
    return _pairs_sql(taken + 1, "0D", f"{in_units} * greatest(d.r, e.r) * least(d.r, e.r) / d.k / e.k")


_SIDES = "(m.ss - m.s * m.s / size(ps)) * (m.tt - m.t * m.t / size(ps))"
_CORRELATION_SQL = _pairs_sql(2, "NULL", f"greatest(-1D, least(1D, (m.st - m.s * m.t / size(ps)) / sqrt({_SIDES})))")


def _mode_sql(items: str, at: str) -> str:
    """The element of the first longest run of equal elements: `b` is that of the best run so far, `c` that of the
    current run."""
    times = "if(s.c <=> x, s.m + 1L, 1L)"
    step = f"named_struct('b', if({times} > s.n, x, s.b), 'n', greatest({times}, s.n), 'c', x, 'm', {times})"
    start = "named_struct('b', try_element_at(xs, 1), 'n', 0L, 'c', try_element_at(xs, 1), 'm', 0L)"
    return let_sql("xs", _sorted_sql(items), f"aggregate(xs, {start}, (s, x) -> {step}, s -> s.b)")


# --- the table --------------------------------------------------------------------------------------------------------

_NUMBERS, _PAIRS = "{double} -> double", "{(double, double)} -> double"
_VARIANCE, _DEVIATION = "q * d.r * d.r / d.k / d.k", "sqrt(q) * d.r / d.k"

PERCENTILE = Function(
    "percentile",
    (version("{double}, double -> double", _percentile, _percentile_sql),),
    "a bag of numbers and a part between 0 and 1",
    constants=(1,),
)
VARIANCE = Function(
    "variance",
    (version(_NUMBERS, _spread(statistics.variance, 2), _variance_sql(2, _VARIANCE)),),
    "a bag of numbers",
)
VARIANCE_POP = Function(
    "variance_pop",
    (version(_NUMBERS, _spread(statistics.pvariance, 1), _variance_sql(1, _VARIANCE)),),
    "a bag of numbers",
)
STDDEV = Function(
    "stddev",
    (version(_NUMBERS, _spread(statistics.stdev, 2), _variance_sql(2, _DEVIATION)),),
    "a bag of numbers",
)
STDDEV_POP = Function(
    "stddev_pop",
    (version(_NUMBERS, _spread(statistics.pstdev, 1), _variance_sql(1, _DEVIATION)),),
    "a bag of numbers",
)
COVAR = Function("covar", (version(_PAIRS, _covariance(1), _covariance_sql(1)),), "a bag of pairs of numbers")
COVAR_POP = Function("covar_pop", (version(_PAIRS, _covariance(0), _covariance_sql(0)),), "a bag of pairs of numbers")
CORR = Function("corr", (version(_PAIRS, _correlation, _CORRELATION_SQL),), "a bag of pairs of numbers")
MODE = Function("mode", (version("{o} -> o", _mode, _mode_sql),), "a bag of ordered values")

STATISTICS: tuple[Function, ...] = (
    PERCENTILE,
    VARIANCE,
    VARIANCE_POP,
    STDDEV,
    STDDEV_POP,
    COVAR,
    COVAR_POP,
    CORR,
    MODE,
)
