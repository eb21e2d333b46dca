"""What a join keeps of one of its inputs: a table by the key of the join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from mrql.rewrite.analysis.join_predicates import drops_null_keys
from mrql.rewrite.analysis.multilinear import Input
from mrql.rewrite.plan.joins.other_keys import Path
from mrql.rewrite.plan.operators import Access
from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.layout import (
    Atom,
    Layout,
    Struct,
    as_columns,
    atoms,
    label,
    present,
    quote,
    unquote,
    with_columns,
)
from mrql.runtime.spark.relation.frame import Frame, fit, numbered
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.state.measures import Measure
from mrql.runtime.spark.state.table import Table
from mrql.runtime.spark.state.table_schema import TableSchema

Versions = Mapping[str, Frame | None]
"""The versions of an input that the delta rule reads: `old`, `new`, their difference `delta`, and parts of these."""

CHANGES = ("delta", "came", "went")
"""The versions of an input that are changes by a batch."""


def only_grown(versions: Versions) -> Versions:
    """The versions for `choices_that_are_there` of an input that has never lost a row: `came` is the whole change."""
    return {**versions, "came": versions["delta"], "went": None, "kept": versions["old"]}


@attrs.define
class InputState:
    """What a join keeps of one input: its rows as (key…, element…, weight)."""

    table: Table | None = None
    shape: Layout | None = None
    sums: bool = False
    """Whether sums are kept instead of the rows: (key…, element…, number of rows, sum…)."""
    last: tuple[Frame, Versions] | None = None
    """The last change that was added, and the versions that result: other stages that read the input reuse them."""
    parts: tuple[Sequence[Relation], Relation] | None = None
    """The runs before that change, and the run of the change."""
    by_other_keys: dict[tuple[str, ...], Table] = attrs.Factory(dict)
    """Tables of the same rows, partitioned by other columns that batches join them by."""
    met_by: set[tuple[str, ...]] = attrs.Factory(set)
    """The columns by which a batch has joined it before."""

    @property
    def shrinks(self) -> bool:
        """Whether a change may have deleted rows."""
        return self.table is not None and self.table.shrinks

    @property
    def tables(self) -> list[Table]:
        """All tables of the input."""
        return [] if self.table is None else [self.table, *self.by_other_keys.values()]

    def frame(self, df: Relation | None, *, changes: bool = False) -> Frame | None:
        if df is None or self.shape is None:
            return None
        assert self.table is not None
        stays = not changes and self.table.is_large
        weight = None if self.sums else quote("w")
        return Frame(df, self.shape, weight, changes, self.table.schema.partition_by if stays else None)

    def by_another_key(self, parts: Sequence[Path], version: Frame) -> Frame | None:
        """A version of a large input, `old` or `new`, partitioned by some parts of its elements. A table by these parts
        is kept from the second request on, since the first may be the initial load of a stream, which gets the version
        as it is. None where the parts have no columns of their own."""
        assert self.shape is not None
        assert self.table is not None
        found = [_column(self.shape, path) for path in parts]
        columns = tuple(name for name in found if name is not None)
        if len(columns) < len(found) or not {*columns} <= {*self.table.schema.keys}:
            return None
        if columns not in self.met_by:
            self.met_by.add(columns)
            return version
        table = self.by_other_keys.get(columns)
        if table is None or not table.runs:
            table = self.by_other_keys[columns] = self._kept_by(columns)
        is_old = self.last is not None and version is self.last[1]["old"]
        rows = table.rows(but=table.appended if is_old else None)
        return None if rows is None else attrs.evolve(version, df=rows, lies_by=columns)

    def _kept_by(self, columns: tuple[str, ...]) -> Table:
        """A table of the same rows, partitioned by other columns."""
        assert self.table is not None
        kept = self.table
        change = kept.appended if kept.batch.added else None
        before = kept.rows(but=change)
        assert before is not None
        schema = attrs.evolve(kept.schema, partition_by=columns)
        table = Table(kept.plans, schema, shrinks=kept.shrinks, access=kept.access)
        table.begin_with(table.partitioned(before), kept.runs)
        if change is not None:
            table.append(table.partitioned(change.relation), as_it_is=True)
        return table

    def there(self, *, changed: bool) -> Versions:
        """The versions of the input for `choices_that_are_there`: in none of them does a row cancel another."""
        if self.table is None:
            return dict.fromkeys(("old", "new", "kept", *CHANGES))
        if not changed or self.parts is None:
            return dict.fromkeys(("old", "new", "kept"), self._netted(self.table.relations))
        old, change = self.parts
        # The weight of a row, or the number of rows behind sums: these may change where the number does not.
        times = self.table.schema.measures[0].name
        came = change.where(f"{times} >= 0" if self.sums else f"{times} > 0")
        went = change.where(f"{times} < 0")
        return {
            "old": self._netted(old),
            "new": self._netted([*old, change]),
            "kept": self._netted([*old, went]) if old else None,
            "came": self.frame(came, changes=True),
            "went": self.frame(went, changes=True) if old else None,
        }

    def _netted(self, rows: Sequence[Relation]) -> Frame | None:
        assert self.table is not None
        return self.frame(self.table.merged(rows)) if rows else None

    def set_up(self, plans: Plans, read: Input, first: Frame, expressions: Expressions, access: Access) -> None:
        """Makes its table, in the layout of its first rows: partitioned by the join's key, if they are pairs of a key
        and a value."""
        shape = with_columns(canonical(expressions, first.value), numbered("i"))
        names = tuple(unquote(atom) for atom in atoms(shape))
        by: tuple[str, ...] = ()
        if isinstance(shape, Struct) and len(shape.fields) == 2:
            (name, key), value = shape.fields
            by = tuple(unquote(atom) for atom in atoms(key))
            if drops_null_keys(read.term):
                # A join on keys that are never missing is a plain equality, which finds the rows where they are.
                shape = attrs.evolve(shape, fields=((name, present(key)), value))
        self.shape, self.sums = shape, read.sums > 0
        if not read.sums:
            schema = TableSchema.weighted(names, by)
        else:
            kept, sums = names[: -read.sums], names[-read.sums :]
            # The first sum is the number of rows.
            measures = tuple(Measure(n, f"sum({n})") for n in sums)
            schema = TableSchema(kept, by or kept, measures, f"{sums[0]} <> 0")
        self.table = Table(plans, schema, access=access)

    def add(self, read: Input, change: Frame, expressions: Expressions) -> Versions:
        """Adds a change of the input's rows, and returns the versions `old`, `new` and `delta`."""
        assert self.table is not None
        assert self.shape is not None
        value = fit(canonical(expressions, change.value), self.shape)
        weight = f"CAST({change.weight or '1L'} AS BIGINT)"
        columns = as_columns(value, self.shape)
        if read.sums:
            sums = zip(list(atoms(value))[-read.sums :], list(atoms(self.shape))[-read.sums :], strict=True)
            columns[-read.sums :] = [f"{a.sql} * {weight} AS {b.sql}" for a, b in sums]
        rows = change.df.select(*columns, *([] if read.sums else [f"{weight} AS w"]))
        self.table.shrinks |= change.weight is not None
        run = self.table.append(self.table.partitioned(rows))
        for other in (table for table in self.by_other_keys.values() if table.runs):
            other.shrinks = self.table.shrinks
            other.append(other.partitioned(run.relation), as_it_is=True)
        self.parts = [each.relation for each in self.table.runs if each is not run], run.relation
        old = self.frame(self.table.rows(but=run))
        return {"old": old, "new": self.frame(self.table.rows()), "delta": self.frame(run.relation, changes=True)}


def _column(shape: Layout, path: Path) -> str | None:
    """The column that holds a part of an element by itself; None if there is none."""
    for step in path:
        if not isinstance(shape, Struct):
            return None
        shape = shape.part(label(step) if isinstance(step, int) else step)
    return unquote(shape) if isinstance(shape, Atom) else None
