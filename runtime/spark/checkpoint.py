"""The states of the engine on Spark on disk: runs are Parquet files, partitioned as their table is.

A table is restored by one merge of its runs. The name of a file says which partition its rows are in, of how many: if
there are as many when the files are read, nothing is shuffled; otherwise rows are moved to the partitions of their
keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mrql.algebra.errors import InternalError
from mrql.algebra.monoids import BagUnion
from mrql.rewrite.plan.operators import Access
from mrql.rewrite.plan.plan import Shape
from mrql.runtime.checkpoint.identity import Identities
from mrql.runtime.checkpoint.live import LiveState
from mrql.runtime.checkpoint.manifest import SavedState, SavedTable, damaged
from mrql.runtime.checkpoint.restore import Restored
from mrql.runtime.files.digests import faults
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.spark import jvm
from mrql.runtime.spark.checkpoint_layouts import layout_from_json, layout_to_json
from mrql.runtime.spark.expressions import sum_columns
from mrql.runtime.spark.expressions.layout import quote
from mrql.runtime.spark.io.file_reader import file_reader
from mrql.runtime.spark.io.paths import path_to_read, path_to_write
from mrql.runtime.spark.maintenance.input_rows import Ledger
from mrql.runtime.spark.maintenance.join_inputs import InputState
from mrql.runtime.spark.maintenance.stage_state import StageState
from mrql.runtime.spark.maintenance.upserts import UpsertedRows
from mrql.runtime.spark.relation.column_types import type_sql
from mrql.runtime.spark.relation.keys import Keys
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.session.errors import translated
from mrql.runtime.spark.session.session import settings, step_settings
from mrql.runtime.spark.state import compaction
from mrql.runtime.spark.state.block_index import are_flat
from mrql.runtime.spark.state.measures import TOUCHED, Measure
from mrql.runtime.spark.state.run import Run
from mrql.runtime.spark.state.table import Table
from mrql.runtime.spark.state.table_schema import TableSchema
from mrql.runtime.spark.view import SparkView

# --- writing ------------------------------------------------------------------------------------


@attrs.define
class SparkTable:
    """A table of a running view."""

    table: Table
    view: SparkView

    @property
    def form(self) -> Mapping[str, Any]:
        table, schema = self.table, self.table.schema
        return {
            "keys": list(schema.keys),
            "partition_by": list(schema.partition_by),
            "measures": [[measure.name, measure.merge, measure.held] for measure in schema.measures],
            "alive": schema.alive,
            "numbers": list(schema.numbers),
            "marked": schema.marked,
            "shrinks": table.shrinks,
            "schema": table.runs[0].df.schema.jsonValue(),
        }

    @property
    def rows(self) -> int:
        return sum(run.rows or 0 for run in self.table.runs)

    @property
    def changed(self) -> bool:
        return self.table.log.changes > 0

    @property
    def has_change(self) -> bool:
        return self.table.log.has_one

    def write(self, directory: Path, files: DurableFiles, *, whole: bool) -> dict[str, int]:
        last = self.table.log.last
        assert last is not None or whole
        with settings(self.view.spark, self.view.settings), translated(self.view.source):
            df = self._all() if whole or last is None else last.df
            return write_rows(df, self.table.runs[0].df.schema, self.table.schema.partition_by, directory, files)

    def _all(self) -> DataFrame:
        if len(self.table.runs) == 1:
            return self.table.runs[0].df
        rows = self.table.scan()
        assert rows is not None
        return self.table.plans.dataframe(rows)

    def committed(self, *, small: bool) -> None:
        self.table.saved(logged=not small)


def write_rows(
    df: DataFrame, schema: StructType, by: Sequence[str], directory: Path, files: DurableFiles
) -> dict[str, int]:
    """Writes rows with the columns of a schema; returns the number of rows of each file. If the rows are partitioned by
    the hash of the columns `by`, the names of the files say so."""
    if df.schema.simpleString() != schema.simpleString():
        types = [(quote(field.name), type_sql(field.dataType)) for field in schema]
        df = df.selectExpr(*(f"CAST({name} AS {t}) AS {name}" for name, t in types))
    partitions = jvm.partitions_by(df, by) if by else None
    with jvm.ending_with(df.sparkSession):
        df.write.option(CHECKED, "true").parquet(path_to_write(df.sparkSession, directory))
    parts = {path for path in directory.iterdir() if path.name.startswith("part-")}
    # Other files that Spark leaves there, such as its own checksums, are in no manifest.
    for path in sorted({*directory.iterdir()} - parts):
        files.remove(path)
    if partitions is not None:
        parts = {_named(path, partitions, files) for path in sorted(parts)}
    return {path.name: pq.read_metadata(path).num_rows for path in parts}


WRITTEN = re.compile(r"part-(\d+)-.*?(-c\d+)?(?=\.)")
"""The name that Spark gives a file: the number of its partition, and that of the file within the partition."""

NAMED = re.compile(r"part.*-of-(\d+)_\d+\.")
"""The name of a file with rows of one partition: how many partitions there are, and which one it is."""


def _named(file: Path, partitions: int, files: DurableFiles) -> Path:
    """Renames a file that Spark has written, so that its name has its partition and the number of partitions."""
    found = WRITTEN.match(file.name)
    assert found is not None
    named = file.with_name(f"part{found[2] or ''}-of-{partitions}_{found[1]}.parquet")
    files.rename(file, named)
    return named


def partitions_of(names: Iterable[str]) -> int | None:
    """The number of partitions that the names of some files say; None if one says none, or they differ.

    >>> partitions_of(["part-c000-of-2_00000.parquet", "part-c000-of-2_00001.parquet"])
    2
    >>> partitions_of(["part-c000-of-2_00000.parquet", "part-c000-of-4_00001.parquet"])
    """
    found = {named[1] if (named := NAMED.fullmatch(name, endpos=name.rindex(".") + 1)) else None for name in names}
    (only, *others) = found
    return None if others or only is None else int(only)


@attrs.define
class SparkStates:
    """The states of a view on Spark."""

    view: SparkView
    identities: Identities

    def live(self) -> dict[str, LiveState]:
        """The current states, by their identities."""
        view, known = self.view, self.identities
        stages = {known.stages[s.stage.name]: _live_stage(s, view) for s in view.states.stages}
        ledgers = {known.ledgers[ledger.stream]: _live_ledger(ledger, view) for ledger in view.states.ledgers}
        return {**stages, **{name: state for name, state in ledgers.items() if state is not None}}

    # --- reading ------------------------------------------------------------------------------

    def load(self, restored: Restored) -> None:
        """Loads the states restored from a checkpoint into the view."""
        reader = CheckpointReader(self.view.plans, restored.root)
        saved_states = (*restored.states.values(), *restored.ledgers.values())
        self.view.expect(sum(table.rows for state in saved_states for table in state.tables.values()))
        with settings(self.view.spark, {**self.view.settings, **BY_PARTITION}), translated(None):
            for state in self.view.states.stages:
                if state.stage.name in restored.states:
                    _load_stage(state, restored.states[state.stage.name], reader)
            for ledger in self.view.states.ledgers:
                if ledger.stream in restored.ledgers:
                    saved = restored.ledgers[ledger.stream]
                    rows = reader.table(saved.tables["rows"], ledger.access)
                    ledger.restore(layout_from_json(saved.form["keys"]), rows)


def _live_stage(state: StageState, view: SparkView) -> LiveState:
    inputs = {name: (feed, number, state.inputs.get((feed, label))) for name, feed, number, label in _inputs(state)}
    begun = {
        "groups": state.groups,
        **{f"bag-{i}": table for i, table in state.bags.items()},
        **{name: kept.table for name, (_, _, kept) in inputs.items() if kept is not None and kept.shape is not None},
    }
    # A table that was begun only by a batch that was rolled back has no runs, and is left out.
    tables = {name: table for name, table in begun.items() if table is not None and table.runs}
    form = {
        "keys": None if state.keys is None else layout_to_json(state.keys.shape),
        "bags": {str(i): layout_to_json(shape) for i, shape in state.bag_shapes.items() if f"bag-{i}" in tables},
        "inputs": [
            {"feed": feed, "input": number, "shape": layout_to_json(kept.shape), "sums": kept.sums}
            for name, (feed, number, kept) in inputs.items()
            if name in tables and kept is not None and kept.shape is not None
        ],
    }
    return LiveState(state.stage.name, form, {name: SparkTable(table, view) for name, table in tables.items()})


def _live_ledger(ledger: Ledger | UpsertedRows, view: SparkView) -> LiveState | None:
    if ledger.table is None or ledger.keys is None or not ledger.table.runs:
        return None
    form = {"keys": layout_to_json(ledger.keys.shape)}
    return LiveState(ledger.stream, form, {"rows": SparkTable(ledger.table, view)})


def _access(state: StageState) -> Mapping[str, Access]:
    """How batches read and change each of the tables of a stage."""
    circuit, stage = state.circuit, state.stage
    groups = {} if stage.shape is Shape.BAG else {"groups": circuit.groups(stage.name).access}
    bags = [i for i, component in enumerate(stage.components) if isinstance(component.monoid, BagUnion)]
    joined = [(name, feed, label) for name, feed, _, label in _inputs(state) if len(stage.feeds[feed].rows.inputs) > 1]
    return {
        **groups,
        **{f"bag-{i}": circuit.bag(stage.name, i).access for i in bags},
        **{name: circuit.index(stage.name, feed, label).access for name, feed, label in joined},
    }


def _inputs(state: StageState) -> list[tuple[str, int, int, str]]:
    """The inputs of a stage's feeds: the name of a table for each, the numbers of feed and input, and its label."""
    return [
        (f"input-{index}-{number}", index, number, read.label)
        for index, feed in enumerate(state.stage.feeds)
        for number, read in enumerate(feed.rows.inputs)
    ]


