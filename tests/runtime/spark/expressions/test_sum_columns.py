"""Sums of doubles in columns: what is left when numbers of all sizes have come and gone, in any order."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import attrs
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from mrql.runtime.spark.expressions.sum_columns import DOUBLES, TOO_FEW_DIGITS, held

pytestmark = pytest.mark.spark

CASES = 3000
"""All of them are one query, so that there can be many."""

HUGE = 2.0**94

EXPONENTS = (
    *((-40, -10), (-10, 10), (0, 60), (60, 95), (85, 100), (90, 400), (900, 1023)),
    *((-1, 1), (93, 95), (200, 210), (-300, 1023)),
)
"""Powers of two between which the numbers of a case are."""


@attrs.frozen
class Sum:
    """Numbers that have come, and those of them that have gone."""

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
        """10⁻⁹ of the sizes, and what may be left of parts below 2⁻³²."""
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


def test_what_is_left_is_known_or_said_not_to_be(spark: SparkSession) -> None:
    """Of generated numbers, added up as a state is: by rows, by batches, and all of them."""
    random = Random(20)
    sums = [drawn(random) for _ in range(CASES)]
    rows = [
        (n, random.randrange(4), x, w) for n, s in enumerate(sums) for w, xs in ((1, s.came), (-1, s.gone)) for x in xs
    ]
    random.shuffle(rows)
    frame = spark.createDataFrame(rows, "n int, batch int, x double, w bigint").repartition(3)
    columns = {f"v0{column.suffix}": column for column in DOUBLES.columns}
    shares = zip(columns.items(), DOUBLES.shares("x", "w"), strict=True)
    by_batch = frame.groupBy("n", "batch").agg(
        *map(expr, (f"{DOUBLES.merged(share, column)} AS {name}" for (name, column), share in shares))
    )
    merged = [f"{DOUBLES.merged(name, column)} AS {name}" for name, column in columns.items()]
    whole = by_batch.groupBy("n").agg(*map(expr, merged))
    conditions = {name: held(0, column, "true") for name, column in columns.items()}
    kept = whole.selectExpr("n", *(f"if({conditions[c] or 'true'}, {c}, 0) AS {c}" for c in columns))
    value, error = DOUBLES.value([*columns], ""), f"CAST(raise_error('{TOO_FEW_DIGITS}') AS DOUBLE)"
    assert error in value
    found = dict(kept.selectExpr("n", f"{value.replace(error, 'CAST(NULL AS DOUBLE)')} AS value").collect())
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
