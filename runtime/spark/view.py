"""A query on Spark that is kept up to date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce

import attrs
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra.errors import UserError
from mrql.algebra.span import Source
from mrql.algebra.terms import Stream, element_type
from mrql.rewrite.analysis.multilinear import Input
from mrql.rewrite.plan.circuit import circuit_of
from mrql.rewrite.plan.delta_rules import Rule
from mrql.rewrite.plan.plan import DerivedStream, Feedback, Plan
from mrql.rewrite.plan.threshold import Threshold
from mrql.runtime.engine.residual import Residual
from mrql.runtime.engine.stopwatch import timed
from mrql.runtime.spark import jvm
from mrql.runtime.spark.compiler.compiler import RelationCompiler
from mrql.runtime.spark.compiler.loop_checkpoints import LoopCheckpoints
from mrql.runtime.spark.maintenance.background_jobs import BackgroundJobs
from mrql.runtime.spark.maintenance.batch_rows import arriving, held_tables, is_read_once, is_the_same_again
from mrql.runtime.spark.maintenance.deltas import Deltas
from mrql.runtime.spark.maintenance.feedback import FeedbackState
from mrql.runtime.spark.maintenance.input_rows import Ledger, without_passing
from mrql.runtime.spark.maintenance.iteration import Rounds
from mrql.runtime.spark.maintenance.join_inputs import InputState
from mrql.runtime.spark.maintenance.snapshot import Snapshot
from mrql.runtime.spark.maintenance.stage_state import StageState
from mrql.runtime.spark.maintenance.thresholding import WithheldChanges, residuals
from mrql.runtime.spark.maintenance.transaction import Savepoint, Transaction
from mrql.runtime.spark.maintenance.trusted import netted_trusted, shortages
from mrql.runtime.spark.maintenance.upserts import UpsertedRows
from mrql.runtime.spark.relation.frame import ColumnNames, Frame
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.session.errors import translated
from mrql.runtime.spark.session.session import lock_of, settings, step_settings
from mrql.runtime.spark.state.compaction import BackgroundCompaction
from mrql.runtime.spark.state.run import Run
from mrql.runtime.spark.state.table import Table
from mrql.runtime.streaming.stream_loop import Sizes


class BatchResult:
    """A batch as it was planned: its answer, its changes and `settle` compute what is not computed yet."""

    def __init__(self, view: SparkView, before: list[Snapshot]) -> None:
        self._view = view
        self._before = before
        self._after = view._snapshots()

    def snapshot(self) -> DataFrame:
        """The answer after the batch."""
        with self._view.lock, settings(self._view.spark, self._view.settings):
            self._view.require_open()
            return self._view.plans.dataframe(self._view.changes.answer(self._after))

    def before(self) -> DataFrame:
        """The answer before the batch. It can be read until the next one, as the changes can."""
        with self._view.lock, settings(self._view.spark, self._view.settings):
            self._view.require_open()
            return self._view.plans.dataframe(self._view.changes.answer(self._before))

    def changes(self) -> DataFrame:
        """The answer after the batch minus `before`, as rows with a weight."""
        with self._view.lock, settings(self._view.spark, self._view.settings):
            self._view.require_open()
            return self._view.plans.dataframe(self._view.changes.of_answer(self._after, self._before))


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
        hold_tables: bool = False,
    ) -> None:
        """A view of nothing yet. One that does not `start` has its states put in, and is then to `resume`.

        Static tables that might be something else the next time are kept from when they are first read; with
        `hold_tables` all are.
        """
        self.plan = plan
        self.circuit = circuit_of(plan)
        self.spark = spark
        self.lock = lock_of(spark)
        """Held while the settings of the session are others; whoever needs several things of a view in one holds it."""
        self.source = source
        self.tables = dict(tables or {})
        self.held = held_tables(self.tables.values(), every=hold_tables)
        self.table_loops = LoopCheckpoints()
        self.columns = ColumnNames()
        self.settings = step_settings(spark, partitions)
        self.plans = Plans(spark, self.settings)
        inputs: dict[Input, InputState] = {}
        self.states = [
            StageState(
                stage,
                spark,
                self.tables,
                self.columns,
                self.plans,
                access=self.circuit.access[stage.name],
                shared=inputs if start else None,
            )
            for stage in plan.stages
        ]
        self.transaction = Transaction(self._snapshots())
        self.changes = Deltas(
            self.circuit, spark, self.plans, self.tables, self.columns, self.states, self.transaction.temporaries
        )
        self.computing = BackgroundJobs(spark, self._uncomputed, self._check)
        self.rounds = Rounds(plan, self.changes, self._merge, self.computing, self._planning_ahead)
        self.carried = [[self._carried(part, loop.threshold) for part in loop.parts] for loop in plan.feedbacks]
        self.upserts = [UpsertedRows(name, key, self.plans) for name, key in sorted(plan.keyed.items())]
        self.ledgers: list[Ledger | UpsertedRows] = [
            Ledger(name, element_type(Stream(name, plan.streams[name])), self.plans) for name in sorted(plan.looked_up)
        ]
        self.ledgers += self.upserts
        self.ledgers += [each.ledger for loop in self.carried for each in loop]
        self.withheld = {derived.name: WithheldChanges(derived, self.changes) for derived in plan.withholding}
        self.ledgers += [each.ledger for each in self.withheld.values()]
        self.arrived: Mapping[str, Frame] = {}
        """The batch that is applied."""
        self.last: BatchResult | None = None
        """The batch that was applied last."""
        self.closed = False
        self.aside = BackgroundCompaction(spark)
        try:
            self._compute_loops()
            if start:
                self._start()
        except BaseException:
            self._free_tables()
            raise

    def _compute_loops(self) -> None:
        """Computes the loops that are over static tables alone, which are tables then."""
        with settings(self.spark, self.settings), translated(self.source):
            for name, loop in self.plan.loops:
                compiler = RelationCompiler(self.spark, self.tables, self.columns, self.table_loops)
                self.tables[name] = compiler.bag(loop)

    def _start(self) -> None:
        with settings(self.spark, self.settings), translated(self.source):
            self._go_through({}, starting=True)
            self.settle()

    def resume(self, kept: Collection[str], arrived: Mapping[str, Frame]) -> None:
        """Computes the states that were put in, those of the stages that are `kept`, and builds the others from the
        rows that have arrived so far."""
        with settings(self.spark, self.settings):
            known = {each.stream: each.current() for each in self.upserts if each.table is not None}
            changes = {
                # A row that comes and one that takes it away do not cancel where rows replace each other.
                name: attrs.evolve(
                    frame if name in self.plan.keyed else without_passing(frame, self.columns), changes=True
                )
                for name, frame in arrived.items()
            }
            changes |= known
            self.transaction.before = before = self._snapshots()
            for ledger in self.ledgers:
                if ledger.table is None and ledger.stream in changes:
                    left = self._recorded(ledger, changes[ledger.stream])
                    if ledger.stream in self.plan.keyed:
                        changes[ledger.stream] = left
            built: frozenset[str] = frozenset()
            for loop, carried in zip(self.plan.feedbacks, self.carried, strict=True):
                if self.plan.inside(loop) <= {*kept}:
                    below = self.plan.below(loop.reads)
                    self._build(below - built, kept, changes, before)
                    for each in carried:
                        each.restore()
                else:
                    build = partial(self._build, kept=kept, before=before)
                    below = self.rounds.carry_over(
                        loop, carried, built, changes, before, build, self.transaction.changed, starting=True
                    )
                built |= below
            self._build({state.stage.name for state in self.states} - built, kept, changes, before)
            if all(state.stage.name in kept for state in self.states):
                # What was read back by itself for each stage is the same; what is built has other runs.
                inputs: dict[Input, InputState] = {}
                for state in self.states:
                    state.share_inputs(inputs)
            self.settle()

    def _build(
        self, names: Collection[str], kept: Collection[str], changes: dict[str, Frame], before: list[Snapshot]
    ) -> None:
        """Makes those of some states that are not kept from all rows of what they read."""
        for state in self.states:
            if state.stage.name in names and state.stage.name not in kept:
                for derived in self.plan.derived_for(state.stage):
                    if derived.name not in changes:
                        changes[derived.name] = self._for_readers(derived, self._passed_on_so_far(derived))
                self._step(state, changes, before, starting=True)

    def _passed_on_so_far(self, derived: DerivedStream) -> Frame:
        """All rows of a derived stream that stages have been given."""
        if derived.name in self.withheld:
            return self.withheld[derived.name].so_far()
        return self.changes.whole(derived.term)

    def advance(self, deltas: Mapping[str, Frame]) -> BatchResult:
        """Plans a batch: its states are there to be read. While it is planned Spark begins to compute them; the rest is
        computed with whatever is first asked of them, or when it is settled.

        Raises: MissingRow when a row is deleted that is not there, if that is known by then.
        """
        self.transaction = self.transaction.begin(self.all_tables(), self._snapshots)
        self.changes.temporaries = self.transaction.temporaries
        with settings(self.spark, self.settings):
            changes = {name: self._arriving(name, frame) for name, frame in deltas.items()}
            for ledger in self.ledgers:
                ledger.begin()
                if ledger.stream in changes:
                    changes[ledger.stream] = self._recorded(ledger, changes[ledger.stream])
            self.computing.go_on()
            for name in self.plan.trusted & changes.keys():
                changes[name], run = netted_trusted(changes[name], self.plans)
                self.transaction.temporaries.counted += [] if run is None else [run]
            self.arrived = changes
            self._go_through(changes)
            self._plan_shortages()
            return BatchResult(self, self.transaction.before)

    def _arriving(self, stream: str, batch: Frame) -> Frame:
        """A batch of a stream as it is to be read: computed once, if it might be something else the next time."""
        frame = arriving(batch)
        if is_read_once(self.plan, stream, frame) or is_the_same_again(frame.df):
            return frame
        return self.changes.aside(frame)

    def _go_through(self, changes: dict[str, Frame], *, starting: bool = False) -> None:
        """Merges a batch stage by stage; how a stage changes what is derived from it is a batch for those after it.

        A view that starts has states of static tables, and values of nothing, such as totals: what is derived from
        those is new.
        """
        before, changed = self.transaction.before, self.transaction.changed
        merge = partial(self._merge, before=before, moved=changed, starting=starting)
        merged: frozenset[str] = frozenset()
        for loop, carried in zip(self.plan.feedbacks, self.carried, strict=True):
            merged |= self.rounds.carry_over(loop, carried, merged, changes, before, merge, changed, starting=starting)
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
        # The steps of a loop, which have a set of their own, are computed when they are planned as a whole.
        at_once = moved is self.transaction.changed and not starting
        for state in self.states:
            if state.stage.name not in names:
                continue
            for derived in self.plan.derived_for(state.stage):
                of_nothing = starting and self.circuit.derived[derived.name].of_all.rule is not Rule.KEYS
                is_new = derived.name not in changes and derived.loop is None
                if is_new and (of_nothing or derived.reads & moved):
                    changes[derived.name] = self._change_of(derived, before, starting=starting)
                    if at_once:
                        self.computing.go_on()
            if self._step(state, changes, before, starting=starting):
                moved.add(state.stage.name)
                if at_once:
                    self.computing.go_on()

    def _change_of(self, derived: DerivedStream, before: list[Snapshot], *, starting: bool) -> Frame:
        """How a derived stream changes, but for what is withheld."""
        if derived.name in self.withheld:
            return self.withheld[derived.name].passed_on(before, starting=starting)
        with timed(self.transaction.milliseconds, derived.name):
            change = self.changes.since(self.circuit.derived[derived.name], before, starting=starting)
        return self._for_readers(derived, change)

    def _for_readers(self, derived: DerivedStream, change: Frame) -> Frame:
        """A change of a derived stream as the stages that read it are given it: for several it is computed once."""
        return self.changes.aside(change) if self.plan.is_shared(derived) else change

    def _step(self, state: StageState, changes: dict[str, Frame], before: list[Snapshot], *, starting: bool) -> bool:
        """Merges a batch into a state, round and round where the state reads what is made from it; says whether there
        was anything to merge."""
        is_first = state.stage.name not in self.transaction.changed
        with timed(self.transaction.milliseconds, state.stage.name):
            stepped = state.step(changes, starting=starting and is_first)
        if not stepped:
            return False
        self.transaction.changed.add(state.stage.name)
        recursive = self.plan.recursion_of(state.stage)
        found = None if recursive is None else self.rounds.settled(state, recursive, before, starting=starting)
        if recursive is not None and found is not None:
            changes[recursive.name] = found
        return True

    def settle(self, *, counting: bool = False) -> None:
        """Computes the states that no action has computed yet, and frees what they have replaced.

        When `counting`, the same job counts the keys that the batch touched.

        Raises: MissingRow when the batch has deleted a row that was not there.
        """
        with settings(self.spark, self.settings):
            touched = [(state.stage.name, rdd) for state in self.states for rdd in state.touched()] if counting else []
            self.computing.start([rdd for _, rdd in touched])
            counts: Counter[str] = Counter()
            for (stage, _), keys in zip(touched, self.computing.finish(), strict=True):
                counts[stage] += keys
            self.transaction.touched = dict(counts)
            for table in self.all_tables():
                table.merge_aside(self.aside)
        self.transaction.commit()
        self.columns.restart()

    @property
    def residual(self) -> Residual:
        """How far the values of loops are off by what does not matter, once the batch is settled."""
        with self.lock, settings(self.spark, self.settings), translated(self.source):
            self.require_open()
            kept_back = Residual.of_steps(residuals([*self.withheld.values()]))
            fed_back = [each.residual for loop in self.carried for each in loop]
        return reduce(Residual.and_also, fed_back, kept_back)

    def sizes(self) -> Sizes:
        """How large the settled states are, and how many keys the last batch touched, if those were counted."""
        return Sizes(
            sum(run.rows or 0 for table in self.all_tables() for run in table.runs),
            sum(self.transaction.touched.values()),
        )

    def _recorded(self, ledger: Ledger | UpsertedRows, change: Frame) -> Frame:
        """A batch of a stream that may lose rows, once it is noted what there is of it."""
        left = ledger.record(change)
        self.transaction.temporaries.counted += ledger.planned()
        return left

    def _plan_shortages(self) -> None:
        """Plans to look whether trusted deletions have left too little; it is computed with the states."""
        found = shortages(self.states, self.plan.trusted, self.arrived, self.plans)
        self.transaction.shortages = list(found)
        self.transaction.temporaries.counted += [shortage.below for shortage in self.transaction.shortages]

    def _check(self) -> None:
        """Raises: MissingRow when the batch has deleted a row that was not there; WrongDeletion where that was trusted
        and shows; AmbiguousRow, MissingVersion where it is not known which row replaces which."""
        for ledger in self.ledgers:
            ledger.check()
        for shortage in self.transaction.shortages or ():
            shortage.check(self.plans)

    def give_up(self, error: BaseException) -> None:
        """Takes back a batch that has ended with an error. Where it has deleted a row that was not there, that is what
        is wrong: the query need not have a value for such a row, or for what is left without it.

        Raises: MissingRow then.
        """
        try:
            if isinstance(error, Exception):
                with settings(self.spark, self.settings), suppress(PySparkException, Py4JError, ConnectionError):
                    if self.transaction.shortages is None and self.plan.trusted:
                        self._plan_shortages()
                    self._check()
        finally:
            self.rollback()

    def rollback(self) -> None:
        """Goes back to the states before the batch that was planned last."""
        self.computing.give_up()
        self.transaction.rollback(self.all_tables())
        for ledger in self.ledgers:
            ledger.begin()
        for each in (each for loop in self.carried for each in loop):
            each.forget()
        self.columns.restart()

    def apply(self, deltas: Mapping[str, Frame], deliver: Callable[[BatchResult], None] | None = None) -> DataFrame:
        """Applies a batch and returns how the answer changes. The changes can be read until the next batch.

        What is to `deliver` the batch is given it before it counts, and takes it back by failing.

        Raises: UserError when the view is closed.
        """
        with self.lock, settings(self.spark, self.settings), translated(self.source):
            self.require_open()
            try:
                step = self.advance(deltas)
                if deliver is not None:
                    deliver(step)
                self.settle()
            except BaseException as error:
                self.give_up(error)
                raise
        self.last = step
        return jvm.Lazy(step.changes, self.spark)

    def answer(self) -> DataFrame:
        """The answer over all that was applied so far.

        Raises: UserError when the view is closed.
        """
        with self.lock, settings(self.spark, self.settings), translated(self.source):
            self.require_open()
            return self.plans.dataframe(self.changes.answer(self._snapshots()))

    def before(self) -> DataFrame:
        """The answer before the batch that was applied last.

        Raises: UserError when there was none, or the view is closed.
        """
        self.require_open()
        if self.last is None:
            raise UserError("there was no batch yet", hint="`answer` is what is there without one")
        return jvm.Lazy(self.last.before, self.spark)

    def require_open(self) -> None:
        """Raises: UserError when the view is closed. Its states are gone: what is made from them would be as if nothing
        had ever come."""
        if self.closed:
            raise UserError("the view is closed", hint="read it before it is closed, or make another one")

    def close(self) -> None:
        """Frees the states."""
        with self.lock:
            self._close()

    def _close(self) -> None:
        self.closed = True
        self.computing.give_up()
        self.aside.close()
        for table in self.all_tables():
            table.close()
        self.transaction.free()
        self._free_tables()

    def _free_tables(self) -> None:
        """Frees what is kept of static tables."""
        self.table_loops.free()
        for df in self.held:
            df.unpersist()

    def all_tables(self) -> list[Table]:
        kept = [ledger.table for ledger in self.ledgers if ledger.table is not None]
        kept += [each.pending for loop in self.carried for each in loop if each.pending is not None]
        # Stages may have what their joins keep of an input in common.
        return [*dict.fromkeys(table for state in self.states for table in state.all_tables()), *kept]

    def _carried(self, part: Feedback, threshold: Threshold) -> FeedbackState:
        ledger = Ledger(part.fed.name, element_type(part.fed), self.plans, in_groups=True)
        return FeedbackState(part, ledger, self.changes, threshold)

    def _uncomputed(self) -> list[Run]:
        """The runs of the states that no action has computed yet, and what of changes is to be counted."""
        runs = [run for table in self.all_tables() for run in table.uncomputed()]
        return [*runs, *(run for run in self.transaction.temporaries.counted if run.rows is None)]

    def _planning_ahead(self, more: Sequence[object]) -> Callable[[], None]:
        """What takes back all that is planned from now on, in some more objects too; nothing of it is computed yet."""
        carried = [each for loop in self.carried for each in loop]
        inputs = [kept for state in self.states for kept in state.inputs.values()]
        tables, temporaries = self.all_tables(), self.transaction.temporaries
        inside = [part for table in tables for part in (table.batch, table.log)]
        planned_in = [temporaries, *self.states, *inputs, *self.ledgers, *carried, *tables, *inside, *more]
        savepoint, known = Savepoint(planned_in), self._runs()

        def take_back() -> None:
            planned = self._runs()
            savepoint.rollback()
            for run in planned - known - self._runs():
                run.free()

        return take_back

    def _runs(self) -> set[Run]:
        """All runs that are needed."""
        own = (run for table in self.all_tables() for run in (*table.all_runs(), *table.merged_aside()))
        return {*own, *self.transaction.temporaries.runs}

    def _snapshots(self) -> list[Snapshot]:
        return [state.snapshot() for state in self.states]
