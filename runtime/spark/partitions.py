"""The number of partitions of a view's states: one while they are small, otherwise as many as can be worked on at once.

States in one partition are never shuffled: a batch of a join of five tables takes one or two Spark stages, where each
exchange would begin another, 10 to 20 ms after those that it waits for. That one task takes longer than several matters
less until there are some million rows; or some hundred thousand, if each batch goes through all of them, step by step.
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
"""The same, if the steps of a loop go through all of them in each batch."""

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
    """The most rows of the states of a plan in one partition."""
    return min(IN_ONE_MAX_ROWS, IN_ONE_MAX_ROWS_OF_STEPS) if _steps_go_through_all(plan) else IN_ONE_MAX_ROWS


def _steps_go_through_all(plan: Plan) -> bool:
    """Whether the steps of a loop are likely to go through most rows in each batch: it is run again, or most changes
    go on to the next step. An absolute threshold lets few of them through, and a fixpoint follows only what changes."""
    strategies = {chosen.strategy for chosen in plan.strategies} - {LoopStrategy.FIXPOINT}
    thresholds = [loop.threshold for loop in plan.feedbacks] + [derived.threshold for derived in plan.thresholded]
    few = bool(thresholds) and all(threshold.absolute for threshold in thresholds)
    return LoopStrategy.RECOMPUTE in strategies or (bool(strategies) and not few)
