"""A batch is a transaction: it begins, and is committed or rolled back.

What belongs to one batch is in one object, which is dropped with it. The states themselves are lists of runs that never
change (`state/run.py`): to begin is to note which runs there are, and to roll back is to restore these. The runs that a
batch replaces are freed when the *next* one is committed: until then the answer before the batch, the answer after it,
and the change between them can still be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import attrs

from mrql.runtime.spark.compiler.loop_checkpoints import LoopCheckpoints
from mrql.runtime.spark.maintenance.snapshot import Snapshot
from mrql.runtime.spark.session.jvm_exit import unless_stopped
from mrql.runtime.spark.state.run import Run
from mrql.runtime.spark.state.table import Table

if TYPE_CHECKING:
    from mrql.runtime.spark.maintenance.trusted import Shortage


@attrs.define(eq=False)
class Temporaries:
    """Rows that one batch keeps besides the states, to be read until the next batch is committed."""

    lookups: list[Run] = attrs.Factory(list)
    """Rows looked up in the states before the batch, or moved for its joins; computed by whatever reads them first."""
    changes: list[Run] = attrs.Factory(list)
    """Changes that are read several times, computed in the same way."""
    counted: list[Run] = attrs.Factory(list)
    """Changes that are computed with the states, and whose rows are counted."""
    loops: LoopCheckpoints = attrs.Factory(LoopCheckpoints)
    """The checkpoints of the loops that were run for the batch."""
    passed_on: list[tuple[str, Run]] = attrs.Factory(list)
    """Those of the changes that are of a derived stream with several readers, each with the name of the stream."""

    @property
    def runs(self) -> list[Run]:
        return [*self.lookups, *self.changes, *self.counted]

    def free(self) -> None:
        """Frees all of them."""
        for run in self.runs:
            run.free()
        for kept in (self.lookups, self.changes, self.counted):
            kept.clear()
        self.passed_on.clear()
        self.loops.free()


@attrs.define(eq=False)
class Transaction:
    """A batch in a view.

    Each table notes by itself what the batch has done to it (`TableBatch`); here is what concerns the view as a whole.
    """

    before: list[Snapshot]
    """The states before the batch."""
    temporaries: Temporaries = attrs.Factory(Temporaries)
    changed: set[str] = attrs.Factory(set)
    """The stages that the batch has changed so far."""
    garbage: list[Run] = attrs.Factory(list)
    """The runs that earlier batches have replaced or kept, which nothing can read once this one is committed."""
    garbage_of_loops: LoopCheckpoints = attrs.Factory(LoopCheckpoints)
    given_up: list[Run] = attrs.Factory(list)
    """The runs of a batch that is rolled back, which are not freed yet."""
    touched: dict[str, int] = attrs.Factory(dict)
    """The number of keys that it has touched in each stage, if they were counted."""
    milliseconds: dict[str, float] = attrs.Factory(dict)
    """How long each operator of the circuit has taken to plan."""
    shortages: list[Shortage] | None = None
    """The rows of which trusted deletions may have left a negative count, once their check is planned."""
    is_open: bool = True
    """Whether it is neither committed nor rolled back yet."""
    commits: int = 0
    """The number of commits so far, its own included once it is committed."""
    is_committed: bool = False

    @property
    def number(self) -> int:
        """The number of the batch: how many commits there are with its own."""
        return self.commits if self.is_committed else self.commits + 1

    @property
    def is_rolled_back(self) -> bool:
        """Whether it was rolled back."""
        return not self.is_open and not self.is_committed

    def begin(self, tables: Sequence[Table], snapshots: Callable[[], list[Snapshot]]) -> Transaction:
        """Begins the next transaction. The runs that this one has replaced or kept are freed when that is committed."""
        garbage = [*self.garbage, *(run for table in tables for run in table.begin()), *self.temporaries.runs]
        loops = LoopCheckpoints()
        loops.take(self.garbage_of_loops)
        loops.take(self.temporaries.loops)
        return Transaction(snapshots(), garbage=garbage, garbage_of_loops=loops, commits=self.commits)

    def is_gone(self, last: Transaction) -> bool:
        """Whether rows are gone that the answers before and after it are made from: it was rolled back, or another one
        was committed since."""
        return self.is_rolled_back or (self.is_committed and last.commits > self.commits)

    def commit(self) -> None:
        """Commits the batch, and frees what the batches before it have left."""
        for run in self.garbage:
            run.free()
        self.garbage = []
        self.garbage_of_loops.free()
        self.is_open, self.is_committed, self.commits = False, True, self.commits + 1

    def rollback(self, tables: Iterable[Table]) -> None:
        """Restores the states before the batch, and frees what it has kept. What the batches before it have left is
        freed with the next one.

        If it is interrupted, it is to be called again: all states are restored before anything is freed.
        """
        if self.is_committed:
            return
        if self.is_open:
            for table in tables:
                self.given_up += table.rollback()
            self.is_open = False
        # If Spark has ended there is nothing left to free, and the reason for that is to be reported instead.
        with unless_stopped():
            self._free_given_up()

    def free(self) -> None:
        """Frees all that is kept besides the states."""
        self.commit()
        self._free_given_up()

    def _free_given_up(self) -> None:
        while self.given_up:
            self.given_up[-1].free()
            self.given_up.pop()
        self.temporaries.free()


class Savepoint:
    """A point of planning to go back to, as long as nothing that was planned after it is computed.

    `rollback` restores the fields of some objects, and the contents of those that are a list, a dict or a set.

    >>> @attrs.define
    ... class Some:
    ...     of: list[int]
    >>> some = Some([1]); savepoint = Savepoint([some])
    >>> some.of.append(2); other = some.of; some.of = []
    >>> savepoint.rollback(); some.of, other is some.of
    ([1], True)
    """

    def __init__(self, objects: Iterable[Any]) -> None:
        self._fields = [
            (each, field.name, getattr(each, field.name)) for each in objects for field in attrs.fields(type(each))
        ]
        contained = ((value, copy(value)) for _, _, value in self._fields if isinstance(value, list | dict | set))
        self._contents = list(contained)

    def rollback(self) -> None:
        """Restores the fields and their contents."""
        for each, name, value in self._fields:
            setattr(each, name, value)
        for value, content in self._contents:
            value.clear()
            value.extend(content) if isinstance(value, list) else value.update(content)
