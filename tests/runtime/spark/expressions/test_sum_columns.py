"""Sums of doubles in columns, after insertions and deletions of numbers of all sizes, in any order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from random import Random

import attrs
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from mrql.algebra import functions as fn
from mrql.algebra.functions.side_sums import limbs, magnitude, magnitudes, mantissa
from mrql.runtime.spark.expressions.sum_columns import DOUBLES, TOO_FEW_DIGITS, held

pytestmark = pytest.mark.spark

CASES = 3000
"""The number of cases, which can be large since all are one query."""

HUGE = 2.0**94

huge_magnitude, huge_mantissa = (function.versions[0].apply for function in (fn.HUGE_MAGNITUDE, fn.HUGE_MANTISSA))

EXPONENTS = (
    *((-40, -10), (-10, 10), (0, 60), (60, 95), (85, 100), (90, 400), (900, 1023)),
    *((-1, 1), (93, 95), (200, 210), (-300, 1023)),
)
"""Ranges of exponents of 2 for the numbers of a case."""


@attrs.frozen
class Sum:
    """Numbers that were inserted, and those of them that were deleted."""

    came: tuple[float, ...]
    gone: tuple[float, ...]

    @property
    def left(self) -> list[float]:
        left = [*self.came]
        for number in self.gone:
            left.remove(number)
        return left

    @property
    def exact(self) -> Fraction:
        return sum(map(Fraction, self.left), Fraction())

    @property
    def allowed(self) -> Fraction:
        """The allowed error: 10⁻⁹ of the total size, and what may be left of the parts below 2⁻³²."""
        rest = Fraction(len(self.came) + len(self.gone)) ** 2 * Fraction(2) ** -86
        return sum((abs(Fraction(number)) for number in self.left), Fraction()) / 10**9 + rest


def drawn(random: Random) -> Sum:
    ranges = random.sample(EXPONENTS, random.choice([1, 1, 2, 3]))
    came = tuple(
        random.choice([1, 1, -1]) * random.uniform(1, 2) * 2.0 ** random.uniform(*random.choice(ranges))
        for _ in range(random.randint(1, 12))
    )
    came += tuple(random.choice(came) for _ in range(random.randint(0, 2)))
    of_large = sorted(came, key=abs, reverse=True)
    count = random.randint(0, len(came))
    return Sum(came, tuple(random.choice([of_large, random.sample(came, len(came))])[:count]))


def values(rows: DataFrame, shares: Sequence[str]) -> dict[int, float | None]:
    """The sum of each case `n`, added up as in a state: the rows of each batch, then the batches; None if it is an
    error."""
    columns = {f"v0{column.suffix}": column for column in DOUBLES.columns}
    parts = zip(columns.items(), shares, strict=True)
    batches = (f"{DOUBLES.merged(share, column)} AS {name}" for (name, column), share in parts)
    whole = (f"{DOUBLES.merged(name, column)} AS {name}" for name, column in columns.items())
    merged = rows.groupBy("n", "batch").agg(*map(expr, batches)).groupBy("n").agg(*map(expr, whole))
    there = {name: held(0, column, "true") or "true" for name, column in columns.items()}
    kept = merged.selectExpr("n", *(f"if({there[name]}, {name}, 0) AS {name}" for name in columns))
    value, error = DOUBLES.value([*columns], ""), f"CAST(raise_error('{TOO_FEW_DIGITS}') AS DOUBLE)"
    assert error in value
    return dict(kept.selectExpr("n", f"{value.replace(error, 'CAST(NULL AS DOUBLE)')} AS value").collect())


def test_what_is_left_is_known_or_said_not_to_be(spark: SparkSession) -> None:
    """After deletions a sum is close to the exact one, or an error if too few of its digits are known."""
    random = Random(20)
    sums = [drawn(random) for _ in range(CASES)]
    rows = [
        (n, random.randrange(4), x, w) for n, s in enumerate(sums) for w, xs in ((1, s.came), (-1, s.gone)) for x in xs
    ]
    random.shuffle(rows)
    frame = spark.createDataFrame(rows, "n int, batch int, x double, w bigint").repartition(3)
    found = values(frame, DOUBLES.shares("x", "w"))
    unknown = {n for n in found if found[n] is None}
    for n in found.keys() - unknown:
        exact = sums[n].exact
        if math.isfinite(found[n]):
            assert abs(Fraction(found[n]) - exact) <= sums[n].allowed, (found[n], sums[n])
        else:
            assert abs(exact) > Fraction(1.797e308), sums[n]
    for n in unknown:
        assert sums[n].gone, sums[n]
        assert any(abs(number) >= HUGE for number in sums[n].left), sums[n]
        assert max(map(abs, sums[n].gone)) > 1e4 * max(map(abs, sums[n].left)), sums[n]
    assert len(found) == CASES
    assert 0 < len(unknown) < CASES / 5


def test_sums_of_a_side_are_known_or_said_not_to_be(spark: SparkSession) -> None:
    """The same for numbers of one side of a join, each with some partners on the other; numbers are added up by limbs,
    and huge ones by magnitude."""
    random = Random(21)
    cases, partners, rows = [], [], []
    for n in range(CASES):
        numbers = drawn(random)
        cases.append(numbers)
        most = 10 if any(abs(x) >= HUGE for x in numbers.came) else 3 * 10**9
        partners.append(random.choice([1, 1, 2, 5, most]))
        for w, each in ((1, numbers.came), (-1, numbers.gone)):
            for x in each:
                sums = w * huge_mantissa(x), w, *(w * part for part in attrs.astuple(limbs(x)))
                rows.append((n, random.randrange(4), huge_magnitude(x), partners[n], *sums))
    random.shuffle(rows)
    parts = "m bigint, t bigint, s double, c bigint, r double, p bigint, w bigint, o bigint, f bigint"
    frame = spark.createDataFrame(rows, f"n int, batch int, {parts}").repartition(3)
    sides = frame.groupBy("n", "batch", "m", "t").agg(*(expr(f"sum({name}) AS {name}") for name in "scrpwof"))
    found = values(sides, DOUBLES.totals([*"msctrpwof"]))
    unknown = {n for n in found if found[n] is None}
    for n in found.keys() - unknown:
        exact, allowed = cases[n].exact * partners[n], cases[n].allowed * partners[n]
        if math.isfinite(found[n]):
            assert abs(Fraction(found[n]) - exact) <= allowed, (found[n], partners[n], cases[n])
        else:
            assert abs(exact) > Fraction(1.797e308), (partners[n], cases[n])
    for n in unknown:
        assert cases[n].gone, cases[n]
        assert any(abs(number) >= HUGE for number in cases[n].left), cases[n]
    assert len(found) == CASES
    assert 0 < len(unknown) < CASES / 3


def test_sums_of_products_are_known(spark: SparkSession) -> None:
    """The same for numbers of one side, times one number of the other side, added up by magnitude; without deletions,
    no sum is an error."""
    random = Random(22)
    cases, rows = [], []
    for n in range(CASES):
        b = random.choice([1, -1]) * random.uniform(1, 2) * 2.0 ** random.uniform(*random.choice([(0, 1), (-60, 60)]))
        numbers = drawn(random)
        cases.append(Sum(tuple(b * a for a in numbers.came), ()))
        totals: dict[tuple[int, int], tuple[float, int]] = {}
        for a in numbers.came:
            key = random.randrange(4), magnitudes(magnitude(a), magnitude(b))
            total, count = totals.get(key, (0.0, 0))
            totals[key] = total + mantissa(a), count + 1
        rows += [(n, batch, m, total * mantissa(b), count) for (batch, m), (total, count) in totals.items()]
    random.shuffle(rows)
    frame = spark.createDataFrame(rows, "n int, batch int, m bigint, x double, w bigint").repartition(3)
    found = values(frame, DOUBLES.totals(["m", "x", "w"]))
    assert len(found) == CASES
    for n, value in found.items():
        assert value is not None, cases[n]
        if math.isfinite(value) and all(map(math.isfinite, cases[n].came)):
            assert abs(Fraction(value) - cases[n].exact) <= cases[n].allowed, (value, cases[n])
