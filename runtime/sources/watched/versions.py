"""A stream that is the versions of a table with a log. How far it has come is a version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from mrql.algebra.catalog import SourceSpec
from mrql.runtime.sources.arrived import Arrived, Part, of_changed
from mrql.runtime.sources.source import Offset, VersionedTable


@attrs.define
class Versions:
    """A stream that is the versions of a table, and up to which one it was read. A version is in a batch as a whole."""

    spec: SourceSpec
    table: VersionedTable
    offset: Offset = None
    next_offset: Offset = None
    """The offset after the batch that was begun."""
    end: Any = None
    """The version that was the newest one when that was asked."""

    def of_type(self, spec: SourceSpec) -> Versions:
        """The same: the type of the rows is in the log."""
        return self

    @property
    def waiting(self) -> int:
        """The files are not counted."""
        return 0

    def next(self, most: int | None) -> list[Arrived]:
        """The files whose rows come or go next, of so many at most, if more than one version waits. What changes no row
        is passed over."""
        while (end := self.table.latest(self.offset, most)) != self.offset:
            if parts := of_changed(self.table.changes(self.offset, end)):
                self.next_offset = end
                return parts
            self.offset = end
        return []

    def mark_end(self) -> None:
        """Has the newest version be the last one that a run reads before it ends.

        Raises: UserError as `VersionedTable.latest`.
        """
        self.end = self.table.latest(self.offset, None)

    @property
    def is_at_end(self) -> bool:
        """Whether that was read. Raises as `mark_end` does."""
        return self.table.is_at(self.offset, self.end)

    def so_far(self) -> list[Arrived]:
        """The files of the version that was read last.

        Raises: UserError where one of them is gone.
        """
        return of_changed(self.table.changes(None, self.offset))

    def after(self, arrived: Sequence[Part]) -> Offset:
        """The offset after a batch that has so much of it."""
        return self.next_offset if arrived else self.offset

    def commit(self, arrived: Sequence[Part]) -> None:
        """Notes what a batch has of it as read."""
        self.offset = self.after(arrived)
