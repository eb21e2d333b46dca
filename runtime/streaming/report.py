"""The report of a batch, from which the progress and the metrics of a stream are made."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from enum import Enum

import attrs

from mrql.runtime.engine.answer import Answer, RowCount, Rows
from mrql.runtime.engine.residual import Residual
from mrql.runtime.engine.sizes import OperatorActivity, StateSize
from mrql.runtime.engine.stopwatch import timed


class BatchPhase(Enum):
    """The phases into which the time of a batch is divided."""

    FIND = "find"
    """Finding what is new in the sources."""
    COUNT = "count"
    """Counting the rows that were found."""
    APPLY = "apply"
    """Reading the rows, merging them into the states, and writing the answer. On Spark that is one job."""
    COMMIT = "commit"
    """Writing the states and committing them with the answer; absent without a checkpoint."""


@attrs.frozen
class Measurements:
    """Measurements of a batch that are made only on request."""

    rows_out: int | None
    """The number of rows of the answer, or of its changes; None where the sink did not read all of them from Spark."""
    states: Mapping[str, StateSize]
    """By the name of the stage, or of the stream whose rows are kept."""
    checkpoint_bytes: int | None
    """The size of all runs of the commit; None without a checkpoint."""
    operators: Mapping[str, OperatorActivity] = attrs.Factory(dict)
    """The activity of each operator of the circuit, by its id."""


@attrs.frozen
class Report:
    """The report of a batch: its number, the files and rows that it read, and what it cost."""

    number: int
    ended: datetime
    files_of: Mapping[str, int]
    """By the name of the stream, as in the three fields below."""
    rows_of: Mapping[str, int]
    """Without malformed rows."""
    malformed_of: Mapping[str, int]
    waiting_of: Mapping[str, int]
    """The number of files that were there when the batch began and are left for later batches."""
    touched: int
    state_rows: int
    milliseconds_of: Mapping[BatchPhase, float]
    residual: Residual | None = None
    """How far the answer may be off because small changes are withheld; None where the plan withholds none."""
    kept_aside: str | None = None
    """A message that says where malformed rows were kept, if there were any."""
    measured: Measurements | None = None

    @property
    def files(self) -> int:
        return sum(self.files_of.values())

    @property
    def rows(self) -> int:
        return sum(self.rows_of.values())

    @property
    def waiting(self) -> int:
        return sum(self.waiting_of.values())

    @property
    def milliseconds(self) -> float:
        return sum(self.milliseconds_of.values())


@attrs.define
class Clock:
    """Measures the time of each phase of a batch."""

    milliseconds: dict[BatchPhase, float] = attrs.Factory(dict)

    def phase(self, phase: BatchPhase) -> AbstractContextManager[None]:
        """Adds the time of a block to that of a phase."""
        return timed(self.milliseconds, phase)

    @staticmethod
    def now() -> datetime:
        return datetime.now(UTC)


@attrs.define
class Counting:
    """Counts the rows of an answer on their way to the first sink that asks for them."""

    count: RowCount | None = None

    def of(self, answer: Answer) -> Answer:
        """The same answer, with its rows counted."""
        return _Counted(self, answer)

    def through(self, rows: Rows) -> Rows:
        """The same rows, counted if no others are."""
        if self.count is None:
            rows, self.count = rows.counted()
        return rows

    def rows(self) -> int | None:
        """The number of rows; None where none or not all were asked for."""
        return None if self.count is None else self.count()


@attrs.frozen
class _Counted:
    counting: Counting
    answer: Answer

    def snapshot(self) -> Rows:
        return self.counting.through(self.answer.snapshot())

    def changes(self) -> Rows:
        return self.counting.through(self.answer.changes())
