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

from mrql.runtime import jvm
from mrql.runtime.frames import union_all

GROWTH = 2
"""A run is merged with the one before it unless that one is more than so many times larger.

The runs of a table then grow geometrically: their number is the logarithm of its size, and each row is merged as often.
"""

TOUCHED = "touched"
"""The column that marks a row: 1 where the last batch touched it, else 0. The rows of a change bring `MARK`.

A mark and not the batch's number, so that the text of a plan is the same in each batch, and Spark compiles it once.
"""

SMALL = 50_000
"""A run of fewer rows is kept as bytes; measured for rows of four numbers."""

MARK = 2
"""More than any mark of a state, so that `max(touched) = MARK` says whether the change has a row of the key."""


@attrs.frozen
class Measure:
    """A column that merges: its name and the aggregate function over it."""

    name: str
    merge: str


def weighted(columns: tuple[str, ...], partition_by: tuple[str, ...] = ()) -> Table:
    """A table of rows with a weight `w`: equal rows are one, which is there while its weight is not 0."""
    return Table(columns, partition_by or columns, (Measure("w", "sum(w)"),), "w <> 0")


def mark() -> Measure:
    """The measure that marks the rows that a merge touches, and clears the marks of the merge before."""
    return Measure(TOUCHED, f"CAST(max({TOUCHED}) = {MARK} AS INT)")


@attrs.define(eq=False)
class Run:
    """Some rows of a table. Their number is known once an action has computed them."""

    df: DataFrame
    rows: int | None = None

    @staticmethod
    def of(rows: DataFrame, beside: Sequence[Run] = ()) -> Run:
        """A run that is computed with the next action that reads it; it will be about as large as those `beside` it."""
        return Run(jvm.local_checkpoint(rows, small=sum(run.rows or 0 for run in beside) < SMALL))

    def free(self) -> None:
        jvm.free(self.df)


@attrs.define(eq=False)
class Table:
    """The rows of a state. `alive` is the condition under which a merged row is kept.

    A *marked* table says of each row whether the last batch touched it, and keeps what that batch has emptied until the
    next one: so the touched keys, old and new, can be read off the state.
    """

    keys: tuple[str, ...]
    partition_by: tuple[str, ...]
    measures: tuple[Measure, ...]
    alive: str
    batch: int = 0
    marked: bool = False
    shrinks: bool = False
    """Whether a change may have taken something back, so that there may be rows that are not alive."""
    runs: list[Run] = attrs.Factory(list)
    retired: list[Run] = attrs.Factory(list)

    @property
    def columns(self) -> list[str]:
        return [*self.keys, *(measure.name for measure in self.measures)]

    def merged(self, parts: Sequence[DataFrame]) -> DataFrame:
        """Rows of equal keys in one row; those that are not alive are gone."""
        merges = [jvm.column(f"{measure.merge} AS {measure.name}") for measure in self.measures]
        whole = union_all(parts).groupBy(*self.keys).agg(*merges)
        if not self.shrinks:
            return whole
        return whole.where(f"({self.alive}) OR {TOUCHED} = 1" if self.marked else self.alive)

    def partitioned(self, changes: DataFrame) -> DataFrame:
        """A change, moved to where the rows of its keys are.

        Whatever its rows were partitioned by before would do to merge them by themselves, and then the state would be
        moved to where they are. Where they are in place already, Spark leaves out the exchange.
        """
        return changes.repartition(*self.partition_by) if self.partition_by else changes

    def merge(self, changes: DataFrame) -> None:
        """Merges a change and all runs into one new run."""
        run = Run.of(self.merged_with(changes), self.runs)
        self.retired += self.runs
        self.runs = [run]

    def merged_with(self, changes: DataFrame) -> DataFrame:
        """All rows after a change; of what is read, only the change is moved."""
        return self.merged([*(run.df for run in self.runs), self.partitioned(changes)])

    def append(self, changes: DataFrame) -> Run:
        """Adds a change as a run of its own, and returns the run."""
        self.compact()
        run = Run.of(self.merged([changes]))
        self.runs.append(run)
        return run

    def compact(self) -> None:
        """Merges the last runs until each is a good deal smaller than the one before it."""
        last = len(self.runs)
        size = 0
        while last > 0:
            rows = self.runs[last - 1].rows
            if rows is None or (size > 0 and rows > GROWTH * size):
                break
            size += rows
            last -= 1
        small = self.runs[last:]
        if len(small) > 1:
            self.retired += small
            self.runs[last:] = [Run.of(self.merged([run.df for run in small]), small)]

    def rows(self) -> DataFrame | None:
        """All rows, those of equal keys not merged; None when there are none."""
        return union_all([run.df for run in self.runs]) if self.runs else None

    def current(self, runs: Sequence[DataFrame]) -> DataFrame:
        """The rows of some runs, those of equal keys merged."""
        return runs[0] if len(runs) == 1 else self.merged(runs)

    def uncomputed(self) -> list[Run]:
        """The runs that no action has computed yet, those included that have been replaced already."""
        return [run for run in [*self.runs, *self.retired] if run.rows is None]

    def rollback(self, runs: Sequence[Run]) -> None:
        """Goes back to the given runs; those that came after them are given up, computed or not."""
        for run in [*self.runs, *self.retired]:
            if run not in runs:
                run.free()
        self.runs, self.retired = list(runs), []

    def close(self) -> None:
        for run in [*self.runs, *self.retired]:
            run.free()
        self.runs, self.retired = [], []
