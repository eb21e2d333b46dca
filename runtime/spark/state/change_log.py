"""The changes of a table that are not written to a checkpoint yet."""

from __future__ import annotations

import attrs

from mrql.runtime.spark.state.run import Run


@attrs.define(eq=False)
class ChangeLog:
    """The changes of a table since it was last written: a checkpoint can write the change alone if there was only one
    and it is kept, and all rows otherwise."""

    wanted: bool = False
    """Whether a change that is merged with all other rows is to be kept separately, too."""
    last: Run | None = None
    """The last change, if it is kept as a run."""
    changes: int = 0
    """The number of changes."""

    @property
    def has_one(self) -> bool:
        """Whether there was exactly one change, and it is kept."""
        return self.changes == 1 and self.last is not None

    def note(self, change: Run | None) -> None:
        """Notes a change, and its rows if they are kept."""
        self.changes += 1
        self.last = change

    def forget(self) -> None:
        """Forgets the rows of the last change, which are gone; the change still counts."""
        self.last = None

    def written(self, *, wanted: bool) -> None:
        """Notes that all changes so far are written; `wanted` says whether the next one is to be kept separately."""
        self.last, self.changes, self.wanted = None, 0, wanted
