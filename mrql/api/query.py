"""A compiled query: evaluated once, explained, or kept up to date by a view."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Unpack

import attrs

from mrql.algebra.analysis.traversal import map_children, subterms
from mrql.algebra.analysis.variables import stream_names
from mrql.algebra.errors import UserError
from mrql.algebra.terms import Stream, Term
from mrql.algebra.types import Type
from mrql.api.arguments import (
    Keys,
    Loop,
    Trusted,
    directory_of,
    must_be_a_choice,
    must_have_a_driver,
    session_of,
)
from mrql.api.frames import Rows, StreamRows
from mrql.api.notebook import print_text, query_repr
from mrql.api.plan_arguments import ExplainArguments, PlanArguments, must_be_streams, view_options
from mrql.api.view import View
from mrql.explain import explain_graph, explain_html, explain_trace, require_incremental
from mrql.rewrite.passes import Trace
from mrql.rewrite.pipeline import normal_form, plan_query
from mrql.rewrite.plan.circuit import Circuit
from mrql.translate.program import CompiledExpression

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@attrs.frozen
class DrawnPlan:
    """The plan of a query: a notebook shows it as the picture of `mrql explain --graph`, `print` as text."""

    trace: Trace

    @property
    def circuit(self) -> Circuit:
        """The operators that a batch goes through."""
        return self.trace.circuit

    def _repr_svg_(self) -> str:
        return explain_graph(self.trace)

    def __str__(self) -> str:
        return explain_trace(self.trace)


@attrs.frozen(repr=False)
class Query:
    """A compiled query."""

    query: CompiledExpression
    streams: dict[str, Type]
    """The type of each stream and table, a bag."""
    tables: dict[str, str] = attrs.Factory(dict)
    """The streams that are tables of the session's catalog, with their names there."""
    consistent: frozenset[str] = frozenset()
    """The streams that are tables with versions, or logs of tables: each row that they delete is there."""

    @property
    def text(self) -> str:
        """The text that was compiled; of a term, the term in the notation of the algebra."""
        return self.query.span.source.text

    @property
    def term(self) -> Term:
        """The query in the algebra."""
        return self.query.term

    @property
    def type(self) -> Type:
        """The type of the answer."""
        return self.query.type

    def __repr__(self) -> str:
        return query_repr(self.query.span.aligned, self.type, self.streams)

    def _repr_html_(self) -> str:
        return explain_html(self.trace(), self.type)

    @property
    def plan(self) -> DrawnPlan:
        """The plan of a view that is created without arguments."""
        return DrawnPlan(self.trace())

    def trace(self, *, strict: bool = False, tables: Collection[str] = (), **arguments: Unpack[PlanArguments]) -> Trace:
        """The steps from the query to the stages of a view that is created with the same arguments; `tables` names the
        streams that the view is given as static tables.

        Raises: UserError when the strategy `loop` is not possible for a loop, or a strict view would be refused.
        """
        must_be_a_choice("strict", strict)
        static = must_be_streams(tables, self.streams)
        trace = plan_query(
            with_static(self.term, static), view_options(self.streams, static, self.consistent, **arguments)
        )
        if strict:
            require_incremental(trace.plan)
        return trace

    def explanation(self, **arguments: Unpack[ExplainArguments]) -> str:
        """Every step from the query to the stages of a view that is created with the same arguments, as text."""
        return explain_trace(self.trace(**arguments))

    def explain(self, **arguments: Unpack[ExplainArguments]) -> None:
        """Prints every step from the query to its stages; `explanation` is the text."""
        print_text(self.explanation(**arguments))

    def batch(self, /, spark: SparkSession | None = None, **streams: Rows) -> DataFrame:
        """Evaluates the query once over all its streams.

        The answer is computed when it is read: if the query has no value for the data, the actions of the returned
        DataFrame raise a UserError. In a session of Spark Connect it is computed at once.

        Raises: UserError when a stream is missing, or is given something else than rows of its type.
        """
        from mrql.runtime.spark import jvm
        from mrql.runtime.spark.compiler.answers import evaluate
        from mrql.runtime.spark.io.answer_rows import rows_alone
        from mrql.runtime.spark.session.errors import translated
        from mrql.runtime.spark.session.located_errors import told
        from mrql.runtime.spark.session.session import BATCH_SETTINGS, settings

        session = session_of(spark)
        with jvm.giving_back():
            given = self._in_catalog(session, streams) | streams
            frames = {name: self._rows.table(name, df, session) for name, df in given.items()}
            for name in stream_names(self.term):
                if name not in frames:
                    raise UserError(f"the stream `{name}` is missing", hint=f"batch({name}=…)")
            with settings(session, BATCH_SETTINGS), translated(self.query.span.source):
                answer = rows_alone(evaluate(session, normal_form(self.term), frames), self.type)
                return told(answer, self.query.span.source)

    def view(
        self,
        /,
        spark: SparkSession | None = None,
        *,
        insert_only: bool = False,
        strict: bool = False,
        loop: Loop = "auto",
        epsilon: float | None = None,
        abs_epsilon: float | None = None,
        trusted: Trusted = None,
        keys: Keys | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        change_feed: bool = False,
        **tables: Rows,
    ) -> View:
        """A view of the query, empty at first. A stream that is given a DataFrame here is a static table.

        With a `checkpoint`, a directory on a local disk, each batch is committed there; if the directory has commits,
        the view continues after the last one. If the query has changed since, states with the same meaning are kept,
        and a state that would have to be built from rows of earlier batches is refused. Static tables must have the
        same rows.

        A stream with a key in `keys` (the name of a field, several names, or a key made by `mrql.key`) is upserted: a
        row replaces the row with the same key.

        A deleted row must be there, and is looked up, except for the `trusted` streams. By default, these are the
        streams that `compile` was given as tables with versions or as logs.

        With `insert_only`, nothing is ever deleted: rows need not be kept to detect a wrong deletion, and for a minimum
        or maximum only the value is kept. A `strict` view is refused if a batch would compute a part of the query again
        from a whole state.

        With `change_feed`, the changes that the view returns are rows, repeated as often as they were inserted or
        deleted, with the columns `_change_type`, `insert` or `delete`, and `_commit_version`, the number of the batch,
        in place of `weight`.

        `loop` is the strategy by which loops over streams are kept up to date: `fixpoint` for loops whose step only
        adds, `exact` step by step, `recompute` from the start, `auto` as a fixpoint if possible and else from the
        start, and `diffuse` from the previous value of the loop. With `diffuse`, changes of at most `epsilon`, relative
        to the size of a value, or of at most `abs_epsilon` are not propagated (0.001 of the size by default); with
        `exact` and one of the two, they are held back from the next step. `View.residual` says how far off the answer
        may be because of that.

        Raises: UserError when a table is not a stream of the query or has another type, a strict view is refused, the
            strategy is not possible for a loop, or takes no threshold; when the checkpoint is in use, damaged, or not
            that of a view of this query.
        """
        from mrql.runtime.spark.durable_view import DurableView
        from mrql.runtime.spark.io.answer_rows import must_have_room_for_a_feed
        from mrql.runtime.spark.session.session import advise
        from mrql.runtime.spark.view import SparkView

        taken = sorted({"offset", "deliver"} & self.streams.keys() - tables.keys())
        if taken:
            message = f"the stream `{taken[0]}` of a view is called as an argument of `apply`"
            raise UserError(message, hint="give it another name")
        must_be_a_choice("strict", strict)
        must_be_a_choice("change_feed", change_feed)
        if change_feed:
            must_have_room_for_a_feed(self.type)
        root = None if checkpoint is None else directory_of(checkpoint, "a checkpoint")
        session = session_of(spark)
        must_have_a_driver(session)
        tables = self._in_catalog(session, tables) | tables
        term = with_static(self.term, frozenset(tables))
        for part in subterms(self.term):
            if isinstance(part, Stream) and part.static and part.name not in tables:
                raise UserError(f"the table `{part.name}` is missing", hint=f"view({part.name}=…)")
        options = view_options(
            self.streams,
            tables,
            self.consistent,
            insert_only=insert_only,
            loop=loop,
            epsilon=epsilon,
            abs_epsilon=abs_epsilon,
            trusted=trusted,
            keys=keys,
        )
        trace = plan_query(term, options)
        plan = trace.plan
        if strict:
            require_incremental(plan)
        frames = {name: self._rows.table(name, df, session) for name, df in tables.items()}
        advise(session)
        source, names = self.query.span.source, frozenset(tables)
        if root is None:
            view, durable = SparkView(plan, session, frames, source), None
        else:
            durable = DurableView.open(root, plan, session, frames, source)
            view = durable.view
        return View(self, view, durable, names, insert_only, options.keyed, trace, change_feed)

    @property
    def _rows(self) -> StreamRows:
        return StreamRows(self.streams)

    def _in_catalog(self, session: SparkSession, given: Collection[str]) -> dict[str, Rows]:
        """The session's DataFrames for the catalog tables that the query reads, except those that are given.

        Raises: UserError if the session lacks one of them.
        """
        from mrql.runtime.spark.session.catalog import table_of

        return {stream: table_of(session, name) for stream, name in self.tables.items() if stream not in given}


def with_static(term: Term, tables: frozenset[str]) -> Term:
    """A query with the streams in `tables` marked as static."""
    if isinstance(term, Stream):
        return attrs.evolve(term, static=True) if term.name in tables else term
    return map_children(term, lambda child: with_static(child, tables))
