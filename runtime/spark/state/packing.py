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
"""Rows are gathered where there are so many for each key, on average."""

GATHERED_MAX_KEYS = 200_000
"""They are not where they can be in blocks and have more keys than this: a batch goes over all keys that are gathered,
and of what is in blocks to its own."""

TOGETHER_MAX_ROWS_PER_KEY = 100_000
"""They are not, and neither are they in blocks, where one key has more than so many: these would be one array, which no
task can share with another."""


class RunLayout(Enum):
    """How the rows of a large run are kept."""

    BLOCKS = "blocks"
    ROWS = "rows"
    COLUMNS = "columns"


def better_layout(run: Run, rows: int, policy: Policy) -> RunLayout | None:
    """A better layout than that in which a run of about so many rows is kept; None where there is none."""
    if run.is_packed or not isinstance(run.kept, Checkpoint):
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
    apart: jvm.ColumnarRows | Checkpoint | None = None
    """Where they would be in blocks, and may have too many rows of a key for that."""
    keys: Any = None
    """Spark's handle of a row for each key then."""
    crowded: Any = None
    """That of the keys that have too many rows."""

    @staticmethod
    def of(run: Run, plain: jvm.ColumnarRows | Indexed | Checkpoint, gathering: Gathering | None) -> Packing:
        """The rows of a checkpoint, in one way, or maybe gathered. Without a gathering a key has one row."""
        if gathering is None:
            return Packing(run, plain, None)
        counts = run.relation.aggregate(gathering.by, ["count(1) AS n"])
        keys, crowded = run.plans.rdd(counts), run.plans.rdd(counts.where(f"n > {TOGETHER_MAX_ROWS_PER_KEY}"))
        apart = None
        if isinstance(plain, Indexed):
            apart = by_columns(run) if run.is_flat else row_by_row(run)
        return Packing(run, plain, Gathered.of(run, gathering), apart, keys, crowded)

    def compute(self, tasks: int) -> Run:
        """Computes the rows, in so many tasks at most, and keeps them in the better way."""
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
        """Frees what was computed."""
        for way in self._ways:
            way.free()


def by_columns(run: Run) -> jvm.ColumnarRows:
    """The rows of a checkpoint, to be kept by columns."""
    return jvm.ColumnarRows.of(run.df, in_one=run.relation.in_one)


def row_by_row(run: Run) -> Checkpoint:
    """The rows of a checkpoint, to be kept as objects."""
    return run.plans.checkpoint(run.relation, small=False)
