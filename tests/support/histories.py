"""Generated histories: how rows arrive in batches, are deleted, and come back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
from hypothesis import strategies as st

from mrql.algebra.values.values import Bag, Record, Value, canonical
from mrql.algebra.values.zset import ZSet
from tests.support.weighted import weighted

Rows = Mapping[str, st.SearchStrategy[Value]]
"""By stream, a strategy for its rows."""


@attrs.frozen
class Batch:
    """The rows that a batch inserts and deletes, by stream; a stream that is absent has none."""

    inserted: Mapping[str, Sequence[Value]]
    deleted: Mapping[str, Sequence[Value]] = attrs.Factory(dict)

    def changes(self) -> dict[str, ZSet]:
        """The batch as weighted bags."""
        names = {*self.inserted, *self.deleted}
        return {name: ZSet.of(self.inserted.get(name, ())) - ZSet.of(self.deleted.get(name, ())) for name in names}


@st.composite
def histories(
    draw: st.DrawFn, rows: Rows, *, deletions: bool = False, fewest: int = 1, most: int = 4, largest: int = 4
) -> list[Batch]:
    """`fewest` to `most` batches of up to `largest` new rows of each stream.

    Only rows that are there are deleted, even if the same batch has inserted them. Some batches delete all rows of a
    stream, or all that have a value in common, some insert deleted rows again, some insert rows and delete them at
    once, and some are empty.
    """
    streams = [_Stream(draw, strategy, largest) for strategy in rows.values()]
    result = []
    for _ in range(draw(st.integers(fewest, most))):
        inserted, deleted = {}, {}
        for name, stream in zip(rows, streams, strict=True):
            new = stream.come()
            if new or draw(st.booleans()):
                inserted[name] = tuple(new)
            gone = stream.go() if deletions and stream.present else []
            passing = stream.pass_by() if deletions else []
            if passing:
                inserted[name] = (*inserted.get(name, ()), *passing)
            if gone or passing:
                deleted[name] = (*passing, *gone)
        result.append(Batch(inserted, deleted))
    return result


class _Stream:
    """The rows of one stream, while a history is drawn."""

    def __init__(self, draw: st.DrawFn, rows: st.SearchStrategy[Value], largest: int) -> None:
        self.draw = draw
        self.rows = rows
        self.sizes = st.sampled_from((0, *range(1, largest + 1), largest))
        self.present: list[Value] = []
        self.gone: list[Value] = []

    def come(self) -> list[Value]:
        """Rows to insert: new ones, and deleted ones again."""
        size = self.draw(self.sizes)
        row = weighted((2, self.rows), (1, st.sampled_from(self.gone))) if self.gone else self.rows
        new = self.draw(st.lists(row, min_size=size, max_size=size))
        self.present += new
        return new

    def pass_by(self) -> list[Value]:
        """Rows to insert and delete at once; in most batches there are none."""
        return self.draw(st.one_of(st.just([]), st.just([]), st.just([]), st.lists(self.rows, max_size=2)))

    def alike(self, place: int) -> list[int]:
        """The places of the rows with the same first part as the row in some place: a group to empty."""
        first = [canonical(_first(row)) for row in self.present]
        return [at for at, value in enumerate(first) if value == first[place]]

    def go(self) -> list[Value]:
        """Rows to delete: some, all of a group, or all."""
        places = range(len(self.present))
        some = st.lists(st.sampled_from(places), max_size=2, unique=True)
        alike = st.sampled_from(places).map(self.alike)
        picked = self.draw(weighted((3, some), (1, alike), (1, st.just([*places]))))
        taken = [self.present[place] for place in picked]
        self.present = [row for place, row in enumerate(self.present) if place not in picked]
        self.gone += taken
        return taken


def _first(row: Value) -> Value:
    """The first part of a row, or the row itself."""
    parts = row if isinstance(row, tuple) else tuple(row.fields.values()) if isinstance(row, Record) else ()
    return parts[0] if parts else row


def net(arrived: Iterable[Batch], streams: Iterable[str]) -> dict[str, Bag]:
    """The rows of the streams after some batches."""
    held = {name: ZSet() for name in streams}
    for batch in arrived:
        for name, change in batch.changes().items():
            held[name] = held[name] + change
    return {name: zset.bag() for name, zset in held.items()}
