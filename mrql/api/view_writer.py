"""`view.writeStream`: what the changes of a view are written by, in the words of Spark's `DataStreamWriter`."""

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
    """Says step by step what `View.follow` takes at once; each step gives a new one.

    view.writeStream.foreachBatch(write).start(S=df)  =  view.follow(S=df, deliver=write)
    """

    _view: View
    _receiver: Receiver | None = None
    _query_name: str | None = None
    _trigger: dict[str, Any] | None = None

    def foreachBatch(self, func: Receiver) -> ViewWriter:
        """With the changes of each batch and its number a function is called, before the batch is committed: it may get
        a batch of one number again, after a crash, and so is to write it over what it has written under that number.

        Raises: UserError where it is no function.
        """
        if not callable(func):
            raise UserError(f"the changes are given to a function, not to {kind_of(func)}", hint=WRITTEN)
        return attrs.evolve(self, receiver=func)

    def queryName(self, queryName: str) -> ViewWriter:
        """The streaming queries are called `name-stream`."""
        return attrs.evolve(self, query_name=queryName)

    def trigger(self, **trigger: Any) -> ViewWriter:
        """When there are batches: `processingTime="5 seconds"`, `availableNow=True` and the others of Spark.

        Raises: UserError where Spark has no such trigger.
        """
        must_be_a_trigger(trigger)
        return attrs.evolve(self, trigger=trigger)

    def outputMode(self, outputMode: str) -> ViewWriter:
        """`update`, which it is in any case: what is written are the rows that came and those that went.

        Raises: UserError for another one.
        """
        if str(outputMode).lower() == "update":
            return self
        hint = "`view.answer()` is the whole answer, after each batch"
        raise UserError(f"what a view writes are changes, not {outputMode!r}", hint=hint)

    def start(self, *path: object, **streams: DataFrame | FollowedSource) -> Following:
        """Feeds the streams of the view, as `View.follow` does; what comes back is what a `StreamingQuery` is in Spark.

        Raises: UserError, EngineError as `View.follow`; UserError for a path.
        """
        if path:
            raise UserError("a view is not written to a path: its changes are written by a function", hint=WRITTEN)
        return self._view.follow(trigger=self._trigger, query_name=self._query_name, deliver=self._receiver, **streams)

    def option(self, key: str, value: object) -> Never:
        """There are none.

        Raises: UserError, which says what stands for the checkpoint.
        """
        self.options(**{key: value})

    def options(self, **options: object) -> Never:
        """There are none.

        Raises: UserError, which says what stands for the checkpoint.
        """
        hint = 'a view has one checkpoint for all of its streams: query.view(spark, checkpoint="directory")'
        raise UserError(f"a view is written without options, such as {', '.join(map(repr, options))}", hint=hint)

    def __getattr__(self, name: str) -> Callable[..., Never]:
        """What else a `DataStreamWriter` has is refused when it is called."""
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        if not hasattr(DataStreamWriter, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def refused(*_: object, **__: object) -> Never:
            raise UserError(f"a view has no `{name}`: its changes are written by a function", hint=WRITTEN)

        return refused
