"""Numbers whose sums of squares would lose all digits, or leave the range of doubles."""

from __future__ import annotations

import math

HARD: dict[str, list[float]] = {
    "a large offset": [1e9 + x for x in (0.25, 0.5, 1.0, 7.0, 7.0, -3.5)],
    "a larger offset": [1e15 + x for x in (0.125, 0.5, 1.0, 2.0)],
    "an offset that hides nearly all": [1e15, 1e15, 1e15 + 0.125],
    "small numbers": [1e-200, 3e-200, 2e-200],
    "the smallest": [5e-324, 0.0, 1e-323],
    "large numbers": [1e200, -1e200, 3e200],
    "the largest": [1.7e308, -1.7e308, 1e308],
    "both at once": [1e-300, 1e300, 1.0],
    "nothing": [],
    "one": [2.5],
    "all alike": [0.1, 0.1, 0.1],
    "zeros of both signs": [0.0, -0.0],
    "an infinity": [math.inf, 1.0, 2.0],
    "infinities alone": [-math.inf, math.inf],
    "no number": [math.nan, 1.0],
    "thousands": [1e6 + (i * 37 % 1009) / 16 for i in range(2000)],
}