# --- reading ------------------------------------------------------------------------------------


CHECKED, VERIFIED = "parquet.page.write-checksum.enabled", "parquet.page.verify-checksum.enabled"
"""The options by which Parquet writes a checksum for each page of a file, and verifies it when the page is read."""


BY_PARTITION: Mapping[str, str] = {
    "spark.sql.sources.bucketing.enabled": "true",
    "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
}
"""With these settings, files written by partition are read by partition, whatever the query needs."""


@attrs.frozen
class CheckpointReader:
    """Reads tables of a checkpoint as tables of a view."""

    plans: Plans
    root: Path

    def table(self, saved: SavedTable, access: Access) -> Table:
        """A saved table, with all of its rows in one run; `access` is how batches read and change it. A large run that
        is to be kept by columns is computed at once, any other by the next action that reads it."""
        table = self.definition(saved)
        table.access = access
        rows = self._merged(table, saved)
        number = saved.rows
        in_blocks = table.policy.blocks_min_rows is not None and number > table.policy.blocks_min_rows
        plain = table.schema.gathering is None and not table.in_steps and not in_blocks
        if number > compaction.WAITED_FOR_MAX_ROWS and plain and are_flat(self.schema(saved)):
            run = Run.by_columns(self.plans, rows)
        else:
            run = Run(self.plans, self.plans.checkpoint(rows, small=number < compaction.AS_BYTES_MAX_ROWS))
        table.put(run)
        return table

    def definition(self, saved: SavedTable) -> Table:
        """The table without its rows."""
        form = saved.form
        schema = TableSchema(
            tuple(form["keys"]),
            tuple(form["partition_by"]),
            tuple(Measure(*measure) for measure in form["measures"]),
            form["alive"],
            tuple(form["numbers"]),
            marked=form["marked"],
        )
        return Table(self.plans, schema, shrinks=form["shrinks"])

    def merged(self, saved: SavedTable) -> DataFrame:
        """All rows of a table, those of equal keys merged."""
        return self._merged(self.definition(saved), saved).dataframe(self.plans.spark)

    def _merged(self, table: Table, saved: SavedTable) -> Relation:
        rows = table.partitioned(Relation.of(self._rows(saved)))
        # The first run was written whole: it has one row for each key.
        return table.merged([rows]) if len(saved.runs) > 1 else rows.where(table.schema.alive)

    def schema(self, saved: SavedTable) -> StructType:
        """The columns of a table."""
        return StructType.fromJson(dict(saved.form["schema"]))

    def _rows(self, saved: SavedTable) -> DataFrame:
        schema = self.schema(saved)
        spark = self.plans.spark
        paths = [path_to_read(spark, self.root / run.path / file.name) for run in saved.runs for file in run.files]
        if not paths:
            raise InternalError("checkpoint", "a table without a file")
        _must_be_whole(saved, self.root)
        # Damage after this check Parquet finds when it reads the page.
        df = file_reader(spark).schema(schema).option(VERIFIED, "true").parquet(*paths)
        by = saved.form["partition_by"]
        partitions = partitions_of(file.name for run in saved.runs for file in run.files)
        if partitions is not None and str(partitions) == spark.conf.get("spark.sql.shuffle.partitions"):
            df = jvm.in_buckets(df, by, partitions)
        # The marks are those of the batch that wrote the rows; the next batch has touched none of them.
        names = [f"0 AS {TOUCHED}" if name == TOUCHED else quote(name) for name in schema.names]
        return df.selectExpr(*names) if TOUCHED in schema.names else df


