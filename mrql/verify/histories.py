"""Random histories: how the rows of a query's streams arrive, are taken out, and are put back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from random import Random
from typing import TypeAlias

import attrs

from mrql.algebra.values import Value
from mrql.verify.sample import atoms

EMPTY = 0.15
"""How likely a batch is to hold nothing."""


@attrs.frozen(order=True)
class Place:
    """A row of the data, by its stream and its number there. Rows that are equal are told apart."""

    stream: str
    number: int


@attrs.frozen
class Move:
    """A row that comes (+1) or goes (−1)."""

    row: Place
    weight: int


Batch: TypeAlias = tuple[Move, ...]
History: TypeAlias = tuple[Batch, ...]
"""Batches in their order. A row comes and goes in turn, and comes first."""

Data: TypeAlias = Mapping[str, Sequence[Value]]
"""The rows of the streams."""


def held(batches: Iterable[Batch]) -> frozenset[Place]:
    """The rows that are there after some batches."""
    present: set[Place] = set()
    for batch in batches:
        for move in batch:
            (present.add if move.weight > 0 else present.remove)(move.row)
    return frozenset(present)


def deal(data: Data, batches: int, deleting: frozenset[str], random: Random) -> History:
    """A random history of so many batches, after which all of the data is there.

    From the streams in `deleting`, rows are taken out on the way and put back later: some at random, all that share
    some value (so that a key vanishes and returns), or all that there are. Some batches are empty, others bring no
    rows of a stream.
    """
    return _Dealer(data, deleting, random).history(batches)


class _Dealer:
    def __init__(self, data: Data, deleting: frozenset[str], random: Random) -> None:
        self.data = data
        self.deleting = deleting
        self.random = random
        self.waiting = {name: [Place(name, n) for n in range(len(rows))] for name, rows in data.items()}
        self.present: dict[str, list[Place]] = {name: [] for name in data}
        for waiting in self.waiting.values():
            random.shuffle(waiting)

    def history(self, batches: int) -> History:
        return (*(self.batch(left) for left in range(batches, 1, -1)), self.rest())

    def batch(self, left: int) -> Batch:
        """One of `left` batches that are still to come."""
        if self.random.random() < EMPTY:
            return ()
        moves: list[Move] = []
        for name in self.data:
            # Twice the even share at most: batches differ in size, and few rows are left for the last one.
            share = ceil(2 * len(self.waiting[name]) / left)
            moves += self.bring(name, self.random.randint(0, share))
            if name in self.deleting and self.present[name] and self.random.random() < 0.7:
                moves += self.take_out(name)
        return tuple(moves)

    def rest(self) -> Batch:
        """The last batch: all that is not there."""
        return tuple(move for name in self.data for move in self.bring(name, len(self.waiting[name])))

    def bring(self, name: str, count: int) -> list[Move]:
        waiting = self.waiting[name]
        come, self.waiting[name] = waiting[:count], waiting[count:]
        self.present[name] += come
        return [Move(row, 1) for row in come]

    def take_out(self, name: str) -> list[Move]:
        gone = self.chosen(name)
        self.present[name] = [row for row in self.present[name] if row not in gone]
        for row in gone:
            self.waiting[name].insert(self.random.randint(0, len(self.waiting[name])), row)
        return [Move(row, -1) for row in gone]

    def chosen(self, name: str) -> list[Place]:
        """The rows to take out."""
        present = self.present[name]
        kind = self.random.random()
        if kind < 0.1:
            return list(present)
        values = sorted(set(atoms(self.data[name][self.random.choice(present).number])))
        if kind < 0.5 and values:
            value = self.random.choice(values)
            return [row for row in present if value in set(atoms(self.data[name][row.number]))]
        return self.random.sample(present, self.random.randint(1, ceil(len(present) / 3)))
