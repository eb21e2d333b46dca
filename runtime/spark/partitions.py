"""The number of partitions of a view's states: one while they are small, otherwise as many as can be worked on at once.

States in one partition are never shuffled: a batch of a join of five tables takes one or two Spark stages, where each
exchange would begin another, 10 to 20 ms after those that it waits for. That one task takes longer than several matters
less until there are some million rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from mrql.runtime.spark.relation.frame import Frame

IN_ONE_MAX_ROWS = 3_000_000
"""States of at most so many rows are in one partition."""

IN_ONE_MAX_BATCH_BYTES = 64 << 20
"""Before a batch of more bytes than this, states are put in several: it will add about a million rows to them."""

IN_ONE_MAX_TABLE_BYTES = 16 << 20
"""A static table of at most so many bytes is read by one task, in each batch."""


def tables_in_one(tables: Mapping[str, Frame]) -> dict[str, Frame] | None:
    """Static tables, each in one partition; None where one of them is too large for that, or its size is unknown."""
    found = {}
    for name, table in tables.items():
        size = table.df.table_bytes
        if size is None or size > IN_ONE_MAX_TABLE_BYTES:
            return None
        found[name] = attrs.evolve(table, df=table.df.in_one_partition())
    return found


def is_too_large(batch: Iterable[Frame], rows: int) -> bool:
    """Whether states of so many rows, or with what a batch will add, are better in several partitions. A batch of
    unknown size is seldom large, and if it was, the states are found to be large before the next one."""
    if rows > IN_ONE_MAX_ROWS:
        return True
    return any(_is_large(frame) for frame in batch)


def _is_large(batch: Frame) -> bool:
    """Whether the tables that a batch is made from are known to be large."""
    size = batch.df.table_bytes
    return size is not None and size > IN_ONE_MAX_BATCH_BYTES
