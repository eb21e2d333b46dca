"""The schema of a state: its columns, how rows with equal keys merge, and how rows are looked up."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from mrql.runtime.spark.relation.persisted_rows import Gathering
from mrql.runtime.spark.relation.relation import Relation, union_all
from mrql.runtime.spark.state.lookup import found, found_with_nulls
from mrql.runtime.spark.state.measures import MARK, TOUCHED, Measure, mark_too


@attrs.frozen
class TableSchema:
    """The columns of a table, and the merge of its measures.

    A *marked* table records for each row whether the last batch touched it, and keeps the rows that this batch has
    emptied until the next one: so the touched keys, old and new, can be read from the state.
    """

    keys: tuple[str, ...]
    partition_by: tuple[str, ...]
    """The keys by whose hash rows are partitioned."""
    measures: tuple[Measure, ...]
    alive: str
    """The condition under which a merged row exists."""
    numbers: tuple[str, ...] = ()
    """Keys that are doubles or floats, and never missing."""
    marked: bool = False
    gathers: bool = True
    """Whether many rows may have the same values of `partition_by`, so that they could be gathered."""

    @classmethod
    def weighted(
        cls,
        columns: tuple[str, ...],
        partition_by: tuple[str, ...] = (),
        *,
        numbers: tuple[str, ...] = (),
        gathers: bool = True,
    ) -> TableSchema:
        """A table of rows with a weight `w`: equal rows merge into one, which exists while its weight is not 0."""
        return cls(columns, partition_by or columns, (Measure("w", "sum(w)"),), "w <> 0", numbers, gathers=gathers)

    @property
    def columns(self) -> list[str]:
        return [*self.keys, *(measure.name for measure in self.measures)]

    @property
    def added_up(self) -> list[str]:
        """The measures of a change, added up over its rows, in SQL."""
        merges = (f"{measure.merge} AS {measure.name}" for measure in self.measures if measure.name != TOUCHED)
        return [*merges, *([f"{MARK} AS {TOUCHED}"] if self.marked else [])]

    def merged(self, parts: Sequence[Relation], *, shrunk: bool, further: bool = False) -> Relation:
        """The rows of all parts, those with equal keys merged into one. If the table has `shrunk`, rows that are
        neither alive nor marked are dropped.

        In a `further` step of a batch, rows touched by its earlier steps stay marked.
        """
        measures = [mark_too() if further and measure.name == TOUCHED else measure for measure in self.measures]
        merges = [f"{measure.merge} AS {measure.name}" for measure in measures]
        rows = self._by_key(union_all(parts), merges)
        if not shrunk:
            return rows
        # A total, or a key that the batch has emptied, keeps its row, of which rounded measures are set to 0.
        left = self.emptied(rows) if self.marked else rows
        return left.where(f"({self.alive}) OR {TOUCHED} = 1" if self.marked else self.alive)

    def merged_into(self, base: Relation, changes: Sequence[Relation], *, shrunk: bool) -> Relation:
        """Like `merged`, where `base` has one row for each key: only rows that the changes touch are merged.

        Looking up each row in a few others takes less time than grouping all rows.
        """
        keys = union_all(changes).select(*self.partition_by).hint("shuffle_hash")
        untouched = base.anti_join(keys, self.partition_by).select(*self.columns)
        touched = base.semi_join(keys, self.partition_by).select(*self.columns)
        return union_all([untouched, self.merged([touched, *changes], shrunk=shrunk).select(*self.columns)])

    def emptied(self, rows: Relation) -> Relation:
        """All rows of a table, with 0 for each measure whose condition `held` is not true."""
        if all(measure.held is None for measure in self.measures):
            return rows
        kept = {m.name: m.name if m.held is None else f"if({m.held}, {m.name}, 0) AS {m.name}" for m in self.measures}
        return rows.select(*(kept.get(name, name) for name in self.columns))

    def _by_key(self, rows: Relation, merges: Sequence[str]) -> Relation:
        """One row for each key. Spark groups by a double in two steps, because of −0.0, but by its hash in one.

        A 64-bit hash differs for any two numbers other than 0.0 and −0.0, since `xxhash64` of one number is invertible.
        """
        if not self.numbers:
            return rows.aggregate(self.keys, merges)
        keys = [f"xxhash64({key}) AS {key}_hash" if key in self.numbers else key for key in self.keys]
        values = [f"coalesce(max({number}), 0) AS {number}" for number in self.numbers]
        return rows.aggregate(keys, [*values, *merges]).select(*self.columns)

    def lookup(self, runs: Sequence[Relation], wanted: Relation, *, with_nulls: bool = False) -> Relation | None:
        """The rows of some runs whose values of `partition_by` occur in `wanted`, not merged; None if there are no
        runs.

        The values must never be null, unless `with_nulls` is set.
        """
        if not runs:
            return None
        if with_nulls:
            return found_with_nulls(runs, self.partition_by, wanted)
        return found(runs, self.partition_by, wanted, self.columns)

    def as_it_is(self, changes: Relation) -> Relation:
        """A change as the rows of a run, marked like the rows that a merge has touched."""
        columns = (f"1 AS {name}" if name == TOUCHED else name for name in self.columns)
        return changes.select(*columns) if self.marked else changes

    @property
    def gathering(self) -> Gathering | None:
        """How large runs may be gathered: by `partition_by`, if that is a proper part of the keys and the table
        `gathers`."""
        if not self.gathers or not self.partition_by or not {*self.partition_by} < {*self.keys}:
            return None
        others = tuple(name for name in self.columns if name not in self.partition_by)
        return Gathering(self.partition_by, others, tuple(self.columns))
