"""A loop over points that move, in a stream that is restarted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import attrs

from mrql.algebra.values.values import close
from tests.runtime.checkpoint.streams import Stream

MIDDLE = """
points = stream(csv, "edges", ",", type((double, long)), tagged);
repeat middle = {(0.0, 1), (10.0, 2)}
  step select (avg(x), n)
         from (x, k) in points
        group by n: (select n from (m, n) in middle order by abs(m - x))[0]
 limit 3
"""

POINTS = (("+,0.0,1", "+,1.0,1", "+,9.0,1", "+,11.0,1"), ("+,3.0,2", "+,14.0,2"))
"""Two clusters of points, which move."""


def assert_goes_on(stream: Stream, batches: Sequence[Sequence[str]]) -> None:
    """A stream that is restarted for each batch of rows gives the same answers as one that is not."""
    write_batches(stream.home, batches)
    late = sorted((stream.home / "edges").iterdir())[1:]
    for batch in late:
        batch.rename(stream.home / batch.name)
    stream.run()
    for batch in late:
        (stream.home / batch.name).rename(batch)
        stream.run()
    found = stream.answers()
    alone = attrs.evolve(stream, max_files=1).uninterrupted()
    assert found.keys() == alone.keys()
    assert len(found) == len(batches)
    for name, answer in found.items():
        assert close(answer, alone[name]), name


def write_batches(home: Path, batches: Sequence[Sequence[str]], *, start: int = 0) -> None:
    """Writes a file for each batch, the first one with the number `start`."""
    (home / "edges").mkdir(exist_ok=True)
    for number, rows in enumerate(batches, start):
        file = home / "edges" / f"{number}.csv"
        file.write_text("".join(f"{row}\n" for row in rows))
        os.utime(file, ns=(number * 10**9, number * 10**9))
