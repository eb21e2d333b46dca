"""A state of a stage as it was at one time, and what the answer and the stages after it see of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import Known
from mrql.algebra.monoids import Aggregate
from mrql.algebra.terms import element_type
from mrql.algebra.types import Type
from mrql.rewrite.plan.known_states import KnownStage
from mrql.rewrite.plan.plan import Component, Shape, Stage
from mrql.runtime.spark.expressions import sum_columns
from mrql.runtime.spark.expressions.aggregates import zero_sql
from mrql.runtime.spark.expressions.layout import Atom, Layout, Struct, atoms, label, quote, sql_type, to_sql
from mrql.runtime.spark.relation.frame import Frame, numbered
from mrql.runtime.spark.relation.keys import Keys
from mrql.runtime.spark.relation.relation import Relation, union_all, united
from mrql.runtime.spark.state import compaction
from mrql.runtime.spark.state.measures import TOUCHED
from mrql.runtime.spark.state.run import Run
from mrql.runtime.spark.state.table import Table


@attrs.frozen
class TableSnapshot:
    """The rows of a table at one time."""

    table: Table
    runs: tuple[Relation, ...]
    stepped: bool
    """Whether the last step of the stage changed the table."""
    appended: Relation | None
    """The rows that the last change added as a run; None if they were merged with all others, where they are marked."""
    added: tuple[Relation, ...]
    """The runs that all steps of the last batch have added."""
    steps: object
    """An object that is the same in all snapshots between the steps of one batch."""
    shrinks: bool
    is_nearly_merged: bool
    """Whether nearly all rows are in the first run, which has one for each key."""

    @staticmethod
    def of(table: Table, step: int, *, by_key: bool) -> TableSnapshot:
        """The current rows of a table. `by_key`: they are partitioned by the columns of a key, which are never null."""
        runs, added = (tuple(run.relation for run in runs) for runs in (table.runs, table.batch.added))
        appended = table.appended.relation if table.appended else None
        in_few = by_key and compaction.is_nearly_merged([run.rows for run in table.runs])
        stepped, shared = table.changed_in == step, table.batch.added
        return TableSnapshot(table, runs, stepped, appended, added, shared, table.shrinks, in_few)

    def all(self) -> Relation:
        if self.is_nearly_merged:
            return self.table.schema.merged_into(self.runs[0], self.runs[1:], shrunk=self.table.shrinks)
        return self.table.current(self.runs)

    def has_changed(self, before: TableSnapshot | None) -> bool:
        """Whether the table has changed since `before`."""
        if self.appended is None and not self.stepped:
            return False
        return before is None or self.runs != before.runs

    def change(self, before: TableSnapshot | None) -> Relation:
        """The change since `before`, a snapshot of a step ago or from before the batch, of a table that changes are
        appended to."""
        assert self.appended is not None
        if not self.has_changed(before):
            return self.appended.where("false")
        within = before is not None and before.steps is self.steps
        return self.appended if within else union_all(self.added)

    def touched(self, before: TableSnapshot | None) -> Relation:
        """The keys touched since `before`, with their rows in the change, or, if it was merged, with their new rows."""
        if self.appended is not None:
            return self.change(before)
        return self.runs[0].where(f"{TOUCHED} = 1" if self.stepped else "false")


@attrs.frozen
class BagRows:
    """The rows of a bag, in several runs that are merged when they are read."""

    rows: TableSnapshot
    shape: Layout


@attrs.frozen
class Snapshot:
    """The rows of a stage's tables at one time."""

    stage: Stage
    known: KnownStage
    keys: Keys | None
    groups: TableSnapshot | None
    bags: Mapping[int, BagRows]

    def view(self) -> Frame:
        """The value of the stage's variable: a bag of `(key, value)`, a total in one row, or the bag itself."""
        match self.stage.shape:
            case Shape.BAG:
                return self._bag_view()
            case Shape.TOTAL:
                return self._total_view()
            case Shape.KEYED if self.groups is not None:
                return self.keyed(self.groups.all(), {i: bag.rows.all() for i, bag in self.bags.items()})
            case Shape.KEYED:
                return self.empty()

    def is_as(self, other: Snapshot) -> bool:
        """Whether nothing has changed between two snapshots of a stage."""
        return self._runs == other._runs

    @property
    def _runs(self) -> list[tuple[Relation, ...]]:
        rows = [*([] if self.groups is None else [self.groups]), *(bag.rows for bag in self.bags.values())]
        return [each.runs for each in rows]

    def change(self, before: Snapshot) -> Frame:
        """The change of the stage's bag since an earlier snapshot."""
        if 0 not in self.bags:
            return self.empty()
        old = before.bags[0].rows if 0 in before.bags else None
        return Frame(self.bags[0].rows.change(old), self.bags[0].shape, quote("w"), changes=True)

    def elements(self) -> Frame:
        """The elements of the stage's bag, for terms that are linear in it: if it has only grown, equal elements may be
        in several rows."""
        if 0 not in self.bags:
            return self.empty()
        rows, shape = self.bags[0].rows, self.bags[0].shape
        return Frame(rows.all() if rows.shrinks else united(rows.runs), shape, quote("w"))

    # --- the three shapes ---------------------------------------------------------------------

    def empty(self) -> Frame:
        shape = _shape_of(element_type(self.stage.var), self.known.value(self.stage).element)
        # Columns that are never missing are declared so here, too: rows of one table should have one schema.
        schema = ", ".join(f"{a.sql} {sql_type(a.type)}{'' if a.missing else ' NOT NULL'}" for a in atoms(shape))
        return Frame(Relation.empty(schema or "unit BOOLEAN"), shape)

    def _bag_view(self) -> Frame:
        if 0 not in self.bags:
            return self.empty()
        return Frame(self.bags[0].rows.all(), self.bags[0].shape, quote("w"))

    def keyed(self, groups: Relation, bags: Mapping[int, Relation]) -> Frame:
        """The bag of `(key, value)` of some keys, from their rows: one for each in `groups`, and those in `bags`."""
        assert self.keys is not None
        assert self.groups is not None
        supporting = [f"n{i} <> 0" for i, feed in enumerate(self.stage.feeds) if feed.supports]
        if len(supporting) < len(self.stage.feeds) or self.groups.shrinks:
            groups = groups.where(" OR ".join(supporting))
        types = self._measure_types()
        for i, bag in bags.items():
            groups = self._with_bag(groups, types, i, bag)
            types[f"b{i}"] = sql_type(self.stage.components[i].type)
        values = [self._component(i, component, i in bags) for i, component in enumerate(self.stage.components)]
        pair = Struct((("_1", self.keys.value), ("_2", self._value(values))), element_type(self.stage.var))
        return Frame(groups, pair)

    def _total_view(self) -> Frame:
        df = Relation.range(0, 1, "unit") if self.groups is None else self.groups.all()
        values: list[Layout] = []
        for i, component in enumerate(self.stage.components):
            assert isinstance(component.monoid, Aggregate)
            value = (
                zero_sql(component.monoid, component.type) if self.groups is None else sum_columns.read(i, component)
            )
            values.append(Atom(value, component.type))
        return Frame(df, self._value(values))

    def _value(self, components: Sequence[Layout]) -> Layout:
        """A stored value: the component itself where there is one, else their tuple."""
        if len(components) == 1:
            return components[0]
        return Struct(tuple((label(i), value) for i, value in enumerate(components)), self.stage.value_type)

    def _component(self, index: int, component: Component, here: bool) -> Atom:
        if isinstance(component.monoid, Aggregate):
            return Atom(sum_columns.read(index, component), component.type)
        if not here:
            return Atom(f"CAST(array() AS {sql_type(component.type)})", component.type, False)
        return Atom(f"coalesce(b{index}, CAST(array() AS {sql_type(component.type)}))", component.type, False)

    def _measure_types(self) -> dict[str, str]:
        """The types of the columns of the groups other than the keys."""
        supports = {f"n{i}": "BIGINT" for i, _ in enumerate(self.stage.feeds)}
        components = enumerate(self.stage.components)
        values = {
            name: sql_type(column.type)
            for i, component in components
            if isinstance(component.monoid, Aggregate)
            for name, column in sum_columns.columns(i, component).items()
        }
        return {**supports, **values, TOUCHED: "INT"}

    def _with_bag(self, groups: Relation, types: Mapping[str, str], index: int, bag: Relation) -> Relation:
        """Adds to each key its bag as an array: again by a union and an aggregation, which move nothing."""
        assert self.keys is not None
        keys = self.keys.names
        element = f"array({to_sql(self.bags[index].shape)})"
        repeated = f"if(w = 1, {element}, array_repeat({element}[0], CAST(greatest(w, 0) AS INT)))"
        collected = bag.aggregate(keys, [f"flatten(collect_list({repeated})) AS b{index}"])
        none = f"CAST(NULL AS {sql_type(self.stage.components[index].type)}) AS b{index}"
        left = groups.select(*keys, *types, none, "true AS here")
        absent = [f"CAST(NULL AS {t}) AS {name}" for name, t in types.items()]
        right = collected.select(*keys, *absent, f"b{index}", "false AS here")
        first = [f"first({name}, true) AS {name}" for name in [*types, f"b{index}"]]
        merged = left.union(right).aggregate(keys, [*first, "bool_or(here) AS here"])
        return merged.where("here").select(*keys, *types, f"b{index}")


