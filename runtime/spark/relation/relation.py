"""Operations on rows that are recorded, but not yet passed to Spark.

Spark analyses each operation of a DataFrame at once, and plans all of them again in each batch, although only the rows
at the leaves differ. A relation only records operations, in SQL text. All that it records, apart from the rows at its
leaves, is its `signature`: two relations with one signature have one plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from functools import cached_property
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mrql.runtime.spark import jvm
from mrql.runtime.spark.expressions import python_udf
from mrql.runtime.spark.relation.file_scans import FileScan, is_small, known_bytes
from mrql.runtime.spark.relation.persisted_rows import ROWS, Beside, Gathering, PersistedRows
from mrql.runtime.spark.session.cluster import ship

SENT_MAX_BYTES = 1 << 20
"""A static table of at most this many bytes is broadcast: a plan that joins it keeps the broadcast."""


class RelationOp(Enum):
    """What a relation does with its parts."""

    TABLE = "table"
    BATCH = "batch"
    KEPT = "kept"
    EMPTY = "empty"
    RANGE = "range"
    SELECT = "select"
    WHERE = "where"
    JOIN = "join"
    CROSS = "cross"
    AGGREGATE = "aggregate"
    UNION = "union"
    OPEN = "open"
    REPARTITION = "repartition"
    COALESCE = "coalesce"
    HINT = "hint"
    ORDER = "order"
    LIMIT = "limit"


@attrs.frozen(eq=False)
class Relation:
    """An operation over other relations, or a leaf: a table, a batch, or rows that are kept."""

    op: RelationOp
    arguments: tuple[Any, ...] = ()
    parts: tuple[Relation, ...] = ()
    leaf: Any = None

    # --- leaves -------------------------------------------------------------------------------

    @staticmethod
    def of(df: DataFrame, *, in_one: bool = False) -> Relation:
        """A static DataFrame, which may be known to be `in_one` partition."""
        return Relation(RelationOp.TABLE, (in_one,), leaf=df)

    @staticmethod
    def kept(rows: PersistedRows) -> Relation:
        return Relation(RelationOp.KEPT, leaf=rows)

    @staticmethod
    def empty(schema: str) -> Relation:
        """No rows, with the columns of a schema in SQL."""
        return Relation(RelationOp.EMPTY, (schema,))

    @staticmethod
    def range(start: int, end: int, name: str) -> Relation:
        """The longs from `start` up to `end`, exclusive, in one column."""
        return Relation(RelationOp.RANGE, (start, end, name))

    def of_batch(self) -> Relation:
        """The same relation, with its tables as batches: their DataFrames are others in the next batch."""
        if self.op is RelationOp.TABLE:
            return attrs.evolve(self, op=RelationOp.BATCH)
        return attrs.evolve(self, parts=tuple(part.of_batch() for part in self.parts))

    @property
    def table(self) -> DataFrame:
        """The DataFrame of a leaf that is a table or a batch."""
        assert isinstance(self.leaf, DataFrame)
        return self.leaf

    @property
    def rows(self) -> PersistedRows:
        """The rows of a leaf that is kept."""
        assert self.op is RelationOp.KEPT
        kept: PersistedRows = self.leaf
        return kept

    @property
    def is_small(self) -> bool:
        """Whether all its leaves are batches that one task reads as fast as several would."""
        tables = [node.table for node in self.nodes if node.op is RelationOp.BATCH]
        return len(tables) == sum(not node.parts for node in self.nodes) and all(map(is_small, tables))

    @property
    def lies(self) -> bool:
        """Whether it is a leaf of kept rows, each in the partition of its key."""
        return self.op is RelationOp.KEPT and self.rows.shape is not None

    @cached_property
    def in_one(self) -> bool:
        """Whether Spark knows that all rows are in one partition, where they stay whatever they are grouped by."""
        match self.op:
            case RelationOp.KEPT:
                return self.rows.shape is not None and self.rows.shape.in_one
            case RelationOp.TABLE:
                return bool(self.arguments[0])
            case RelationOp.BATCH | RelationOp.EMPTY | RelationOp.RANGE:
                return False
            case RelationOp.COALESCE | RelationOp.LIMIT:
                return True
            case RelationOp.REPARTITION:
                return not self.arguments
            case RelationOp.AGGREGATE:
                return not self.arguments[0] or self.parts[0].in_one
            case _:
                return all(part.in_one for part in self.parts)

    @cached_property
    def is_sent_to_all(self) -> bool:
        """Whether it is static and small, so that a join should broadcast it once."""
        if any(node.op is not RelationOp.TABLE for node in self.nodes if not node.parts):
            return False
        size = self.table_bytes
        return size is not None and size <= SENT_MAX_BYTES

    @cached_property
    def table_bytes(self) -> int | None:
        """The approximate size of the tables that it reads; None if one is unknown. It is computed once for each leaf,
        since all batches read the same ones."""
        if self.op is RelationOp.TABLE:
            return known_bytes(self.table)
        sizes = [node.table_bytes for node in self.nodes if node.op is RelationOp.TABLE]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def _kept_in_one(self) -> Relation:
        """The same relation, coalesced to one partition if all of its parts are in one: Spark does not see that of
        several parts together."""
        return self.in_one_partition() if self.in_one else self

    # --- operations ---------------------------------------------------------------------------

    def select(self, *columns: str) -> Relation:
        return Relation(RelationOp.SELECT, columns, (self,))

    def where(self, condition: str) -> Relation:
        return Relation(RelationOp.WHERE, (condition,), (self,))

    def join(self, other: Relation, condition: str, how: str = "inner") -> Relation:
        return Relation(RelationOp.JOIN, (condition, how), (self, other))._kept_in_one()

    def beside(self, other: Relation, columns: Sequence[str]) -> Relation:
        """The inner join on equal values in some columns, which the result has once. It is partitioned like both
        sides."""
        return Relation(RelationOp.JOIN, (tuple(columns), "inner"), (self, other))

    def semi_join(self, other: Relation, columns: Sequence[str]) -> Relation:
        """The rows whose values in some columns occur in the other relation."""
        return self._left_of(other, columns, "left_semi")

    def anti_join(self, other: Relation, columns: Sequence[str]) -> Relation:
        """The rows whose values in some columns do not occur in the other relation."""
        return self._left_of(other, columns, "left_anti")

    def _left_of(self, other: Relation, columns: Sequence[str], how: str) -> Relation:
        if self.gathering is not None and {*columns} <= {*self.gathering.by}:
            return attrs.evolve(self, parts=(self.parts[0]._left_of(other, columns, how),))
        return Relation(RelationOp.JOIN, (tuple(columns), how), (self, other))

    def cross(self, other: Relation) -> Relation:
        return Relation(RelationOp.CROSS, (), (self, other))._kept_in_one()

    def aggregate(self, keys: Sequence[str], measures: Sequence[str]) -> Relation:
        """One row for each key; with no keys, one row in all."""
        return Relation(RelationOp.AGGREGATE, (tuple(keys), tuple(measures)), (self,))

    def union(self, other: Relation) -> Relation:
        return union_all([self, other])

    def gathered(self, gathering: Gathering) -> Relation:
        """One row for each key, with an array of the other columns of its rows."""
        return self.aggregate(gathering.by, [f"collect_list({gathering.element}) AS {ROWS}"])

    def opened(self, gathering: Gathering) -> Relation:
        """The original rows of this relation, which has gathered ones."""
        return Relation(RelationOp.OPEN, (gathering,), (self,))

    @property
    def gathering(self) -> Gathering | None:
        """How the rows that it opens were gathered; None if it opens none."""
        return self.arguments[0] if self.op is RelationOp.OPEN else None

    def repartition(self, *columns: str) -> Relation:
        return Relation(RelationOp.REPARTITION, columns, (self,))

    def in_one_partition(self) -> Relation:
        """The same rows, coalesced to one partition, which one task computes: grouping them by any key moves none."""
        return Relation(RelationOp.COALESCE, (), (self,))

    def moved(self, columns: Sequence[str], *, in_one: bool) -> Relation:
        """The same rows, moved so that those with equal values in some columns are in one partition; or all to `in_one`
        partition, from wherever they are computed."""
        if not in_one:
            return self.repartition(*columns)
        return self if self.in_one else Relation(RelationOp.REPARTITION, (), (self,))

    def hint(self, name: str) -> Relation:
        return Relation(RelationOp.HINT, (name,), (self,))

    def broadcast(self) -> Relation:
        return self.hint("broadcast")

    def order(self, *columns: tuple[str, bool]) -> Relation:
        """Sorted by columns, each descending with nulls last or ascending with nulls first."""
        return Relation(RelationOp.ORDER, columns, (self,))

    def limit(self, count: int) -> Relation:
        return Relation(RelationOp.LIMIT, (count,), (self,))

    # --- what it says -------------------------------------------------------------------------

    @cached_property
    def identity(self) -> Hashable:
        """Equal for a relation that is read twice, and for two leaves that combine the same kept rows (`Beside`)."""
        return tuple(map(id, self.leaf.kept)) if isinstance(self.leaf, Beside) else id(self)

    @cached_property
    def nodes(self) -> tuple[Relation, ...]:
        """This relation and all below it, each once, parts first."""
        found: dict[Hashable, Relation] = {}

        def visit(node: Relation) -> None:
            if node.identity not in found:
                for part in node.parts:
                    visit(part)
                found[node.identity] = node

        visit(self)
        return tuple(found.values())

    @cached_property
    def leaves(self) -> tuple[Relation, ...]:
        """The leaves whose rows change from batch to batch."""
        return tuple(node for node in self.nodes if node.op in (RelationOp.BATCH, RelationOp.KEPT))

    @cached_property
    def signature(self) -> Hashable:
        """What determines the plan: all but the rows of batches and the kept rows."""
        places = {node.identity: place for place, node in enumerate(self.nodes)}
        return tuple(
            (node.op, node.arguments, node._leaf_signature(), tuple(places[part.identity] for part in node.parts))
            for node in self.nodes
        )

    def _leaf_signature(self) -> Any:
        match self.op:
            case RelationOp.KEPT:
                return self.rows.signature
            case RelationOp.BATCH:
                return self.table.kind if isinstance(self.table, FileScan) else self.table.schema.json()
            case _:
                return self.leaf  # a DataFrame is equal only to itself

    # --- as Spark has it ----------------------------------------------------------------------

    def dataframe(self, spark: SparkSession, given: Callable[[Relation], DataFrame] | None = None) -> DataFrame:
        """The relation as a DataFrame; `given` returns the DataFrame for a leaf whose rows change."""
        texts = (text for node in self.nodes for text in python_udf.flattened(node.arguments))
        python_udf.register(spark, texts, ship)
        made: dict[Hashable, DataFrame] = {}
        for node in self.nodes:
            made[node.identity] = node._made(spark, [made[part.identity] for part in node.parts], given)
        return made[self.identity]

    def _made(
        self, spark: SparkSession, parts: list[DataFrame], given: Callable[[Relation], DataFrame] | None
    ) -> DataFrame:
        match self.op, self.arguments, parts:
            case ((RelationOp.BATCH | RelationOp.KEPT), _, _) if given is not None:
                return given(self)
            case ((RelationOp.TABLE | RelationOp.BATCH), _, _):
                return self.table
            case RelationOp.KEPT, _, _:
                return self.rows.df
            case RelationOp.EMPTY, (str() as schema,), _:
                return spark.createDataFrame([], schema)
            case RelationOp.RANGE, (int() as start, int() as end, str() as name), _:
                return spark.range(start, end).toDF(name)
            case RelationOp.SELECT, columns, [df]:
                return jvm.select(df, columns)
            case RelationOp.WHERE, (str() as condition,), [df]:
                return df.where(condition)
            case RelationOp.JOIN, (tuple() as names, str() as how), [df, other]:
                return df.join(other, list(names), how)
            case RelationOp.JOIN, (str() as condition, str() as how), [df, other]:
                return df.join(other, jvm.column(condition), how)
            case RelationOp.CROSS, _, [df, other]:
                return df.crossJoin(other)
            case RelationOp.AGGREGATE, (tuple() as keys, tuple() as measures), [df]:
                return jvm.aggregate(df, keys, measures)
            case RelationOp.UNION, _, [df, other]:
                return df.union(other)
            case RelationOp.OPEN, (Gathering() as gathering,), [df]:
                return jvm.select(jvm.select(df, [*gathering.by, f"inline({ROWS})"]), gathering.columns)
            case RelationOp.REPARTITION, names, [df]:
                return jvm.repartition(df, names)
            case RelationOp.COALESCE, _, [df]:
                return df.coalesce(1)
            case RelationOp.HINT, (str() as name,), [df]:
                return df.hint(name)
            case RelationOp.ORDER, columns, [df]:
                return df.orderBy(*(_sort(*column) for column in columns))
            case RelationOp.LIMIT, (int() as count,), [df]:
                return df.limit(count)
            case _:
                raise AssertionError(f"{self.op} with {len(parts)} parts")


def union_all(parts: Sequence[Relation]) -> Relation:
    """The union of some relations with the same columns."""
    whole, *others = side_by_side(parts)
    for other in others:
        whole = Relation(RelationOp.UNION, (), (whole, other))
    return whole._kept_in_one() if others else whole


def side_by_side(parts: Sequence[Relation]) -> list[Relation]:
    """The same rows in fewer relations: leaves of kept rows with the same columns and partitioning become one, in the
    place of the first."""
    found: list[Relation] = []
    places: dict[Hashable, int] = {}
    for part in parts:
        place = places.setdefault(part.rows.signature, len(found)) if part.lies else len(found)
        if place == len(found):
            found.append(part)
        else:
            found[place] = Relation.kept(Beside((*_kept(found[place]), *_kept(part))))
    return found


def united(parts: Sequence[Relation]) -> Relation:
    """The union of some relations. If some open gathered rows, all are opened together, and each row that is not
    gathered becomes an array of one: so a join can come before opening."""
    how = next((part.gathering for part in parts if part.gathering is not None), None)
    if how is None:
        return union_all(parts)
    closed = [part.parts[0] for part in parts if part.gathering == how]
    others = [part for part in parts if part.gathering != how]
    if others:
        closed.append(union_all(others).select(*how.by, f"array({how.element}) AS {ROWS}"))
    return union_all(closed).opened(how)


def _kept(leaf: Relation) -> tuple[PersistedRows, ...]:
    return leaf.rows.kept if isinstance(leaf.rows, Beside) else (leaf.rows,)


def _sort(text: str, descending: bool) -> Any:
    column = F.expr(text)
    return column.desc_nulls_last() if descending else column.asc_nulls_first()
