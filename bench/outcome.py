"""What came of a benchmark: its table, and whether mrql does what it is held to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isclose

from bench.contender import Answer


class WrongAnswer(Exception):
    """A contender's answer is not that of the others."""


@dataclass(frozen=True)
class Target:
    """Something that was promised, and what came of it."""

    promise: str
    ratio: float
    limit: float

    @property
    def holds(self) -> bool:
        return self.ratio <= self.limit


@dataclass(frozen=True)
class Outcome:
    """The lines of a table, and what mrql is held to."""

    lines: list[str]
    targets: list[Target]

    @property
    def holds(self) -> bool:
        """Whether every promise was kept."""
        return all(target.holds for target in self.targets)


def verdicts(found: Iterable[Target]) -> Iterator[str]:
    """Whether each promise holds."""
    for target in found:
        answer = "holds" if target.holds else "does **not** hold"
        yield f"- {target.promise}: {target.ratio:.2f}, {answer}."


def check(who: str, answer: Answer, expected: Answer, within: float = 1e-9) -> None:
    """Compares two answers, whose numbers may differ by a share of their size.

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
