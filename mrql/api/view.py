"""A query that is kept up to date on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from copy import deepcopy
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never

from mrql.algebra.errors import UserError
from mrql.algebra.row_key import RowKey
from mrql.api.arguments import kind_of, must_be_a_receiver
from mrql.api.collected_batch import CollectedBatch, Given
from mrql.api.delta import Delta
from mrql.api.following import Following, must_be_a_trigger
from mrql.api.frames import Rows, StreamRows
from mrql.api.notebook import AppliedBatch, Drawing, drawing_of, print_text, view_html, view_repr
from mrql.api.source_query import Pace, SourceLoop, SourceQuery
from mrql.api.sources import FollowedSource
from mrql.api.view_batches import ViewBatches
from mrql.api.view_streams import ViewStreams
from mrql.api.view_writer import ViewWriter
from mrql.explain import explain_trace
from mrql.runtime.checkpoint.offsets import as_json, batch_of_query, fed_by, is_due
from mrql.runtime.sources.arrived import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mrql.api.query import Query
    from mrql.rewrite.passes import Trace
    from mrql.runtime.engine.residual import Residual
    from mrql.runtime.engine.sizes import StateSize
    from mrql.runtime.spark.durable_view import DurableView
    from mrql.runtime.spark.relation.frame import Frame
    from mrql.runtime.spark.view import SparkView


class View:
    """A query that is kept up to date on Spark. Its states exist until `close`, or the end of a `with` block; what a
    view has committed to a checkpoint remains.

    Several threads may use a view: it works for one at a time.
    """

    def __init__(
        self,
        query: Query,
        view: SparkView,
        durable: DurableView | None,
        tables: frozenset[str],
        insert_only: bool,
        keyed: Mapping[str, RowKey],
        trace: Trace,
        change_feed: bool = False,
    ) -> None:
        self._query = query
        self._view = view
        self._durable = durable
        rows = StreamRows(query.streams)
        self._streams = ViewStreams(rows, view.spark, view.columns, tables, keyed, insert_only)
        self._trace = trace
        self._following: list[Following] = []
        self._batches = ViewBatches(query, view, durable, change_feed=change_feed)
        self._drawing: Drawing | None = None

    @classmethod
    def open(cls, checkpoint: object, *_: object, **__: object) -> Never:
        """Refused: a checkpoint has the states of a query and a digest of it, but not its text.

        Raises: UserError, which says how to open a checkpoint with `Query.view`.
        """
        hint = f"query.view(spark, checkpoint={str(checkpoint)!r}), with the query that it was made with"
        raise UserError("a checkpoint does not have the text of its query, and so a query opens it", hint=hint)

    # --- batches ------------------------------------------------------------------------------

    def apply(
        self,
        /,
        *,
        offset: Any = None,
        deliver: Any = None,  # a function; if typed as one, it would be incompatible with the values of `**deltas`
        **deltas: Delta | Rows,
    ) -> DataFrame:
        """Applies a batch, and returns the changes of the answer, with a column `weight`, or as a change feed if the
        view was created with `change_feed`.

        Each stream is given a `Delta`, or rows: a DataFrame of Spark or pandas, or a table of Arrow. Rows are inserted,
        or upserted in a stream with a key; those with the columns of a change feed are changes.

        The changes of the answer can be read until the next `apply`, or `close`. A batch that fails leaves the view as
        it was. With a checkpoint, the batch is committed when this returns.

        An `offset`, any JSON value such as the number of the batch, says how far the named streams have come. A batch
        whose offset was applied already changes nothing, and returns no changes. A number was applied if it is not
        larger than the last one of its streams, another value if it equals the last one.

        `deliver`, a function of a DataFrame and an int, is called with the changes and the number of the batch before
        the commit; if it raises, the batch is taken back. After a crash it may be called again with the same number, so
        it has to overwrite what it wrote under that number.

        Raises: UserError when a name or a type does not fit, a deleted row is not there, two rows have the same key and
            it is not known which is later, the query has no value for the new data, offsets cannot be compared, or the
            view is closed. EngineError when a commit fails: the view is closed then, and opened again, its offsets say
            whether the batch counts.
        """
        return self._apply([*deltas.items()], offset, deliver)

    def batch(self, *, offset: Any = None, deliver: Any = None) -> CollectedBatch:
        """A batch of several steps: `with view.batch(offset=7) as batch: batch.apply(…); batch.apply(…)`.

        The steps are applied together at the end of the block, as by one `apply` with this `offset` and `deliver`; if
        the block raises, nothing is applied. The changes that a stream is given in several steps are added up. After
        the block, `batch.changes` is the result of that `apply`.

        Raises: UserError and EngineError at the end of the block, as `apply` does.
        """
        return CollectedBatch(self._streams.must_be_changing, lambda given: self._apply(given, offset, deliver))

    def _apply(self, given: Given, offset: Any, deliver: Any) -> DataFrame:
        """Applies the deltas of streams as one batch, unless its offset was applied already."""
        with self._view.lock:
            self._view.require_open()
            frames = self._streams.frames(given)
            streams = dict(given).keys()
            new = {} if offset is None else dict.fromkeys(streams, as_json(offset))
            if offset is not None and not is_due(as_json(offset), streams, self._batches.offsets):
                return self._batches.no_changes()
            return self._apply_frames(frames, new, deliver)

    def _apply_frames(self, frames: Mapping[str, Frame], new: Mapping[str, Any], deliver: Any) -> DataFrame:
        """Applies the changes of streams as one batch, with its new offsets. The caller holds the lock.

        Raises: UserError, EngineError as `apply`.
        """
        changes = self._batches.apply(frames, new, deliver)
        if self._drawing is not None and not self._drawing.draw(self):
            self._drawing = None
        return changes

    def for_each_batch(
        self,
        feed: str | Callable[[DataFrame], Mapping[str, Delta | Rows]],
        deliver: Callable[[DataFrame, int], object] | None = None,
    ) -> Callable[[DataFrame, int], None]:
        """A function for a streaming query to call with each batch:
        `df.writeStream.foreachBatch(view.for_each_batch("S"))`.

        The rows of a batch are applied to the stream that `feed` names, or are converted by the function `feed` to what
        `apply` takes, by stream. Each batch is applied once, however often Spark passes it: its offset is that of the
        streaming query (`queryId`, `batchId`).

        Raises: UserError if the query has no such stream. The returned function raises it when it is called by
            something else than a streaming query, by another query than before, or after batches that are missing.
        """
        must_be_a_receiver(deliver)
        if not isinstance(feed, str) and not callable(feed):
            raise UserError(f"what a batch is for is the name of a stream, or a function, not {kind_of(feed)}")
        if isinstance(feed, str):
            self._streams.must_be_changing(feed)

        def fed(df: DataFrame, number: int) -> None:
            from mrql.runtime.spark.session.streaming import streaming_query

            query = streaming_query(df)
            if query is None:
                raise UserError("this is no batch of a streaming query", hint="view.apply(…, offset=…) takes any batch")
            # Its rows are read several times, and must be the same each time.
            df = df.persist()
            try:
                deltas = {feed: df} if isinstance(feed, str) else _by_stream(feed(df))
                with self._view.lock:
                    # A stream that this query has fed before gets the offset of the batch even without rows.
                    others = dict.fromkeys(fed_by(query, self._batches.offsets) - deltas.keys(), Delta())
                    self.apply(offset=batch_of_query(query, number), deliver=deliver, **deltas, **others)
            finally:
                df.unpersist()

        return fed

    def follow(
        self,
        /,
        *,
        trigger: Mapping[str, Any] | None = None,
        query_name: str | None = None,
        deliver: Callable[[DataFrame, int], object] | None = None,
        **streams: DataFrame | FollowedSource,
    ) -> Following:
        """Feeds the view with streaming DataFrames, any that `spark.readStream` makes: each batch of each is applied
        once, also when the view is opened again and follows the same ones. Spark's own checkpoints of them are in the
        checkpoint of the view.

        Tables and logs (`mrql.delta_table`, `mrql.iceberg_table` and `mrql.postgresql_cdc`) are followed as well: the
        first batch has the rows that are in the table then, each later one what has changed. A batch has what is new in
        all tables and logs that are followed together. The view keeps the offset up to which each was read.

        `trigger` is what `DataStreamWriter.trigger` takes, such as `{"availableNow": True}`; with a `query_name`, the
        streaming queries are called `name-stream`. If one fails, `Following.awaitTermination` raises the error.

        Raises: UserError when a name or a type does not fit, a DataFrame does not stream, a table or a log does not
            exist, or is not what the view was fed with, or the stream is followed already, as only one query at a time
            can feed a stream. EngineError when a database cannot be reached.
        """
        if not streams:
            raise UserError("there is nothing to follow", hint="view.follow(S=spark.readStream…)")
        must_be_a_trigger(trigger)
        must_be_a_receiver(deliver)
        self._view.require_open()
        for name, given in streams.items():
            if name == "queryName" and name not in self._query.streams:
                raise UserError("the name of the streaming queries is called query_name here", hint='query_name="fed"')
            self._streams.must_be_changing(name)
            self._must_not_be_followed(name)
            if not isinstance(given, FollowedSource):
                self._streams.rows.must_stream(name, given)
        following = Following(self._view)
        loop = self._loop(following, trigger, deliver, _sources(streams))
        try:
            for name, given in streams.items():
                called = None if query_name is None else f"{query_name}-{name}"
                if not isinstance(given, FollowedSource):
                    kept = None if self._durable is None else self._durable.streaming(name)
                    following.start(name, given, self.for_each_batch(name, deliver), trigger, called, kept)
                elif loop is not None:
                    following.queries[name] = SourceQuery(loop, name, called)
            if loop is not None:
                loop.start()
        except BaseException:
            following.stop()
            if loop is not None:
                loop.stop()
            raise
        self._following.append(following)
        return following

    @property
    def writeStream(self) -> ViewWriter:
        """A writer for the changes of each batch, with the interface of Spark's `DataStreamWriter`:
        `view.writeStream.foreachBatch(write).trigger(availableNow=True).start(S=df)`."""
        return ViewWriter(self)

    def _loop(
        self,
        following: Following,
        trigger: Mapping[str, Any] | None,
        deliver: Callable[[DataFrame, int], object] | None,
        sources: Mapping[str, FollowedSource],
    ) -> SourceLoop | None:
        """The loop that is to feed streams with tables and logs, not started yet; None if there are no such sources.

        Raises: UserError, EngineError as `follow`.
        """
        if not sources:
            return None
        pace = Pace.of(trigger, self._view.spark)
        root = None if self._durable is None else self._durable.commits.store.root
        feed = self._streams.feed(sources, self._batches.offsets, self._batches.arrived, root)

        def take(batch: Batch, offsets: Mapping[str, Any]) -> int:
            feed.must_be_where_it_was(self._batches.offsets)
            with feed.naming_files(batch):
                self._apply_frames(self._streams.read(feed, batch), offsets, deliver)
            return self._batches.count - 1

        return SourceLoop(feed, pace, take, following.taking, lambda: self._view.is_mine)

    def _must_not_be_followed(self, name: str) -> None:
        """Raises: UserError if an active query feeds the stream."""
        for following in self._following:
            query = following.queries.get(name)
            if query is not None and query.isActive:
                hint = "`stop` of what `follow` has returned ends it; a union of two DataFrames is one"
                raise UserError(f"`{name}` is followed already", hint=hint)

    # --- the state of the view ----------------------------------------------------------------

    @property
    def offsets(self) -> dict[str, Any]:
        """The last offset of each stream that was given one; with a checkpoint, the last committed one."""
        return deepcopy(self._batches.offsets)

    @property
    def batches(self) -> int:
        """The number of batches applied; with a checkpoint, since its creation."""
        return self._batches.count

    @property
    def recent(self) -> tuple[AppliedBatch, ...]:
        """The last batches that this object has applied, with their durations: some dozens at most."""
        return tuple(self._batches.recent)

    @property
    def sizes(self) -> dict[str, StateSize]:
        """The sizes of the states in rows and bytes: those of stages by the name of the stage, those of the current
        rows of a stream with deletions by the name of the stream. A closed view has none."""
        from mrql.runtime.spark.engine import sizes_of

        with self._view.lock:
            return {} if self._view.closed else sizes_of(self._view)

    def __repr__(self) -> str:
        return view_repr(self._query.query.span.aligned, self._view.closed, self.recent, self.sizes)

    def _repr_html_(self) -> str:
        return view_html(self._query.query.span.aligned, self._view.closed, self.recent, self.sizes)

    def display(self) -> None:
        """Shows the view: in a notebook as HTML that is updated after each batch, elsewhere as text, once."""
        self._drawing = drawing_of(self)

    def explanation(self) -> str:
        """Every step from the query to the stages of this view, as text."""
        return explain_trace(self._trace)

    def explain(self) -> None:
        """Prints every step from the query to the stages of this view; `explanation` is the text."""
        print_text(self.explanation())

    def answer(self) -> DataFrame:
        """The answer over all batches so far.

        Raises: UserError when the view is closed.
        """
        from mrql.runtime.spark.io.answer_rows import rows_alone

        return rows_alone(self._view.answer(), self._query.type)

    def before(self) -> DataFrame:
        """The answer before the last batch, to which the changes of that batch were added. It can be read until the
        next batch.

        Raises: UserError when there was no batch since the view was opened, or the view is closed.
        """
        from mrql.runtime.spark.io.answer_rows import rows_alone

        return rows_alone(self._view.before(), self._query.type)

    @property
    def residual(self) -> Residual | None:
        """How far the values of loops may be off because small changes are held back; None without such loops.

        It is computed when it is first read after a batch.

        Raises: UserError when the view is closed.
        """
        self._view.require_open()
        return self._view.residual if self._view.plan.has_residual else None

    def close(self) -> None:
        """Frees the states. A closed view takes no more batches and has no answer; another view can continue from its
        checkpoint. The queries that feed it are stopped after the running batch.

        Raises: UserError when it is called by the `deliver` function of a batch.
        """
        self._batches.must_not_be_delivering("close it when `apply` has returned")
        with ExitStack() as ending:  # all of it, even if a part fails
            ending.callback(self._view.close if self._durable is None else self._durable.close)
            for following in self._following:
                ending.callback(following.stop)

    def __enter__(self) -> View:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _sources(streams: Mapping[str, DataFrame | FollowedSource]) -> dict[str, FollowedSource]:
    """The streams that are given tables and logs."""
    return {name: given for name, given in streams.items() if isinstance(given, FollowedSource)}


def _by_stream(deltas: object) -> Mapping[str, Delta | Rows]:
    """Raises: UserError if the result of a `feed` function is not a mapping by stream."""
    if not isinstance(deltas, Mapping):
        hint = 'return {"orders": rows}, or {"orders": mrql.Delta(…)}'
        raise UserError(f"what is made of a batch is what `apply` takes, by stream, not {kind_of(deltas)}", hint=hint)
    return deltas
