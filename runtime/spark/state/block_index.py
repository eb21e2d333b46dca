"""An index of a run: its rows in blocks by a hash of their key, so that a change opens only the blocks of its keys.

A block is an array of some of the rows; a *shelf* is a row with an array of some blocks, each in a slot. The number of
a key's block, for n partitions of b blocks each, is

    block(k) = hash(k) mod n·b        and so        block(k) mod n = hash(k) mod n,

the partition in which Spark's hash partitioning puts the key: so the rows of a block already lie in one partition.
Spark sees that by a column of the shelf, the *place*, whose own hash gives the same partition. Each wanted key gets its
place, shelf and slot, and is joined with the shelves, which moves nothing; of a shelf, the block in that slot is
opened. So of millions of rows, some thousand shelves are read, and a few rows for each key.

A search takes two additional plans, and pays from some hundred thousand rows on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import AtomicType, StructType

from mrql.runtime.spark import jvm
from mrql.runtime.spark.relation.column_types import type_sql
from mrql.runtime.spark.relation.persisted_rows import ROWS
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation

PLACE, SHELF, SLOT = "place", "shelf", "slot"
"""The columns by which blocks are found."""

SLOTS, BLOCKS = "slots", "blocks"
"""The columns of a shelf: the slots that are taken, and the blocks in them."""

SLOTS_PER_SHELF = 128
"""The number of slots of a shelf: a block is found by searching at most this many slot numbers on its shelf."""


@attrs.frozen
class Blocks:
    """How rows are arranged in blocks."""

    by: tuple[tuple[str, str], ...]
    """The columns by which rows are partitioned, each with its SQL type: equal values of different types have different
    hashes."""
    columns: tuple[str, ...]
    """All columns."""
    places: tuple[int, ...]
    """For each partition, a number whose hash leads to it."""
    each: int
    """The number of blocks of a partition."""
    slots: int
    """The number of blocks on a shelf."""

    @staticmethod
    def of(rows: DataFrame, by: Sequence[str], partitions: int, count: int, size: int) -> Blocks:
        """Blocks for about `count` rows, partitioned by the columns `by`; a block has at most `size` rows on average.

        The number of blocks in a partition is a power of two, so that plans seldom have to be made for another number.
        """
        each = 1 << (count // (size * partitions)).bit_length()
        typed = tuple((name, type_sql(rows.schema[name].dataType)) for name in by)
        places = jvm.places(rows.sparkSession, partitions)
        return Blocks(typed, tuple(rows.columns), places, each, SLOTS_PER_SHELF)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns by which rows are partitioned."""
        return tuple(name for name, _ in self.by)

    @property
    def partitions(self) -> int:
        return len(self.places)

    @property
    def address(self) -> tuple[str, str, str]:
        """The address of a row's block, in SQL: the place, the shelf and the slot."""
        hashed = f"hash({', '.join(self.names)})"
        places = f"array({', '.join(map(str, self.places))})"
        block = f"pmod({hashed}, {self.partitions * self.each})"
        return (
            f"element_at({places}, pmod({hashed}, {self.partitions}) + 1) AS {PLACE}",
            f"{block} DIV {self.partitions * self.slots} AS {SHELF}",
            f"CAST({block} DIV {self.partitions} % {self.slots} AS INT) AS {SLOT}",
        )

    def keys(self, wanted: Relation) -> Relation:
        """The wanted keys, cast to the types of the partitioning columns and moved to the partitions of the rows."""
        columns = (f"CAST({name} AS {of_type}) AS {name}" for name, of_type in self.by)
        return wanted.select(*columns).moved(self.names, in_one=self.partitions == 1)

    def addressed(self, rows: Relation, plans: Plans, *columns: str) -> Relation:
        """The addresses of rows that are partitioned by the key, and some of their columns."""
        return Relation.kept(PartitionedRows(plans, rows.select(*self.address, *columns), (PLACE,), self.partitions))

    def closed(self, rows: Relation, plans: Plans) -> Relation:
        """The shelves, with all rows in blocks."""
        row = f"struct({', '.join(self.columns)}) AS {ROWS}"
        blocks = self.addressed(rows, plans, row).aggregate([PLACE, SHELF, SLOT], [f"collect_list({ROWS}) AS {ROWS}"])
        shelves = blocks.aggregate([PLACE, SHELF], [f"collect_list(struct({SLOT}, {ROWS})) AS {BLOCKS}"])
        return shelves.select(PLACE, SHELF, f"{BLOCKS}.{SLOT} AS {SLOTS}", f"{BLOCKS}.{ROWS} AS {BLOCKS}")

    def opened(self, shelves: Relation) -> Relation:
        """All rows of some shelves."""
        return shelves.select(f"explode({BLOCKS}) AS {ROWS}").select(f"inline({ROWS})")

    def found(self, shelves: Relation, addresses: Relation) -> Relation:
        """The rows of the blocks at some addresses."""
        wanted = addresses.aggregate([PLACE, SHELF, SLOT], ["count(1) AS wanted"]).hint("shuffle_hash")
        block = f"get({BLOCKS}, CAST(array_position({SLOTS}, {SLOT}) AS INT) - 1)"
        return shelves.beside(wanted, (PLACE, SHELF)).select(f"inline({block})")


@attrs.define(eq=False, slots=False)
class PartitionedRows:
    """Rows partitioned by some columns, which Spark could not see from their plan: so they have a plan of their own."""

    plans: Plans
    rows: Relation
    by: tuple[str, ...]
    partitions: int

    @property
    def spark(self) -> SparkSession:
        """The session of the rows."""
        return self.plans.spark

    @cached_property
    def rdd(self) -> Any:
        """Spark's handle of the rows."""
        rdd = self.plans.rdd(self.rows)
        assert rdd.getNumPartitions() == self.partitions, "rows that lie elsewhere"
        return rdd

    @cached_property
    def shape(self) -> jvm.RowShape:
        """The columns and the partitioning."""
        return self.plans.shape_by(self.rows, self.by, self.partitions)

    @property
    def signature(self) -> str:
        """The columns and the partitioning, as text."""
        return self.shape.signature

    @cached_property
    def df(self) -> DataFrame:
        """The rows as a DataFrame."""
        return self.shape.over(self.spark, self.rdd)


def are_flat(schema: StructType) -> bool:
    """Whether rows can be kept by columns: in Spark's columnar format, nested values are bytes."""
    return all(isinstance(field.dataType, AtomicType) for field in schema.fields)
