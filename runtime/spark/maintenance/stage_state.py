"""One stage on Spark: its tables, how a batch changes them, and what the answer sees of them.

A stage has a table of its keys, with the support that each feed gives a key and the components that Spark can
aggregate, and a table of `(key, element, weight)` for each component that is a bag. A feed that joins several inputs
keeps a table of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import Known
from mrql.algebra.monoids import Aggregate, BagUnion
from mrql.algebra.terms import Term, Var, element_type
from mrql.rewrite.analysis.multilinear import DeltaForm, Input
from mrql.rewrite.plan.circuit import Circuit
from mrql.rewrite.plan.joins.other_keys import Path
from mrql.rewrite.plan.known_states import KnownStage
from mrql.rewrite.plan.operators import Access
from mrql.rewrite.plan.plan import Component, Feed, Shape, Stage
from mrql.runtime.spark.compiler.compiler import RelationCompiler
from mrql.runtime.spark.compiler.row_values import attached
from mrql.runtime.spark.expressions.casts import canonical, cast
from mrql.runtime.spark.expressions.expressions import Environment
from mrql.runtime.spark.expressions.layout import (
    Layout,
    as_columns,
    bind,
    part,
    taken_apart,
    to_sql,
    with_columns,
)
from mrql.runtime.spark.maintenance.join_inputs import CHANGES, InputState, Versions, only_grown
from mrql.runtime.spark.maintenance.keyed_elements import with_key
from mrql.runtime.spark.maintenance.snapshot import BagRows, Snapshot, TableSnapshot
from mrql.runtime.spark.maintenance.stage_columns import FeedDelta, StageColumns
from mrql.runtime.spark.relation.frame import ColumnNames, Frame, fit, numbered, retracting
from mrql.runtime.spark.relation.keys import Keys
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation, union_all
from mrql.runtime.spark.state.run import Run
from mrql.runtime.spark.state.table import Table, known_sum


@attrs.define
class StageState:
    """The state of a stage on Spark."""

    stage: Stage
    known: KnownStage
    """Which of the tuples in its tables may be missing as a whole: the columns of its tables depend on that."""
    circuit: Circuit
    """Says how batches read and change its tables, and by which delta rules."""
    spark: SparkSession
    tables: Mapping[str, Frame]
    columns: ColumnNames
    plans: Plans
    keep: Callable[[Run], None]
    """Called with the runs that are kept for the batch."""
    groups: Table | None = None
    bags: dict[int, Table] = attrs.Factory(dict)
    keys: Keys | None = None
    bag_shapes: dict[int, Layout] = attrs.Factory(dict)
    inputs: dict[tuple[int, str], InputState] = attrs.Factory(dict)
    """What is kept of join inputs, by the number of the feed and the label of the input."""
    shared: dict[Input, InputState] | None = None
    """What the joins of all stages keep of inputs, once for each input; None where each stage is to keep its own."""
    steps: int = 0
    """How many steps it has taken, in all batches."""

    @property
    def in_steps(self) -> bool:
        """Whether a batch changes it step by step."""
        return Access.STEPS in self.circuit.access[self.stage.name]

    # --- a batch ------------------------------------------------------------------------------

    def step(self, deltas: Mapping[str, Frame], *, is_start: bool = False) -> bool:
        """Merges a batch, or a step of one, into the state; nothing is computed until an action needs it. With
        `is_start`, the feeds over static tables alone are merged, too.

        Returns whether there was anything to merge.
        """
        self.steps += 1
        feed_deltas = []
        for i, feed in enumerate(self.stage.feeds):
            reads = feed.rows.inputs
            changed = {r.label: delta for name, delta in deltas.items() for r in reads if r.stream == name}
            if changed or (is_start and not feed.rows.inputs):
                feed_deltas += self._feed_deltas(i, feed, changed)
        self._merge(feed_deltas)
        if not feed_deltas and any(table.batch.begun_with != table.snapshot() for table in self._own_tables()):
            self.steps -= 1  # nothing has changed since the step of this batch that has changed something
        return bool(feed_deltas)

    def _feed_deltas(self, index: int, feed: Feed, changed: Mapping[str, Frame]) -> list[FeedDelta]:
        if len(feed.rows.inputs) <= 1:
            return [self._feed_delta(index, feed, changed)]
        versions = {read.label: self._versions(index, read, changed.get(read.label)) for read in feed.rows.inputs}
        # A change that is known sooner is joined with the others before their changes, and so need not wait for these.
        labels = [*changed, *(label for label in versions if label not in changed)]
        form = self.circuit.of_feed(self.stage.name, index).form
        if form is DeltaForm.THERE:
            versions = self._there(index, feed, changed, versions)
        feed_deltas = []
        for choice in form.choices(tuple(label in changed for label in labels)):
            chosen = {label: versions[label][which] for label, which in zip(labels, choice, strict=True)}
            present = {name: frame for name, frame in chosen.items() if frame is not None}
            if len(present) == len(chosen):  # a join with nothing is nothing
                source = next(label for label, which in zip(labels, choice, strict=True) if which in CHANGES)
                lying = self._as_it_is_met(index, source, present)
                feed_deltas.append(self._feed_delta(index, feed, lying, source))
        return feed_deltas

    def _as_it_is_met(self, index: int, source: str, sources: Mapping[str, Frame]) -> Mapping[str, Frame]:
        """The frames that a change is joined with. A large input that it joins by a key other than the input's own is
        read partitioned by that key. If there is no such table, the join reads all of the input, which is noted."""
        found = dict(sources)
        for label, key in self._other_keys(index, source, sources):
            state = self.inputs[index, label]
            assert state.table is not None
            by_key = None
            if key is not None and state.table.is_large:
                by_key = state.by_another_key(key, sources[label])
            if by_key is None:
                state.table.note_gone_over()
            else:
                found[label] = by_key
        return found

    def _other_keys(
        self, index: int, source: str, sources: Mapping[str, Frame]
    ) -> Iterator[tuple[str, Sequence[Path] | None]]:
        """The inputs that a change joins by a key other than their own, each with the parts that are this key."""
        for label in (label for label, frame in sources.items() if not frame.changes):
            for key in self.circuit.index(self.stage.name, index, label).other_keys:
                if key.batch == source:
                    yield label, key.parts

    def _there(
        self, index: int, feed: Feed, changed: Mapping[str, Frame], versions: Mapping[str, Versions]
    ) -> dict[str, Versions]:
        """The versions of the inputs in which no row cancels another: as they are, until one of them has lost a row."""
        inputs = {read.label: self._input(index, read) for read in feed.rows.inputs}
        if any(state.shrinks for state in inputs.values()):
            return {label: state.there(changed=label in changed) for label, state in inputs.items()}
        return {label: only_grown(version) for label, version in versions.items()}

    def _feed_delta(
        self, index: int, feed: Feed, sources: Mapping[str, Frame], changed: str | None = None
    ) -> FeedDelta:
        compiler = self._compiler(sources)
        frame = compiler.bag(feed.rows.for_batch(changed))
        pair = frame.value.type
        assert isinstance(pair, ty.TupleType)
        key = cast(part(frame.value, "_1", pair.items[0]), pair.items[0], self.stage.key_type, "")
        key = canonical(compiler.expressions, key)
        element = part(frame.value, "_2", pair.items[1])
        shrinks = frame.weight is not None
        if feed.weight is not None:
            weight = compiler.expressions.value(feed.weight, bind(feed.element, element))
            frame = attrs.evolve(frame, weight=to_sql(weight))
            shrinks = any(state.table.shrinks for (i, _), state in self.inputs.items() if i == index and state.table)
        key = taken_apart(key, self.known.key)
        scope: Environment = {**bind(feed.key, key), **bind(feed.element, element)}
        units = {}
        for i, unit in feed.units:
            if isinstance(self.stage.components[i].monoid, Aggregate):
                # The values that it reads from static tables as a whole are added to each row.
                frame, scope, units[i] = attached(compiler, frame, scope, unit)
        return FeedDelta(index, frame, key, element, units, scope, shrinks)

    def _versions(self, feed: int, read: Input, delta: Frame | None) -> Versions:
        """The versions of an input; its change is added to its table, unless another stage has done that."""
        state = self._input(feed, read)
        if delta is None:
            old = state.frame(state.table.rows() if state.table else None)
            return {"old": old, "new": old, "delta": None}
        if state.last is None or state.last[0] is not delta:
            access = self.circuit.index(self.stage.name, feed, read.label).access
            state.last = delta, self._changed(state, read, delta, access, self.known.inputs[feed, read.label])
        return state.last[1]

    def _input(self, feed: int, read: Input) -> InputState:
        """What is kept of an input. A stage that iterates shares none: it adds changes that no other stage gets."""
        place = feed, read.label
        if place not in self.inputs:
            own = InputState()
            self.inputs[place] = own if self.in_steps or self.shared is None else self.shared.setdefault(read, own)
        return self.inputs[place]

    def share_inputs(self, shared: dict[Input, InputState]) -> None:
        """Adds its input states to the `shared` ones, or closes them and uses those that are shared already."""
        self.shared = shared
        reads = ((feed, read) for feed, each in enumerate(self.stage.feeds) for read in each.rows.inputs)
        for feed, read in () if self.in_steps else reads:
            own = self.inputs.pop((feed, read.label), None)
            for table in own.tables if own is not None and own is not shared.setdefault(read, own) else ():
                table.close()
            if own is not None:
                self.inputs[feed, read.label] = shared[read]

    def _changed(self, state: InputState, read: Input, delta: Frame, access: Access, known: Known) -> Versions:
        compiler = self._compiler({read.label: delta})
        change = compiler.bag(read.term)
        change = attrs.evolve(change, value=taken_apart(change.value, known))
        if state.table is None:
            state.set_up(self.plans, read, change, compiler.expressions, access)
        return state.add(read, change, compiler.expressions)

    def _compiler(self, sources: Mapping[str, Frame]) -> RelationCompiler:
        """A compiler over changes and over what is kept of inputs, whose rows may have negative weights."""
        changing = {name: retracting(frame) for name, frame in sources.items()}
        return RelationCompiler(self.spark, {**self.tables, **changing}, self.columns, keep=self._kept)

    def _kept(self, rows: Relation, by: Sequence[str]) -> Relation:
        """Rows of the batch, moved by some columns and kept."""
        run = Run.of(self.plans, self.plans.moved(rows, by))
        self.keep(run)
        return run.relation

    # --- merging ------------------------------------------------------------------------------

    @property
    def _stage_columns(self) -> StageColumns:
        """The columns of its tables."""
        assert self.keys is not None
        return StageColumns(self.stage, self.keys, self.columns)

    def _merge(self, feed_deltas: list[FeedDelta]) -> None:
        if not feed_deltas:
            return
        self.keys = self.keys or Keys(feed_deltas[0].key, "k")
        if self.stage.shape is not Shape.BAG:
            self._merge_groups(feed_deltas)
        for i, component in enumerate(self.stage.components):
            if isinstance(component.monoid, BagUnion):
                self._merge_bag(i, component, feed_deltas)

    def _merge_groups(self, feed_deltas: list[FeedDelta]) -> None:
        if self.groups is None:
            self.groups = self.new_groups()
        self.groups.changed_in = self.steps
        self.groups.shrinks |= any(delta.shrinks for delta in feed_deltas)
        together = Access.SPARSE in self.groups.access and bool(self.groups.schema.keys) and bool(self.groups.runs)
        if together:
            # Each is likely to be of few rows: moving and adding up those of each by themselves would cost more.
            changes = self._stage_columns.changes_together(self.groups.schema, feed_deltas)
        else:
            changes = union_all([self._stage_columns.changes(delta) for delta in feed_deltas])
        changes = self.groups.partitioned(changes)
        self.groups.update(changes, by_key=together)

    def new_groups(self) -> Table:
        """A table of its groups, without rows."""
        access = self.circuit.groups(self.stage.name).access
        return Table(self.plans, self._stage_columns.groups(), access=access)

    def _merge_bag(self, index: int, component: Component, feed_deltas: list[FeedDelta]) -> None:
        changes = []
        for delta in feed_deltas:
            feed = self.stage.feeds[delta.feed]
            unit = dict(feed.units).get(index)
            if unit is not None:
                changes.append(self._bag_changes(index, delta, feed, unit))
        if changes:
            table = self.bags[index]
            table.changed_in = self.steps
            table.shrinks |= any(delta.shrinks for delta in feed_deltas)
            table.append(table.partitioned(union_all(changes)))

    def _bag_changes(self, index: int, delta: FeedDelta, feed: Feed, unit: Term) -> Relation:
        """The rows (key…, element…, weight) that a feed adds to a bag."""
        compiler = self._compiler({})
        env = {**bind(feed.key, delta.key), **bind(feed.element, delta.element)}
        compiler.meet(unit)
        own = Var(compiler.names.fresh("k"), self.stage.key_type)
        pairs = with_key(unit, own, compiler.names.fresh("x"))
        elements = compiler.over(pairs, delta.frame, {**env, own.name: delta.key})
        key = part(elements.value, "_1", own.type)
        element = part(elements.value, "_2", element_type(unit))
        value = taken_apart(canonical(compiler.expressions, element), self.known.bags[index])
        if index not in self.bags:
            self.bag_shapes[index] = with_columns(value, numbered("e"))
            access = self.circuit.bag(self.stage.name, index).access
            self.bags[index] = Table(self.plans, self._stage_columns.bag(self.bag_shapes[index]), access=access)
        fitted = fit(value, self.bag_shapes[index])
        columns = [*self._stage_columns.of_key(key), *as_columns(fitted, self.bag_shapes[index])]
        return elements.df.select(*columns, f"CAST({elements.weight or '1L'} AS BIGINT) AS w")

    # --- what others see of it ----------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The current state, which can still be read after it has changed."""
        groups = self._snapshot_of(self.groups) if self.groups and self.groups.runs else None
        bags = {i: BagRows(self._snapshot_of(bag), self.bag_shapes[i]) for i, bag in self.bags.items() if bag.runs}
        return Snapshot(self.stage, self.known, self.keys, groups, bags)

    def _snapshot_of(self, table: Table) -> TableSnapshot:
        return TableSnapshot.of(table, self.steps, by_key=self.stage.shape is Shape.KEYED)

    def touched(self) -> list[Any]:
        """Spark's handles of the rows that the last batch touched: of the groups, or of the bags if there are none."""
        tables = [self.groups] if self.groups is not None else self.bags.values()
        return [table.touched() for table in tables if table.changed_in == self.steps]

    # --- maintenance --------------------------------------------------------------------------

    @property
    def about_rows(self) -> int | None:
        """How many rows its groups and bags have, or had before a batch that is not computed yet."""
        return known_sum(table.about_rows for table in self._own_tables())

    def all_tables(self) -> list[Table]:
        return [*self._own_tables(), *(table for i in self.inputs.values() for table in i.tables)]

    def kept_again(self) -> list[Table]:
        """The tables that have the rows of others, partitioned by other keys."""
        return [table for i in self.inputs.values() for table in i.by_other_keys.values()]

    def _own_tables(self) -> list[Table]:
        """The tables of its groups and bags."""
        return [*([self.groups] if self.groups else []), *self.bags.values()]
