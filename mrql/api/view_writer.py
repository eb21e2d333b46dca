"""`view.writeStream`: writes the changes of a view, with the interface of Spark's `DataStreamWriter`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Never, TypeAlias

import attrs

from mrql.algebra.errors import UserError
from mrql.api.arguments import kind_of
from mrql.api.following import must_be_a_trigger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mrql.api.following import Following
    from mrql.api.sources import FollowedSource
    from mrql.api.view import View

Receiver: TypeAlias = "Callable[[DataFrame, int], object]"
WRITTEN = "view.writeStream.foreachBatch(write).start(orders=spark.readStream…), where write takes changes and a number"


@attrs.frozen
class ViewWriter:
    """Collects the arguments of `View.follow` step by step; each step returns a new writer.

    view.writeStream.foreachBatch(write).start(S=df)  =  view.follow(S=df, deliver=write)
    """

    _view: View
    _receiver: Receiver | None = None
    _query_name: str | None = None
    _trigger: dict[str, Any] | None = None

    def foreachBatch(self, func: Receiver) -> ViewWriter:
        """Calls a function with the changes of each batch and its number, before the batch is committed. After a crash
        it may be called again with the same number, so it has to overwrite what it wrote under that number.

        Raises: UserError if it is not a function.
        """
        if not callable(func):
            raise UserError(f"the changes are given to a function, not to {kind_of(func)}", hint=WRITTEN)
        return attrs.evolve(self, receiver=func)

    def queryName(self, queryName: str) -> ViewWriter:
        """Names the streaming queries: the given name, a hyphen and the name of the stream."""
        return attrs.evolve(self, query_name=queryName)

    def trigger(self, **trigger: Any) -> ViewWriter:
        """Sets the trigger of batches: `processingTime="5 seconds"`, `availableNow=True` or another one of Spark.

        Raises: UserError if Spark has no such trigger.
        """
        must_be_a_trigger(trigger)
        return attrs.evolve(self, trigger=trigger)

    def outputMode(self, outputMode: str) -> ViewWriter:
        """Accepts `update`, the only mode: the inserted and the deleted rows are written.

        Raises: UserError for another mode.
        """
        if str(outputMode).lower() == "update":
            return self
        hint = "`view.answer()` is the whole answer, after each batch"
        raise UserError(f"what a view writes are changes, not {outputMode!r}", hint=hint)

    def start(self, *path: object, **streams: DataFrame | FollowedSource) -> Following:
        """Feeds the streams of the view, as `View.follow` does; the result corresponds to Spark's `StreamingQuery`.

        Raises: UserError, EngineError as `View.follow`; UserError for a path.
        """
        if path:
            raise UserError("a view is not written to a path: its changes are written by a function", hint=WRITTEN)
        return self._view.follow(trigger=self._trigger, query_name=self._query_name, deliver=self._receiver, **streams)

    def option(self, key: str, value: object) -> Never:
        """Refused: there are no options.

        Raises: UserError, which names the checkpoint of the view instead.
        """
        self.options(**{key: value})

    def options(self, **options: object) -> Never:
        """Refused: there are no options.

        Raises: UserError, which names the checkpoint of the view instead.
        """
        hint = 'a view has one checkpoint for all of its streams: query.view(spark, checkpoint="directory")'
        raise UserError(f"a view is written without options, such as {', '.join(map(repr, options))}", hint=hint)

    def __getattr__(self, name: str) -> Callable[..., Never]:
        """Any other method of a `DataStreamWriter`: it raises a UserError when it is called."""
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        if not hasattr(DataStreamWriter, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def refused(*_: object, **__: object) -> Never:
            raise UserError(f"a view has no `{name}`: its changes are written by a function", hint=WRITTEN)

        return refused
