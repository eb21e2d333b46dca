"""A query that is kept up to date on Spark."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from mrql.algebra.errors import UserError
from mrql.api.delta import Delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mrql.api.query import Query
    from mrql.runtime.engine.residual import Residual
    from mrql.runtime.spark.relation.frame import Frame
    from mrql.runtime.spark.view import SparkView


class View:
    """A query kept up to date on Spark. Its state lives until `close`, or the end of a `with` block."""

    def __init__(self, query: Query, view: SparkView, tables: frozenset[str], insert_only: bool) -> None:
        self._query = query
        self._view = view
        self._tables = tables
        self._insert_only = insert_only

    def apply(self, **deltas: Delta | DataFrame) -> DataFrame:
        """Applies a batch; a plain DataFrame is what is inserted. Returns how the answer changed, with a column
        `weight`.

        The changes can be read until the next `apply`, or `close`. A batch that fails leaves the view as it was.

        Raises: UserError when a name or a type does not fit, a row is deleted that is not there, the query has no value
            for the new data, or the view is closed.
        """
        self._view.require_open()
        from mrql.runtime.spark.io.answer_rows import rows_alone
        from mrql.runtime.spark.session.session import AS_WRITTEN, settings

        frames = {}
        with settings(self._view.spark, AS_WRITTEN):
            for name, delta in deltas.items():
                if name in self._tables:
                    raise UserError(f"`{name}` is a static table of this view: it does not change")
                if delta is None:
                    raise UserError(f"`{name}` has no rows", hint=f"leave it out, or say {name}=mrql.Delta(…)")
                frame = self._change(name, delta if isinstance(delta, Delta) else Delta(insert=delta))
                if frame is not None:
                    frames[name] = frame
        return rows_alone(self._view.apply(frames), self._query.type, weighted=True)

    def _change(self, name: str, delta: Delta) -> Frame | None:
        from mrql.runtime.spark.relation.frame import changes

        insert = None if delta.insert is None else self._query.frame(name, delta.insert)
        if delta.delete is None:
            return insert
        if self._insert_only:
            raise UserError("this view only takes insertions", hint="query.view(spark) takes deletions too")
        return changes(insert, self._query.frame(name, delta.delete), self._view.columns)

    def answer(self) -> DataFrame:
        """The answer over all that was applied so far.

        Raises: UserError when the view is closed.
        """
        from mrql.runtime.spark.io.answer_rows import rows_alone

        return rows_alone(self._view.answer(), self._query.type)

    def before(self) -> DataFrame:
        """The answer as it was before the last batch, until the next one: what the changes of that batch were added to.

        Raises: UserError when there was no batch, or the view is closed.
        """
        from mrql.runtime.spark.io.answer_rows import rows_alone

        return rows_alone(self._view.before(), self._query.type)

    @property
    def residual(self) -> Residual | None:
        """How far the values of loops may be off of which small changes are kept back; None without such.

        It is computed when it is first read after a batch.

        Raises: UserError when the view is closed.
        """
        self._view.require_open()
        return self._view.residual if self._view.plan.has_residual else None

    def close(self) -> None:
        """Frees the state. A view that is closed takes no batch and has no answer any more."""
        self._view.close()

    def __enter__(self) -> View:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
