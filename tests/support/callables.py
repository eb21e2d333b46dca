"""Callables that the cases of `import` name."""

from __future__ import annotations

import statistics
from datetime import date, datetime, timedelta, timezone
from typing import Any


def median(xs: list[float]) -> float:
    return statistics.median(xs)


def shout(text: str) -> str:
    return text.upper() + "!"


def or_else(x: int | None) -> int:
    return -1 if x is None else x


def digits(n: int) -> list[int]:
    return [int(digit) for digit in str(abs(n))]


def parts(n: int) -> tuple[int, list[tuple[str, bool]]]:
    return n % 10, [(digit, digit == "1") for digit in str(n)]


def swap(r: dict[str, Any]) -> dict[str, Any]:
    return {"A": r["B"], "B": r["A"]}


def wrong(n: int) -> int:
    return n if n < 3 else "three"  # type: ignore[return-value]


def failing(n: int) -> int:
    return 1 // (n - 3)


def too_large(n: int) -> int:
    return 2**62 * n


def tomorrow(day: date) -> date:
    return day + timedelta(days=1)


def in_utc(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=timezone(timedelta(hours=2)))


def nothing(n: int) -> int | None:
    return None if n > 2 else n


def words(line: str) -> list[str]:
    return line.split()


def untyped(x):  # type: ignore[no-untyped-def]
    return x


def of_a_set(xs: set[int]) -> int:
    return len(xs)


not_callable = 3
