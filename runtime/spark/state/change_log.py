"""What of the changes of a table was not written down yet."""

from __future__ import annotations

import attrs

from mrql.runtime.spark.state.run import Run


@attrs.define(eq=False)
class ChangeLog:
    """The changes of a table since it was written down last: a checkpoint takes the change alone where there is one,
    and all rows otherwise."""

    wanted: bool = False
    """Whether a change that is merged with all the rest is to be kept by itself too."""
    last: Run | None = None
    """The last change by itself, where it is kept."""
    changes: int = 0
    """How many there were."""

    @property
    def has_one(self) -> bool:
        """Whether there was one change, which is kept."""
        return self.changes == 1 and self.last is not None

    def note(self, change: Run | None) -> None:
        """Notes a change, and the rows of it if they are kept."""
        self.changes += 1
        self.last = change

    def forget(self) -> None:
        """Forgets a change that is taken back: what there is of it is gone."""
        self.last = None

    def written(self, *, wanted: bool) -> None:
        """Notes that all changes so far are written down; and whether the next one will be asked for by itself."""
        self.last, self.changes, self.wanted = None, 0, wanted
