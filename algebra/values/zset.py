"""Weighted bags: each element has an integer weight ([DBSP] §2: Z-sets).

A batch of changes is a weighted bag: an insertion has weight +1, a deletion −1. Under `+` they are a commutative
group, which a bag is not; a bag is a weighted bag whose weights are all positive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from mrql.algebra.values.values import Bag, Canonical, Value, canonical


@attrs.define(eq=False)
class ZSet:
    """A finite map from values to weights that are not 0."""

    entries: dict[Canonical, tuple[Value, int]] = attrs.Factory(dict)

    @staticmethod
    def of(items: Iterable[Value], weight: int = 1) -> ZSet:
        """Each item with the same weight, duplicates added up."""
        return ZSet.weighted((item, weight) for item in items)

    @staticmethod
    def weighted(pairs: Iterable[tuple[Value, int]]) -> ZSet:
        result = ZSet()
        for value, weight in pairs:
            result.add(value, weight)
        return result

    def add(self, value: Value, weight: int) -> None:
        """Adds to the weight of a value, in place."""
        self._add(canonical(value), value, weight)

    def _add(self, key: Canonical, value: Value, weight: int) -> None:
        total = weight + (self.entries[key][1] if key in self.entries else 0)
        if total:
            self.entries[key] = (value, total)
        else:
            self.entries.pop(key, None)

    def __iter__(self) -> Iterator[tuple[Value, int]]:
        return iter(self.entries.values())

    def __len__(self) -> int:
        """The number of distinct elements."""
        return len(self.entries)

    @property
    def size(self) -> int:
        """The number of insertions and deletions: the sum of the absolute weights.

        >>> len(ZSet.weighted([("a", 2), ("b", -1)])), ZSet.weighted([("a", 2), ("b", -1)]).size
        (2, 3)
        """
        return sum(abs(weight) for _, weight in self)

    def __add__(self, other: ZSet) -> ZSet:
        result = ZSet(dict(self.entries))
        for key, (value, weight) in other.entries.items():
            result._add(key, value, weight)
        return result

    def __neg__(self) -> ZSet:
        return ZSet({key: (value, -weight) for key, (value, weight) in self.entries.items()})

    def __sub__(self, other: ZSet) -> ZSet:
        return self + -other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ZSet):
            return NotImplemented
        return {k: w for k, (_, w) in self.entries.items()} == {k: w for k, (_, w) in other.entries.items()}

    def weight(self, value: Value) -> int:
        return self.entries.get(canonical(value), (value, 0))[1]

    def positive(self) -> Bag:
        """The insertions, each as often as its weight says."""
        return Bag(value for value, weight in self for _ in range(weight))

    def negative(self) -> Bag:
        """The deletions, each as often as its weight says."""
        return (-self).positive()

    def bag(self) -> Bag:
        """The bag that this is, when it is one.

        Raises: ValueError when an element has a negative weight.
        """
        for value, weight in self:
            if weight < 0:
                raise ValueError(f"{value!r} was deleted more often than it was inserted")
        return self.positive()
