"""A part of the data that is small enough for the reference evaluator, and still has rows that belong together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from mrql.algebra.values.values import Bag, Canonical, Record, Value, canonical

TRIED_MAX_TIMES = 8
"""How often a row that shares a value is looked for before any row will do."""


class Sampler:
    """Draws samples of some collections.

    Rows that have a value in common with one that is taken already are preferred: rows that are chosen at random from
    two large streams would hardly ever join, or be in one group.
    """

    def __init__(self, data: Mapping[str, Sequence[Value]], most: int) -> None:
        self.data = data
        self.wanted = {name: min(most, len(rows)) for name, rows in data.items()}
        self.having: dict[str, dict[Canonical, list[int]]] = {name: {} for name in data}
        """By collection, the rows that have a value; needed only where not all rows are taken."""
        if not self.complete:
            for name, rows in data.items():
                for number, row in enumerate(rows):
                    for atom in set(atoms(row)):
                        self.having[name].setdefault(atom, []).append(number)

    @property
    def complete(self) -> bool:
        """Whether a sample is all of the data."""
        return all(self.wanted[name] == len(rows) for name, rows in self.data.items())

    def draw(self, random: Random) -> dict[str, list[Value]]:
        """At most as many rows of each collection as are wanted."""
        if self.complete:
            return {name: list(rows) for name, rows in self.data.items()}
        return _Sample(self, random).rows()


def atoms(row: Value) -> Iterator[Canonical]:
    """The numbers and strings in a row, inner bags and lists included."""
    match row:
        case None | bool():
            return
        case Record():
            for part in row.fields.values():
                yield from atoms(part)
        case tuple() | list() | Bag():
            for part in row:
                yield from atoms(part)
        case _:
            yield canonical(row)


class _Sample:
    """One sample, while it is drawn."""

    def __init__(self, sampler: Sampler, random: Random) -> None:
        self.sampler = sampler
        self.random = random
        self.left = {name: list(range(len(rows))) for name, rows in sampler.data.items()}
        self.taken: dict[str, set[int]] = {name: set() for name in sampler.data}
        self.reached: list[Canonical] = []
        """The values in the rows that are taken."""
        for numbers in self.left.values():
            random.shuffle(numbers)

    def rows(self) -> dict[str, list[Value]]:
        wanted = self.sampler.wanted
        while unfilled := [name for name, taken in self.taken.items() if len(taken) < wanted[name]]:
            name = self.random.choice(unfilled)
            number = self.linked(name)
            self.take(name, self.any(name) if number is None else number)
        return {name: [self.sampler.data[name][n] for n in sorted(taken)] for name, taken in self.taken.items()}

    def take(self, name: str, number: int) -> None:
        self.taken[name].add(number)
        self.reached += sorted(set(atoms(self.sampler.data[name][number])))

    def linked(self, name: str) -> int | None:
        """A row that is not taken yet and has a value of one that is; None when a few tries find none."""
        if not self.reached or self.random.random() < 0.2:
            return None
        for _ in range(TRIED_MAX_TIMES):
            found = self.sampler.having[name].get(self.random.choice(self.reached), ())
            number = self.random.choice(found) if found else None
            if number is not None and number not in self.taken[name]:
                return number
        return None

    def any(self, name: str) -> int:
        left = self.left[name]
        while left[-1] in self.taken[name]:
            left.pop()
        return left.pop()
