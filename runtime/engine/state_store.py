"""The store of a state, in either engine: rows by key, to which each batch adds.

On Spark it is a table of runs (`runtime/spark/state/table.py`), in the reference engine a dictionary
(`runtime/reference/stage_state.py`). How a store is written to disk is in `runtime/checkpoint/live.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, TypeVar

Change_contra = TypeVar("Change_contra", contravariant=True)
Keys_contra = TypeVar("Keys_contra", contravariant=True)
Rows_co = TypeVar("Rows_co", covariant=True)
Snapshot = TypeVar("Snapshot")


class StateStore(Protocol[Change_contra, Keys_contra, Rows_co, Snapshot]):
    """Rows by key. A change of a key is merged with its row. For a key of which nothing is left, `scan` and `lookup`
    may return a row that says so, until the store is compacted."""

    @abstractmethod
    def append(self, changes: Change_contra) -> object:
        """Adds the changes of a batch, or of a step of one."""

    @abstractmethod
    def lookup(self, keys: Keys_contra) -> Rows_co | None:
        """The rows of some keys. There may be several of one key, which the caller has to merge; None where nothing has
        been added yet."""

    @abstractmethod
    def scan(self) -> Rows_co | None:
        """All rows, one of each key; None where nothing has been added yet."""

    @abstractmethod
    def compact(self) -> None:
        """Makes the store smaller where that is due; its contents stay the same."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The current contents, which later changes do not affect."""

    @abstractmethod
    def restore(self, snapshot: Snapshot) -> object:
        """Goes back to a snapshot taken in this batch, or in one that has not been committed yet."""
