"""One stage on Spark: its tables, how a batch changes them, and what the answer sees of them.

A stage has a table of its keys, with the support that each feed gives a key and the components that Spark can
aggregate, and a table of `(key, element, weight)` for each component that is a bag. A feed that joins several inputs
keeps a table of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mrql.algebra import types as ty
from mrql.algebra.monoids import Aggregate, BagUnion
from mrql.algebra.terms import Term, element_type
from mrql.algebra.types import Type
from mrql.rewrite.multilinear import Input, delta_choices
from mrql.rewrite.stages import Component, Feed, Shape, Stage
from mrql.runtime import jvm
from mrql.runtime.bulk import Compiler, drops_null_keys
from mrql.runtime.expressions import Expressions, aggregate_sql, canonical, cast, zero_sql
from mrql.runtime.frames import Columns, Frame, fit, numbered
from mrql.runtime.layout import (
    Atom,
    Layout,
    Struct,
    atoms,
    bind,
    label,
    part,
    present,
    quote,
    sql_type,
    taken_apart,
    to_sql,
    unquote,
    with_columns,
)
from mrql.runtime.state import MARK, TOUCHED, Measure, Table, mark, union_all


@attrs.define
class InputState:
    """What a join keeps of one input: its rows as (key…, element…, weight)."""

    table: Table | None = None
    shape: Layout | None = None

    def frame(self, df: DataFrame | None, *, changes: bool = False) -> Frame | None:
        if df is None or self.shape is None:
            return None
        return Frame(df, self.shape, quote("w"), changes)


@attrs.frozen
class Share:
    """The rows of a feed in a batch, with their key and element as layouts."""

    feed: int
    frame: Frame
    key: Layout
    element: Layout


@attrs.define
class StageState:
    """The state of a stage on Spark."""

    stage: Stage
    spark: SparkSession
    tables: Mapping[str, Frame]
    columns: Columns
    groups: Table | None = None
    bags: dict[int, Table] = attrs.Factory(dict)
    key_shape: Layout | None = None
    bag_shapes: dict[int, Layout] = attrs.Factory(dict)
    inputs: dict[tuple[int, str], InputState] = attrs.Factory(dict)
    """What each feed, by its number, keeps of its inputs."""
    batch: int = 0

    # --- a batch ------------------------------------------------------------------------------

    def start(self) -> None:
        """Merges what no stream changes: the feeds over static tables alone."""
        self._merge(
            [s for i, feed in enumerate(self.stage.feeds) if not feed.rows.inputs for s in self._shares(i, feed, {})]
        )

    def step(self, deltas: Mapping[str, Frame]) -> bool:
        """Merges a batch into the state; nothing is computed until an action asks for it.

        Returns whether there was anything to merge.
        """
        self.batch += 1
        shares = []
        for i, feed in enumerate(self.stage.feeds):
            changed = {read.label: deltas[read.stream] for read in feed.rows.inputs if read.stream in deltas}
            if changed:
                shares += self._shares(i, feed, changed)
        self._merge(shares)
        return bool(shares)

    def _shares(self, index: int, feed: Feed, changed: Mapping[str, Frame]) -> list[Share]:
        if len(feed.rows.inputs) <= 1:
            return [self._share(index, feed, changed)]
        versions = {read.label: self._versions(index, read, changed.get(read.label)) for read in feed.rows.inputs}
        shares = []
        for choice in delta_choices(tuple(read.label in changed for read in feed.rows.inputs)):
            chosen = {
                read.label: versions[read.label][which] for read, which in zip(feed.rows.inputs, choice, strict=True)
            }
            present = {name: frame for name, frame in chosen.items() if frame is not None}
            if len(present) == len(chosen):  # a join with nothing is nothing
                shares.append(self._share(index, feed, present))
        return shares

    def _share(self, index: int, feed: Feed, sources: Mapping[str, Frame]) -> Share:
        compiler = self._compiler(sources)
        frame = compiler.bag(feed.rows.body)
        pair = frame.value.type
        assert isinstance(pair, ty.TupleType)
        key = cast(part(frame.value, "_1", pair.items[0]), pair.items[0], self.stage.key_type, "")
        key = canonical(compiler.expressions, key)
        # The sides of a coGroup must have their keys in the same parts.
        joined = len(self.stage.feeds) > 1
        return Share(index, frame, taken_apart(key) if joined else key, part(frame.value, "_2", pair.items[1]))

    def _versions(self, feed: int, read: Input, delta: Frame | None) -> dict[str, Frame | None]:
        """An input as it was, as it is now, and its change; the change is added to what is kept."""
        state = self.inputs.setdefault((feed, read.label), InputState())
        old = state.frame(state.table.rows() if state.table else None)
        if delta is None:
            return {"old": old, "new": old, "delta": None}
        compiler = self._compiler({read.label: delta})
        change = compiler.bag(read.term)
        if state.table is None:
            state.shape, state.table = self._input_table(read, change, compiler.expressions)
        assert state.shape is not None
        value = fit(canonical(compiler.expressions, change.value), state.shape)
        named = [f"{a.sql} AS {b.sql}" for a, b in zip(atoms(value), atoms(state.shape), strict=True)]
        rows = change.df.selectExpr(*named, f"CAST({change.weight or '1L'} AS BIGINT) AS w")
        state.table.shrinks |= change.weight is not None
        run = state.table.append(state.table.partitioned(rows))
        before = [other.df for other in state.table.runs if other is not run]
        old = state.frame(union_all(before) if before else None)
        return {"old": old, "new": state.frame(state.table.rows()), "delta": state.frame(run.df, changes=True)}

    def _input_table(self, read: Input, change: Frame, expressions: Expressions) -> tuple[Layout, Table]:
        """The table of an input, partitioned by its join key when its elements are pairs of a key and a value."""
        shape = with_columns(canonical(expressions, change.value), numbered("i"))
        names = tuple(unquote(atom) for atom in atoms(shape))
        by: tuple[str, ...] = ()
        if isinstance(shape, Struct) and len(shape.fields) == 2:
            (name, key), value = shape.fields
            by = tuple(unquote(atom) for atom in atoms(key))
            if drops_null_keys(read.term):
                # A join on keys that are never missing is a plain equality, which finds the rows where they are.
                shape = attrs.evolve(shape, fields=((name, present(key)), value))
        return shape, Table(names, by or names, (Measure("w", "sum(w)"),), "w <> 0")

    def _compiler(self, sources: Mapping[str, Frame]) -> Compiler:
        return Compiler(self.spark, {**self.tables, **sources}, self.columns)

    # --- merging ------------------------------------------------------------------------------

    def _merge(self, shares: list[Share]) -> None:
        if not shares:
            return
        self.key_shape = self.key_shape or with_columns(shares[0].key, numbered("k"))
        if self.stage.shape is not Shape.BAG:
            self._merge_groups(shares)
        for i, component in enumerate(self.stage.components):
            if isinstance(component.monoid, BagUnion):
                self._merge_bag(i, component, shares)

    def _merge_groups(self, shares: list[Share]) -> None:
        if self.groups is None:
            self.groups = self._group_table()
        changes = union_all([self._group_changes(share) for share in shares])
        self.groups.batch = self.batch
        self.groups.shrinks |= any(share.frame.weight is not None for share in shares)
        self.groups.merge(changes)

    def _group_table(self) -> Table:
        assert self.key_shape is not None
        keys = tuple(unquote(atom) for atom in atoms(self.key_shape))
        supports = [Measure(f"n{i}", f"sum(n{i})") for i in range(len(self.stage.feeds))]
        values = [
            Measure(f"v{i}", aggregate_sql(c.monoid, c.type, f"v{i}", None))
            for i, c in enumerate(self.stage.components)
            if isinstance(c.monoid, Aggregate)
        ]
        alive = " OR ".join(f"{measure.name} <> 0" for measure in supports)
        # A total is there also when nothing is.
        measures = (*supports, *values, mark())
        return Table(keys, keys, measures, alive if keys else "true", marked=True)

    def _group_changes(self, share: Share) -> DataFrame:
        """The change that one feed makes: by key, its support and its components, nulls for those of other feeds."""
        expressions = Expressions()
        feed = self.stage.feeds[share.feed]
        env = {**bind(feed.key, share.key), **bind(feed.element, share.element)}
        units = dict(feed.units)
        weight = share.frame.weight
        measures = []
        for i in range(len(self.stage.feeds)):
            counted = "0L" if i != share.feed else "count(1)" if weight is None else f"coalesce(sum({weight}), 0L)"
            measures.append(f"{counted} AS n{i}")
        for i, component in enumerate(self.stage.components):
            if isinstance(component.monoid, Aggregate):
                own = self._aggregated(component, units[i], env, weight, expressions) if i in units else None
                measures.append(f"{own or f'CAST(NULL AS {sql_type(component.type)})'} AS v{i}")
        measures.append(f"{MARK} AS {TOUCHED}")
        keys = [jvm.column(f"{atom.sql} AS k{n}") for n, atom in enumerate(atoms(share.key))]
        return share.frame.df.groupBy(*keys).agg(*map(jvm.column, measures))

    def _aggregated(
        self, component: Component, unit: Term, env: dict[str, Layout], weight: str | None, expressions: Expressions
    ) -> str:
        assert isinstance(component.monoid, Aggregate)
        share = cast(expressions.value(unit, env), unit.type, component.type, "")
        return aggregate_sql(component.monoid, component.type, to_sql(share), weight)

    def _merge_bag(self, index: int, component: Component, shares: list[Share]) -> None:
        changes = []
        for share in shares:
            feed = self.stage.feeds[share.feed]
            unit = dict(feed.units).get(index)
            if unit is not None:
                changes.append(self._bag_changes(index, share, feed, unit))
        if changes:
            table = self.bags[index]
            table.batch = self.batch
            table.shrinks |= any(share.frame.weight is not None for share in shares)
            table.append(table.partitioned(union_all(changes)))

    def _bag_changes(self, index: int, share: Share, feed: Feed, unit: Term) -> DataFrame:
        """The rows (key…, element…, weight) that a feed adds to a bag."""
        compiler = self._compiler({})
        env = {**bind(feed.key, share.key), **bind(feed.element, share.element)}
        elements = compiler.over(unit, share.frame, env)
        value = canonical(compiler.expressions, elements.value)
        if index not in self.bags:
            self.bag_shapes[index] = with_columns(value, numbered("e"))
            self.bags[index] = self._bag_table(index)
        fitted = fit(value, self.bag_shapes[index])
        named = [f"{a.sql} AS k{n}" for n, a in enumerate(atoms(share.key))]
        named += [f"{a.sql} AS {b.sql}" for a, b in zip(atoms(fitted), atoms(self.bag_shapes[index]), strict=True)]
        return elements.df.selectExpr(*named, f"CAST({elements.weight or '1L'} AS BIGINT) AS w")

    def _bag_table(self, index: int) -> Table:
        assert self.key_shape is not None
        keys = tuple(unquote(atom) for atom in atoms(self.key_shape))
        elements = tuple(unquote(atom) for atom in atoms(self.bag_shapes[index]))
        return Table((*keys, *elements), keys or elements, (Measure("w", "sum(w)"),), "w <> 0")

    # --- what the answer sees -----------------------------------------------------------------

    def view(self, snapshot: Snapshot, touched: Snapshot | None = None) -> Frame:
        """The value of the stage's variable: a bag of `(key, value)`, a total in one row, or the bag itself.

        With `touched`, only the keys that the batch before that snapshot touched are looked at.
        """
        match self.stage.shape:
            case Shape.BAG:
                return self._bag_view(snapshot)
            case Shape.TOTAL:
                return self._total_view(snapshot)
            case Shape.KEYED:
                return self._keyed_view(snapshot, touched)

    def snapshot(self) -> Snapshot:
        """The tables as they are now, to be read after they have changed."""
        groups = self.groups
        return Snapshot(
            groups.runs[0].df if groups and groups.runs else None,
            groups is not None and groups.batch == self.batch,
            {i: tuple(run.df for run in table.runs) for i, table in self.bags.items() if table.runs},
            frozenset(i for i, table in self.bags.items() if table.batch == self.batch),
        )

    def touched(self, snapshot: Snapshot) -> DataFrame | None:
        """The keys that the batch before a snapshot touched, none if it passed the stage by."""
        if snapshot.groups is None or self.groups is None:
            return None
        rows = snapshot.groups.where(f"{TOUCHED} = 1" if snapshot.stepped else "false")
        return rows.select(*self.groups.keys)

    def _empty(self, item: Type) -> Frame:
        schema = ", ".join(f"{a.sql} {sql_type(a.type)}" for a in atoms(_shape_of(item)))
        df = self.spark.createDataFrame([], schema or "unit BOOLEAN")
        return Frame(df, _shape_of(item))

    def change(self, snapshot: Snapshot) -> Frame:
        """How the batch before a snapshot changed the stage's bag."""
        if 0 not in snapshot.bags:
            return self._empty(element_type(self.stage.var))
        latest = snapshot.bags[0][-1]
        return Frame(latest if 0 in snapshot.grown else latest.where("false"), self.bag_shapes[0], quote("w"), True)

    def _bag_view(self, snapshot: Snapshot) -> Frame:
        if 0 not in snapshot.bags:
            return self._empty(element_type(self.stage.var))
        return Frame(self.bags[0].current(snapshot.bags[0]), self.bag_shapes[0], quote("w"))

    def _total_view(self, snapshot: Snapshot) -> Frame:
        df = self.spark.range(1).select() if snapshot.groups is None else snapshot.groups
        values: list[Layout] = []
        for i, component in enumerate(self.stage.components):
            assert isinstance(component.monoid, Aggregate)
            zero = zero_sql(component.monoid, component.type)
            values.append(Atom(zero if snapshot.groups is None else quote(f"v{i}"), component.type))
        return Frame(df, self._value(values))

    def _value(self, components: Sequence[Layout]) -> Layout:
        """A stored value: the component itself where there is one, else their tuple."""
        if len(components) == 1:
            return components[0]
        return Struct(tuple((label(i), value) for i, value in enumerate(components)), self.stage.value_type)

    def _keyed_view(self, snapshot: Snapshot, touched: Snapshot | None) -> Frame:
        if snapshot.groups is None or self.key_shape is None:
            return self._empty(element_type(self.stage.var))
        df = snapshot.groups
        supporting = [f"n{i} <> 0" for i, feed in enumerate(self.stage.feeds) if feed.supports]
        if len(supporting) < len(self.stage.feeds) or (self.groups and self.groups.shrinks):
            df = df.where(" OR ".join(supporting))
        keys = self.touched(touched) if touched is not None else None
        if keys is not None:
            # What is marked in the snapshot itself need not be looked up.
            marked = touched is snapshot and snapshot.stepped
            df = df.where(f"{TOUCHED} = 1") if marked else self._only(df, keys)
        for i, runs in snapshot.bags.items():
            bag = self.bags[i].current(runs)
            df = self._with_bag(df, i, self._only(bag, keys) if keys is not None else bag)
        values = [self._component(i, component, snapshot) for i, component in enumerate(self.stage.components)]
        pair = Struct((("_1", self.key_shape), ("_2", self._value(values))), element_type(self.stage.var))
        return Frame(df, pair)

    def _component(self, index: int, component: Component, snapshot: Snapshot) -> Atom:
        if isinstance(component.monoid, Aggregate):
            zero = zero_sql(component.monoid, component.type)
            return Atom(f"coalesce(v{index}, {zero})", component.type)
        if index not in snapshot.bags:
            return Atom(f"CAST(array() AS {sql_type(component.type)})", component.type, False)
        return Atom(f"coalesce(b{index}, CAST(array() AS {sql_type(component.type)}))", component.type, False)

    def _only(self, df: DataFrame, keys: DataFrame) -> DataFrame:
        """The rows of some keys; missing keys are keys too."""
        names = [unquote(atom) for atom in atoms(self.key_shape)] if self.key_shape else []
        renamed = keys.toDF(*(f"t_{name}" for name in names))
        condition = " AND ".join(f"{name} <=> t_{name}" for name in names)
        return df.join(F.broadcast(renamed), F.expr(condition), "left_semi")

    def _with_bag(self, df: DataFrame, index: int, bag: DataFrame) -> DataFrame:
        """Beside each key its bag as an array: again a union and a groupBy, which move nothing."""
        assert self.key_shape is not None
        keys = [unquote(atom) for atom in atoms(self.key_shape)]
        element = f"array({to_sql(self.bag_shapes[index])})"
        repeated = f"if(w = 1, {element}, array_repeat({element}[0], CAST(greatest(w, 0) AS INT)))"
        collected = bag.groupBy(*keys).agg(F.expr(f"flatten(collect_list({repeated})) AS b{index}"))
        others = [name for name in df.columns if name not in keys]
        left = df.selectExpr(
            *keys, *others, f"CAST(NULL AS {sql_type(self.stage.components[index].type)}) AS b{index}", "true AS here"
        )
        absent = [
            f"CAST(NULL AS {field.dataType.simpleString()}) AS {field.name}"
            for field in df.schema
            if field.name in others
        ]
        right = collected.selectExpr(*keys, *absent, f"b{index}", "false AS here")
        first = [F.expr(f"first({name}, true) AS {name}") for name in [*others, f"b{index}"]]
        merged = left.union(right).groupBy(*keys).agg(*first, F.expr("bool_or(here) AS here"))
        return merged.where("here").drop("here")

    def count_touched(self) -> int:
        """How many keys the last batch touched; in a bag, how many different elements."""
        if self.groups is not None:
            if self.groups.batch != self.batch or not self.groups.runs:
                return 0
            return self.groups.runs[0].df.where(f"{TOUCHED} = 1").count()
        return sum(table.runs[-1].rows or 0 for table in self.bags.values() if table.batch == self.batch)

    # --- upkeep -------------------------------------------------------------------------------

    def all_tables(self) -> list[Table]:
        own = [self.groups] if self.groups else []
        return [*own, *self.bags.values(), *(i.table for i in self.inputs.values() if i.table)]


@attrs.frozen
class Snapshot:
    """The rows of a stage's tables at one time. Each bag is in several runs, and merged when it is read."""

    groups: DataFrame | None
    stepped: bool
    """Whether the batch before it was one of the stage's, so that its marks are those of that batch."""
    bags: Mapping[int, tuple[DataFrame, ...]]
    grown: frozenset[int]
    """The bags whose last run is what the batch before it has brought."""


def _shape_of(item: Type) -> Layout:
    """The columns of an empty bag."""
    names = numbered("z")

    def shape(t: Type) -> Layout:
        match t:
            case ty.TupleType(items):
                return Struct(tuple((label(i), shape(inner)) for i, inner in enumerate(items)), t)
            case ty.RecordType(fields):
                return Struct(tuple((name, shape(inner)) for name, inner in fields), t)
            case _:
                return Atom(quote(next(names)), t)

    return shape(item)