@attrs.frozen
class StatesBefore:
    """The states before a batch, or before a step of one, with which the current states are compared."""

    snapshots: list[Snapshot]
    is_start: bool = False
    """Whether the view starts with the batch: there was nothing before it, so that everything is new."""

    def but_for(self, index: int, snapshot: Snapshot) -> StatesBefore:
        """The same with one state as it was at another time."""
        return attrs.evolve(self, snapshots=[*self.snapshots[:index], snapshot, *self.snapshots[index + 1 :]])


class Touched:
    """The keys of a stage that a batch has touched, with their values before it and after it.

    Their rows before the batch are looked up once, and kept by the first action that reads them. `keep` is called with
    the runs that are kept, to free them later; without it nothing is kept, as where only one side is needed.
    """

    def __init__(self, before: Snapshot, after: Snapshot, keep: Callable[[Run], None] | None = None) -> None:
        self._before = before
        self._after = after
        self._keep = keep
        changed = after.groups is not None and after.groups.has_changed(before.groups)
        self._rows = after.groups if changed else None

    def before(self) -> Frame:
        """The bag of `(key, value)` of the touched keys as it was."""
        old = self._old_groups
        if old is None:
            return self._before.empty()
        found = ((i, self._old_bags.get(i)) for i in self._before.bags)
        bags = {i: self._merged_bag(i, [rows]) for i, rows in found if rows is not None}
        return self._after.keyed(old, bags)

    def after(self) -> Frame:
        """The bag of `(key, value)` of the touched keys as it is."""
        if self._rows is None:
            return self._after.empty()
        bags = {i: self._merged_bag(i, self._new_bag(i)) for i in self._after.bags}
        return self._after.keyed(self._new_groups(self._rows), bags)

    @cached_property
    def rows(self) -> Relation | None:
        """The touched keys, each in its columns; None if there are none. There may be several rows of a key."""
        return None if self._rows is None else self._rows.touched(self._before.groups)

    @property
    def _touched(self) -> Relation:
        assert self.rows is not None
        return self.rows

    @cached_property
    def _found(self) -> Relation | None:
        """The rows of the touched keys before the batch, not merged."""
        if self._rows is None or self._before.groups is None:
            return None
        return self._rows.table.schema.lookup(self._before.groups.runs, self._touched)

    @cached_property
    def _old_groups(self) -> Relation | None:
        if self._rows is None or self._found is None:
            return None
        old = self._rows.table.merged([self._found], whole=False)
        # Where the state was merged whole, only the values before the batch need these rows.
        return old if self._rows.appended is None else self._kept(old)

    def _new_groups(self, rows: TableSnapshot) -> Relation:
        if rows.appended is None or self._found is None:
            # The steps of a batch may have touched a key several times.
            return self._touched if len(rows.added) < 2 else rows.table.merged([self._touched], whole=False)
        old = self._found if self._keep is None else self._old_groups
        assert old is not None
        return rows.table.merged([old, self._touched], whole=False)

    @cached_property
    def _old_bags(self) -> dict[int, Relation]:
        keys = self._touched
        found = {i: bag.rows.table.schema.lookup(bag.rows.runs, keys) for i, bag in self._before.bags.items()}
        return {i: self._kept(rows) for i, rows in found.items() if rows is not None}

    def _new_bag(self, index: int) -> list[Relation]:
        old = self._old_bags.get(index)
        added = self._after.bags[index].rows
        before = self._before.bags[index].rows if index in self._before.bags else None
        change = [added.change(before)] if added.has_changed(before) or old is None else []
        return [*([] if old is None else [old]), *change]

    def _merged_bag(self, index: int, parts: Sequence[Relation]) -> Relation:
        return self._after.bags[index].rows.table.merged(parts)

    def _kept(self, rows: Relation) -> Relation:
        if self._keep is None:
            return rows
        assert self._rows is not None
        run = Run.of(self._rows.table.plans, rows)
        self._keep(run)
        return run.relation


def _shape_of(item: Type, known: Known) -> Layout:
    """The layout of an empty bag, which is that of one with elements."""
    names = numbered("z")

    def shape(t: Type, known: Known) -> Layout:
        match t:
            case ty.TupleType(items) if not known.missing:
                return Struct(tuple((label(i), shape(inner, known.part(i))) for i, inner in enumerate(items)), t)
            case ty.RecordType(fields) if not known.missing:
                return Struct(tuple((name, shape(inner, known.part(name))) for name, inner in fields), t)
            case _:
                return Atom(quote(next(names)), t, known.missing or not ty.is_collection(t))

    return shape(item, known)
