"""States on Spark: flat tables, kept as partitioned runs, merged by moving only the change.

A *table* has key columns, a partitioning by (some of) them, and measures that merge. Its rows are held as *runs*, each
partitioned in the same way and cut off from its history by a local checkpoint. Merging is

    run ∪ … ∪ Δ, grouped by key, measures merged with ⊕

whose plan has no Exchange above the runs: Spark keeps the common partitioning of a union (≥ 4.1), so only Δ is moved.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mrql.runtime import jvm

MAX_RUNS = 8
"""A table of many small runs is merged into one when it has more than these: the cost of reading a run is its tasks."""


BATCH = "batch"
"""The column that dates a row."""


@attrs.frozen
class Measure:
    """A column that merges: its name and the aggregate function over it."""

    name: str
    merge: str


@attrs.define
class Table:
    """The rows of a state. `alive` is the condition under which a merged row is kept.

    A table with a `batch` column says of each row which batch touched it last, and keeps what that batch has emptied
    until the next one: so the touched keys, old and new, can be read off the state.
    """

    keys: tuple[str, ...]
    partition_by: tuple[str, ...]
    measures: tuple[Measure, ...]
    alive: str
    batch: int = 0
    dated: bool = False
    runs: list[DataFrame] = attrs.Factory(list)
    retired: list[DataFrame] = attrs.Factory(list)
    latest: DataFrame | None = None

    @property
    def columns(self) -> list[str]:
        return [*self.keys, *(measure.name for measure in self.measures)]

    def merged(self, parts: Sequence[DataFrame]) -> DataFrame:
        """Rows of equal keys in one row; those that are not alive are gone."""
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.union(part)
        merges = [F.expr(f"{measure.merge} AS {measure.name}") for measure in self.measures]
        kept = f"({self.alive}) OR {BATCH} = {self.batch}" if self.dated else self.alive
        return whole.groupBy(*self.keys).agg(*merges).where(kept).select(*self.columns)

    def touched(self) -> DataFrame | None:
        """The keys that the last batch touched."""
        return self.runs[0].where(f"{BATCH} = {self.batch}").select(*self.keys) if self.runs and self.dated else None

    def partitioned(self, changes: DataFrame) -> DataFrame:
        """A change, moved to where the rows of its keys are."""
        if not self.partition_by or self.partition_by == self.keys:
            return changes  # the merge's own exchange is by these columns
        return changes.repartition(*self.partition_by)

    def merge(self, changes: DataFrame) -> None:
        """Merges a change into one new run."""
        new = jvm.local_checkpoint(self.merged([*self.runs, changes]))
        self.replace(new)

    def append(self, changes: DataFrame) -> DataFrame:
        """Adds a change as a run of its own, and returns the run; many runs become one."""
        run = jvm.local_checkpoint(self.merged([changes]))
        self.latest = run
        if len(self.runs) >= MAX_RUNS:
            self.replace(jvm.local_checkpoint(self.merged([*self.runs, run])))
            self.retired.append(run)
        else:
            self.runs.append(run)
        return run

    def replace(self, run: DataFrame) -> None:
        self.retired += self.runs
        self.runs = [run]

    def rows(self) -> DataFrame | None:
        """All rows, those of equal keys not merged; None when there are none."""
        if not self.runs:
            return None
        whole = self.runs[0]
        for run in self.runs[1:]:
            whole = whole.union(run)
        return whole

    def current(self) -> DataFrame | None:
        """All rows, merged; None when there are none."""
        return self.runs[0] if len(self.runs) == 1 else self.merged(self.runs) if self.runs else None

    def rollback(self, runs: list[DataFrame]) -> None:
        """Goes back to the given runs; those that came after them are given up, computed or not."""
        kept = {id(run) for run in runs}
        for run in [*self.runs, *self.retired]:
            if id(run) not in kept:
                jvm.free(run)
        self.runs, self.retired = list(runs), []

    def unsettled(self) -> list[DataFrame]:
        """The runs that no action has computed yet."""
        return [run for run in [*self.runs, *self.retired] if not jvm.is_computed(run)]

    def free_retired(self) -> None:
        """Frees the runs that others have replaced."""
        for run in self.retired:
            jvm.free(run)
        self.retired = []

    def close(self) -> None:
        self.retired += self.runs
        self.runs = []
        self.free_retired()
