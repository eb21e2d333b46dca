"""Checks whether anything is slower than the recorded figures: some rows of some tables, in under five minutes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from pathlib import Path
from statistics import median

from bench import floor, tpch
from bench.contender import alone
from bench.document import machine, section

LIMIT = 1.2
"""The ratio to the recorded time above which something counts as slower."""
FLOOR = ("a total", "a group for each key", "a join")
TPCH = ("q01", "q03", "q06")


@dataclass(frozen=True)
class Compared:
    """Milliseconds of a batch, as measured and as recorded."""

    name: str
    now: float
    kept: float | None

    @property
    def is_slower(self) -> bool:
        return self.kept is not None and self.now > LIMIT * self.kept

    @property
    def line(self) -> str:
        if self.kept is None:
            return f"| {self.name} | {self.now:.0f} | | |"
        told = " slower" if self.is_slower else ""
        return f"| {self.name} | {self.now:.0f} | {self.kept:.0f} | {self.now / self.kept:.2f} ×{told} |"


def regressions(document: Path, directory: Path, report: Callable[[str], None]) -> list[Compared]:
    """Measures some rows, and compares them with the tables of a document."""
    before = machine_of(section(document, "floor"))
    if before != (now := alone(machine)):
        report(f"the figures are of another machine, or of other versions: {before}; this is {now}")
    return [
        *_floor(kept(section(document, "floor")), report),
        *_tpch(kept(section(document, "tpch")), directory, report),
    ]


def _floor(before: Mapping[str, float], report: Callable[[str], None]) -> Iterator[Compared]:
    for name in FLOOR:
        report(name)
        found = alone(floor.measured, name, floor.WHOLE.rows, floor.WHOLE.number, 1)
        yield Compared(name, median(found.early(floor.WHOLE)), before.get(name))


def _tpch(before: Mapping[str, float], directory: Path, report: Callable[[str], None]) -> Iterator[Compared]:
    data = tpch.generated(directory / "tpch", tpch.SMALL.scale)
    for name in TPCH:
        report(name)
        found = alone(tpch.ours, name, data, tpch.SMALL)
        yield Compared(name, median(found.milliseconds[tpch.SMALL.warm :]), before.get(name))


def kept(lines: list[str]) -> dict[str, float]:
    """The first figure of each row of the first table.

    >>> kept(["| a total | mrql, ms |", "|---|---:|", "| few | 127 | 211 |", "| mean | | 2 |", "", "| few | 3 |"])
    {'few': 127.0}
    """
    table = takewhile(lambda line: line.startswith("|"), dropwhile(lambda line: not line.startswith("|"), lines))
    rows = (re.match(r"\| ([^|]+) \| ([0-9.]+) \|", line) for line in table)
    return {row[1]: float(row[2]) for row in rows if row is not None}


def machine_of(lines: list[str]) -> str:
    """The machine on which the figures of a table were measured."""
    return next(
        (line.partition(": ")[2].removesuffix(".") for line in lines if line.startswith("Medians of")), "unknown"
    )


def table(found: list[Compared]) -> list[str]:
    """The comparison, as the lines of a table."""
    return ["| a batch | now, ms | kept, ms | |", "|---|---:|---:|---:|", *(each.line for each in found)]
