"""A query on Spark that is kept up to date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra.analysis.variables import source_names
from mrql.algebra.errors import UserError
from mrql.algebra.span import Source
from mrql.rewrite.plan.circuit import Circuit
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.engine.residual import Residual
from mrql.runtime.spark import jvm
from mrql.runtime.spark.batch_merge import BatchMerge
from mrql.runtime.spark.batch_result import BatchResult, gone
from mrql.runtime.spark.compiler.compiler import RelationCompiler
from mrql.runtime.spark.compiler.loop_checkpoints import LoopCheckpoints
from mrql.runtime.spark.maintenance.background_jobs import BackgroundJobs
from mrql.runtime.spark.maintenance.batch_rows import arriving, is_read_once, is_the_same_again
from mrql.runtime.spark.maintenance.held_tables import HeldTables
from mrql.runtime.spark.maintenance.trusted import netted_trusted
from mrql.runtime.spark.partitions import is_too_large, tables_in_one
from mrql.runtime.spark.rebuild import Rebuild
from mrql.runtime.spark.relation.frame import ColumnNames, Frame
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.session.errors import translated
from mrql.runtime.spark.session.jvm_exit import ended, text_of, unless_stopped
from mrql.runtime.spark.session.session import is_mine, lock_of, settings, step_settings
from mrql.runtime.spark.state.compaction import BackgroundCompaction
from mrql.runtime.spark.view_states import ViewStates
from mrql.runtime.streaming.stream_loop import Sizes


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
        """A view before its first batch. Without `start`, its states are to be loaded, and then it is to `resume`.

        Static tables that might have other rows when they are read again are held from their first reading; with
        `hold_tables` all are.
        """
        self.plan = plan
        self.spark = spark
        self.lock = lock_of(spark)
        """Held while the session's settings are changed, and by callers that need several operations to be atomic."""
        self.source = source
        self.static_tables = dict(tables or {})
        self.several = step_settings(spark, partitions)
        """The settings with which states are in several partitions, or in `partitions` if that is given."""
        with settings(spark, self.several), translated(source):
            in_one = None if partitions else tables_in_one(self.static_tables)
        self.held = HeldTables()
        self.held.hold(self.static_tables.values(), every=hold_tables)
        self.table_loops = LoopCheckpoints()
        self.tables = dict(self.static_tables if in_one is None else in_one)
        self.columns = ColumnNames()
        self.plans = Plans(spark, self.several if in_one is None else step_settings(spark, 1))
        self.states = ViewStates(plan, spark, self.tables, self.columns, self.plans, shared=start)
        self.computing = BackgroundJobs(spark, self.states.uncomputed, self.states.check)
        self.merge = BatchMerge(self.states, self.computing)
        self.last: BatchResult | None = None
        """The batch that was applied last."""
        self.arrived: Mapping[str, Frame] = {}
        """The batch that is being applied, by stream."""
        self.closed = False
        self.taking_back = False
        """Whether a batch is being rolled back, or its rollback was interrupted."""
        self.aside = BackgroundCompaction(spark)
        try:
            self._compute_loops()
            if start:
                self._start()
        except BaseException:
            self._free_tables()
            raise

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of the session with which plans are made."""
        return self.plans.settings

    @property
    def is_mine(self) -> bool:
        """Whether this thread holds the lock."""
        return is_mine(self.lock)

    @property
    def commits(self) -> int:
        """The number of batches that the states have."""
        return self.states.transaction.commits

    @property
    def circuit(self) -> Circuit:
        """The operators that a batch goes through."""
        return self.states.circuit

    # --- before the first batch ---------------------------------------------------------------

    def _compute_loops(self) -> None:
        """Computes the loops that are over static tables alone; they are tables from then on."""
        with settings(self.spark, self.settings), translated(self.source):
            for name, loop in self.plan.loops:
                compiler = RelationCompiler(self.spark, self.tables, self.columns, self.table_loops)
                self.tables[name] = compiler.bag(loop)

    def _start(self) -> None:
        with settings(self.spark, self.settings), translated(self.source):
            self.merge.go_through({}, is_start=True)
            self.complete()

    def resume(self, kept: Collection[str], arrived: Mapping[str, Frame]) -> None:
        """Computes the states that were loaded, those of the stages that are `kept`, and builds the others from the
        rows that have arrived so far."""
        self.expect(self.sizes().rows, arrived.values())
        with settings(self.spark, self.settings):
            Rebuild(self.states, self.merge, kept).of(arrived)
            self.complete()

    # --- a batch ------------------------------------------------------------------------------

    def apply(self, deltas: Mapping[str, Frame], deliver: Callable[[BatchResult], None] | None = None) -> DataFrame:
        """Applies a batch and returns the changes of the answer, which can be read until the next batch.

        `deliver` is called once the batch is computed, before its commit; if it fails, the batch is rolled back.

        Raises: UserError when the view is closed.
        """
        with self.lock, translated(self.source):
            self.require_open()
            try:
                with settings(self.spark, self.settings):
                    result = self.advance(deltas)
                    self.compute()
                if deliver is not None:
                    deliver(result)  # with the settings of the caller
                # From here on the batch counts, and Spark is asked for nothing that could be interrupted.
                self.commit()
            except BaseException as error:
                self.give_up(error)
                raise
        self.last = result
        return result.lazily(result.changes)

    def advance(self, deltas: Mapping[str, Frame]) -> BatchResult:
        """Plans a batch, whose result can then be read. Spark begins to compute the states in the meantime; the rest is
        computed by the first action that reads them, or when the batch is completed.

        Raises: MissingRow when a row is deleted that is not there, if that is known by then; UserError when a file of a
        static table has changed.
        """
        if self.taking_back or self.states.transaction.is_open:
            self.rollback()
        self.held.check()
        self.expect(self.sizes().rows, deltas.values())
        with settings(self.spark, self.settings):
            self.states.begin()
            changes = {name: self._arriving(name, frame) for name, frame in deltas.items()}
            self.states.record(changes)
            self.computing.go_on()
            for name in self.plan.trusted & changes.keys():
                changes[name], run = netted_trusted(changes[name], self.plans)
                self.states.transaction.temporaries.counted += [] if run is None else [run]
            self.arrived = changes
            self.merge.go_through(changes)
            self.states.plan_shortages(self.arrived)
            return BatchResult(self, self.states.transaction.before)

    def expect(self, rows: int, batch: Iterable[Frame] = ()) -> None:
        """Moves the states to several partitions, if they have too many rows for one, or a batch will add too many."""
        if self.settings is self.several:
            return
        with settings(self.spark, self.settings):
            if not is_too_large(self.plan, rows, batch):
                return
        self.states.repartition(self.several)
        self.tables.update(self.static_tables)

    def _arriving(self, stream: str, batch: Frame) -> Frame:
        """A batch of a stream as it is read: computed once, if several read it and rows might differ, or be costly."""
        frame = arriving(batch)
        if is_read_once(self.plan, stream, frame) or is_the_same_again(frame.df):
            return frame
        return self.states.deltas.aside(frame)

    def complete(self, *, counting: bool = False) -> None:
        """Computes what is not computed yet of a batch, and commits it.

        When `counting`, the same job counts the keys that the batch touched.

        Raises: MissingRow when the batch has deleted a row that was not there.
        """
        self.compute(counting=counting)
        self.commit()

    def compute(self, *, counting: bool = False) -> None:
        """Computes the states that no action has computed yet."""
        stages = self.states.stages if counting else []
        with settings(self.spark, self.settings):
            touched = [(state.stage.name, rdd) for state in stages for rdd in state.touched()]
            self.computing.start([rdd for _, rdd in touched])
            counts: Counter[str] = Counter()
            for (stage, _), keys in zip(touched, self.computing.finish(), strict=True):
                counts[stage] += keys
            self.states.transaction.touched = dict(counts)
            for table in self.states.tables():
                table.merge_aside(self.aside)

    def commit(self) -> None:
        """Commits the batch, and frees what nothing can read after it."""
        self.states.transaction.commit()
        self.columns.restart()

    def give_up(self, error: BaseException) -> None:
        """Rolls back a batch that has failed with an error. If it deleted a row that was not there, that is the cause:
        the query need not have a value for such a row, or for what is left without it.

        Raises: MissingRow then, or another error of `ViewStates.check`.
        """
        try:
            if isinstance(error, Exception) and self.states.transaction.is_open:
                with settings(self.spark, self.settings), suppress(PySparkException, Py4JError, ConnectionError):
                    if self.states.transaction.shortages is None and self.plan.trusted:
                        self.states.plan_shortages(self.arrived)
                    self.states.check()
        finally:
            self.rollback()

    def rollback(self) -> None:
        """Goes back to the states before the batch that was planned last.

        If that is interrupted, the next batch or reading completes it first.
        """
        self.taking_back = True
        try:
            self.computing.give_up()
        finally:
            self.states.rollback()
            self.columns.restart()
            self.taking_back = False

    # --- reading ------------------------------------------------------------------------------

    def answer(self) -> DataFrame:
        """The answer over all batches so far. It can be read until the next batch is committed, and after that for as
        long as no batch has replaced the runs that it reads.

        Raises: UserError when the view is closed, or a file of a static table that the answer reads has changed.
        """
        with self.lock, settings(self.spark, self.settings), translated(self.source):
            self.require_open()
            if source_names(self.plan.answer):
                self.held.check()
            self.at_rest()
            planned = self.plans.dataframe(self.states.answer(self.states.transaction, self.states.snapshots()))
            commits = self.states.transaction.commits

        def check() -> None:
            self.require_open()
            if self.states.transaction.commits > commits:
                raise gone()

        # Runs that no batch has replaced since can still be read, however many batches there were.
        return jvm.Reading(lambda: planned, self.spark, None, partial(self.reading, check))

    @contextmanager
    def reading(self, check: Callable[[], None]) -> Iterator[None]:
        """A block that reads rows of the view: other threads can apply batches before and after it, but not within.

        Raises: UserError by `check`, if the block fails for that reason; EngineError if rows are gone, or Spark has
        ended.
        """
        with self.lock:
            try:
                yield
            except (PySparkException, Py4JError) as error:
                check()
                if (fatal := ended(text_of(error))) is not None:
                    raise fatal from None
                raise

    def before(self) -> DataFrame:
        """The answer before the batch that was applied last.

        Raises: UserError when there was none, or the view is closed.
        """
        self.require_open()
        if self.last is None:
            raise UserError("there was no batch yet in this process", hint="`answer` is what is there without one")
        return self.last.lazily(self.last.before)

    @property
    def residual(self) -> Residual:
        """How far the values of loops are off by changes that are held back, once the batch is completed."""
        with self.lock, settings(self.spark, self.settings), translated(self.source):
            self.require_open()
            self.at_rest()
            return self.states.residual()

    def sizes(self) -> Sizes:
        """How large the states are, and how many keys the last completed batch touched, if those were counted."""
        return self.states.sizes()

    # --- the end ------------------------------------------------------------------------------

    def require_open(self) -> None:
        """Raises: UserError when the view is closed. Its states are gone: an answer from them would be as if no row had
        ever arrived."""
        if self.closed:
            raise UserError("the view is closed", hint="read it before it is closed, or make another one")

    def at_rest(self) -> None:
        """Completes a rollback that was interrupted."""
        if self.taking_back:
            self.rollback()

    def close(self) -> None:
        """Frees the states. Where Spark has ended there is nothing to free."""
        with self.lock, unless_stopped():
            self.closed = True
            self.computing.give_up()
            self.aside.close()
            self.states.close()
            self._free_tables()

    def _free_tables(self) -> None:
        """Frees the static tables that are held, and what the loops over them have left."""
        self.table_loops.free()
        self.held.free()
