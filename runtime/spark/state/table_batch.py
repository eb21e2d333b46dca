"""What is being done to a table: by a batch, and beside the batches."""

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
    """The runs that there were before it."""
    added: list[Run] = attrs.Factory(list)
    """The runs that it has added."""
    replaced: list[Run] = attrs.Factory(list)
    """Those that it has merged into others, which can be read until the next one is committed."""
    by_runs: bool | None = None
    """Whether its steps add runs, and are not merged with all the rest; None before the first."""
    merged: bool = False
    """Whether it was merged with all the rest: what it does after that is another step of it."""


@attrs.frozen
class Merging:
    """Runs that are being merged beside the batches."""

    runs: tuple[Run, ...]
    merged: Run
    packing: Packing | None
    """The ways to keep what they are merged into, where it is not kept as it is."""
    made: Future[Run]
    """The run that will take their place."""

    @property
    def is_passing(self) -> bool:
        """Whether what they are merged into is needed until then, and no longer."""
        return self.packing is not None and self.merged not in self.runs

    def give_up(self) -> None:
        """Frees what is made, once nothing makes it any more; nobody waits for that."""
        self.made.add_done_callback(lambda _: self.free())

    def free(self) -> None:
        """Frees what was made. Where Spark has ended there is nothing."""
        with unless_stopped():
            if self.packing is not None:
                self.packing.free()
            if self.merged not in self.runs:
                self.merged.free()
