"""What is verified: a plan that is kept up to date batch by batch, on Spark or in the reference engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from mrql.algebra import types as ty
from mrql.algebra.span import Source
from mrql.algebra.values.values import Bag, Value
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.reference.view import Arriving, ReferenceView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mrql.runtime.spark.relation.frame import Frame

Rows: TypeAlias = Mapping[str, Sequence[Value]]
"""Rows by stream; streams without any are absent."""


class Incremental(Protocol):
    """A view of a query, empty at first."""

    def apply(self, inserted: Rows, deleted: Rows) -> ZSet:
        """Applies a batch and returns the changes of the answer; an answer that is no collection is one row."""

    def answer(self) -> Value:
        """The answer over all batches applied so far."""

    def close(self) -> None:
        """Frees the state."""


Start: TypeAlias = Callable[[Plan, Mapping[str, Bag]], Incremental]
"""Makes a view of a plan, with the rows of its static tables."""


class ReferenceIncremental:
    """A view in the reference engine."""

    def __init__(self, plan: Plan, tables: Mapping[str, Bag]) -> None:
        self.type = plan.answer.type
        self.view = ReferenceView(plan, {name: tables[name] for name in plan.tables})

    def apply(self, inserted: Rows, deleted: Rows) -> ZSet:
        before = as_rows(self.view.answer(), self.type)
        names = {*inserted, *deleted}
        self.view.apply({name: self._change(name, inserted, deleted) for name in sorted(names)})
        return as_rows(self.view.answer(), self.type) - before

    def _change(self, name: str, inserted: Rows, deleted: Rows) -> Arriving:
        come, gone = inserted.get(name, ()), deleted.get(name, ())
        if name in self.view.plan.keyed:
            return [*((row, 1) for row in come), *((row, -1) for row in gone)]
        return ZSet.of(come) - ZSet.of(gone)

    def answer(self) -> Value:
        return self.view.answer()

    def close(self) -> None:
        """There is nothing to free."""


def as_rows(answer: Value, t: ty.Type) -> ZSet:
    """The rows of an answer: its elements, or itself where it is no collection."""
    return ZSet.of(answer if ty.is_collection(t) else [answer])


def on_spark(spark: SparkSession, source: Source | None) -> Start:
    """Makes views on Spark, for a query with the given text."""
    return lambda plan, tables: SparkIncremental(plan, tables, spark, source)


class SparkIncremental:
    """A view on Spark."""

    def __init__(self, plan: Plan, tables: Mapping[str, Bag], spark: SparkSession, source: Source | None) -> None:
        from mrql.runtime.spark.view import SparkView

        self.type = plan.answer.type
        self.spark = spark
        self.source = source
        self.types = {**plan.streams, **plan.tables}
        self.view = SparkView(plan, spark, {name: self.frame(name, tables[name]) for name in plan.tables}, source)

    def frame(self, name: str, rows: Sequence[Value] | Bag) -> Frame:
        from mrql.runtime.spark.io.create_dataframe import to_dataframe
        from mrql.runtime.spark.relation.frame import from_dataframe

        t = self.types[name]
        assert isinstance(t, ty.BagType)
        return from_dataframe(to_dataframe(self.spark, rows, t), t.item)

    def apply(self, inserted: Rows, deleted: Rows) -> ZSet:
        from mrql.runtime.spark.io.collect import collect_changes
        from mrql.runtime.spark.relation.frame import changes
        from mrql.runtime.spark.session.errors import translated

        frames = {name: self.frame(name, rows) for name, rows in inserted.items()}
        for name, rows in deleted.items():
            frames[name] = changes(frames.get(name), self.frame(name, rows), self.view.columns)
        item = self.type.item if isinstance(self.type, ty.BagType | ty.ListType) else self.type
        with translated(self.source):
            return ZSet.weighted(collect_changes(self.view.apply(frames), item))

    def answer(self) -> Value:
        from mrql.runtime.spark.io.collect import collect_value
        from mrql.runtime.spark.session.errors import translated

        with translated(self.source):
            return collect_value(self.view.answer(), self.type)

    def close(self) -> None:
        self.view.close()
