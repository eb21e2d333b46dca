"""Deletions that are trusted: no ledger of their streams is kept to look them up.

A stream that is itself consistent, such as the log of changes of a database, deletes only rows that are there. Then a
copy of its rows would be kept for nothing (`input_rows.py`). Instead, its deletions are checked against the states that
they are merged into, where these can tell: the number of rows behind a key, the weight of an element of a bag, and that
of a row of a join input are never negative. A wrong deletion is not found if its row agrees with one that is there in
all that a state keeps of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import attrs
from pyspark.sql import SparkSession

from mrql.algebra.errors import WrongDeletion
from mrql.algebra.values.value_text import show_value
from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.from_spark import from_spark
from mrql.runtime.spark.expressions.layout import Layout, Struct, atoms, to_sql, unquote
from mrql.runtime.spark.maintenance.input_rows import left_of
from mrql.runtime.spark.maintenance.stage_state import StageState
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.relation.keys import Keys
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation, union_all
from mrql.runtime.spark.state.measures import TOUCHED
from mrql.runtime.spark.state.run import Run
from mrql.runtime.spark.state.table import Table


@attrs.frozen
class Shortage:
    """The rows of a state's table with a negative count after a batch, of which there should be none."""

    streams: Sequence[str]
    """The trusted streams from which the batch deletes rows."""
    stage: str
    key: Layout
    below: Run

    def check(self, plans: Plans) -> None:
        """Raises: WrongDeletion when there are such rows."""
        if self.below.rows is None:
            self.below.rows = plans.count(self.below.relation)
        if self.below.rows:
            raise WrongDeletion(self.streams, self.stage, self._first(plans.spark))

    def _first(self, spark: SparkSession) -> str:
        row = self.below.relation.select(f"{to_sql(self.key)} AS key").dataframe(spark).head()
        assert row is not None
        return show_value(from_spark(row["key"], self.key.type))


def netted_trusted(change: Frame, plans: Plans) -> tuple[Frame, Run | None]:
    """A batch of a trusted stream without the rows that it both inserts and deletes: they are not to be evaluated."""
    if not change.mixed:
        return change, None
    keys = Keys(canonical(Expressions(), change.value), "r")
    left = left_of(change, keys, plans)
    return Frame(left.relation, keys.value, "w", changes=True), left


def shortages(
    states: Sequence[StageState], trusted: frozenset[str], changes: Mapping[str, Frame], plans: Plans
) -> Iterator[Shortage]:
    """The shortages that a batch of trusted streams may leave in the states, to be computed with it."""
    taking = {name for name in trusted & changes.keys() if changes[name].weight is not None}
    seen: set[Table] = set()
    for state in states:
        streams = sorted(taking & {*state.stage.streams})
        for table, key, with_nulls in _tables(state) if streams else ():
            # A join input may have changed though there is nothing yet to join it with.
            if table not in seen and (table.batch.merged or table.batch.added):
                seen.add(table)
                below = _below_nothing(table, with_nulls=with_nulls)
                yield Shortage(streams, state.stage.name, key, Run.of(plans, below))


def _tables(state: StageState) -> Iterator[tuple[Table, Layout, bool]]:
    """The tables of a state, each with the key that is shown of its rows, and whether its partitioning may be null."""
    if state.keys is not None:
        if state.groups is not None:
            yield state.groups, state.keys.value, False
        for i, table in state.bags.items():
            yield table, state.keys.value, _may_be_null(table, state.bag_shapes[i])
    for kept in state.inputs.values():
        if kept.table is not None and kept.shape is not None:
            yield kept.table, _key_of(kept.shape), _may_be_null(kept.table, kept.shape)


def _may_be_null(table: Table, shape: Layout) -> bool:
    """Whether a table is partitioned by columns that may be null; those of a key never are (`relation/keys.py`)."""
    return any(part.missing and unquote(part) in table.schema.partition_by for part in atoms(shape))


def _key_of(shape: Layout) -> Layout:
    """The key of the rows of an input, if they have one, otherwise the whole row."""
    return shape.fields[0][1] if isinstance(shape, Struct) and len(shape.fields) == 2 else shape


def _below_nothing(table: Table, *, with_nulls: bool) -> Relation:
    """The rows of a table that a batch has changed and whose count is negative now."""
    counts = _counts(table)
    short = " OR ".join(f"{count} < 0" for count in counts)
    if table.batch.merged:
        rows = table.runs[0].relation.where(f"{TOUCHED} = 1") if table.schema.marked else table.runs[0].relation
        return rows.where(short)
    parts = table.relations
    if table.schema.keys:
        change = union_all([run.relation for run in table.batch.added])
        found = table.schema.lookup(parts, change.where(short), with_nulls=with_nulls)
        assert found is not None
        parts = [found]
    return union_all(parts).aggregate(table.schema.keys, [f"sum({count}) AS {count}" for count in counts]).where(short)


def _counts(table: Table) -> list[str]:
    """The columns that count the rows behind a row of a table: the support that each feed gives, a weight, or the
    number of rows behind sums."""
    supports = [m.name for m in table.schema.measures if SUPPORT.fullmatch(m.name)]
    return supports or [table.schema.measures[0].name]


SUPPORT = re.compile(r"n\d+")
"""The names of the columns with the support of a feed."""
