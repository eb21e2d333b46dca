"""What a batch has done to a table, and the merging of runs in the background."""

from __future__ import annotations

from concurrent.futures import Future

import attrs

from mrql.runtime.spark.session.jvm_exit import unless_stopped
from mrql.runtime.spark.state.packing import Packing
from mrql.runtime.spark.state.run import Run


@attrs.define(eq=False)
class TableBatch:
    """What one batch has done to a table."""

    begun_with: tuple[Run, ...] = ()
    """The runs before it."""
    added: list[Run] = attrs.Factory(list)
    """The runs that it has added."""
    replaced: list[Run] = attrs.Factory(list)
    """The runs that it has merged into others; they can be read until the next batch is committed."""
    by_runs: bool | None = None
    """Whether its steps add runs, rather than merge with all other rows; None before the first step."""
    merged: bool = False
    """Whether it has been merged with all other rows: a merge after that is a further step of it."""


@attrs.frozen
class Merging:
    """Runs that are being merged in the background."""

    runs: tuple[Run, ...]
    merged: Run
    packing: Packing | None
    """The candidate layouts for the merged run; None if it is kept as it is."""
    made: Future[Run]
    """The run that will take their place."""

    @property
    def is_passing(self) -> bool:
        """Whether `merged` is needed only until the run that replaces it is made."""
        return self.packing is not None and self.merged not in self.runs

    @property
    def result(self) -> Run | None:
        """The run, once it is made; None before that, and if its computation has failed."""
        ended = self.made.done() and not self.made.cancelled()
        return self.made.result() if ended and self.made.exception() is None else None

    def give_up(self) -> None:
        """Frees the result once its computation has ended, without waiting for that."""
        self.made.add_done_callback(lambda _: self.free())

    def free(self) -> None:
        """Frees the result. If Spark has ended, there is nothing to free."""
        with unless_stopped():
            if self.packing is not None:
                self.packing.free()
            if self.merged not in self.runs:
                self.merged.free()
