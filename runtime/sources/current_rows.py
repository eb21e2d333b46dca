"""A stream whose rows replace each other: what there is of each key, and how that changes.

The rows of a batch come in any order. Of those of one key the one with the largest version counts, and it counts if
there is none with a larger one already: so the order of batches does not matter either. For that the version of a row
that was taken away is kept. Where two that differ have the version that counts, the batch is refused. Without a version
a later batch is later, and a batch has one row of a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from mrql.algebra.errors import AmbiguousRow, MissingVersion
from mrql.algebra.row_key import RowKey
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Canonical, Value, canonical
from mrql.algebra.values.zset import ZSet


@attrs.frozen
class Current:
    """What is known of a key: its row, or the version with which that was taken away."""

    key: tuple[Value, ...]
    version: Value
    row: Value | None

    def is_like(self, other: Current) -> bool:
        return canonical(self.row) == canonical(other.row)


@attrs.frozen
class CurrentRows:
    """What is known of all keys of a stream."""

    stream: str
    key: RowKey
    entries: dict[Canonical, Current] = attrs.Factory(dict)

    def rows(self) -> Iterator[Value]:
        """The rows that are there."""
        return (entry.row for entry in self.entries.values() if entry.row is not None)

    def after(self, batch: Iterable[tuple[Value, int]]) -> tuple[CurrentRows, ZSet]:
        """What is known after a batch of rows that come (+) and take those of their keys away (−), and the net change.

        Raises: AmbiguousRow, MissingVersion.
        """
        entries, change = dict(self.entries), ZSet()
        for found, rows in self._latest(batch).items():
            before = entries.get(found)
            if self.key.version is None:
                self._must_be_one(rows)
            if before is not None and self._is_kept(before, rows):
                continue
            latest = self._must_be_one(rows)
            if before is not None and before.row is not None:
                change.add(before.row, -1)
            if latest.row is not None:
                change.add(latest.row, 1)
            if latest.row is None and self.key.version is None:
                entries.pop(found, None)
            else:
                entries[found] = latest
        return attrs.evolve(self, entries=entries), change

    def _is_kept(self, before: Current, latest: Sequence[Current]) -> bool:
        """Whether what there is of a key stays.

        Raises: AmbiguousRow where it is as late as what comes, and differs.
        """
        if self.key.version is None:
            return before.is_like(latest[0])
        now = canonical(latest[0].version)
        if canonical(before.version) == now:
            self._must_be_one([before, *latest])
        return canonical(before.version) >= now

    def _latest(self, batch: Iterable[tuple[Value, int]]) -> dict[Canonical, list[Current]]:
        """The rows of each key in a batch that have the largest version.

        Raises: MissingVersion.
        """
        latest: dict[Canonical, list[Current]] = {}
        for row, weight in batch:
            entry = Current(self.key.of(row), self.key.version_of(row), row if weight > 0 else None)
            if self.key.version is not None and entry.version is None:
                raise MissingVersion(self.stream, shown_key(entry.key), self.key.version)
            others = latest.setdefault(canonical(entry.key), [entry])
            if canonical(entry.version) > canonical(others[0].version):
                others[:] = [entry]
            elif canonical(entry.version) == canonical(others[0].version):
                others.append(entry)
        return latest

    def _must_be_one(self, rows: Sequence[Current]) -> Current:
        """The row that all of some rows of one key and version are.

        Raises: AmbiguousRow where they differ.
        """
        first, *others = rows
        if not all(map(first.is_like, others)):
            versioned = self.key.version is not None
            raise AmbiguousRow(self.stream, shown_key(first.key), show_value(first.version), versioned=versioned)
        return first


def shown_key(key: tuple[Value, ...]) -> str:
    """A key as errors have it: that of one field is its value."""
    return show_value(key[0] if len(key) == 1 else key)
