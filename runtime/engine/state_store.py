"""What an engine keeps a state in, whichever it is: rows by key, to which each batch adds.

On Spark it is a table of runs (`runtime/spark/state/table.py`), in the reference engine a dictionary
(`runtime/reference/stage_state.py`). How a store is written to disk, and read again, is `runtime/checkpoint/live.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, TypeVar

Change_contra = TypeVar("Change_contra", contravariant=True)
Keys_contra = TypeVar("Keys_contra", contravariant=True)
Rows_co = TypeVar("Rows_co", covariant=True)
Snapshot = TypeVar("Snapshot")


class StateStore(Protocol[Change_contra, Keys_contra, Rows_co, Snapshot]):
    """Rows by key. What is added to a key merges with what is there of it; of a key that nothing is left of, `scan` and
    `lookup` may give a row that says so, until the store is compacted."""

    @abstractmethod
    def append(self, changes: Change_contra) -> object:
        """Adds what a batch, or a step of one, changes."""

    @abstractmethod
    def lookup(self, keys: Keys_contra) -> Rows_co | None:
        """What there is of some keys. There may be several rows of one, which merge to what there is of it; None where
        nothing has been added yet."""

    @abstractmethod
    def scan(self) -> Rows_co | None:
        """All rows, one of each key; None where nothing has been added yet."""

    @abstractmethod
    def compact(self) -> None:
        """Makes what is kept smaller, where that is due: what there is stays the same."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """What there is now, which stays as it is whatever is added."""

    @abstractmethod
    def restore(self, snapshot: Snapshot) -> object:
        """Goes back to what there was at a snapshot of this batch, or of one that has not been committed yet."""
