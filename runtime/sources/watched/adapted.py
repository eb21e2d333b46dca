"""A stream that an adapter reads. Its offset is that of the adapter, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.runtime.sources.arrived import Part
from mrql.runtime.sources.source import Adapter, Bounded, Offset, Portion, portion


@attrs.frozen
class FoundPortion:
    """What an adapter had for a batch after the offset `start`; None if there was nothing new."""

    start: Offset
    rows: Portion | None


@attrs.define
class Adapted:
    """A stream that an adapter reads, and the offset up to which it was read."""

    spec: SourceSpec
    adapter: Adapter
    offset: Offset = None
    end: Any = None
    """The end of the source at the call of `mark_end`."""
    found: FoundPortion | None = None
    """What the adapter had for the last batch that was put together."""
    is_again: bool = False
    """Whether that batch is put together again, from `found`: the source may not give its rows a second time."""

    def of_type(self, spec: SourceSpec) -> Adapted:
        """The same stream under another specification, to be read again from its offset."""
        return self.again(spec, self.offset)

    def again(self, spec: SourceSpec, offset: Offset) -> Adapted:
        """The same stream, to be read again from the offset at which an uncommitted batch began."""
        return attrs.evolve(self, spec=spec, offset=offset, is_again=True)

    @property
    def known(self) -> FoundPortion | None:
        """What was already found for the next batch, if that is put together again."""
        is_next = self.is_again and self.found is not None and self.found.start == self.offset
        return self.found if is_next else None

    @property
    def waiting(self) -> int:
        """Always 0: no files wait for an adapter."""
        return 0

    def upto(self, end: Offset) -> Portion | None:
        """The next rows, up to an offset; None if there is nothing new."""
        rows = None if end == self.offset else portion(self.adapter, self.offset, end)
        self.found, self.is_again = FoundPortion(self.offset, rows), False
        return rows

    def mark_end(self) -> None:
        """Makes the run end at the current end of the source, if the adapter knows it.

        Raises: UserError, EngineError as `Bounded.end`.
        """
        self.end = self.adapter.end(self.offset) if isinstance(self.adapter, Bounded) else None

    @property
    def is_at_end(self) -> bool:
        """Whether that end is known to be reached. Raises as `mark_end` does."""
        return isinstance(self.adapter, Bounded) and self.adapter.is_at(self.offset, self.end)

    def so_far(self) -> Portion:
        """Everything that was read so far.

        Raises: UserError where it cannot be read again.
        """
        if not self.adapter.replays:
            raise UserError(f"{self.spec.path} cannot be read again", self.spec.span)
        return portion(self.adapter, None, self.offset)

    def after(self, arrived: Sequence[Part]) -> Offset:
        """The offset after a batch with these parts of the stream."""
        last = arrived[-1] if arrived else None
        assert last is None or isinstance(last, Portion)
        return self.offset if last is None else last.end

    def commit(self, arrived: Sequence[Part]) -> None:
        """Notes the parts of the stream in a batch as read."""
        self.offset = self.after(arrived)
