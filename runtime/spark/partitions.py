"""In how many partitions the states of a view are: in one while they are small, else in as many as can be worked on at
once.

Of states in one partition nothing is moved: a batch of a join of five tables is a stage or two, where each exchange
would begin another one, 10 to 20 ms after those that it waits for. That one task takes longer than several matters less
until there are some million rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from mrql.runtime.spark.relation.frame import Frame

IN_ONE_MAX_ROWS = 3_000_000
"""So many rows of states are in one partition."""

IN_ONE_MAX_BATCH_BYTES = 64 << 20
"""Before a batch of more bytes comes, states are in several: it will be about a million rows of them."""

IN_ONE_MAX_TABLE_BYTES = 16 << 20
"""So many bytes of a static table are read by one task, in each batch."""


def tables_in_one(tables: Mapping[str, Frame]) -> dict[str, Frame] | None:
    """Static tables, each read by one task; None where that would take long for one of them, or nobody knows."""
    found = {}
    for name, table in tables.items():
        size = table.df.table_bytes
        if size is None or size > IN_ONE_MAX_TABLE_BYTES:
            return None
        found[name] = attrs.evolve(table, df=table.df.in_one_partition())
    return found


def is_too_large(batch: Iterable[Frame], rows: int) -> bool:
    """Whether states with so many rows, or with what a batch will bring, are better in several partitions. What nobody
    knows the size of is seldom large, and if it was, the next batch finds the states to be so."""
    if rows > IN_ONE_MAX_ROWS:
        return True
    return any(_is_large(frame) for frame in batch)


def _is_large(batch: Frame) -> bool:
    """Whether what a batch is made from is known to be large."""
    size = batch.df.table_bytes
    return size is not None and size > IN_ONE_MAX_BATCH_BYTES
