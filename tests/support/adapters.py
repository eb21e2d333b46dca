"""Adapters for tests: numbers in a file, and some that violate the interface."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.values.values import Record, Value
from mrql.runtime.sources.source import Offset


class Numbers:
    """A row for each line of a file, which is a number; with a `-` before it, a deletion. The offset is a line."""

    replays = True

    def __init__(self, spec: SourceSpec) -> None:
        self.file = Path(spec.path)

    def lines(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []

    def latest(self, start: Offset, most: int | None) -> Offset:
        count = len(self.lines())
        before = start or 0
        return (count if most is None else min(count, before + most)) or None

    def read(self, start: Offset, end: Offset) -> Iterator[tuple[Value, int]]:
        for line in self.lines()[start or 0 : end or 0]:
            yield Record({"n": int(line.lstrip("-"))}), -1 if line.startswith("-") else 1

    def close(self) -> None:
        """There is nothing to close."""


class BoundedNumbers(Numbers):
    """Also says where the file ends."""

    def end(self, start: Offset) -> int:
        return len(self.lines())

    def is_at(self, offset: Offset, end: int) -> bool:
        return (offset or 0) >= end


class Twice(Numbers):
    """Reads the last row of the previous part again with each part."""

    def read(self, start: Offset, end: Offset) -> Iterator[tuple[Value, int]]:
        yield from super().read(max((start or 0) - 1, 0), end)


class Forgetful(Numbers):
    """Reads other rows each time that it is opened."""

    opened = 0

    def __init__(self, spec: SourceSpec) -> None:
        super().__init__(spec)
        Forgetful.opened += 1
        self.number = Forgetful.opened

    def read(self, start: Offset, end: Offset) -> Iterator[tuple[Value, int]]:
        yield from ((Record({"n": row["n"] + self.number}), weight) for row, weight in super().read(start, end))


class Restless(Numbers):
    """Says each time that there are new rows."""

    def latest(self, start: Offset, most: int | None) -> Offset:
        return None if not self.lines() else len(self.lines()) + (start or 0) + 1


class Texts(Numbers):
    """Reads texts instead of numbers."""

    def read(self, start: Offset, end: Offset) -> Iterator[tuple[Value, int]]:
        yield from ((Record({"n": str(row["n"])}), weight) for row, weight in super().read(start, end))


class Failing(Numbers):
    """Raises an error in the method that its path names, or reads a malformed row."""

    def latest(self, start: Offset, most: int | None) -> Offset:
        return 1 // (self.file.name != "latest")

    def read(self, start: Offset, end: Offset) -> Iterator[tuple[Value, int]]:
        rows = {"text": ("x", 1), "weight": (Record({"n": 1}), 0), "alone": Record({"n": 1})}
        yield rows[self.file.name] if self.file.name in rows else (1 // (self.file.name != "read"), 1)  # type: ignore[misc]

    def close(self) -> None:
        if self.file.name == "close":
            raise SystemExit("over")


class Refusing(Numbers):
    """An adapter that cannot be made."""

    def __init__(self, spec: SourceSpec) -> None:
        raise RuntimeError("no")
