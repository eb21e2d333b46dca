"""How a batch changes the terms over the states of a view: the answer, and the derived streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names, all_names, free_vars, substitute
from mrql.algebra.catalog import item_type
from mrql.algebra.terms import CMap, Term, Var, element_type
from mrql.algebra.types import Type
from mrql.rewrite.plan.circuit import Circuit
from mrql.rewrite.plan.delta_rules import DeltaRules, Rule
from mrql.rewrite.plan.plan import Stage
from mrql.runtime.spark.compiler.answers import answer_rows, output_columns, output_rows
from mrql.runtime.spark.compiler.comparison import compared
from mrql.runtime.spark.compiler.compiler import RelationCompiler
from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.maintenance.snapshot import Snapshot, StatesBefore, Touched
from mrql.runtime.spark.maintenance.stage_state import StageState
from mrql.runtime.spark.maintenance.transaction import Temporaries
from mrql.runtime.spark.relation.frame import ColumnNames, Frame, fitted, flat, netted, retracting, signed, union
from mrql.runtime.spark.relation.keys import Keys
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation, union_all
from mrql.runtime.spark.state.run import Run
from mrql.runtime.spark.state.table import known_sum


@attrs.frozen
class OfKeys:
    """The elements that a term makes of some keys of a state, at most one of each."""

    elements: Frame
    keys: Keys
    touched: Relation | None = None
    """The rows of these keys; None if they are all keys of the state."""


@attrs.define(eq=False)
class Deltas:
    """The values of terms over the states of a view, and their differences by the rules of the circuit."""

    circuit: Circuit
    spark: SparkSession
    plans: Plans
    tables: Mapping[str, Frame]
    columns: ColumnNames
    states: Sequence[StageState]
    temporaries: Temporaries
    """The rows that are kept for the batch."""

    # --- values -------------------------------------------------------------------------------

    def answer(self, snapshots: list[Snapshot]) -> Relation:
        """The answer over states as they were at some time."""
        term = self.circuit.answer.term
        return answer_rows(self._compiler(term, snapshots, ColumnNames()), term, self.rows_read(term))

    def answer_over(self, term: Term, given: Mapping[str, Frame]) -> Relation:
        """The answer as a term over some frames."""
        return answer_rows(self.compiler(given), term)

    def rows_read(self, term: Term) -> int | None:
        """About how many rows the states have that a term reads; None where that is unknown."""
        states = {state.stage.name: state for state in self.states}
        return known_sum(states[name].about_rows if name in states else None for name in free_vars(term))

    def all_of(self, term: Term, snapshots: list[Snapshot]) -> Frame:
        """The elements of a term over states as they were at some time."""
        return self._compiler(term, snapshots, self.columns).bag(term)

    def whole(self, term: Term) -> Frame:
        """All rows of a term over the states, as a batch."""
        compiler = self._compiler(term, self._now(), self.columns)
        return self.added([_side(compiler, term, 1)], element_type(term))

    def of_keys(
        self, rules: DeltaRules, before: StatesBefore | None = None, after: list[Snapshot] | None = None
    ) -> OfKeys | None:
        """The elements of a term `after`, or now, for the keys touched since `before`, or for all; None where a key may
        have several elements, or they are not made of the keys of one state, or that state has no groups yet."""
        stage = rules.one_by_key
        if stage is None:
            return None
        index = self.index(stage)
        now = (self._now() if after is None else after)[index]
        if now.keys is None or now.groups is None:
            return None
        touched = None if before is None or before.is_start else Touched(before.snapshots[index], now)
        if touched is None:
            rows, bag = None, now.view()
        elif touched.rows is None:
            rows = now.groups.all().where("false")
            bag = now.keyed(rows, {})
        else:
            rows, bag = touched.rows, touched.after()
        return OfKeys(self.compiler({stage.name: bag}, self.columns).bag(rules.term), now.keys, rows)

    # --- differences --------------------------------------------------------------------------

    def of_answer(self, after: list[Snapshot], before: list[Snapshot]) -> Relation:
        """The answer over some states minus that over others, as rows with a weight."""
        return self._of_sides(self._sides(self.circuit.answer, after, before, ColumnNames()))

    def of_answer_over(self, term: Term, after: Mapping[str, Frame], before: Mapping[str, Frame]) -> Relation:
        """The answer as a term over some frames minus that over others, as rows with a weight."""
        columns = ColumnNames()
        compilers = [self.compiler(given, columns) for given in (after, before)]
        return self._of_sides([_side(compiler, term, sign) for compiler, sign in zip(compilers, (1, -1), strict=True)])

    def _of_sides(self, sides: Sequence[Frame]) -> Relation:
        """The sum of some changes of the answer, as rows with a weight."""
        sides = fitted(sides, item_type(self.circuit.answer.term.type))
        whole = union_all([output_rows(side, weighted=True) for side in sides])
        columns = [name for name, _ in output_columns(sides[0].value)]
        return whole.aggregate(columns, ["sum(weight) AS weight"]).where("weight <> 0")

    def since(self, rules: DeltaRules, before: StatesBefore) -> Frame:
        """The change of a term over the states since `before`, as rows with a weight, without rows that cancel each
        other."""
        after, were, item = self._now(), before.snapshots, element_type(rules.term)
        if before.is_start:
            # At the start the value now is the change; rows cancel only where it is computed over a bag's change.
            side, *others = self._before_and_after(rules, after, were, self.columns)
            cancels = not others and not self._has_only_grown(rules, after, were)
            sides = [side]
        else:
            sides = self._sides(rules, after, were, self.columns)
            cancels = self._may_cancel(rules, after, were, len(sides))
        return self.added(sides, item) if cancels else self._together(sides, item)

    def rows_since(self, rules: DeltaRules, before: StatesBefore) -> Frame:
        """The same for callers that add up equal rows themselves: rows that cancel each other may be among them."""
        sides = self._sides(rules, self._now(), before.snapshots, self.columns)
        return self._together(sides, element_type(rules.term))

    def sides_since(self, rules: DeltaRules, before: StatesBefore) -> list[Frame]:
        """The rows of `rows_since` as separate frames instead of their union, with values of one layout."""
        sides = self._sides(rules, self._now(), before.snapshots, self.columns)
        return fitted(sides, element_type(rules.term))

    def _may_cancel(self, rules: DeltaRules, after: list[Snapshot], before: list[Snapshot], sides: int) -> bool:
        """Whether rows of a change may cancel others of it. Adding up such rows without netting them first would round
        sums, and lose those with an infinite value."""
        found = rules.of(_changed(after, before))
        if found.rule is not Rule.ELEMENTS or found.stage is None:
            return sides > 1 or not self._has_only_grown(rules, after, before)
        index = self.index(found.stage)
        still = after[index].is_as(before[index]) or not any(t.shrinks for t in self.states[index].all_tables())
        return not still or not rules.tells_apart

    def _has_only_grown(self, rules: DeltaRules, after: list[Snapshot], before: list[Snapshot]) -> bool:
        """Whether the states that a term reads and that have changed since `before` have never lost a row."""
        both = zip(self.states, after, before, strict=True)
        changed = [state for state, a, b in both if state.stage.name in rules.reads and not a.is_as(b)]
        return not any(table.shrinks for state in changed for table in state.all_tables())

    def added(self, frames: Sequence[Frame], item: Type) -> Frame:
        """The sum of some changes, as one change in which no two rows are equal."""
        return netted(self._together(frames, item), self.columns)

    def _together(self, frames: Sequence[Frame], item: Type) -> Frame:
        return attrs.evolve(union(frames, item, self.columns), changes=True)

    def aside(self, change: Frame, *, counted: bool = False) -> Frame:
        """A change, kept until the next batch is committed, in columns with the same names each time."""
        named = flat(change, ColumnNames("f__"))
        run = self.kept(named.df, counted=counted)
        return attrs.evolve(named, df=run.relation, changes=True)

    def kept(self, rows: Relation, *, counted: bool = False) -> Run:
        """Rows, kept until the next batch is committed. If they are `counted`, they are read once more."""
        run = Run.of(self.plans, rows)
        (self.temporaries.counted if counted else self.temporaries.changes).append(run)
        return run

    def _sides(
        self, rules: DeltaRules, after: list[Snapshot], before: list[Snapshot], columns: ColumnNames
    ) -> list[Frame]:
        """Frames whose sum is a term over some states minus that over others."""
        found = rules.of(_changed(after, before))
        if found.rule is Rule.ELEMENTS and found.stage is not None and isinstance(rules.term, CMap):
            return self._compared(rules.term, found.stage, after, before, columns)
        return self._before_and_after(rules, after, before, columns)

    def _compared(
        self, term: CMap, bag: Stage, after: list[Snapshot], before: list[Snapshot], columns: ColumnNames
    ) -> list[Frame]:
        """What each element of a bag as it was gives with the other states as they are, minus what it gives with them
        as they were, where the two differ; and the term over the change of the bag (`row_by_row`)."""
        names, states, earlier = Names({*all_names(term), *self.tables}), {}, {}
        for now, was in zip(after, before, strict=True):
            if now.stage.name in free_vars(term) - {bag.name}:
                states[now.stage.name] = now.view()
                if not now.is_as(was):
                    name = names.fresh(now.stage.name)
                    states[name], earlier[now.stage.name] = was.view(), Var(name, now.stage.var.type)
        index = self.index(bag)
        now, was = after[index], before[index]
        body = substitute(term.function.body, earlier)
        frames = [compared(self.compiler(states, columns), term.function, body, was.elements())]
        if not now.is_as(was):
            frames.append(self.over_change(term, bag, now.change(was), states, columns))
        return frames

    def over_change(
        self, term: Term, bag: Stage, change: Frame, others: Mapping[str, Frame], columns: ColumnNames
    ) -> Frame:
        """A term that is linear in a bag, over the change of that bag."""
        frame = self.compiler({**others, bag.name: retracting(change)}, columns).bag(term)
        return attrs.evolve(frame, value=canonical(Expressions(), frame.value), weight=frame.weight or "1L")

    def _before_and_after(
        self, rules: DeltaRules, after: list[Snapshot], before: list[Snapshot], columns: ColumnNames
    ) -> list[Frame]:
        """A term over the states after, and over those before with negated weights.

        By `Rule.KEYS` both are computed for the touched keys only; by `Rule.CHANGE` the term is computed over the
        change of the bag alone.
        """
        found, term = rules.of_values(_changed(after, before)), rules.term
        pairs = zip(after, before, strict=True)
        others = {s.stage.name: s.view() for s, b in pairs if s.stage.name in rules.reads and s.is_as(b)}
        if found.stage is None:
            compilers = [self._compiler(term, s, columns) for s in (after, before)]
        else:
            index, name = self.index(found.stage), found.stage.name
            if found.rule is Rule.CHANGE:
                return [self.over_change(term, found.stage, after[index].change(before[index]), others, columns)]
            touched = Touched(before[index], after[index], self.temporaries.lookups.append)
            compilers = [self.compiler({**others, name: side}, columns) for side in (touched.after(), touched.before())]
        return [_side(compiler, term, sign) for compiler, sign in zip(compilers, (1, -1), strict=True)]

    def index(self, stage: Stage) -> int:
        """The number of a stage."""
        return self.circuit.plan.stages.index(stage)

    def _compiler(self, term: Term, snapshots: list[Snapshot], columns: ColumnNames) -> RelationCompiler:
        """A compiler for a term over states as they were at some time."""
        read = free_vars(term)
        return self.compiler({s.stage.name: s.view() for s in snapshots if s.stage.name in read}, columns)

    def compiler(self, states: Mapping[str, Frame], columns: ColumnNames | None = None) -> RelationCompiler:
        """A compiler for terms over static tables and some frames."""
        return RelationCompiler(self.spark, {**self.tables, **states}, columns, self.temporaries.loops)

    def _now(self) -> list[Snapshot]:
        return [state.snapshot() for state in self.states]


def _changed(after: list[Snapshot], before: list[Snapshot]) -> list[str]:
    """The stages that have changed between two times."""
    return [now.stage.name for now, was in zip(after, before, strict=True) if not now.is_as(was)]


def _side(compiler: RelationCompiler, term: Term, sign: int) -> Frame:
    """The value of a term as one side of a difference."""
    frame = compiler.bag(term) if ty.is_collection(term.type) else compiler.one(term)
    return signed(frame, sign, compiler.expressions)
