"""A stream that an adapter reads. How far it has come is what the adapter says, as JSON has it."""

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
    """What an adapter had for a batch, after an offset; nothing where there was nothing new."""

    start: Offset
    rows: Portion | None


@attrs.define
class Adapted:
    """A stream that an adapter reads, and up to where it was read."""

    spec: SourceSpec
    adapter: Adapter
    offset: Offset = None
    end: Any = None
    """How far it went when that was asked."""
    found: FoundPortion | None = None
    """What it had for the last batch that was put together."""
    is_again: bool = False
    """Whether that batch is put together once more: what a source does not give again is in no other place."""

    def of_type(self, spec: SourceSpec) -> Adapted:
        """The same: what an adapter reads has a type that is given."""
        return self.again(spec, self.offset)

    def again(self, spec: SourceSpec, offset: Offset) -> Adapted:
        """The same, once more from an offset on that a batch has begun at which was not committed."""
        return attrs.evolve(self, spec=spec, offset=offset, is_again=True)

    @property
    def known(self) -> FoundPortion | None:
        """What was found already of what comes next."""
        is_next = self.is_again and self.found is not None and self.found.start == self.offset
        return self.found if is_next else None

    @property
    def waiting(self) -> int:
        """No files: what waits is with whoever the adapter reads from."""
        return 0

    def upto(self, end: Offset) -> Portion | None:
        """What comes next, up to an offset; None where there is nothing new."""
        rows = None if end == self.offset else portion(self.adapter, self.offset, end)
        self.found, self.is_again = FoundPortion(self.offset, rows), False
        return rows

    def mark_end(self) -> None:
        """Has what is there now be all that a run reads before it ends, if the adapter knows how far that is.

        Raises: UserError, EngineError as `Bounded.end`.
        """
        self.end = self.adapter.end(self.offset) if isinstance(self.adapter, Bounded) else None

    @property
    def is_at_end(self) -> bool:
        """Whether it is known that all of that was read. Raises as `mark_end` does."""
        return isinstance(self.adapter, Bounded) and self.adapter.is_at(self.offset, self.end)

    def so_far(self) -> Portion:
        """All that was read.

        Raises: UserError where that cannot be read again.
        """
        if not self.adapter.replays:
            raise UserError(f"{self.spec.path} cannot be read again", self.spec.span)
        return portion(self.adapter, None, self.offset)

    def after(self, arrived: Sequence[Part]) -> Offset:
        """The offset after a batch that has so much of it."""
        last = arrived[-1] if arrived else None
        assert last is None or isinstance(last, Portion)
        return self.offset if last is None else last.end

    def commit(self, arrived: Sequence[Part]) -> None:
        """Notes what a batch has of it as read."""
        self.offset = self.after(arrived)
