"""A batch is a transaction: it begins, and is committed or rolled back.

What belongs to one batch lives in one object, which is thrown away with it. The states themselves are lists of runs
that never change (`state/run.py`), so that to begin is to note which runs there are, and to roll back is to have these
again. What a batch has replaced is freed when the *next* one is committed: until then the answer before the batch, the
answer after it, and the change between them can still be read.
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
    """Rows that one batch keeps beside the states, to be read until the next batch is committed."""

    lookups: list[Run] = attrs.Factory(list)
    """What was looked up of the states before the batch; computed with whatever asks for it first."""
    changes: list[Run] = attrs.Factory(list)
    """Changes that several stages read, computed in the same way."""
    counted: list[Run] = attrs.Factory(list)
    """Changes whose rows are counted, with the states."""
    loops: LoopCheckpoints = attrs.Factory(LoopCheckpoints)
    """What the loops have left that were run for the batch."""
    passed_on: list[tuple[str, Run]] = attrs.Factory(list)
    """Those of the changes that several stages read, each with the name of its stream."""

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

    Each table notes by itself what the batch has done to it (`TableBatch`); this is what belongs to the whole.
    """

    before: list[Snapshot]
    """The states before the batch."""
    temporaries: Temporaries = attrs.Factory(Temporaries)
    changed: set[str] = attrs.Factory(set)
    """The stages that the batch has changed so far."""
    garbage: list[Run] = attrs.Factory(list)
    """What the batches before have replaced and kept, which nothing can read any more when this one is committed."""
    garbage_of_loops: LoopCheckpoints = attrs.Factory(LoopCheckpoints)
    touched: dict[str, int] = attrs.Factory(dict)
    """How many keys it has touched of each stage, if that was counted."""
    milliseconds: dict[str, float] = attrs.Factory(dict)
    """How long each operator of the circuit has taken to plan."""
    shortages: list[Shortage] | None = None
    """What trusted deletions may have left too little of, once that is planned."""
    is_open: bool = True
    """Whether it was neither committed nor rolled back."""
    commits: int = 0
    """How many there were up to it."""
    is_committed: bool = False

    @property
    def number(self) -> int:
        """How many there are with it, once it is committed."""
        return self.commits if self.is_committed else self.commits + 1

    @property
    def is_rolled_back(self) -> bool:
        """Whether the states are those of before it."""
        return not self.is_open and not self.is_committed

    def begin(self, tables: Sequence[Table], snapshots: Callable[[], list[Snapshot]]) -> Transaction:
        """The transaction after this one. What this one has replaced and kept goes when that is committed."""
        garbage = [*self.garbage, *(run for table in tables for run in table.begin()), *self.temporaries.runs]
        loops = LoopCheckpoints()
        loops.take(self.garbage_of_loops)
        loops.take(self.temporaries.loops)
        return Transaction(snapshots(), garbage=garbage, garbage_of_loops=loops, commits=self.commits)

    def is_gone(self, last: Transaction) -> bool:
        """Whether rows are gone from which the answers before and after it are made: it was rolled back, or another one
        was committed since."""
        return self.is_rolled_back or (self.is_committed and last.commits > self.commits)

    def commit(self) -> None:
        """Frees what the batches before this one have left."""
        for run in self.garbage:
            run.free()
        self.garbage = []
        self.garbage_of_loops.free()
        self.is_open, self.is_committed, self.commits = False, True, self.commits + 1

    def rollback(self, tables: Iterable[Table]) -> None:
        """Has the states of before the batch again, and frees what it has kept. What the batches before have left goes
        with the next one.

        It may be interrupted, and is then to be called again: the states are as they were before anything is freed.
        """
        if not self.is_open:
            return
        given_up = [run for table in tables for run in table.rollback()]
        self.is_open = False
        # Where Spark has ended there is nothing left to free, and why it has is to be said instead.
        with unless_stopped():
            for run in given_up:
                run.free()
            self.temporaries.free()

    def free(self) -> None:
        """Frees all that is kept beside the states."""
        self.commit()
        self.temporaries.free()


class Savepoint:
    """How far planning has come: it can go back there, as long as nothing of what came after it is computed.

    Some objects are what they were again: each has the fields that it had, and what was in them where that is a list, a
    dict or a set.

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
        """Goes back."""
        for each, name, value in self._fields:
            setattr(each, name, value)
        for value, content in self._contents:
            value.clear()
            value.extend(content) if isinstance(value, list) else value.update(content)