def _must_be_whole(saved: SavedTable, root: Path) -> None:
    """Checks that the files of a table are as they were written. They are read once for that, and again by Spark.

    Raises: UserError, naming the first that is not.
    """
    named = ((root / run.path, file) for run in saved.runs for file in run.files)
    for path, fault in faults(named):
        raise damaged(path, f"it {fault}")


def _load_stage(state: StageState, saved: SavedState, reader: CheckpointReader) -> None:
    form = saved.form
    access = _access(state)
    tables = {name: reader.table(table, access[name]) for name, table in saved.tables.items()}
    state.keys = None if form["keys"] is None else Keys(layout_from_json(form["keys"]), "k")
    state.groups = tables.get("groups")
    if state.groups is not None:
        state.groups = _as_now(state, state.groups, saved.tables["groups"].rows)
    state.bag_shapes = {int(i): layout_from_json(shape) for i, shape in form["bags"].items()}
    state.bags = {i: tables[f"bag-{i}"] for i in state.bag_shapes}
    labels = {(feed, number): label for _, feed, number, label in _inputs(state)}
    for kept in form["inputs"]:
        place = kept["feed"], kept["input"]
        shape = layout_from_json(kept["shape"])
        name = f"input-{place[0]}-{place[1]}"
        state.inputs[place[0], labels[place]] = InputState(tables[name], shape, kept["sums"])


