"""Random histories: how the rows of a query's streams arrive, are deleted, and are inserted again."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from random import Random
from typing import TypeAlias

import attrs

from mrql.algebra.row_key import RowKey
from mrql.algebra.values.values import Canonical, Value, canonical
from mrql.verify.sample import atoms

EMPTY = 0.15
"""The probability that a batch is empty."""

EMPTIED = ("fill", "some large ones go", "large ones go", "clear", "small ones come")
"""The batches, in order, of a history in which streams are emptied."""


@attrs.frozen(order=True)
class RowPlace:
    """A row of the data, by its stream and its number there. Equal rows have different numbers."""

    stream: str
    number: int


@attrs.frozen
class Move:
    """The insertion (+1) or deletion (−1) of a row."""

    row: RowPlace
    weight: int


NOTHING = 1e-12
"""A number is negligible beside another if it is smaller than this part of that."""

(NUMBER, *_) = canonical(0.0)

Batch: TypeAlias = tuple[Move, ...]
History: TypeAlias = tuple[Batch, ...]
"""Batches in their order. Each row is inserted and deleted in turn, inserted first."""

Data: TypeAlias = Mapping[str, Sequence[Value]]
"""The rows of the streams."""


KeyOf: TypeAlias = Callable[[RowPlace], Canonical | None]
"""The key of a row in a stream whose rows replace each other, None in any other."""


def keys_of(data: Data, keyed: Mapping[str, RowKey]) -> KeyOf:
    """The keys of the rows of some data."""

    def key_of(row: RowPlace) -> Canonical | None:
        if row.stream not in keyed:
            return None
        return canonical(keyed[row.stream].of(data[row.stream][row.number]))

    return key_of


def held(batches: Iterable[Batch], key_of: KeyOf = lambda row: None) -> frozenset[RowPlace]:
    """The rows that are present after some batches. With a key, an insertion replaces the row of its key, and a
    deletion removes that row, if there is one."""
    present: dict[Hashable, RowPlace] = {}
    for batch in batches:
        for move in batch:
            key = key_of(move.row)
            place = move.row if key is None else (move.row.stream, key)
            if move.weight > 0:
                present[place] = move.row
            elif key is None:
                del present[place]
            else:
                present.pop(place, None)
    return frozenset(present.values())


def last_moves(batch: Batch, key_of: KeyOf) -> list[Move]:
    """The moves of a batch, of each key only the last one: rows of a batch have no order."""
    left: dict[Hashable, Move] = {}
    for number, move in enumerate(batch):
        key = key_of(move.row)
        left[number if key is None else (move.row.stream, key)] = move
    return [*left.values()]


def deal(data: Data, batches: int, deleting: frozenset[str], random: Random, *, emptied: bool = False) -> History:
    """A random history of so many batches, after which all of the data is present.

    Rows of the streams in `deleting` are deleted on the way and inserted again later: some at random, all that share
    some value (so that a key vanishes and returns), or all that are present. Some batches are empty, others have no
    rows of a stream. If streams are to be `emptied`, all rows are present at some time; then those with the largest
    numbers are deleted, in two steps, then all rows of these streams; the others are inserted first, so that anything
    left over from the largest is seen.
    """
    return _Dealer(data, deleting, random).history(batches, emptied=emptied and batches >= len(EMPTIED) + 1)


class _Dealer:
    def __init__(self, data: Data, deleting: frozenset[str], random: Random) -> None:
        self.data = data
        self.deleting = deleting
        self.random = random
        self.waiting = {name: [RowPlace(name, n) for n in range(len(rows))] for name, rows in data.items()}
        self.present: dict[str, list[RowPlace]] = {name: [] for name in data}
        for waiting in self.waiting.values():
            random.shuffle(waiting)

    def history(self, batches: int, *, emptied: bool) -> History:
        before = (batches - len(EMPTIED) - 1) // 2
        dealt: list[Batch] = []
        for n in range(batches - 1):
            match EMPTIED[n - before] if emptied and 0 <= n - before < len(EMPTIED) else None:
                case "fill":
                    dealt.append(self.rest())
                case "some large ones go":
                    dealt.append(self.cleared(lambda rows: self.some(rows[self.small(rows) : -1])))
                case "large ones go":
                    dealt.append(self.cleared(lambda rows: rows[self.small(rows) :]))
                case "clear":
                    dealt.append(self.cleared(lambda rows: rows))
                case "small ones come":
                    dealt.append(self.small_ones())
                case _:
                    dealt.append(self.batch(batches - n))
        return (*dealt, self.rest())

    def batch(self, left: int) -> Batch:
        """One of `left` batches that are still to come."""
        if self.random.random() < EMPTY:
            return ()
        moves: list[Move] = []
        for name in self.data:
            # Twice the even share at most: batches differ in size, and few rows are left for the last one.
            share = math.ceil(2 * len(self.waiting[name]) / left)
            moves += self.bring(name, self.random.randint(0, share))
            if name in self.deleting and self.present[name] and self.random.random() < 0.7:
                moves += self.take_out(name, self.chosen(name))
        return tuple(moves)

    def cleared(self, chosen: Callable[[list[RowPlace]], list[RowPlace]]) -> Batch:
        """Deletes what `chosen` picks from the rows sorted by size; waiting rows, to come back, are then sorted too."""
        moves: list[Move] = []
        for name in self.data:
            if name in self.deleting:
                moves += self.take_out(name, chosen(sorted(self.present[name], key=self.size))[::-1])
                self.waiting[name].sort(key=self.size)
        return tuple(moves)

    def small_ones(self) -> Batch:
        return tuple(move for name, rows in self.waiting.items() for move in self.bring(name, self.small(rows)))

    def some(self, rows: Sequence[RowPlace]) -> list[RowPlace]:
        return [row for row in rows if self.random.random() < 0.5]

    def small(self, rows: Sequence[RowPlace]) -> int:
        """The number of rows whose sizes are negligible beside the largest; half of the rows where there are none."""
        sizes = [self.size(row) for row in rows]
        return sum(size < NOTHING * max(sizes) for size in sizes) or math.ceil(len(rows) / 2)

    def size(self, row: RowPlace) -> float:
        return _size(self.data[row.stream][row.number])

    def rest(self) -> Batch:
        """A batch that inserts all rows that are not present."""
        return tuple(move for name in self.data for move in self.bring(name, len(self.waiting[name])))

    def bring(self, name: str, count: int) -> list[Move]:
        waiting = self.waiting[name]
        come, self.waiting[name] = waiting[:count], waiting[count:]
        self.present[name] += come
        return [Move(row, 1) for row in come]

    def take_out(self, name: str, gone: list[RowPlace]) -> list[Move]:
        self.present[name] = [row for row in self.present[name] if row not in gone]
        for row in gone:
            self.waiting[name].insert(self.random.randint(0, len(self.waiting[name])), row)
        return [Move(row, -1) for row in gone]

    def chosen(self, name: str) -> list[RowPlace]:
        """The rows to delete."""
        present = self.present[name]
        kind = self.random.random()
        if kind < 0.1:
            return list(present)
        values = sorted(set(atoms(self.data[name][self.random.choice(present).number])))
        if kind < 0.5 and values:
            value = self.random.choice(values)
            return [row for row in present if value in set(atoms(self.data[name][row.number]))]
        return self.random.sample(present, self.random.randint(1, math.ceil(len(present) / 3)))


def _size(row: Value) -> float:
    """The largest absolute value of the numbers in a row; infinite where one is NaN."""
    numbers = [number for kind, *number in atoms(row) if kind == NUMBER]
    return max((math.inf if is_none else abs(float(number)) for is_none, number in numbers), default=0.0)
