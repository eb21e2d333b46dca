"""The files that all contenders read, and the amount of data."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

BELOW = 10_000
"""Keys and values are integers below this one ([MRQL] §13)."""


@dataclass(frozen=True)
class Scale:
    """The amount of data, and the batches that are measured.

    Batch 0 is the initial data. The medians over `early` and `late` show the effect of the state's growth.
    """

    initial: int
    batch: int
    early: range
    late: range

    @property
    def batches(self) -> int:
        """The number of batches after the initial data."""
        return self.late.stop - 1

    def middle(self, window: range) -> int:
        """The middle batch of a window, by which it is named."""
        return window[len(window) // 2]

    def rows(self, batch: int) -> int:
        """The number of rows up to and including a batch."""
        return self.initial + batch * self.batch


FULL = Scale(initial=1_000_000, batch=40_000, early=range(15, 26), late=range(55, 66))
QUICK = Scale(initial=100_000, batch=4_000, early=range(6, 11), late=range(16, 21))


def write_files(directory: Path, scale: Scale, seed: int = 1) -> list[Path]:
    """Writes the initial data and the batches as csv files, oldest first, each a second older than the next."""
    directory.mkdir(parents=True)
    rng = random.Random(seed)
    oldest = time.time() - scale.batches - 1
    files = []
    for number in range(scale.batches + 1):
        count = scale.batch if number else scale.initial
        file = directory / f"{number:06}.csv"
        xs, ys = (rng.choices(range(BELOW), k=count) for _ in range(2))
        file.write_text("".join(f"{x},{y}\n" for x, y in zip(xs, ys, strict=True)), encoding="utf-8")
        os.utime(file, (oldest + number, oldest + number))
        files.append(file)
    return files
