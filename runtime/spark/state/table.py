"""States on Spark: flat tables, kept as partitioned runs, merged by moving only the change.

A *table* has key columns, a partitioning, and measures that merge. Its rows are held as *runs*, each partitioned in the
same way and cut off from its lineage by a local checkpoint. Merging is

    run ∪ … ∪ Δ, grouped by key, measures merged with ⊕

whose plan has no Exchange above the runs: Spark keeps the common partitioning of a union (≥ 4.1), so only Δ is moved.
The keys that a batch has touched are looked up in the runs by a semi-join, which again moves only the batch's side.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import attrs

from mrql.rewrite.plan.operators import Access
from mrql.runtime.engine.state_store import StateStore
from mrql.runtime.spark import jvm
from mrql.runtime.spark.relation.plan_cache import Checkpoint, Plans
from mrql.runtime.spark.relation.relation import Relation, united
from mrql.runtime.spark.session.jvm_exit import text_of
from mrql.runtime.spark.state import compaction
from mrql.runtime.spark.state.block_index import Blocks
from mrql.runtime.spark.state.change_log import ChangeLog
from mrql.runtime.spark.state.measures import TOUCHED
from mrql.runtime.spark.state.packing import Packing, RunLayout, better_layout, by_columns, row_by_row
from mrql.runtime.spark.state.run import Indexed, Run
from mrql.runtime.spark.state.table_batch import Merging, TableBatch
from mrql.runtime.spark.state.table_schema import TableSchema

logger = logging.getLogger(__name__)


NEVER = -1
"""A step number that no step has."""


@attrs.define(eq=False)
class Table(StateStore[Relation, Relation, Relation, tuple[Run, ...]]):
    """The rows of a state, in runs."""

    plans: Plans
    schema: TableSchema
    changed_in: int = 0
    """The number of the stage's step that last changed it."""
    shrinks: bool = False
    """Whether a change may have deleted something, so that some rows may not be alive."""
    access: Access = Access.ONCE
    """How a batch reads and changes it."""
    is_passing: bool = False
    """Whether a batch is likely to merge all rows, so that packing them does not pay."""
    merged_whole_for: int = 0
    """The number of batches that are still merged whole, unless the table becomes large, because one before them has
    touched many rows."""
    runs: list[Run] = attrs.Factory(list)
    batch: TableBatch = attrs.Factory(TableBatch)
    """The last batch."""
    appended: Run | None = None
    """The run added by the last change; None if the change was merged with all other rows."""
    merging: Merging | None = None
    log: ChangeLog = attrs.Factory(ChangeLog)

    @property
    def in_steps(self) -> bool:
        """Whether the steps of a batch look up rows in it repeatedly."""
        return Access.STEPS in self.access

    @property
    def policy(self) -> compaction.Policy:
        """When its runs are merged, and how large runs are kept."""
        return compaction.policy(self.access)

    @property
    def about_rows(self) -> int | None:
        """The number of its rows, or of those before a batch that is not computed yet; None if there were none."""
        if all(run.rows is not None for run in self.runs):
            return _rows(self.runs)
        return _rows([*self.runs, *self.batch.replaced]) or None

    @property
    def is_large(self) -> bool:
        """Whether an additional query, or job, pays if a batch, or each step of one, then need not read all rows."""
        return _rows(self.runs) > self.policy.large_min_rows

    # --- reading ------------------------------------------------------------------------------

    @property
    def relations(self) -> list[Relation]:
        """The rows of each run."""
        return [run.relation for run in self.runs]

    def rows(self, but: Run | None = None) -> Relation | None:
        """All rows but those of one run, rows with equal keys not merged; None if there are no runs."""
        runs = [run.relation for run in self.runs if run is not but]
        return united(runs) if runs else None

    def merged(self, parts: Sequence[Relation], *, whole: bool = True, further: bool = False) -> Relation:
        """The rows of all parts, those with equal keys merged into one. If the parts are the `whole` of a table that
        shrinks, rows that are not alive are dropped.

        In a part of the whole, a row that is not alive is a change that cancels what other parts have.
        """
        return self.schema.merged(parts, shrunk=self.shrinks and whole, further=further)

    def current(self, runs: Sequence[Relation]) -> Relation:
        """The rows of some runs, those with equal keys merged."""
        return runs[0] if len(runs) == 1 else self.merged(runs)

    def scan(self) -> Relation | None:
        """All rows, those with equal keys merged; None if there are none."""
        return self.current(self.relations) if self.runs else None

    def lookup(self, keys: Relation) -> Relation | None:
        """The rows whose partitioning columns, which must never be null, have values that occur in `keys`; rows with
        equal keys are not merged. None if there are no runs."""
        return self.schema.lookup(self.relations, keys)

    # --- changing -----------------------------------------------------------------------------

    def partitioned(self, changes: Relation) -> Relation:
        """A change, partitioned like the runs.

        Spark could merge its rows under any partitioning that they had before, and would then move the state to them.
        If they are in place already, Spark omits the exchange.
        """
        return self.plans.moved(changes, self.schema.partition_by) if self.schema.partition_by else changes

    def update(self, changes: Relation, *, by_key: bool = False) -> None:
        """Adds a partitioned change: merged into a small table, appended to a large one as a run, and to one in between
        by how much of it recent batches have touched. All steps of a batch do the same. `by_key` says that the change
        has one row for each key already."""
        if self.batch.by_runs is None:
            self.batch.by_runs = self._is_looked_up()
        if self.batch.by_runs:
            self.append(changes, as_it_is=by_key)
        else:
            self.merge(changes)

    def _is_looked_up(self) -> bool:
        rows, policy = _rows(self.runs), self.policy
        few_touched = self.merged_whole_for == 0
        return rows > (policy.looked_up_min_rows if few_touched else policy.merged_whole_max_rows)

    def _note_touched(self) -> None:
        """Updates `merged_whole_for` after a batch, by whether it has touched few of the rows."""
        if self.batch.by_runs is False:
            self.merged_whole_for = max(0, self.merged_whole_for - 1)
        elif self.batch.by_runs and _rows(self.batch.added) * compaction.FEW_TOUCHED_MIN_RATIO > _rows(self.runs):
            self.merged_whole_for = compaction.MERGED_WHOLE_MAX_BATCHES

    def merge(self, changes: Relation) -> None:
        """Merges a partitioned change and all runs into one new run."""
        self.wait_for_merged()
        self.batch.replaced += self._log_only()
        kept = Run.of(self.plans, changes) if self.log.wanted else None
        self.log.note(kept)
        changes = changes if kept is None else kept.relation
        merged = self.merged([*self.relations, changes], further=self.batch.merged)
        run = Run.of(self.plans, merged, self.runs)
        self.batch.replaced += self.runs
        self.runs, self.batch.added, self.batch.merged, self.appended = [run], [], True, None

    def replace(self, rows: Relation) -> None:
        """Replaces all rows by others."""
        self.wait_for_merged()
        self.batch.replaced += [*self.runs, *self._log_only()]
        self.log.note(None)
        self.runs, self.appended = [Run.of(self.plans, rows, self.runs)], None

    def begin_with(self, rows: Relation, beside: Sequence[Run]) -> None:
        """Fills an empty table with partitioned rows, about as many as the runs `beside` have; they count as added by
        the batch."""
        run = Run.of(self.plans, rows, beside)
        self.runs, self.batch.added = [run], [run]

    def append(self, changes: Relation, *, as_it_is: bool = False) -> Run:
        """Adds a partitioned change as a run of its own, and returns the run.

        The runs added by the steps of a batch are kept few by merging them with one another alone, so that the steps
        need few different plans. A change to a table that has rows may be added `as_it_is`, if its readers merge rows
        with equal keys anyway.
        """
        if not self.batch.added:
            self.compact()
            self.batch.added = []
        elif len(self.batch.added) == compaction.ADDED_MAX_RUNS:
            merged = Run.of(self.plans, self._compacted(self.batch.added), self.batch.added)
            self._replace(self.batch.added, merged)
            self.batch.added[:] = [merged]
        rows = self.schema.as_it_is(changes) if as_it_is and self.runs else self.merged([changes], whole=not self.runs)
        run = Run.of(self.plans, rows)
        self.runs.append(run)
        self.batch.added.append(run)
        self.appended = run
        self.log.note(run)
        return run

    def compact(self) -> None:
        """Merges the last runs if that is due and they have few enough rows to wait for it."""
        due = self._due()
        if due and _rows(due) <= compaction.WAITED_FOR_MAX_ROWS:
            self._replace(due, Run.of(self.plans, self._compacted(due), due))

    def merge_aside(self, aside: compaction.BackgroundCompaction) -> None:
        """Starts to merge the last runs in the background, if that is due and they are large.

        The result is packed; so is a run that was as large from the start. The runs of the first batch are merged into
        one, which is waited for: that batch took longer anyway, and later ones need not share the cores.
        """
        if self.merging is not None or self.is_passing:
            return
        is_new = self.runs == self.batch.added
        due = self.runs[:] if is_new and len(self.runs) > 1 else self._due()
        due = due if _rows(due) > self.policy.packed_min_rows else self._to_be_packed()
        if not due:
            return
        is_plain = len(due) == 1 and isinstance(due[0].kept, Checkpoint)
        merged = due[0] if is_plain else Run.of(self.plans, self._compacted(due), due)
        packing = self._packing(merged, _rows(due))
        made = aside.compute(partial(self._made, merged, packing), now=is_new)
        self.merging = Merging(tuple(due), merged, packing, made)
        if is_new:
            self.take_merged()

    def note_gone_over(self) -> None:
        """Notes that a batch reads the whole table. If it has runs in blocks, which take longer to read, `LOOKED_UP` is
        removed from its access."""
        if any(isinstance(run.kept, Indexed) for run in self.runs):
            self.access &= ~Access.LOOKED_UP

    def _made(self, merged: Run, packing: Packing | None, tasks: int) -> Run:
        if packing is None:
            merged.rows = jvm.compute(merged.rdd, tasks)
            return merged
        return packing.compute(tasks)

    def _packing(self, run: Run, rows: int) -> Packing | None:
        """How a run of about `rows` rows is packed; None if no layout is better than the present one."""
        match better_layout(run, rows, self.policy):
            case RunLayout.BLOCKS:
                partitions = run.rdd.getNumPartitions()
                blocks = Blocks.of(run.df, self.schema.partition_by, partitions, rows, compaction.ROWS_PER_BLOCK)
                return Packing.of(run, Indexed.of(self.plans, run.relation, blocks), self.schema.gathering)
            case RunLayout.ROWS:
                return Packing.of(run, row_by_row(run), None)
            case RunLayout.COLUMNS:
                return Packing.of(run, by_columns(run), self.schema.gathering)
            case None:
                return None

    def _to_be_packed(self) -> list[Run]:
        """One run at most: a run in blocks that should not be, or else a large run for which there is a better
        layout."""
        policy = self.policy
        wrong = [run for run in self.runs if isinstance(run.kept, Indexed) and policy.blocks_min_rows is None]
        if wrong:
            return wrong[:1]
        rows = ((run, run.rows or 0) for run in self.runs)
        return next(([run] for run, n in rows if n > policy.packed_min_rows and better_layout(run, n, policy)), [])

    def take_merged(self) -> None:
        """Replaces the runs that were merged in the background by the result, if it is finished."""
        if self.merging is not None and self.merging.made.done():
            self.wait_for_merged()

    def wait_for_merged(self) -> None:
        """Waits for the merge in the background, and replaces its runs by the result. If it has failed, or all of
        Spark's jobs were cancelled, the runs stay as they are: they are complete, and will be merged another time."""
        if self.merging is not None:
            merging, self.merging = self.merging, None
            try:
                run = merging.made.result()
            except Exception as error:
                logger.warning("the runs of a state were not merged beside the batches: %s", text_of(error))
                merging.give_up()
                return
            if merging.is_passing:
                merging.merged.free()
            self._replace(merging.runs, run)

    def _due(self) -> list[Run]:
        if self.merging is not None:
            return []
        return self.runs[len(self.runs) - compaction.due([run.rows for run in self.runs]) :]

    def _compacted(self, runs: Sequence[Run]) -> Relation:
        return self.merged([run.relation for run in runs], whole=runs[0] is self.runs[0])

    def _replace(self, runs: Sequence[Run], merged: Run) -> None:
        start = self.runs.index(runs[0])
        self.batch.replaced += runs
        self.runs[start : start + len(runs)] = [merged]

    def repartitioned(self) -> Run:
        """All rows, repartitioned under the current settings, as a run to be computed."""
        return Run.of(self.plans, self.partitioned(self.merged(self.relations)), self.runs)

    def put(self, run: Run) -> None:
        """Replaces all runs by one; they can be read until the next batch is committed. The new run counts as neither
        changed nor added by a batch."""
        self.batch.replaced += [*self.runs, *self._log_only()]
        self.log.forget()
        self.runs, self.batch.added, self.changed_in = [run], [], NEVER
        self.appended = None if self.schema.marked else run

    # --- maintenance --------------------------------------------------------------------------

    def touched(self) -> Any:
        """Spark's handle of the rows touched by the last change."""
        if self.appended is not None:
            return self.appended.rdd
        return self.plans.rdd(self.runs[0].relation.where(f"{TOUCHED} = 1"))

    def uncomputed(self) -> list[Run]:
        """The runs that no action has computed yet, including those that have been replaced."""
        return [run for run in self.all_runs() if run.rows is None]

    def all_runs(self) -> list[Run]:
        """The runs, including those that have been replaced, and a change that is kept separately."""
        return [*self.runs, *self.batch.replaced, *self._log_only()]

    def merged_aside(self) -> list[Run]:
        """The run that was merged in the background and has not replaced its runs yet, if there is one."""
        run = None if self.merging is None else self.merging.result
        return [] if run is None else [run]

    def saved(self, *, logged: bool) -> None:
        """Notes that the changes so far are written; `logged` says whether the next one is to be kept separately."""
        for run in self._log_only():
            run.free()
        self.log.written(wanted=logged)

    def _log_only(self) -> list[Run]:
        """The change that is kept separately from the run that it was merged into, if there is one."""
        return [] if self.log.last is None or self.log.last is self.appended else [self.log.last]

    def begin(self) -> list[Run]:
        """Begins a batch; returns the runs replaced by the one before, which can still be read until this one is
        committed."""
        replaced = self.batch.replaced
        self.take_merged()
        # A run merged in the background replaces its runs now, and these need be read no longer than the others.
        replaced = [*replaced, *(run for run in self.batch.replaced if run not in replaced)]
        self._note_touched()
        self.batch = TableBatch(self.snapshot())
        return replaced

    def rollback(self) -> list[Run]:
        """Restores the runs before the batch; returns those that are to be freed."""
        return self.restore(self.batch.begun_with)

    def snapshot(self) -> tuple[Run, ...]:
        """The current runs. They never change, and can be read until the batch after the one that replaces them is
        committed."""
        return tuple(self.runs)

    def restore(self, snapshot: tuple[Run, ...]) -> list[Run]:
        """Restores the runs of a snapshot; returns the runs made since, computed or not, which are to be freed. It does
        not call Spark: all tables are restored before anything does."""
        given_up = [run for run in self.all_runs() if run not in snapshot]
        self.runs, self.batch = list(snapshot), TableBatch(snapshot)
        self.log.forget()
        if self.merging is not None and not {*self.merging.runs} <= {*snapshot}:
            # It contains runs made since the snapshot.
            self.merging.give_up()
            self.merging = None
        return given_up

    def close(self) -> None:
        if self.merging is not None:
            self.merging.free()
        for run in self.all_runs():
            run.free()
        self.runs, self.batch, self.merging, self.log = [], TableBatch(), None, ChangeLog()


def known_sum(counts: Iterable[int | None]) -> int | None:
    """The sum of some counts; None if one is not known."""
    known = [*counts]
    return None if None in known else sum(count or 0 for count in known)


def _rows(runs: Sequence[Run]) -> int:
    return sum(run.rows or 0 for run in runs)
