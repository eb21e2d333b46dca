"""The engine of the stream loop on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager

import attrs
from pyspark.sql import SparkSession

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.span import Source
from mrql.algebra.types import Type
from mrql.rewrite.plan.circuit import Circuit
from mrql.rewrite.plan.operators import Operator, OperatorKind
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.checkpoint.commits import States
from mrql.runtime.checkpoint.restore import GoingOn
from mrql.runtime.engine.residual import Residual
from mrql.runtime.engine.sizes import EngineMeasurements, OperatorActivity, StateSize
from mrql.runtime.files.quarantine import Quarantine
from mrql.runtime.sources.arrived import Batch, files_of, static_files
from mrql.runtime.spark import jvm
from mrql.runtime.spark.batch_result import BatchResult
from mrql.runtime.spark.checkpoint import SparkStates
from mrql.runtime.spark.io.answer import SparkRows
from mrql.runtime.spark.io.readers import find_malformed, read, read_batch
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.session.errors import translated
from mrql.runtime.spark.session.jvm_exit import unless_stopped
from mrql.runtime.spark.state.run import Run
from mrql.runtime.spark.state.table import Table
from mrql.runtime.spark.view import SparkView
from mrql.runtime.streaming.stream_loop import Put, Sizes


@attrs.frozen
class SparkAnswer:
    """The answer after a planned batch."""

    result: BatchResult
    type: Type

    def snapshot(self) -> SparkRows:
        return SparkRows(self.result.snapshot(), self.type)

    def changes(self) -> SparkRows:
        return SparkRows(self.result.changes(), self.type, changes=True)


class SparkEngine:
    """Keeps a plan up to date on Spark."""

    name = "spark"

    def __init__(
        self,
        plan: Plan,
        sources: Mapping[str, SourceSpec],
        spark: SparkSession,
        source: Source | None,
        quarantine: Quarantine | None = None,
        going_on: GoingOn | None = None,
        partitions: int | None = None,
    ) -> None:
        self.sources = sources
        self.spark = spark
        self.source = source
        self.quarantine = quarantine
        self.tables = {name: read(spark, sources[name], None, quarantine) for name in plan.tables}
        restored = None if going_on is None else going_on.restored
        self.view = SparkView(plan, spark, self.tables, source, partitions, start=restored is None, hold_tables=True)
        self.states: SparkStates | None = None
        if going_on is not None:
            self.states = SparkStates(self.view, going_on.identities)
        if restored is not None and self.states is not None:
            self.states.load(restored)
            with self._translated(restored.arrived):
                self.view.resume(restored.states, self._frames(restored.arrived))

    def _frames(self, batch: Batch) -> dict[str, Frame]:
        return {
            name: read_batch(self.spark, self.sources[name], arrived, self.view.columns, self.quarantine)
            for name, arrived in batch.items()
        }

    def _translated(self, batch: Batch) -> AbstractContextManager[None]:
        def reread() -> None:
            find_malformed((self.sources[name], files_of(arrived)) for name, arrived in batch.items())
            find_malformed((self.sources[name], static_files(self.sources[name])) for name in self.tables)

        return translated(self.source, reread)

    def advance(self, batch: Batch, put: Put, *, changes: bool) -> None:
        with self._translated(batch):
            try:
                result = self.view.advance(self._frames(batch))
                # The states are computed by the same action that puts out the answer.
                put(SparkAnswer(result, self.view.plan.answer.type))
                self.view.complete(counting=True)
            except BaseException as error:
                with unless_stopped():
                    self.view.give_up(error)
                raise

    def sizes(self) -> Sizes:
        return self.view.sizes()

    def measure(self) -> EngineMeasurements:
        kept = _kept_bytes(self.view)
        return EngineMeasurements(spark_sizes(self.view, kept), spark_operators(self.view, kept))

    @property
    def circuit(self) -> Circuit:
        return self.view.circuit

    def residual(self) -> Residual | None:
        return self.view.residual if self.view.plan.has_residual else None

    def durable(self) -> States:
        assert self.states is not None
        return self.states

    def close(self) -> None:
        with unless_stopped():
            self.view.close()


def spark_sizes(view: SparkView, kept: Mapping[int, int]) -> dict[str, StateSize]:
    """The sizes of a view's states by the name of the stage, and of its ledgers by the name of the stream.

    A table that stages share, as joins of the same input do, counts for each of them."""
    sizes = {state.stage.name: _size(state.all_tables(), kept) for state in view.states.stages}
    return sizes | {
        ledger.stream: _size([ledger.table], kept) for ledger in view.states.ledgers if ledger.table is not None
    }


def sizes_of(view: SparkView) -> dict[str, StateSize]:
    """The same, with the bytes that Spark holds of them now."""
    return spark_sizes(view, _kept_bytes(view))


def spark_operators(view: SparkView, kept: Mapping[int, int]) -> dict[str, OperatorActivity]:
    """The activity of each operator in the last batch: the rows that it gave, where they are known, the size of what it
    keeps, and the time to plan it. Changes kept for several readers that are not counted yet are read once more."""
    batch = view.states.transaction
    shared = [run for _, run in batch.temporaries.passed_on if run.rows is None]
    for run, rows in zip(shared, jvm.compute_all(view.spark, [run.rdd for run in shared]), strict=True):
        run.rows = rows
    found = {}
    for operator in view.circuit.operators:
        table = _table_of(operator, view)
        state = None if operator.kept is None else _size([] if table is None else [table], kept)
        spent = batch.milliseconds.get(operator.id)
        found[operator.id] = OperatorActivity(_rows_out(operator, view), state=state, milliseconds=spent)
    return found


def _rows_out(operator: Operator, view: SparkView) -> int | None:
    """The number of rows that an operator gave in the last batch; None where it is unknown."""
    match operator.kind:
        case OperatorKind.DELAY:
            return _counted(
                run for loop in view.states.carried for e in loop if e.name == operator.id for run in e.fed_before
            )
        case OperatorKind.DIFFERENTIATE:
            passed_on = view.states.transaction.temporaries.passed_on
            derived = next(derived for derived in view.plan.derived if derived.name == operator.id)
            is_known = view.plan.is_shared(derived) and derived.loop is None and not derived.threshold.is_given
            return _counted(run for name, run in passed_on if name == operator.id) if is_known else None
        case OperatorKind.JOIN | OperatorKind.FILTER_MAP:
            # A bag with no other input adds the rows that it is given, equal rows once.
            bag = view.circuit.by_id[operator.stage or ""]
            alone = bag.kind is OperatorKind.BAG and bag.inputs == (operator.id,)
            return _rows_added(bag, view) if alone else None
        case _ if operator.kept is None:
            return None
        case _:
            table = _table_of(operator, view)
            is_merged = table is not None and table.batch.merged
            return view.states.transaction.touched.get(operator.id) if is_merged else _rows_added(operator, view)


def _rows_added(operator: Operator, view: SparkView) -> int | None:
    """The number of rows that the last batch added to an operator's table; None where that was merged as a whole."""
    table = _table_of(operator, view)
    if table is None:
        return 0
    return None if table.batch.merged else sum(run.rows or 0 for run in table.batch.added)


