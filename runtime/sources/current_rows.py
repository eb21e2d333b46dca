"""The current row of each key of an upserted stream, and how a batch changes it.

The rows of a batch are in any order. Of the rows of one key, the one with the largest version counts, unless a current
row has a larger one: so the order of batches does not matter either. To this end the version of a deleted row is kept.
A batch is refused if two different rows have the version that counts. Without a version column, a later batch is
later, and all rows of one key in a batch must be equal.
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
    """The current row of a key and its version; `row` is None if it was deleted with that version."""

    key: tuple[Value, ...]
    version: Value
    row: Value | None

    def is_like(self, other: Current) -> bool:
        return canonical(self.row) == canonical(other.row)


@attrs.frozen
class CurrentRows:
    """The current rows of a stream by key, with the versions of deleted rows."""

    stream: str
    key: RowKey
    entries: dict[Canonical, Current] = attrs.Factory(dict)

    def rows(self) -> Iterator[Value]:
        """The current rows."""
        return (entry.row for entry in self.entries.values() if entry.row is not None)

    def after(self, batch: Iterable[tuple[Value, int]]) -> tuple[CurrentRows, ZSet]:
        """The current rows after a batch of insertions (+) and deletions of the rows of keys (−), and the net change.

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
        """Whether the current entry of a key stays.

        Raises: AmbiguousRow where it has the same version as the new rows, and differs.
        """
        if self.key.version is None:
            return before.is_like(latest[0])
        now = canonical(latest[0].version)
        if canonical(before.version) == now:
            self._must_be_one([before, *latest])
        return canonical(before.version) >= now

    def _latest(self, batch: Iterable[tuple[Value, int]]) -> dict[Canonical, list[Current]]:
        """The rows of a batch with the largest version, by key.

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
        """The entry that all of these entries of one key and version are equal to.

        Raises: AmbiguousRow where they differ.
        """
        first, *others = rows
        if not all(map(first.is_like, others)):
            versioned = self.key.version is not None
            raise AmbiguousRow(self.stream, shown_key(first.key), show_value(first.version), versioned=versioned)
        return first


def shown_key(key: tuple[Value, ...]) -> str:
    """A key as shown in errors; a key of one field is shown as its value."""
    return show_value(key[0] if len(key) == 1 else key)
