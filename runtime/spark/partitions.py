"""The number of partitions of a view's states: one while they are small, otherwise as many as can be worked on at once.

States in one partition are never shuffled: a batch of a join of five tables takes one or two Spark stages, where each
exchange would begin another, 10 to 20 ms after those that it waits for. That one task takes longer than several matters
less until there are some million rows; or some hundred thousand, if batches go through all of them step by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.spark.relation.frame import Frame

IN_ONE_MAX_ROWS = 3_000_000
"""States of at most so many rows are in one partition."""

IN_ONE_MAX_ROWS_OF_STEPS = 200_000
"""The same, if the steps of a loop may go through all of them in each batch."""

IN_ONE_MAX_BATCH_BYTES = 32 << 20
"""Before a batch of more bytes than this, of all streams together, states are put in several: as Parquet, these are
some million rows, and one task would hold the hash tables of all of its joins at once."""

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


def is_too_large(plan: Plan, rows: int, batch: Iterable[Frame]) -> bool:
    """Whether states of so many rows, or with what a batch will add, are better in several partitions. A batch of
    unknown size is seldom large, and if it was, the states are found to be large before the next one."""
    return rows > _in_one_max_rows(plan) or sum(frame.df.table_bytes or 0 for frame in batch) > IN_ONE_MAX_BATCH_BYTES


def _in_one_max_rows(plan: Plan) -> int:
    """The most rows of the states of a plan in one partition. A fixpoint looks up the rows of its keys; a loop that is
    kept up to date in another way may go through all rows, in each of its steps."""
    if any(chosen.strategy is not LoopStrategy.FIXPOINT for chosen in plan.strategies):
        return min(IN_ONE_MAX_ROWS, IN_ONE_MAX_ROWS_OF_STEPS)
    return IN_ONE_MAX_ROWS
