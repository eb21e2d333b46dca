"""A stream over the versions of a table with a log. Its offset is a version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from mrql.algebra.catalog import SourceSpec
from mrql.runtime.sources.arrived import Arrived, Part, of_changed
from mrql.runtime.sources.source import Offset, VersionedTable


@attrs.define
class Versions:
    """A stream over the versions of a table, and the one up to which it was read. A batch has whole versions only."""

    spec: SourceSpec
    table: VersionedTable
    offset: Offset = None
    next_offset: Offset = None
    """The offset after the batch that was begun last."""
    end: Any = None
    """The newest version at the call of `mark_end`."""

    def of_type(self, spec: SourceSpec) -> Versions:
        """The same stream: the type of its rows is in the log."""
        return self

    @property
    def waiting(self) -> int:
        """Always 0: waiting files are not counted."""
        return 0

    def next(self, most: int | None) -> list[Arrived]:
        """The files whose rows are inserted or deleted next: about `most` of them, and one version at least. Versions
        that change no row are skipped."""
        while (end := self.table.latest(self.offset, most)) != self.offset:
            if parts := of_changed(self.table.changes(self.offset, end)):
                self.next_offset = end
                return parts
            self.offset = end
        return []

    def mark_end(self) -> None:
        """Makes the run end at the newest version.

        Raises: UserError as `VersionedTable.latest`.
        """
        self.end = self.table.latest(self.offset, None)

    @property
    def is_at_end(self) -> bool:
        """Whether that version was read. Raises as `mark_end` does."""
        return self.table.is_at(self.offset, self.end)

    def so_far(self) -> list[Arrived]:
        """The files of the version that was read last.

        Raises: UserError where one of them is gone.
        """
        return of_changed(self.table.changes(None, self.offset))

    def after(self, arrived: Sequence[Part]) -> Offset:
        """The offset after a batch with these parts of the stream."""
        return self.next_offset if arrived else self.offset

    def commit(self, arrived: Sequence[Part]) -> None:
        """Notes the parts of the stream in a batch as read."""
        self.offset = self.after(arrived)
