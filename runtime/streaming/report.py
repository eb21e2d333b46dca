"""What a batch was and what it cost: the one record that the progress and the metrics of a stream are made of."""

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
    """What the time of a batch goes to."""

    FIND = "find"
    """To look which files are new."""
    COUNT = "count"
    """To count the rows of the files."""
    APPLY = "apply"
    """To read the rows, to merge them into the states, and to write the answer. On Spark that is one job."""
    COMMIT = "commit"
    """To write the states down and to commit them with the answer; nothing without a checkpoint."""


@attrs.frozen
class Measurements:
    """What is measured of a batch only where somebody asks for it."""

    rows_out: int | None
    """The rows of the answer, or of its changes; None where the sink has not asked Spark for all of them."""
    states: Mapping[str, StateSize]
    """By the name of the stage; what a stream may lose again by the name of the stream."""
    checkpoint_bytes: int | None
    """What the commit has in runs; None without a checkpoint."""
    operators: Mapping[str, OperatorActivity] = attrs.Factory(dict)
    """What the batch was for each operator of the circuit, by its id."""


@attrs.frozen
class Report:
    """What a batch was: its number, the files and rows that it read, and what it cost."""

    number: int
    ended: datetime
    files_of: Mapping[str, int]
    """By the name of the stream, here and below."""
    rows_of: Mapping[str, int]
    """Without those that are malformed."""
    malformed_of: Mapping[str, int]
    waiting_of: Mapping[str, int]
    """The files that were there when the batch began, and are left for the next ones."""
    touched: int
    state_rows: int
    milliseconds_of: Mapping[BatchPhase, float]
    residual: Residual | None = None
    """How far the values of loops that are carried over may be off, where there are some."""
    kept_aside: str | None = None
    """What was done with malformed rows, where there were some."""
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
    """How long the phases of a batch take."""

    milliseconds: dict[BatchPhase, float] = attrs.Factory(dict)

    def phase(self, phase: BatchPhase) -> AbstractContextManager[None]:
        """Adds the time of a block to a phase."""
        return timed(self.milliseconds, phase)

    @staticmethod
    def now() -> datetime:
        return datetime.now(UTC)


@attrs.define
class Counting:
    """Counts the rows of an answer on their way to the first sink that asks for them."""

    count: RowCount | None = None

    def of(self, answer: Answer) -> Answer:
        """The same answer, whose rows are counted."""
        return _Counted(self, answer)

    def through(self, rows: Rows) -> Rows:
        """The same rows, counted where none were."""
        if self.count is None:
            rows, self.count = rows.counted()
        return rows

    def rows(self) -> int | None:
        """How many rows there were."""
        return None if self.count is None else self.count()


@attrs.frozen
class _Counted:
    counting: Counting
    answer: Answer

    def snapshot(self) -> Rows:
        return self.counting.through(self.answer.snapshot())

    def changes(self) -> Rows:
        return self.counting.through(self.answer.changes())
