"""In how many partitions the states of a view are: in one while they are small, else in as many as can be worked on at
once.

Of states in one partition nothing is moved: a batch of a join of five tables is a stage or two, where each exchange
would begin another one, 10 to 20 ms after those that it waits for. That one task takes longer than several matters less
until there are some million rows.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from mrql.runtime.spark import jvm
from mrql.runtime.spark.relation.file_scans import FileScan
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.relation.relation import RelationOp

IN_ONE_MAX_ROWS = 2_000_000
"""So many rows of states are in one partition."""

IN_ONE_MAX_BATCH_BYTES = 64 << 20
"""Before a batch of more bytes comes, states are in several: it will be about a million rows of them."""

IN_ONE_MAX_TABLE_BYTES = 16 << 20
"""So many bytes of a static table are read by one task, in each batch."""

UNKNOWN_BYTES = 1 << 40
"""What Spark knows nothing about it takes to be larger: the largest long, or a part of it for some of the columns."""


def table_in_one(table: Frame) -> Frame | None:
    """A static table, read by one task; None where that would take long, or nobody knows."""
    if table.df.op is not RelationOp.TABLE or _bytes(table) > IN_ONE_MAX_TABLE_BYTES:
        return None
    return attrs.evolve(table, df=table.df.in_one_partition())


def is_too_large(batch: Iterable[Frame], rows: int) -> bool:
    """Whether states with so many rows, or with what a batch will bring, are better in several partitions. What nobody
    knows the size of is seldom large, and if it was, the next batch finds the states to be so."""
    if rows > IN_ONE_MAX_ROWS:
        return True
    return any(IN_ONE_MAX_BATCH_BYTES < _bytes(frame) < UNKNOWN_BYTES for frame in batch)


def _bytes(frame: Frame) -> int:
    """How many bytes the tables are of that rows are made from."""
    tables = [node.table for node in frame.df.nodes if node.op in (RelationOp.TABLE, RelationOp.BATCH)]
    sizes = [table.bytes if isinstance(table, FileScan) else jvm.estimated_bytes(table) for table in tables]
    return sum(UNKNOWN_BYTES if size is None else min(size, UNKNOWN_BYTES) for size in sizes)
