"""How large runs are packed: by columns, gathered by key, row by row, or in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import attrs

from mrql.runtime.spark import jvm
from mrql.runtime.spark.relation.persisted_rows import Gathering
from mrql.runtime.spark.relation.plan_cache import Checkpoint
from mrql.runtime.spark.state.compaction import Policy
from mrql.runtime.spark.state.run import Gathered, Indexed, Run

GATHERED_MIN_ROWS_PER_KEY = 4
"""The least average number of rows per key for which rows are gathered."""

GATHERED_MAX_KEYS = 200_000
"""Rows that can be kept in blocks are not gathered if they have more keys than this: a batch reads all gathered keys,
but only its own blocks."""

TOGETHER_MAX_ROWS_PER_KEY = 100_000
"""Rows are neither gathered nor kept in blocks if one key has more rows than this: these would be one array, which only
one task can process."""


class RunLayout(Enum):
    """The layout in which the rows of a large run are kept."""

    BLOCKS = "blocks"
    ROWS = "rows"
    COLUMNS = "columns"


def better_layout(run: Run, rows: int, policy: Policy) -> RunLayout | None:
    """The layout that is better than the present one for a run of about `rows` rows; None if there is none."""
    if run.is_packed or not isinstance(run.kept, Checkpoint):
        return None
    if run.shape is not None and policy.blocks_min_rows is not None:
        # Rows that contain bags take longer to read than to look up.
        if rows > policy.blocks_min_rows or (policy.row_by_row and not run.is_flat):
            return RunLayout.BLOCKS
        if policy.row_by_row:
            return RunLayout.ROWS if run.kept.small else None
    return RunLayout.COLUMNS if run.is_flat else None


@attrs.frozen
class Packing:
    """The candidate layouts for the rows of a run, none of them computed yet."""

    run: Run
    plain: jvm.ColumnarRows | Indexed | Checkpoint
    """The rows without gathering."""
    gathered: Gathered | None
    """The rows gathered by key, if they may be."""
    apart: jvm.ColumnarRows | Checkpoint | None = None
    """The layout that replaces blocks if a key has too many rows; None if `plain` is not in blocks, or there is no
    gathering."""
    keys: Any = None
    """Spark's handle of one row for each key, if the rows may be gathered."""
    crowded: Any = None
    """Spark's handle of the keys that have too many rows, likewise."""

    @staticmethod
    def of(run: Run, plain: jvm.ColumnarRows | Indexed | Checkpoint, gathering: Gathering | None) -> Packing:
        """The candidates for the rows of a checkpoint: `plain`, and gathered if there is a `gathering`. Without one,
        the number of rows per key is not looked at."""
        if gathering is None:
            return Packing(run, plain, None)
        counts = run.relation.aggregate(gathering.by, ["count(1) AS n"])
        keys, crowded = run.plans.rdd(counts), run.plans.rdd(counts.where(f"n > {TOGETHER_MAX_ROWS_PER_KEY}"))
        apart = None
        if isinstance(plain, Indexed):
            apart = by_columns(run) if run.is_flat else row_by_row(run)
        return Packing(run, plain, Gathered.of(run, gathering), apart, keys, crowded)

    def compute(self, tasks: int) -> Run:
        """Computes the rows in at most `tasks` tasks, and keeps them in the best of the layouts."""
        rows = jvm.compute(self.run.rdd, tasks)
        best = self._best(rows, tasks)
        for other in self._ways:
            if other is not best:
                other.free()
        best.compute(tasks)
        return Run(self.run.plans, best, rows, is_packed=True)

    def _best(self, rows: int, tasks: int) -> jvm.ColumnarRows | Gathered | Indexed | Checkpoint:
        if self.gathered is None:
            return self.plain
        keys = jvm.compute(self.keys, tasks)
        few = self.apart is None or keys <= GATHERED_MAX_KEYS
        many = few and keys * GATHERED_MIN_ROWS_PER_KEY <= rows
        if (many or self.apart is not None) and jvm.compute(self.crowded, tasks):
            return self.apart or self.plain
        return self.gathered if many else self.plain

    @property
    def _ways(self) -> Iterator[jvm.ColumnarRows | Gathered | Indexed | Checkpoint]:
        return (way for way in (self.plain, self.gathered, self.apart) if way is not None)

    def free(self) -> None:
        """Frees all candidates."""
        for way in self._ways:
            way.free()


def by_columns(run: Run) -> jvm.ColumnarRows:
    """The rows of a checkpoint, to be kept by columns."""
    return jvm.ColumnarRows.of(run.df, in_one=run.relation.in_one)


def row_by_row(run: Run) -> Checkpoint:
    """The rows of a checkpoint, to be kept as objects."""
    return run.plans.checkpoint(run.relation, small=False)
