"""All that a view on Spark keeps: the states of its stages, the rows of its streams, and what its loops hold back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pyspark.sql import SparkSession

from mrql.algebra.terms import Stream, element_type
from mrql.rewrite.analysis.multilinear import Input
from mrql.rewrite.plan.circuit import circuit_of
from mrql.rewrite.plan.known_states import known_states
from mrql.rewrite.plan.operators import Access
from mrql.rewrite.plan.plan import Feedback, Plan
from mrql.rewrite.plan.threshold import Threshold
from mrql.runtime.engine.residual import Residual
from mrql.runtime.spark import jvm
from mrql.runtime.spark.maintenance.deltas import Deltas
from mrql.runtime.spark.maintenance.input_rows import Ledger
from mrql.runtime.spark.maintenance.join_inputs import InputState
from mrql.runtime.spark.maintenance.loops.feedback import FeedbackState
from mrql.runtime.spark.maintenance.loops.thresholding import ResidualChanges, residuals
from mrql.runtime.spark.maintenance.prefixes import Prefixes
from mrql.runtime.spark.maintenance.snapshot import Snapshot
from mrql.runtime.spark.maintenance.stage_state import StageState
from mrql.runtime.spark.maintenance.transaction import Savepoint, Transaction
from mrql.runtime.spark.maintenance.trusted import shortages
from mrql.runtime.spark.maintenance.upserts import UpsertedRows
from mrql.runtime.spark.relation.frame import ColumnNames, Frame
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.session.session import settings
from mrql.runtime.spark.state.run import Run
from mrql.runtime.spark.state.table import Table
from mrql.runtime.streaming.stream_loop import Sizes


class ViewStates:
    """The states of a view, and the last batch that was applied to them."""

    def __init__(
        self,
        plan: Plan,
        spark: SparkSession,
        tables: dict[str, Frame],
        columns: ColumnNames,
        plans: Plans,
        *,
        shared: bool,
    ) -> None:
        """Empty states. If `shared`, stages keep one copy of a common input from the start, otherwise only once all of
        them are restored."""
        self.plan = plan
        self.circuit = circuit_of(plan)
        self.known = known_states(plan)
        self.columns = columns
        self.plans = plans
        inputs: dict[Input, InputState] = {}
        of_all = inputs if shared else None
        self.stages = [
            StageState(
                stage,
                self.known.stages[stage.name],
                self.circuit,
                spark,
                tables,
                columns,
                plans,
                self._keep,
                shared=of_all,
            )
            for stage in plan.stages
        ]
        self.transaction = Transaction(self.snapshots())
        """The last batch, or the one that is being applied."""
        self.deltas = Deltas(self.circuit, spark, plans, tables, columns, self.stages, self.transaction.temporaries)
        self.first = None if self.circuit.answer.first is None else Prefixes(self.circuit.answer.first, self.deltas)
        """The prefixes of an answer that is the first elements of an order; None for any other."""
        self.carried = [[self._carried(part, loop.threshold) for part in loop.parts] for loop in plan.feedbacks]
        """For each loop that is carried over, the state of each bag that it carries."""
        self.upserts = [UpsertedRows(name, key, plans, self._access(name)) for name, key in sorted(plan.keyed.items())]
        self.residual_changes = {
            derived.name: ResidualChanges(derived, self.deltas, self._in_groups(derived.stream))
            for derived in plan.thresholded
        }
        self.ledgers: list[Ledger | UpsertedRows] = [
            Ledger(
                name,
                element_type(Stream(name, plan.streams[name])),
                self.known.streams[name],
                plans,
                self._access(name),
            )
            for name in sorted(plan.looked_up)
        ]
        self.ledgers += self.upserts
        self.ledgers += [each.ledger for loop in self.carried for each in loop]
        self.ledgers += [each.ledger for each in self.residual_changes.values()]

    def _keep(self, run: Run) -> None:
        """Keeps a run that the batch reads several times."""
        self.transaction.temporaries.lookups.append(run)

    def _carried(self, part: Feedback, threshold: Threshold) -> FeedbackState:
        return FeedbackState(part, self._in_groups(part.fed), self.deltas, threshold)

    def _in_groups(self, stream: Stream) -> Ledger:
        """A ledger in which elements that are alike but for their numbers lie together."""
        item, known = element_type(stream), self.known.streams[stream.name]
        return Ledger(stream.name, item, known, self.plans, self._access(stream.name), in_groups=True)

    def _access(self, operator: str) -> Access:
        """How batches read and change what an operator keeps."""
        return self.circuit.by_id[operator].access

    # --- a batch as a transaction -------------------------------------------------------------

    def begin(self) -> None:
        """Begins a batch."""
        self.transaction = self.transaction.begin(self.tables(), self.snapshots)
        self.deltas.temporaries = self.transaction.temporaries
        for ledger in self.ledgers:
            ledger.begin()

    def record(self, changes: dict[str, Frame]) -> None:
        """Records the changes of streams with ledgers. In a keyed stream, the rows that are replaced become part of the
        changes."""
        for ledger in self.ledgers:
            if ledger.stream in changes:
                changes[ledger.stream] = self.recorded(ledger, changes[ledger.stream])

    def recorded(self, ledger: Ledger | UpsertedRows, change: Frame) -> Frame:
        """Records a batch of one stream in its ledger, and returns it as stages are to read it."""
        left = ledger.record(change)
        self.transaction.temporaries.counted += ledger.planned()
        return left

    def plan_shortages(self, arrived: Mapping[str, Frame]) -> None:
        """Plans the check for negative counts that trusted deletions have left; it is computed with the states."""
        found = list(shortages(self.stages, self.plan.trusted, arrived, self.plans))
        self.transaction.shortages = found
        self.transaction.temporaries.counted += [shortage.below for shortage in found]

    def check(self) -> None:
        """Raises: MissingRow when the batch has deleted a row that was not there; WrongDeletion when a trusted deletion
        is found to be wrong; AmbiguousRow, MissingVersion when it is not known which row replaces which."""
        for ledger in self.ledgers:
            ledger.check()
        for shortage in self.transaction.shortages or ():
            shortage.check(self.plans)

    def rollback(self) -> None:
        """Goes back to the states before the batch."""
        self.transaction.rollback(self.tables())
        for ledger in self.ledgers:
            ledger.begin()
        for each in self._all_carried():
            each.forget()

    def close(self) -> None:
        """Frees all of it."""
        for table in self.tables():
            table.close()
        self.transaction.free()
        if self.first is not None:
            self.first.free()

    # --- the answer ---------------------------------------------------------------------------

    def answer(self, transaction: Transaction, states: list[Snapshot]) -> Relation:
        """The answer after a batch, over the states as they are then."""
        first = None if self.first is None else self.first.answer(transaction, states)
        return self.deltas.answer(states) if first is None else first

    def changes(self, transaction: Transaction, states: list[Snapshot]) -> Relation:
        """The change of the answer by a batch."""
        first = None if self.first is None else self.first.changes(transaction, states)
        return self.deltas.of_answer(states, transaction.before) if first is None else first

    # --- what there is ------------------------------------------------------------------------

    def tables(self) -> list[Table]:
        """The tables of all states."""
        kept = [ledger.table for ledger in self.ledgers if ledger.table is not None]
        kept += [each.pending for each in self._all_carried() if each.pending is not None]
        # Stages may share the tables of a common join input.
        return [*dict.fromkeys(table for state in self.stages for table in state.all_tables()), *kept]

    def snapshots(self) -> list[Snapshot]:
        return [state.snapshot() for state in self.stages]

    def uncomputed(self) -> list[Run]:
        """The runs that no action has computed yet, and the changes that are still to be counted."""
        runs = [run for table in self.tables() for run in table.uncomputed()]
        return [*runs, *(run for run in self.transaction.temporaries.counted if run.rows is None)]

    def residual(self) -> Residual:
        """How far the values of loops are off by changes that are held back, once the batch is completed."""
        kept_back = Residual.of_steps(residuals([*self.residual_changes.values()]))
        return reduce(Residual.and_also, (each.residual for each in self._all_carried()), kept_back)

    def sizes(self) -> Sizes:
        """The number of rows in the states, a row that is kept by several keys counted once, and how many keys the last
        completed batch touched, if those were counted."""
        again = {table for state in self.stages for table in state.kept_again()}
        rows = sum(run.rows or 0 for table in self.tables() if table not in again for run in table.runs)
        return Sizes(rows, sum(self.transaction.touched.values()))

    def _all_carried(self) -> list[FeedbackState]:
        return [each for loop in self.carried for each in loop]

    def repartition(self, wanted: Mapping[str, str]) -> None:
        """Moves all rows to the number of partitions in the settings `wanted`, and uses these from then on. If that
        fails, nothing changes."""
        tables, before, moved = self.tables(), self.plans.settings, list[Run]()
        for table in tables:
            table.wait_for_merged()
        tables = [table for table in tables if table.runs]
        self.plans.use(wanted)
        try:
            with settings(self.plans.spark, wanted):
                for table in tables:
                    moved.append(table.repartitioned())
                counts = jvm.compute_all(self.plans.spark, [run.rdd for run in moved])
        except BaseException:
            self.plans.use(before)
            for run in moved:
                run.free()
            raise
        for table, run, rows in zip(tables, moved, counts, strict=True):
            run.rows = rows
            table.put(run)

    # --- planning ahead -----------------------------------------------------------------------

    def savepoint(self, more: Sequence[object]) -> Callable[[], None]:
        """A function that undoes all planning from here on, in the objects `more` too, while none of it is computed."""
        inputs = [kept for state in self.stages for kept in state.inputs.values()]
        tables, temporaries = self.tables(), self.transaction.temporaries
        inside = [part for table in tables for part in (table.batch, table.log)]
        carried = self._all_carried()
        planned_in = [temporaries, *self.stages, *inputs, *self.ledgers, *carried, *tables, *inside, *more]
        savepoint, known = Savepoint(planned_in), self._runs()

        def take_back() -> None:
            planned = self._runs()
            savepoint.rollback()
            for run in planned - known - self._runs():
                run.free()

        return take_back

    def _runs(self) -> set[Run]:
        """All runs that tables and temporaries refer to."""
        own = (run for table in self.tables() for run in (*table.all_runs(), *table.merged_aside()))
        return {*own, *self.transaction.temporaries.runs}
