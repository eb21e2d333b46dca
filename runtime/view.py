"""A query on Spark that is kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra import types as ty
from mrql.algebra.binders import free_vars
from mrql.algebra.evaluate import endless
from mrql.algebra.span import Source
from mrql.algebra.terms import Stream, Term, element_type
from mrql.algebra.types import Type
from mrql.rewrite.answer import linear_stage, touched_stage
from mrql.rewrite.stages import Derived, Feedback, Feedbacks, Plan
from mrql.runtime import jvm, upkeep
from mrql.runtime.answers import answer_rows, output_columns, output_rows
from mrql.runtime.bulk import Compiler
from mrql.runtime.expressions import Expressions, canonical
from mrql.runtime.failures import translated
from mrql.runtime.feedback import Carried
from mrql.runtime.frames import Columns, Frame, flat, netted, signed, union, union_all
from mrql.runtime.layout import part, quote, to_sql
from mrql.runtime.ledger import Ledger
from mrql.runtime.loops import Kept
from mrql.runtime.prepared import Plans
from mrql.runtime.relation import Relation
from mrql.runtime.residual import Residual
from mrql.runtime.session import settings, step_settings
from mrql.runtime.snapshot import Snapshot, Touched
from mrql.runtime.state import Run, Table
from mrql.runtime.step import StageState
from mrql.runtime.stream import Sizes
from mrql.runtime.upkeep import Aside
from mrql.runtime.withheld import Withheld, of_withheld


class Step:
    """A batch as it was planned: nothing is computed before its answer, its changes or `settle` asks for it."""

    def __init__(self, view: SparkView, before: list[Snapshot]) -> None:
        self._view = view
        self._before = before
        self._after = [state.snapshot() for state in view.states]

    def snapshot(self) -> DataFrame:
        """The answer after the batch."""
        with settings(self._view.spark, self._view.settings):
            return self._view.plans.dataframe(self._view.answer_over(self._after))

    def changes(self) -> DataFrame:
        """The answer after the batch minus the one before, as rows with a weight."""
        with settings(self._view.spark, self._view.settings):
            return self._view.plans.dataframe(self._view.difference(self._after, self._before))


class SparkView:
    """A plan with its states on Spark.

    A failing batch leaves the states as they were.
    """

    def __init__(
        self,
        plan: Plan,
        spark: SparkSession,
        tables: Mapping[str, Frame] | None = None,
        source: Source | None = None,
        partitions: int | None = None,
        *,
        start: bool = True,
    ) -> None:
        """A view of nothing yet. One that does not `start` has its states put in, and is then to `resume`."""
        self.plan = plan
        self.spark = spark
        self.source = source
        self.tables = dict(tables or {})
        self.columns = Columns()
        self.settings = step_settings(spark, partitions)
        self.plans = Plans(spark, self.settings)
        self.loops, self.stale_loops, self.table_loops = Kept(), Kept(), Kept()
        with settings(spark, self.settings), translated(source):
            for name, loop in plan.loops:
                self.tables[name] = Compiler(spark, self.tables, self.columns, self.table_loops).bag(loop)
        again = frozenset[str]().union(*map(plan.inside, plan.feedbacks))
        self.states = [
            StageState(
                stage,
                spark,
                self.tables,
                self.columns,
                self.plans,
                recurs=plan.recursion_of(stage) is not None or stage.name in again,
            )
            for stage in plan.stages
        ]
        self.carried = [[self._carried(part, loop.epsilon) for part in loop.parts] for loop in plan.feedbacks]
        self.ledgers = [
            Ledger(name, element_type(Stream(name, plan.streams[name])), self.plans) for name in sorted(plan.shrinking)
        ]
        self.ledgers += [each.ledger for loop in self.carried for each in loop]
        keep = self._keep_aside
        self.withheld = {derived.name: Withheld(derived, self.plans, keep) for derived in plan.withholding}
        self.ledgers += [each.ledger for each in self.withheld.values()]
        self.fed_back, self.kept_back = Residual(), Residual()
        self.stepped: set[str] = set()
        """The stages that the batch has changed."""
        self.marked: list[tuple[Table, list[Run]]] = []
        self.stale: list[Run] = []
        self.lookups: list[Run] = []
        self.asides: list[Run] = []
        self.touched = 0
        self.aside = Aside(spark)
        if start:
            self._start()

    def _start(self) -> None:
        with settings(self.spark, self.settings), translated(self.source):
            before = [state.snapshot() for state in self.states]
            self._go_through({}, before, starting=True)
            self.settle()

    def resume(self, kept: Collection[str], arrived: Mapping[str, Frame]) -> None:
        """Computes the states that were put in, those of the stages that are `kept`, and builds the others from the
        rows that have arrived so far."""
        changes = {name: attrs.evolve(frame, changes=True) for name, frame in arrived.items()}
        with settings(self.spark, self.settings):
            before = [state.snapshot() for state in self.states]
            for ledger in self.ledgers:
                if ledger.table is None and ledger.stream in changes:
                    ledger.record(changes[ledger.stream])
            built: frozenset[str] = frozenset()
            for loop, carried in zip(self.plan.feedbacks, self.carried, strict=True):
                if self.plan.inside(loop) <= {*kept}:
                    below = self.plan.below(loop.reads)
                    self._build(below - built, kept, changes, before)
                    for each in carried:
                        each.restore(self._whole(each.feedback.value))
                else:
                    build = partial(self._build, kept=kept, before=before)
                    below = self._carry_over(loop, carried, built, changes, before, build, starting=True)
                built |= below
            for withheld in self.withheld.values():
                withheld.restore()
            self._build({state.stage.name for state in self.states} - built, kept, changes, before)
            self.settle()

    def _build(
        self, names: Collection[str], kept: Collection[str], changes: dict[str, Frame], before: list[Snapshot]
    ) -> None:
        """Makes those of some states that are not kept from all rows of what they read."""
        for state in self.states:
            if state.stage.name in names and state.stage.name not in kept:
                for derived in self.plan.derived_for(state.stage):
                    if derived.name not in changes:
                        changes[derived.name] = self._passed_on_so_far(derived)
                self._step(state, changes, before, starting=True)

    def _passed_on_so_far(self, derived: Derived) -> Frame:
        """All rows of a derived stream that stages have been given."""
        whole = self._whole(derived.term)
        withheld = self.withheld[derived.name].rows() if derived.name in self.withheld else None
        if withheld is None:
            return whole
        return self._added([whole, signed(withheld, -1, Expressions())], element_type(derived.term))

    def advance(self, deltas: Mapping[str, Frame]) -> Step:
        """Plans a batch: its states are there to be read, and are computed with whatever is first asked of them.

        Raises: UserError when a row is deleted that is not there.
        """
        # What the batch before this one has replaced and looked up may still be read by its changes, until now.
        self.stale += [run for table in self.all_tables() for run in table.retired]
        self.stale += self.lookups + self.asides
        self.lookups, self.asides = [], []
        self.stale_loops.take(self.loops)
        for table in self.all_tables():
            table.retired, table.young = [], []
            table.take_merged()
        self.marked = [(table, list(table.runs)) for table in self.all_tables()]
        before = [state.snapshot() for state in self.states]
        with settings(self.spark, self.settings):
            changes = {
                name: attrs.evolve(frame, df=frame.df.of_batch(), changes=True) for name, frame in deltas.items()
            }
            for ledger in self.ledgers:
                if ledger.stream in changes:
                    ledger.record(changes[ledger.stream])
            self._go_through(changes, before)
            return Step(self, before)

    def _go_through(self, changes: dict[str, Frame], before: list[Snapshot], *, starting: bool = False) -> None:
        """Merges a batch stage by stage; how a stage changes what is derived from it is a batch for those after it.

        A view that starts has states of static tables, and values of nothing, such as totals: what is derived from
        those is new.
        """
        self.stepped, self.fed_back = set(), Residual()
        merge = partial(self._merge, before=before, moved=self.stepped, starting=starting)
        merged: frozenset[str] = frozenset()
        for loop, carried in zip(self.plan.feedbacks, self.carried, strict=True):
            merged |= self._carry_over(loop, carried, merged, changes, before, merge, starting=starting)
        merge({state.stage.name for state in self.states} - merged, changes)

    def _merge(
        self,
        names: Collection[str],
        changes: dict[str, Frame],
        before: list[Snapshot],
        moved: set[str],
        *,
        starting: bool = False,
    ) -> None:
        """Merges a batch into some stages; how what is derived from them changes is added to it.

        Those that have changed since `before` are in `moved`, and are added to it.
        """
        for state in self.states:
            if state.stage.name not in names:
                continue
            for derived in self.plan.derived_for(state.stage):
                of_nothing = starting and touched_stage(derived.term, self.plan.stages) is None
                is_new = derived.name not in changes and derived.loop is None
                if is_new and (of_nothing or derived.reads & moved):
                    change = self._derived_change(derived.term, before, starting=starting)
                    withheld = self.withheld.get(derived.name)
                    changes[derived.name] = change if withheld is None else withheld.passed_on(change)
            if self._step(state, changes, before, starting=starting):
                moved.add(state.stage.name)

    def _step(self, state: StageState, changes: dict[str, Frame], before: list[Snapshot], *, starting: bool) -> bool:
        """Merges a batch into a state, round and round where the state reads what is made from it; says whether there
        was anything to merge."""
        again = state.stage.name in self.stepped
        if not state.step(changes, starting=starting and not again, again=again):
            return False
        self.stepped.add(state.stage.name)
        recursive = self.plan.recursion_of(state.stage)
        found = None if recursive is None else self._settled(state, recursive, before, starting=starting)
        if recursive is not None and found is not None:
            changes[recursive.name] = found
        return True

    # --- loops that are carried over ----------------------------------------------------------

    def _carried(self, part: Feedback, epsilon: float) -> Carried:
        ledger = Ledger(part.fed.name, element_type(part.fed), self.plans)
        return Carried(part, ledger, self.plans, epsilon, self._keep_aside)

    def _carry_over(
        self,
        loop: Feedbacks,
        carried: Sequence[Carried],
        merged: Collection[str],
        changes: dict[str, Frame],
        before: list[Snapshot],
        merge: Callable[[Collection[str], dict[str, Frame]], None],
        *,
        starting: bool,
    ) -> frozenset[str]:
        """Merges a batch into the stages of a loop that were not `merged` yet, and feeds back what that changes.

        What is new of what the loop begins with comes with the batch. Returns the stages.
        """
        starts, below, inside = self.plan.below(loop.starts), self.plan.below(loop.reads), self.plan.inside(loop)
        merge(starts - {*merged}, changes)
        for each in carried:
            each.start()
            if each.is_empty:
                changes[each.name] = each.begin(self._whole(each.feedback.start))
            elif each.feedback.start_reads & self.stepped:
                changes[each.name] = each.add_new(self._derived_change(each.feedback.start, before))
        merge(below - starts - {*merged}, changes)
        self._feed_back(loop, carried, inside, before, starting=starting)
        # What is derived from the loop's stages has changed with each of its steps.
        for derived in self.plan.derived:
            if derived.reads & inside:
                changes.pop(derived.name, None)
        return below

    def _feed_back(
        self,
        loop: Feedbacks,
        carried: Sequence[Carried],
        inside: Collection[str],
        before: list[Snapshot],
        *,
        starting: bool,
    ) -> None:
        """Feeds back what a batch has changed of a loop's bags, step by step, as far as it matters.

        Raises: UserError when a loop without a limit does not come to rest.
        """
        earlier = before
        for taken in range(1, loop.steps + 1):
            with self.columns.apart("r__"):
                for each in carried:
                    value, is_first = each.feedback.value, starting and taken == 1
                    each.compare(self._whole(value) if is_first else self._derived_change(value, earlier))
                self._compute([run for run in self.asides if run.rows is None])
                due = [each for each in carried if each.is_due]
                if taken == loop.steps or not due:
                    break
                earlier = [state.snapshot() for state in self.states]
                self._merge(inside, {each.name: each.feed_back() for each in due}, earlier, set())
        if loop.loop.limit is None and due:
            raise endless(loop.loop)
        for each in carried:
            each.note_fed()
            self.fed_back = self.fed_back.and_also(each.residual())

    def settle(self, *, counting: bool = False) -> None:
        """Computes the states that no action has computed yet, and frees what they have replaced.

        When `counting`, the same job counts the keys that the batch touched.
        """
        with settings(self.spark, self.settings):
            touched = [rdd for state in self.states for rdd in state.touched()] if counting else []
            self.touched = sum(self._compute(touched=touched))
            for table in self.all_tables():
                table.merge_aside(self.aside)
            if self.withheld:
                self.kept_back = of_withheld([*self.withheld.values()])
        for run in self.stale:
            run.free()
        self.stale = []
        self.stale_loops.free()
        self.marked = []
        self.columns.restart()

    @property
    def residual(self) -> Residual:
        """How far the values of loops are off by what does not matter, once the batch is settled."""
        return self.fed_back.and_also(self.kept_back)

    def sizes(self) -> Sizes:
        """How large the settled states are, and how many keys the last batch touched, if those were counted."""
        return Sizes(sum(run.rows or 0 for table in self.all_tables() for run in table.runs), self.touched)

    def rollback(self) -> None:
        """Goes back to the states before the batch that was planned last."""
        known = {id(table) for table, _ in self.marked}
        for table in self.all_tables():
            if id(table) not in known:
                table.rollback([])
        for table, runs in self.marked:
            table.rollback(runs)
        self.marked = []
        self.columns.restart()

    def apply(self, deltas: Mapping[str, Frame]) -> DataFrame:
        """Applies a batch and returns how the answer changes. The changes can be read until the next batch."""
        with settings(self.spark, self.settings), translated(self.source):
            try:
                step = self.advance(deltas)
                self.settle()
            except BaseException:
                self.rollback()
                raise
        return jvm.Lazy(step.changes, self.spark)

    def answer(self) -> DataFrame:
        """The answer over all that was applied so far."""
        with settings(self.spark, self.settings), translated(self.source):
            return self.plans.dataframe(self.answer_over([state.snapshot() for state in self.states]))

    def answer_over(self, snapshots: list[Snapshot]) -> Relation:
        """The answer over states as they were at some time."""
        return answer_rows(self._compiler(self.plan.answer, snapshots, Columns()), self.plan.answer)

    def close(self) -> None:
        """Frees the states."""
        self.aside.close()
        for table in self.all_tables():
            table.close()
        for run in [*self.stale, *self.lookups, *self.asides]:
            run.free()
        self.stale, self.lookups, self.asides = [], [], []
        for kept in (self.loops, self.stale_loops, self.table_loops):
            kept.free()

    def all_tables(self) -> list[Table]:
        kept = [ledger.table for ledger in self.ledgers if ledger.table is not None]
        kept += [each.pending for loop in self.carried for each in loop if each.pending is not None]
        return [*(table for state in self.states for table in state.all_tables()), *kept]

    def _compiler(self, term: Term, snapshots: list[Snapshot], columns: Columns) -> Compiler:
        """A compiler for a term over states as they were at some time."""
        read = free_vars(term)
        return self._over({s.stage.name: s.view() for s in snapshots if s.stage.name in read}, columns)

    def _over(self, states: Mapping[str, Frame], columns: Columns) -> Compiler:
        return Compiler(self.spark, {**self.tables, **states}, columns, self.loops)

    # --- changes ------------------------------------------------------------------------------

    def difference(self, after: list[Snapshot], before: list[Snapshot]) -> Relation:
        """The answer over some states minus that over others, as rows with a weight."""
        sides = [
            (output_rows(side, weighted=True), [quote(name) for name, _ in output_columns(side.value)])
            for side in self._sides(self.plan.answer, after, before, Columns())
        ]
        whole = union_all([rows for rows, _ in sides])
        return whole.aggregate(sides[0][1], ["sum(weight) AS weight"]).where("weight <> 0")

    def _derived_change(self, term: Term, before: list[Snapshot], *, starting: bool = False) -> Frame:
        """How what is derived from states has changed since `before`, as rows with a weight, no two of them equal."""
        after = [state.snapshot() for state in self.states]
        sides = self._sides(term, after, before, self.columns)
        return self._added(sides[:1] if starting else sides, element_type(term))

    def _settled(
        self, state: StageState, recursive: Derived, before: list[Snapshot], *, starting: bool
    ) -> Frame | None:
        """Takes the changes of what is made from a state back to it, those with the earliest time first, until there
        are none. Returns all of them; None where there are none.

        Raises: UserError when that takes more steps than it may.
        """
        index, earlier, item = self.states.index(state), list(before), element_type(recursive.term)
        found: list[Frame] = []
        left: list[Frame] = []
        while True:
            # Each step has the names of the one before it, and so its plans.
            with self.columns.apart("r__"):
                change = self._derived_change(recursive.term, earlier, starting=starting and not found)
                pending = self._aside(self._added([*left, change], item) if left else change)
                now = self._first(pending, recursive)
                if now is None:
                    break
                found = [*found, now] if len(found) < upkeep.YOUNG else [self._aside(self._added([*found, now], item))]
                left = [pending, signed(now, -1, Expressions())]
                earlier[index] = state.snapshot()
                state.step({recursive.name: now}, again=True)
        return self._added(found, item) if len(found) > 1 else next(iter(found), None)

    def _first(self, pending: Frame, recursive: Derived) -> Frame | None:
        """Of facts that have changed those of the earliest time; None where there are none.

        Raises: UserError when that is later than it may be.
        """
        self._compute([run for run in self.asides if run.rows is None])
        if not self.asides[-1].rows:
            return None
        time = to_sql(part(pending.value, "_2", ty.LONG))
        first = self.plans.dataframe(pending.df.aggregate([], [f"min({time}) AS first"])).head()
        assert first is not None
        assert recursive.loop is not None
        if recursive.loop.limit is None and first[0] > recursive.loop.most:
            raise endless(recursive.loop)
        return self._aside(pending.where(f"{time} = {first[0]}L"))

    def _added(self, frames: Sequence[Frame], item: Type) -> Frame:
        """The sum of some changes, as one change in which no two rows are equal."""
        return attrs.evolve(netted(union(frames, item, self.columns), self.columns), changes=True)

    def _keep_aside(self, run: Run) -> None:
        """Keeps a run until the next batch."""
        self.asides.append(run)

    def _aside(self, change: Frame) -> Frame:
        """A change that is kept until the next batch, in columns that are always named alike."""
        named = flat(change, Columns("f__"))
        run = Run.of(self.plans, named.df)
        self.asides.append(run)
        return attrs.evolve(named, df=run.relation, changes=True)

    def _compute(self, more: Sequence[Run] = (), touched: Sequence[Any] = ()) -> list[int]:
        """Computes some runs and those of the states that no action has computed yet, in one job; returns how many rows
        other handles have."""
        runs = [*(run for table in self.all_tables() for run in table.uncomputed()), *more]
        rows = jvm.compute_all(self.spark, [*(run.rdd for run in runs), *touched])
        for run, number in zip(runs, rows, strict=False):
            run.rows = number
        return rows[len(runs) :]

    def _whole(self, term: Term) -> Frame:
        """All rows of what is derived from states, as a batch."""
        compiler = self._compiler(term, [state.snapshot() for state in self.states], self.columns)
        return self._added([_side(compiler, term, 1)], element_type(term))

    def _sides(self, term: Term, after: list[Snapshot], before: list[Snapshot], columns: Columns) -> list[Frame]:
        """A term over some states and over others, the latter taken away.

        Where each key has its value by itself, only those that the batch touched are looked at; where the term is
        linear in a bag, it is computed over the bag's change.
        """
        stages = self.plan.stages
        read, pairs = free_vars(term), zip(after, before, strict=True)
        others = {s.stage.name: s.view() for s, b in pairs if s.stage.name in read and s.is_as(b)}
        moved = tuple(stage for stage in stages if stage.name not in others)
        bag, keyed = linear_stage(term, moved), touched_stage(term, moved)
        if bag is not None:
            index = stages.index(bag)
            change = after[index].change(before[index])
            frame = self._over({**others, bag.name: change}, columns).bag(term)
            return [attrs.evolve(frame, value=canonical(Expressions(), frame.value), weight=frame.weight or "1L")]
        if keyed is not None:
            index = stages.index(keyed)
            touched = Touched(before[index], after[index], self.lookups.append)
            compilers = [
                self._over({**others, keyed.name: side}, columns) for side in (touched.after(), touched.before())
            ]
        else:
            compilers = [self._compiler(term, s, columns) for s in (after, before)]
        return [_side(compiler, term, sign) for compiler, sign in zip(compilers, (1, -1), strict=True)]


def _side(compiler: Compiler, term: Term, sign: int) -> Frame:
    """The value of a term as one side of a difference."""
    frame = compiler.bag(term) if ty.is_collection(term.type) else compiler.one(term)
    return signed(frame, sign, compiler.expressions)
