"""A loop over points that move, as a stream that is started again."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from mrql.verify.replay import close
from tests.checkpoint.streams import Stream

MIDDLE = """
points = stream(csv, "edges", ",", type((double, long)), tagged);
repeat middle = {(0.0, 1), (10.0, 2)}
  step select (avg(x), n)
         from (x, k) in points
        group by n: (select n from (m, n) in middle order by abs(m - x))[0]
 limit 3
"""


def assert_goes_on(stream: Stream) -> None:
    """Started again for each batch it answers as when it is not."""
    write_points(stream.home)
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
    assert len(found) == 2
    for name, answer in found.items():
        assert close(answer, alone[name]), name


def write_points(home: Path) -> None:
    """Two heaps of points, which move."""
    (home / "edges").mkdir()
    rows = [[(0.0, 1), (1.0, 1), (9.0, 1), (11.0, 1)], [(3.0, 2), (14.0, 2)]]
    for number, points in enumerate(rows):
        file = home / "edges" / f"{number}.csv"
        file.write_text("".join(f"+,{x},{n}\n" for x, n in points))
        os.utime(file, ns=(number * 10**9, number * 10**9))
