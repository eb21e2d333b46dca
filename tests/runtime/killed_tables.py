"""Streams of tables of Delta Lake and of Iceberg that are killed while they read new versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from mrql.runtime.streaming.stream_loop import Emit
from tests.runtime.checkpoint.crashes import KilledStream, is_whole
from tests.runtime.checkpoint.streams import Stream, batch_answer
from tests.runtime.delta import test_versions as delta
from tests.runtime.iceberg import test_going_on as iceberg
from tests.support.iceberg_tables import create

TABLES: dict[str, tuple[str, Callable[[Path, int, Random], None]]] = {
    "delta": (delta.SUMS, delta.grow),
    "iceberg": (iceberg.SUMS, iceberg.grow),
}
"""For each connector, a query over a table, and the function that adds versions to the table."""
MOST_ROUNDS = 20


def table_survives(
    home: Path, connector: str, random: Random, *, kills: int, delay: float, engine: str = "reference"
) -> int:
    """Kills a stream of a table at random moments, about `kills` times, and returns the number of kills.

    In between, the table grows by insertions and deletions; each batch must publish what it does without kills in the
    reference engine.
    """
    text, grow = TABLES[connector]
    if connector == "iceberg":
        create(home / "t", iceberg.COLUMNS)
    emit = random.choice(list(Emit))
    stream = Stream(home, text, engine, emit=emit)
    alone = Stream(home, text, emit=emit, output="alone", checkpoint_name="kept-alone")
    killed = rounds = 0
    while killed < kills and rounds < MOST_ROUNDS:
        grow(home, random.randint(2, 5), random)
        alone.run()
        killed += KilledStream(random, delay, stream).until_done(min(2, kills - killed))
        rounds += 1
    found, expected = stream.answers(), alone.answers()
    wrong = [name for name in expected if found.get(name) != expected[name]]
    assert not wrong, f"{wrong[0]}: {found.get(wrong[0])}, not {expected[wrong[0]]}"
    assert list(found) == list(expected)
    assert emit is Emit.CHANGES or found[max(found)] == batch_answer(alone)
    assert is_whole(stream)
    return killed