def _as_now(state: StageState, groups: Table, number: int) -> Table:
    """The groups of a stage with the columns of this version. If an earlier version wrote them, the columns that it did
    not have are added, and the next commit writes all rows."""
    new = sum_columns.of_earlier(state.stage.components, groups.schema.columns)
    if not new:
        return groups
    found = state.new_groups()
    found.shrinks = groups.shrinks
    rows = groups.scan()
    assert rows is not None
    columns = (f"{new[name]} AS {name}" if name in new else quote(name) for name in found.schema.columns)
    small = number < compaction.AS_BYTES_MAX_ROWS
    found.put(Run(found.plans, found.plans.checkpoint(rows.select(*columns), small=small)))
    found.log.note(None)
    return found


def spark_writer(
    spark: SparkSession, root: Path, files: DurableFiles
) -> Callable[[SavedTable], Callable[[Path], dict[str, int]]]:
    """For each saved table, a function that writes all of its rows, those of equal keys merged, into a directory."""
    held = step_settings(spark)
    reader = CheckpointReader(Plans(spark, held), root)

    def write(table: SavedTable, directory: Path) -> dict[str, int]:
        with settings(spark, {**held, **BY_PARTITION}), translated(None):
            return write_rows(reader.merged(table), reader.schema(table), table.form["partition_by"], directory, files)

    return lambda table: partial(write, table)
