"""Delta debugging: from a history that fails to a smallest one that still fails.

It tries to end a history where it fails, to leave out a stream, some rows, or some moves of a row, and to join two
batches into one. When none of these fails any more, the history is minimal: nothing single can be left out.

Source: A. Zeller, R. Hildebrandt, *Simplifying and Isolating Failure-Inducing Input* (2002), for `without`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from mrql.verify.histories import History, Move, RowPlace

T = TypeVar("T", bound=Hashable)

Fails: TypeAlias = Callable[[History], int | None]
"""The batch, counted from 1, after which a history goes wrong; None where it does not."""


def shrink(history: History, fails: Fails) -> History:
    """The smallest history found by leaving out parts of one that fails.

    `fails` is asked once for each history that is tried.
    """
    return _Shrinker(history, fails).run()


class _Shrinker:
    def __init__(self, history: History, fails: Fails) -> None:
        self.fails = fails
        self.history = history

    def run(self) -> History:
        self.accepts(self.history)
        while True:
            before = self.history
            self.streams()
            self.rows()
            self.returns()
            self.ends()
            self.joins()
            if self.history == before:
                return self.history

    def accepts(self, smaller: History) -> bool:
        """Goes on with a history if it fails, up to the batch where it fails."""
        failing = self.fails(smaller)
        if failing is None:
            return False
        self.history = smaller[:failing]
        return True

    def streams(self) -> None:
        names = sorted({move.row.stream for batch in self.history for move in batch})
        without(names, lambda gone: self.accepts(self.kept(lambda move: move.row.stream not in gone)))

    def rows(self) -> None:
        """Leaves out rows, with all of their moves."""
        rows = sorted({move.row for batch in self.history for move in batch})
        without(rows, lambda gone: self.accepts(self.kept(lambda move: move.row not in gone)))

    def returns(self) -> None:
        """Leaves out two successive moves of a row: an insertion and its deletion, or the reverse."""
        self.each(lambda moves: ((at, at + 1) for at in range(len(moves) - 1)))

    def ends(self) -> None:
        """Leaves out the last move of a row, where it has others."""
        self.each(lambda moves: ((at,) for at in range(max(1, len(moves) - 1), len(moves))))

    def each(self, choices: Callable[[Sequence[tuple[int, int]]], Iterator[tuple[int, ...]]]) -> None:
        """For each row, tries to leave out some choices of its moves, one after the other."""
        for row in sorted({move.row for batch in self.history for move in batch}):
            tried = True
            while tried:
                moves = self.moves(row)
                tried = any(self.accepts(self.left_out({moves[at] for at in choice})) for choice in choices(moves))

    def moves(self, row: RowPlace) -> list[tuple[int, int]]:
        """The moves of a row: for each the number of its batch, and its position there."""
        return [(n, at) for n, batch in enumerate(self.history) for at, move in enumerate(batch) if move.row == row]

    def joins(self) -> None:
        """Joins successive batches into one."""
        at = 0
        while at < len(self.history) - 1:
            joined = (*self.history[:at], self.history[at] + self.history[at + 1], *self.history[at + 2 :])
            if not self.accepts(joined):
                at += 1

    def kept(self, keep: Callable[[Move], bool]) -> History:
        return tuple(tuple(filter(keep, batch)) for batch in self.history)

    def left_out(self, gone: set[tuple[int, int]]) -> History:
        return tuple(
            tuple(move for at, move in enumerate(batch) if (n, at) not in gone) for n, batch in enumerate(self.history)
        )


def without(items: Sequence[T], accepts: Callable[[frozenset[T]], bool]) -> None:
    """Leaves out as many of some items as `accepts` allows: first all, then halves, then smaller and smaller parts."""
    size = len(items)
    while size >= 1 and items:
        at = 0
        while at < len(items):
            if accepts(frozenset(items[at : at + size])):
                items = (*items[:at], *items[at + size :])
            else:
                at += size
        size //= 2