def _counted(runs: Iterable[Run]) -> int | None:
    """The number of rows of some runs; None unless all of them are counted."""
    rows = [run.rows for run in runs]
    return None if None in rows else sum(number or 0 for number in rows)


def _table_of(operator: Operator, view: SparkView) -> Table | None:
    """The table that an operator keeps, if it exists yet."""
    if operator.stage is None:
        return next((ledger.table for ledger in view.states.ledgers if ledger.stream == operator.id), None)
    state = next(state for state in view.states.stages if state.stage.name == operator.stage)
    match operator.kind:
        case OperatorKind.INDEX if operator.feed is not None and operator.input is not None:
            kept = state.inputs.get((operator.feed, operator.input))
            return None if kept is None else kept.table
        case OperatorKind.BAG if operator.component is not None:
            return state.bags.get(operator.component)
        case OperatorKind.AGGREGATE | OperatorKind.DISTINCT:
            return state.groups
        case _:
            return None


def _size(tables: Iterable[Table], kept: Mapping[int, int]) -> StateSize:
    runs = [run for table in tables for run in table.runs]
    handles = [run.handle for run in runs]
    return StateSize(sum(run.rows or 0 for run in runs), sum(kept.get(rdd.id(), 0) for rdd in handles))


def _kept_bytes(view: SparkView) -> dict[int, int]:
    """The bytes that are held of each kept RDD, in memory and on disk, by its id."""
    infos = view.spark.sparkContext._jsc.sc().getRDDStorageInfo()
    return {info.id(): info.memSize() + info.diskSize() for info in infos}
