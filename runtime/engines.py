"""The two engines of the stream loop: Spark, and the reference semantics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.span import Source
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Value
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.checkpoint.commits import States
from mrql.runtime.checkpoint.identity import Identities
from mrql.runtime.checkpoint.restore import Restored
from mrql.runtime.engine.residual import Residual
from mrql.runtime.engine.sizes import StateSize
from mrql.runtime.files.quarantine import Quarantine, fail, pass_over
from mrql.runtime.reference.checkpoint import ReferenceStates, reference_sizes
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.sources.directory import Arrived, Batch, Part, files_of, static_files
from mrql.runtime.sources.files import read_changes, read_source
from mrql.runtime.spark.sizes import spark_sizes
from mrql.runtime.streaming.stream_loop import Put, Sizes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mrql.runtime.spark.checkpoint import SparkStates
    from mrql.runtime.spark.relation.frame import Frame


@attrs.frozen
class GoingOn:
    """What an engine has to know of a checkpoint: what states are known by, and what there is of them already."""

    identities: Identities
    restored: Restored | None


class ReferenceEngine:
    """Keeps a plan up to date in plain Python; needs no Java."""

    name = "reference"

    def __init__(
        self,
        plan: Plan,
        sources: Mapping[str, SourceSpec],
        quarantine: Quarantine | None = None,
        going_on: GoingOn | None = None,
    ) -> None:
        self.sources = sources
        self.plan = plan
        self.reject = fail if quarantine is None else quarantine.reject
        tables = {name: read_source(sources[name], self.reject) for name in plan.tables}
        restored = None if going_on is None else going_on.restored
        self.view = ReferenceView(plan, tables, start=restored is None)
        self.states = None if going_on is None else ReferenceStates(self.view, going_on.identities)
        if restored is not None and self.states is not None:
            self.states.load(restored)
            rows = {stream: self._change(stream, arrived) for stream, arrived in restored.arrived.items()}
            self.view.resume(restored.states, rows)

    def advance(self, batch: Batch, put: Put, *, changes: bool) -> None:
        before = self.view.answer() if changes else None
        deltas = {stream: self._change(stream, arrived) for stream, arrived in batch.items()}
        self.view.apply(deltas)
        put(ReferenceAnswer(self.view.answer(), before, self.plan.answer.type))

    def _change(self, stream: str, arrived: Iterable[Part]) -> ZSet:
        return ZSet.weighted(change for part in arrived for change in self._rows(self.sources[stream], part))

    def _rows(self, spec: SourceSpec, part: Part) -> Iterator[tuple[Value, int]]:
        if not isinstance(part, Arrived):
            yield from part.rows
            return
        # What was kept aside when the file was read is not kept once more when its rows are taken back.
        reject = self.reject if part.withdrawn is None or self.reject is fail else pass_over
        with part.named():
            yield from read_changes(spec, part.read_from, part.weight, lambda row: reject(part.called(row)))

    def sizes(self) -> Sizes:
        return Sizes(sum(state.size() for state in self.view.states), sum(state.touched for state in self.view.states))

    def state_sizes(self) -> Mapping[str, StateSize]:
        return reference_sizes(self.view)

    def residual(self) -> Residual | None:
        return self.view.residual if self.view.plan.has_residual else None

    def durable(self) -> States:
        assert self.states is not None
        return self.states

    def close(self) -> None:
        self.view = ReferenceView(self.plan, start=False)


@attrs.frozen
class ReferenceAnswer:
    """The answer after a batch, with the one before where its changes are asked for."""

    after: Value
    before: Value
    type: Type

    def snapshot(self) -> Value:
        return self.after

    def changes(self) -> Value:
        return difference(self.after, self.before, self.type)


def difference(after: Value, before: Value, t: Type) -> Value:
    """The change of an answer as a bag of `(row, weight)`."""
    rows = [ZSet.of(side if ty.is_collection(t) else [side]) for side in (after, before)]
    return Bag((value, weight) for value, weight in rows[0] - rows[1])


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
        from mrql.runtime.spark.io.readers import read
        from mrql.runtime.spark.view import SparkView

        self.sources = sources
        self.spark = spark
        self.source = source
        self.quarantine = quarantine
        self.tables = {name: read(spark, sources[name], None, quarantine) for name in plan.tables}
        for frame in self.tables.values():
            frame.df.table.persist()
        restored = None if going_on is None else going_on.restored
        self.view = SparkView(plan, spark, self.tables, source, partitions, start=restored is None)
        self.states: SparkStates | None = None
        if going_on is not None:
            from mrql.runtime.spark.checkpoint import SparkStates

            self.states = SparkStates(self.view, going_on.identities)
        if restored is not None and self.states is not None:
            self.states.load(restored)
            with self._translated(restored.arrived):
                self.view.resume(restored.states, self._frames(restored.arrived))

    def _frames(self, batch: Batch) -> dict[str, Frame]:
        from mrql.runtime.spark.io.readers import read_batch

        return {
            name: read_batch(self.spark, self.sources[name], arrived, self.view.columns, self.quarantine)
            for name, arrived in batch.items()
        }

    def _translated(self, batch: Batch) -> AbstractContextManager[None]:
        from mrql.runtime.spark.io.readers import find_malformed
        from mrql.runtime.spark.session.errors import translated

        def reread() -> None:
            find_malformed((self.sources[name], files_of(arrived)) for name, arrived in batch.items())
            find_malformed((self.sources[name], static_files(self.sources[name])) for name in self.tables)

        return translated(self.source, reread)

    def advance(self, batch: Batch, put: Put, *, changes: bool) -> None:
        from mrql.runtime.spark.session.jvm_exit import unless_stopped

        with self._translated(batch):
            try:
                step = self.view.advance(self._frames(batch))
                # The states are computed by the same action that puts out the answer.
                put(step)
                self.view.settle(counting=True)
            except BaseException as error:
                with unless_stopped():
                    self.view.give_up(error)
                raise

    def sizes(self) -> Sizes:
        return self.view.sizes()

    def state_sizes(self) -> Mapping[str, StateSize]:
        return spark_sizes(self.view)

    def residual(self) -> Residual | None:
        return self.view.residual if self.view.plan.has_residual else None

    def durable(self) -> States:
        assert self.states is not None
        return self.states

    def close(self) -> None:
        from mrql.runtime.spark.session.jvm_exit import unless_stopped

        with unless_stopped():
            self.view.close()
            for frame in self.tables.values():
                frame.df.table.unpersist()
