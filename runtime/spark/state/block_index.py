"""An index of a run: its rows in blocks by a hash of their key, so that a change opens the blocks of its keys alone.

A block is an array of some of the rows; a *shelf* is a row with an array of some blocks, each in a slot. The number of
a key's block, for n partitions of b blocks each, is

    block(k) = hash(k) mod n·b        and so        block(k) mod n = hash(k) mod n,

the partition in which Spark's hash partitioning puts the key: the rows of a block lie in one partition as they are.
Spark sees that by a column of the shelf, the *place*, whose own hash leads to the same partition. What is wanted gets
its place, its shelf and its slot, and is joined with the shelves, which moves nothing; of a shelf, the block in that
slot is opened. So of millions of rows some thousand shelves are looked at, and for each key some rows.

A search costs two plans more, and pays from some hundred thousand rows on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import AtomicType, StructType

from mrql.runtime.spark import jvm
from mrql.runtime.spark.relation.persisted_rows import ROWS
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation

PLACE, SHELF, SLOT = "place", "shelf", "slot"
"""The columns by which blocks are found."""

SLOTS, BLOCKS = "slots", "blocks"
"""What a shelf has: the slots that are taken, and the blocks that are in them."""

SLOTS_PER_SHELF = 128
"""To find a block is to go through so many numbers, of one in so many blocks."""


@attrs.frozen
class Blocks:
    """How rows lie in blocks."""

    by: tuple[tuple[str, str], ...]
    """The columns that rows lie by, each with its type in SQL: equal values of two types have two hashes."""
    columns: tuple[str, ...]
    """All columns."""
    places: tuple[int, ...]
    """For each partition a number that lies in it by its hash."""
    each: int
    """How many blocks a partition has."""
    slots: int
    """How many of them a shelf has."""

    @staticmethod
    def of(rows: DataFrame, by: Sequence[str], partitions: int, count: int, size: int) -> Blocks:
        """Blocks for about so many rows, which lie in partitions by some columns; each of at most `size` rows.

        A partition has a power of two of them, so that plans are seldom made for another number.
        """
        each = 1 << (count // (size * partitions)).bit_length()
        typed = tuple((name, rows.schema[name].dataType.simpleString()) for name in by)
        places = jvm.places(rows.sparkSession, partitions)
        return Blocks(typed, tuple(rows.columns), places, each, SLOTS_PER_SHELF)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that rows lie by."""
        return tuple(name for name, _ in self.by)

    @property
    def partitions(self) -> int:
        return len(self.places)

    @property
    def address(self) -> tuple[str, str, str]:
        """Where the block of a row is, in SQL: the place, the shelf and the slot."""
        hashed = f"hash({', '.join(self.names)})"
        places = f"array({', '.join(map(str, self.places))})"
        block = f"pmod({hashed}, {self.partitions * self.each})"
        return (
            f"element_at({places}, pmod({hashed}, {self.partitions}) + 1) AS {PLACE}",
            f"{block} DIV {self.partitions * self.slots} AS {SHELF}",
            f"CAST({block} DIV {self.partitions} % {self.slots} AS INT) AS {SLOT}",
        )

    def keys(self, wanted: Relation) -> Relation:
        """What is wanted, as columns like those that rows lie by, and where these are."""
        columns = (f"CAST({name} AS {of_type}) AS {name}" for name, of_type in self.by)
        return wanted.select(*columns).moved(self.names, in_one=self.partitions == 1)

    def addressed(self, rows: Relation, plans: Plans, *columns: str) -> Relation:
        """The addresses of rows that lie by the key, and some columns of them."""
        return Relation.kept(PartitionedRows(plans, rows.select(*self.address, *columns), (PLACE,), self.partitions))

    def closed(self, rows: Relation, plans: Plans) -> Relation:
        """The shelves with all rows in their blocks."""
        row = f"struct({', '.join(self.columns)}) AS {ROWS}"
        blocks = self.addressed(rows, plans, row).aggregate([PLACE, SHELF, SLOT], [f"collect_list({ROWS}) AS {ROWS}"])
        shelves = blocks.aggregate([PLACE, SHELF], [f"collect_list(struct({SLOT}, {ROWS})) AS {BLOCKS}"])
        return shelves.select(PLACE, SHELF, f"{BLOCKS}.{SLOT} AS {SLOTS}", f"{BLOCKS}.{ROWS} AS {BLOCKS}")

    def opened(self, shelves: Relation) -> Relation:
        """All rows of some shelves."""
        return shelves.select(f"explode({BLOCKS}) AS {ROWS}").select(f"inline({ROWS})")

    def found(self, shelves: Relation, addresses: Relation) -> Relation:
        """The rows of the blocks that are at some addresses."""
        wanted = addresses.aggregate([PLACE, SHELF, SLOT], ["count(1) AS wanted"]).hint("shuffle_hash")
        block = f"get({BLOCKS}, CAST(array_position({SLOTS}, {SLOT}) AS INT) - 1)"
        return shelves.beside(wanted, (PLACE, SHELF)).select(f"inline({block})")


@attrs.define(eq=False, slots=False)
class PartitionedRows:
    """Rows that lie by some columns, as Spark could not tell from their plan: they have one of their own."""

    plans: Plans
    rows: Relation
    by: tuple[str, ...]
    partitions: int

    @property
    def spark(self) -> SparkSession:
        """The session that they are of."""
        return self.plans.spark

    @cached_property
    def rdd(self) -> Any:
        """Spark's handle of the rows."""
        rdd = self.plans.rdd(self.rows)
        assert rdd.getNumPartitions() == self.partitions, "rows that lie elsewhere"
        return rdd

    @cached_property
    def shape(self) -> jvm.RowShape:
        """Their columns, and that they lie so."""
        return self.plans.shape_by(self.rows, self.by, self.partitions)

    @property
    def signature(self) -> str:
        """Both in words."""
        return self.shape.signature

    @cached_property
    def df(self) -> DataFrame:
        """The rows as a DataFrame."""
        return self.shape.over(self.spark, self.rdd)


def are_flat(schema: StructType) -> bool:
    """Whether rows can be kept by columns: those of Spark hold what is nested as bytes."""
    return all(isinstance(field.dataType, AtomicType) for field in schema.fields)
