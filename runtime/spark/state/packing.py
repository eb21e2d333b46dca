"""How large runs are packed: by columns, gathered by key, row by row, or in blocks."""

from __future__ import annotations

from enum import Enum
from typing import Any

import attrs

from mrql.runtime.spark import jvm
from mrql.runtime.spark.relation.persisted_rows import Gathering
from mrql.runtime.spark.relation.plan_cache import Checkpoint
from mrql.runtime.spark.state.compaction import Policy
from mrql.runtime.spark.state.run import Gathered, Indexed, Run

GATHERED_MIN_ROWS_PER_KEY = 4
"""Rows are gathered where there are so many for each key, on average."""

GATHERED_MAX_ROWS_PER_KEY = 100_000
"""They are not where one key has more than so many: its array would be a row that no task can share with another."""


class RunLayout(Enum):
    """How the rows of a large run are kept."""

    BLOCKS = "blocks"
    ROWS = "rows"
    COLUMNS = "columns"


def better_layout(run: Run, rows: int, policy: Policy) -> RunLayout | None:
    """A better layout than that in which a run of about so many rows is kept; None where there is none."""
    if not isinstance(run.kept, Checkpoint):
        return None
    if run.shape is not None and policy.blocks_min_rows is not None:
        # Rows with bags in them take longer to read than to find.
        if rows > policy.blocks_min_rows or (policy.row_by_row and not run.is_flat):
            return RunLayout.BLOCKS
        if policy.row_by_row:
            return RunLayout.ROWS if run.kept.small else None
    return RunLayout.COLUMNS if run.is_flat else None


@attrs.frozen
class Packing:
    """The ways to keep the rows of a run that may be large, none of them computed yet."""

    run: Run
    plain: jvm.ColumnarRows | Indexed | Checkpoint
    """Rows as they are."""
    gathered: Gathered | None
    """Where they may be gathered by a key."""
    keys: Any = None
    """Spark's handle of a row for each key then."""
    crowded: Any = None
    """That of the keys that have too many rows."""

    @staticmethod
    def of(run: Run, plain: jvm.ColumnarRows | Indexed | Checkpoint, gathering: Gathering | None) -> Packing:
        """The rows of a checkpoint, in one way, or maybe gathered."""
        if gathering is None:
            return Packing(run, plain, None)
        counts = run.relation.aggregate(gathering.by, ["count(1) AS n"])
        keys, crowded = run.plans.rdd(counts), run.plans.rdd(counts.where(f"n > {GATHERED_MAX_ROWS_PER_KEY}"))
        return Packing(run, plain, Gathered.of(run, gathering), keys, crowded)

    def compute(self, tasks: int) -> Run:
        """Computes the rows, in so many tasks at most, and keeps them in the better way."""
        rows = jvm.compute(self.run.rdd, tasks)
        if self.gathered is not None and self._should_be_gathered(rows, tasks):
            self.plain.free()
            jvm.compute(self.gathered.rdd, tasks)
            return Run(self.run.plans, self.gathered, rows)
        if self.gathered is not None:
            self.gathered.free()
        self.plain.compute(tasks)
        return Run(self.run.plans, self.plain, rows)

    def _should_be_gathered(self, rows: int, tasks: int) -> bool:
        return GATHERED_MIN_ROWS_PER_KEY * jvm.compute(self.keys, tasks) <= rows and not jvm.compute(
            self.crowded, tasks
        )

    def free(self) -> None:
        """Frees what was computed."""
        self.plain.free()
        if self.gathered is not None:
            self.gathered.free()
