"""The two engines of the stream loop: Spark, and the reference semantics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mrql.algebra import types as ty
from mrql.algebra.files import list_files, read_changes, read_source
from mrql.algebra.malformed import Quarantine, fail
from mrql.algebra.sources import SourceSpec
from mrql.algebra.span import Source
from mrql.algebra.types import Type
from mrql.algebra.values import Bag, Value
from mrql.algebra.zset import ZSet
from mrql.rewrite.stages import Plan
from mrql.runtime.directories import Arrived, Batch
from mrql.runtime.reference import ReferenceView
from mrql.runtime.stream import Emit, Sink, Sizes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ReferenceEngine:
    """Keeps a plan up to date in plain Python; needs no Java."""

    def __init__(self, plan: Plan, sources: Mapping[str, SourceSpec], quarantine: Quarantine | None = None) -> None:
        self.sources = sources
        self.plan = plan
        self.reject = fail if quarantine is None else quarantine.reject
        self.view = ReferenceView(plan, {name: read_source(sources[name], self.reject) for name in plan.tables})

    def advance(self, batch: Batch, emit: Emit, number: int, sink: Sink) -> None:
        before = self.view.answer() if emit is Emit.CHANGES else None
        deltas = {stream: self._change(stream, arrived) for stream, arrived in batch.items()}
        self.view.apply(deltas)
        after = self.view.answer()
        if emit is Emit.SNAPSHOT:
            sink.write(number, after)
        else:
            sink.write(number, difference(after, before, self.plan.answer.type))

    def _change(self, stream: str, arrived: Iterable[Arrived]) -> ZSet:
        spec = self.sources[stream]
        changes = (read_changes(spec, part.file, part.weight, self.reject) for part in arrived)
        return ZSet.weighted(change for file in changes for change in file)

    def sizes(self) -> Sizes:
        return Sizes(sum(state.size() for state in self.view.states), sum(state.touched for state in self.view.states))

    def close(self) -> None:
        self.view = ReferenceView(self.plan)


def difference(after: Value, before: Value, t: Type) -> Value:
    """The change of an answer as a bag of `(row, weight)`."""
    rows = [ZSet.of(side if ty.is_collection(t) else [side]) for side in (after, before)]
    return Bag((value, weight) for value, weight in rows[0] - rows[1])


class SparkEngine:
    """Keeps a plan up to date on Spark."""

    def __init__(
        self,
        plan: Plan,
        sources: Mapping[str, SourceSpec],
        spark: SparkSession,
        source: Source | None,
        quarantine: Quarantine | None = None,
    ) -> None:
        from mrql.runtime.readers import read
        from mrql.runtime.view import SparkView

        self.sources = sources
        self.spark = spark
        self.source = source
        self.quarantine = quarantine
        self.tables = {name: read(spark, sources[name], None, quarantine) for name in plan.tables}
        for frame in self.tables.values():
            frame.df.table.persist()
        self.view = SparkView(plan, spark, self.tables, source)

    def advance(self, batch: Batch, emit: Emit, number: int, sink: Sink) -> None:
        from mrql.runtime.failures import translated
        from mrql.runtime.readers import find_malformed, read_batch

        def reread() -> None:
            find_malformed((self.sources[name], [part.file for part in arrived]) for name, arrived in batch.items())
            find_malformed((self.sources[name], list_files(self.sources[name])) for name in self.tables)

        with translated(self.source, reread):
            try:
                frames = {
                    name: read_batch(self.spark, self.sources[name], arrived, self.view.columns, self.quarantine)
                    for name, arrived in batch.items()
                }
                step = self.view.advance(frames)
                # The states are computed by the same action that puts out the answer.
                sink.write(number, step.answer() if emit is Emit.SNAPSHOT else step.changes())
                self.view.settle(counting=True)
            except BaseException:
                self.view.rollback()
                raise

    def sizes(self) -> Sizes:
        return self.view.sizes()

    def close(self) -> None:
        self.view.close()
        for frame in self.tables.values():
            frame.df.table.unpersist()
