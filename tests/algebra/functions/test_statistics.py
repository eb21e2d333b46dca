"""Statistics against their definitions, in fractions."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction

import pytest

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.functions import Function
from mrql.algebra.values.values import Bag, Value
from tests.support.number_lists import HARD

FINITE = {name: numbers for name, numbers in HARD.items() if all(map(math.isfinite, numbers))}


def value(function: Function, items: list[Value]) -> Value:
    item = ty.TupleType((ty.DOUBLE, ty.DOUBLE)) if function in (fn.COVAR, fn.COVAR_POP, fn.CORR) else ty.DOUBLE
    return fn.apply(function, [Bag(items)], [ty.BagType(item)], ty.DOUBLE)


def squares(numbers: list[float]) -> Fraction:
    """The sum of the squared deviations from the mean."""
    exact = list(map(Fraction, numbers))
    mean = sum(exact, Fraction()) / len(exact)
    return sum(((x - mean) ** 2 for x in exact), Fraction())


def as_double(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


@pytest.mark.parametrize("numbers", FINITE.values(), ids=FINITE)
def test_variances(numbers: list[float]) -> None:
    """Variances are those of the definition, rounded once."""
    n = len(numbers)
    expected = as_double(squares(numbers) / (n - 1)) if n > 1 else None
    assert value(fn.VARIANCE, numbers) == expected
    assert value(fn.VARIANCE_POP, numbers) == (as_double(squares(numbers) / n) if n else None)


@pytest.mark.parametrize("numbers", FINITE.values(), ids=FINITE)
def test_deviations(numbers: list[float]) -> None:
    """The squares of the deviations are the variances, even if these are outside the range of doubles."""
    for function, taken in ((fn.STDDEV, 1), (fn.STDDEV_POP, 0)):
        if len(numbers) > taken:
            found = value(function, numbers)
            variance = squares(numbers) / (len(numbers) - taken)
            assert (
                found == math.inf or abs(Fraction(found) ** 2 - variance) <= variance / 10**15 + Fraction(5e-324) ** 2
            )


@pytest.mark.parametrize("name", ["an infinity", "infinities alone", "no number"])
def test_no_numbers(name: str) -> None:
    """The variance and the deviation are NaN if a number is not finite."""
    found = [value(f, HARD[name]) for f in (fn.VARIANCE, fn.STDDEV_POP)]
    assert all(map(math.isnan, found))


def test_correlations() -> None:
    """Covariances and correlations are those of Python's `statistics`, for numbers that are easy for it."""
    xs, ys = [1.0, 2.0, 4.0, 7.0], [3.0, -1.0, 5.0, 5.5]
    pairs: list[Value] = list(zip(xs, ys, strict=True))
    assert value(fn.COVAR, pairs) == statistics.covariance(xs, ys)
    assert math.isclose(value(fn.CORR, pairs), statistics.correlation(xs, ys), rel_tol=1e-15)
    hard: list[Value] = [(1e9 + x, y * 1e-200) for x, y in zip(xs, ys, strict=True)]
    assert math.isclose(value(fn.CORR, hard), statistics.correlation(xs, ys), rel_tol=1e-15)


def test_percentiles_between() -> None:
    """A percentile between two equal numbers is that number."""
    percentile = fn.PERCENTILE.versions[0].apply
    assert percentile(Bag([0.1, 0.1, 0.3]), 0.3) == 0.1
    assert percentile(Bag([math.inf, -math.inf]), 0.0) == -math.inf
