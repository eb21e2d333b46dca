"""The result of a benchmark: its table, and whether mrql meets its targets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isclose
from typing import Any

from bench.contender import Answer


class WrongAnswer(Exception):
    """A contender's answer differs from that of the others."""


@dataclass(frozen=True)
class Target:
    """A promised limit of a ratio, with the measured ratio."""

    promise: str
    ratio: float
    limit: float

    @property
    def holds(self) -> bool:
        return self.ratio <= self.limit


@dataclass(frozen=True)
class Outcome:
    """The lines of a table, and the targets of mrql."""

    lines: list[str]
    targets: list[Target]

    @property
    def holds(self) -> bool:
        """Whether every target is met."""
        return all(target.holds for target in self.targets)


def verdicts(found: Iterable[Target]) -> Iterator[str]:
    """One line for each target, which says whether it is met."""
    for target in found:
        answer = "holds" if target.holds else "does **not** hold"
        yield f"- {target.promise}: {target.ratio:.2f}, {answer}."


def check(who: str, answer: Answer, expected: Answer, within: float = 1e-9) -> None:
    """Compares two answers, whose numbers may differ by a relative tolerance.

    Raises: WrongAnswer, naming some of the keys that differ.
    """
    different = answer.keys() ^ expected.keys() or {
        key for key, value in expected.items() if not isclose(answer[key], value, rel_tol=within)
    }
    if different:
        some = ", ".join(
            f"{key}: {answer.get(key)} where {expected.get(key)} was expected" for key in sorted(different)[:3]
        )
        raise WrongAnswer(f"{who}: {len(different)} keys differ ({some})")


WITHIN = 1e-9


def check_rows(name: str, found: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]]) -> None:
    """Compares two answers, as bags of rows, whose numbers may differ within a tolerance.

    Raises: WrongAnswer, with the first rows that differ, or with the numbers of rows if these differ.
    """
    rows, others = (sorted(map(_plain, side), key=repr) for side in (found, expected))
    if len(rows) != len(others):
        raise WrongAnswer(f"{name}: {len(rows)} rows where {len(others)} were expected")
    for row, other in zip(rows, others, strict=True):
        if not all(map(_is_close, row, other)):
            raise WrongAnswer(f"{name}: {row} where {other} was expected")


def _plain(row: Sequence[Any] | Mapping[str, Any]) -> tuple[Any, ...]:
    """A row without types that differ between Spark and mrql: dates and decimals become texts, which are compared
    exactly."""
    return tuple(map(_plain_value, row))


def _plain_value(value: Any) -> Any:
    match value:
        case Decimal():
            digits = f"{value:f}"
            return digits.rstrip("0").rstrip(".") if "." in digits else digits
        case float():
            return round(value, 6)
        case int() | None:
            return value
        case _:
            return str(value)


def _is_close(one: Any, other: Any) -> bool:
    if isinstance(one, float | int) and isinstance(other, float | int):
        return isclose(one, other, rel_tol=WITHIN, abs_tol=1e-6)
    return bool(one == other)
