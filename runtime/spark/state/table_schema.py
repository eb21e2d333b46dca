"""What the rows of a state are: their columns, how those of equal keys merge, and how they are found."""

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

    A *marked* table says of each row whether the last batch touched it, and keeps what that batch has emptied until the
    next one: so the touched keys, old and new, can be read off the state.
    """

    keys: tuple[str, ...]
    partition_by: tuple[str, ...]
    """The keys by whose hash rows lie in partitions."""
    measures: tuple[Measure, ...]
    alive: str
    """The condition under which a merged row is there."""
    numbers: tuple[str, ...] = ()
    """Keys that are doubles or floats, and never missing."""
    marked: bool = False
    gathers: bool = True
    """Whether many rows may lie by one key, so that they could be gathered."""

    @classmethod
    def weighted(
        cls,
        columns: tuple[str, ...],
        partition_by: tuple[str, ...] = (),
        *,
        numbers: tuple[str, ...] = (),
        gathers: bool = True,
    ) -> TableSchema:
        """Rows with a weight `w`: equal rows are one, which is there while its weight is not 0."""
        return cls(columns, partition_by or columns, (Measure("w", "sum(w)"),), "w <> 0", numbers, gathers=gathers)

    @property
    def columns(self) -> list[str]:
        return [*self.keys, *(measure.name for measure in self.measures)]

    @property
    def added_up(self) -> list[str]:
        """The measures of some rows of a change added up."""
        merges = (f"{measure.merge} AS {measure.name}" for measure in self.measures if measure.name != TOUCHED)
        return [*merges, *([f"{MARK} AS {TOUCHED}"] if self.marked else [])]

    def merged(self, parts: Sequence[Relation], *, shrunk: bool, further: bool = False) -> Relation:
        """Rows of equal keys in one row. Where the table has `shrunk`, those that are not alive are gone.

        In a `further` step of a batch, what its steps before have touched stays marked.
        """
        measures = [mark_too() if further and measure.name == TOUCHED else measure for measure in self.measures]
        merges = [f"{measure.merge} AS {measure.name}" for measure in measures]
        rows = self._by_key(union_all(parts), merges)
        if not shrunk:
            return rows
        # Of a total, and of what a batch has emptied, there is a row.
        left = self.emptied(rows) if self.marked else rows
        return left.where(f"({self.alive}) OR {TOUCHED} = 1" if self.marked else self.alive)

    def merged_into(self, base: Relation, changes: Sequence[Relation], *, shrunk: bool) -> Relation:
        """The same of rows of which `base` has one for each key: only those are merged that there are changes for.

        To look each row up in a few is less than to find each a place among all.
        """
        keys = union_all(changes).select(*self.partition_by).hint("shuffle_hash")
        untouched = base.anti_join(keys, self.partition_by).select(*self.columns)
        touched = base.semi_join(keys, self.partition_by).select(*self.columns)
        return union_all([untouched, self.merged([touched, *changes], shrunk=shrunk).select(*self.columns)])

    def emptied(self, rows: Relation) -> Relation:
        """All rows of a table with nothing left of what there are no rows behind."""
        if all(measure.held is None for measure in self.measures):
            return rows
        kept = {m.name: m.name if m.held is None else f"if({m.held}, {m.name}, 0) AS {m.name}" for m in self.measures}
        return rows.select(*(kept.get(name, name) for name in self.columns))

    def _by_key(self, rows: Relation, merges: Sequence[str]) -> Relation:
        """One row for each key. By a double Spark groups in two steps, because of −0.0; by its hash it does so in one.

        A hash of 64 bits is another one for each number, but for 0.0 and −0.0: `xxhash64` of one can be undone.
        """
        if not self.numbers:
            return rows.aggregate(self.keys, merges)
        keys = [f"xxhash64({key}) AS {key}_hash" if key in self.numbers else key for key in self.keys]
        values = [f"coalesce(max({number}), 0) AS {number}" for number in self.numbers]
        return rows.aggregate(keys, [*values, *merges]).select(*self.columns)

    def lookup(self, runs: Sequence[Relation], wanted: Relation, *, with_nulls: bool = False) -> Relation | None:
        """The rows of some runs that are where `wanted` has rows, by the columns of the partitioning; not merged.

        Those must never be null, or `with_nulls` said.
        """
        if not runs:
            return None
        if with_nulls:
            return found_with_nulls(runs, self.partition_by, wanted)
        return found(runs, self.partition_by, wanted, self.columns)

    def as_it_is(self, changes: Relation) -> Relation:
        """A change as the rows of a run, marked as those are that a merge has touched."""
        columns = (f"1 AS {name}" if name == TOUCHED else name for name in self.columns)
        return changes.select(*columns) if self.marked else changes

    @property
    def gathering(self) -> Gathering | None:
        """How large runs may be gathered: by what they lie by, where a row has more of a key than that."""
        if not self.gathers or not self.partition_by or not {*self.partition_by} < {*self.keys}:
            return None
        others = tuple(name for name in self.columns if name not in self.partition_by)
        return Gathering(self.partition_by, others, tuple(self.columns))
