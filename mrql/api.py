"""The programmatic interface: queries over DataFrames, kept up to date batch by batch.

query = mrql.compile("select (k, avg(p.Y)) from p in points group by k: p.X", points="bag(<X: long, Y: double>)")
query.batch(points=df)
view = query.view(spark)
changes = view.apply(points=mrql.Delta(insert=new))
view.answer()
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import map_children, subterms
from mrql.algebra.build import Expr
from mrql.algebra.errors import UserError
from mrql.algebra.notation.printer import show
from mrql.algebra.notation.typecheck import first_fault
from mrql.algebra.span import Source, Span
from mrql.algebra.terms import STEPS, Stream, Term
from mrql.algebra.types import Type
from mrql.rewrite.analysis.infer_merge import stream_names
from mrql.rewrite.passes import Trace
from mrql.rewrite.pipeline import PlanOptions, normal_form, plan_query
from mrql.rewrite.plan.circuit import Circuit, circuit_of
from mrql.rewrite.plan.loop_strategy import KEEPING_BACK, LoopStrategy
from mrql.rewrite.plan.threshold import Threshold
from mrql.runtime.sources.catalog import CATALOG
from mrql.translate.compile_program import compile_program, compile_type
from mrql.translate.program import CompiledExpression

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from mrql.runtime.engine.residual import Residual
    from mrql.runtime.spark.relation.frame import Frame
    from mrql.runtime.spark.view import SparkView


Loop: TypeAlias = Literal["auto", "recompute", "exact", "fixpoint", "diffuse"]
"""The ways in which loops over streams are kept up to date (`mrql.rewrite.plan.loop_strategy.LoopStrategy`)."""


@attrs.frozen
class Delta:
    """A batch of changes to one stream: the rows to insert, and the rows to delete."""

    insert: DataFrame | None = None
    delete: DataFrame | None = None

    def __neg__(self) -> Delta:
        """What takes this batch back."""
        return Delta(self.delete, self.insert)

    def __add__(self, other: Delta) -> Delta:
        """Both batches as one."""
        return Delta(_union(self.insert, other.insert), _union(self.delete, other.delete))

    def __sub__(self, other: Delta) -> Delta:
        return self + -other


def _union(left: DataFrame | None, right: DataFrame | None) -> DataFrame | None:
    if left is None or right is None:
        return right if left is None else left
    return left.union(right)


def compile(
    text: str | Expr | Term,
    name: str = "<query>",
    *,
    max_steps: int = STEPS,
    **streams: str | Type | StructType | DataFrame,
) -> Query:
    """Compiles a program whose last expression is the query, or a term that `mrql.algebra.build` has made.

    Each keyword names a stream and gives the type of its bag, as text (`"bag(<X: long>)"`) or as a type; or the schema
    of its rows, as a StructType, as DDL (`"X BIGINT, Y DOUBLE"`, which Spark is started to read), or as a DataFrame
    that has it, of which nothing else is looked at. A term names its streams itself. A loop of a text without a limit
    may take `max_steps` steps.

    Raises: UserError when the text is wrong, with the place, or the term is.
    """
    if isinstance(text, Expr | Term):
        return _of_term(text.term if isinstance(text, Expr) else text, name, streams)
    if not isinstance(text, str):
        raise UserError(f"a query is a text, not {_kind(text)}")
    if not isinstance(name, str):
        raise UserError(f"the name of a query is a text, not {_kind(name)}")
    if not isinstance(max_steps, int) or max_steps < 1:
        raise UserError(f"max_steps is a number of steps, 1 or more, not {max_steps!r}")
    types = {stream: _bag_type(stream, t) for stream, t in streams.items()}
    program = compile_program(text, name, types, max_steps=max_steps, catalog=CATALOG)
    if not program.queries:
        raise UserError(f"{name} has no expression to answer")
    for query in program.queries:
        if query.target is not None:
            raise UserError("a query over DataFrames writes no files", query.target.span)
    if program.sources:
        spec = next(iter(program.sources.values()))
        raise UserError("a query over DataFrames names its streams and reads no files", spec.span)
    return Query(program.queries[-1], types)


def _of_term(term: Term, name: str, streams: Mapping[str, object]) -> Query:
    if streams:
        raise UserError("a term names its streams itself", hint=f"leave out {', '.join(streams)}")
    fault = first_fault(term)
    if fault is not None:
        raise UserError(fault.message, fault.term.span)
    text = show(term)
    read = {part.name: part.type for part in subterms(term) if isinstance(part, Stream)}
    return Query(CompiledExpression(term, Span(Source(name, text), 0, len(text))), read)


def _bag_type(stream: str, t: str | Type | StructType | DataFrame) -> Type:
    if isinstance(t, str) and _DDL.match(t):
        return _bag_of_schema(stream, t)
    if not isinstance(t, str | Type):
        return _bag_of_schema(stream, t)
    resolved = compile_type(t, f"<type of {stream}>") if isinstance(t, str) else t
    if not isinstance(resolved, ty.BagType):
        raise UserError(f"the stream `{stream}` must be a bag, not {resolved}", hint=f"bag({resolved})")
    return resolved


_DDL = re.compile(r"\s*(?:struct\s*<|(?:`(?:[^`]|``)+`|\w+)(?:\s*:\s*|\s+)\w)", re.IGNORECASE)
"""How a schema in DDL begins: with a name and a type, which a type of the language never does."""


def _bag_of_schema(stream: str, t: object) -> ty.BagType:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from mrql.runtime.spark.io.schema import row_of_schema, schema_of_ddl

    match t:
        case str():
            schema = schema_of_ddl(t, f"the stream `{stream}`", _session(None))
        case StructType():
            schema = t
        case DataFrame():
            schema = t.schema
        case _:
            what = "a text, a type, a StructType or a DataFrame"
            hint = f'`mrql.compile(…, {stream}="bag(<X: long>)")`, or {stream}="X BIGINT"'
            raise UserError(f"the type of the stream `{stream}` is {what}, not {_kind(t)}", hint=hint)
    return ty.BagType(row_of_schema(schema, f"`{stream}`"))


@attrs.frozen
class DrawnPlan:
    """How a query is kept up to date: a notebook shows it as the picture of `mrql explain --graph`, `print` as text."""

    trace: Trace

    @property
    def circuit(self) -> Circuit:
        """The operators that a batch goes through."""
        return circuit_of(self.trace.plan)

    def _repr_svg_(self) -> str:
        from mrql.explain import explain_graph

        return explain_graph(self.trace)

    def __str__(self) -> str:
        from mrql.explain import explain_trace

        return explain_trace(self.trace)


@attrs.frozen
class Query:
    """A compiled query."""

    query: CompiledExpression
    streams: dict[str, Type]

    @property
    def term(self) -> Term:
        """The query in the algebra."""
        return self.query.term

    @property
    def type(self) -> Type:
        return self.query.type

    @property
    def plan(self) -> DrawnPlan:
        """How a view keeps the query up to date that is made without arguments."""
        return DrawnPlan(self.trace())

    def trace(
        self,
        *,
        insert_only: bool = False,
        loop: Loop = "auto",
        epsilon: float | None = None,
        abs_epsilon: float | None = None,
    ) -> Trace:
        """How the query becomes its stages, those of a view that is made with the same arguments.

        Raises: UserError when the way `loop` is not there for a loop.
        """
        return _trace(self.term, self.streams, insert_only, loop, epsilon, abs_epsilon)

    def explain(
        self,
        *,
        insert_only: bool = False,
        loop: Loop = "auto",
        epsilon: float | None = None,
        abs_epsilon: float | None = None,
    ) -> str:
        """Every step from the query to its stages, as text."""
        from mrql.explain import explain_trace

        return explain_trace(self.trace(insert_only=insert_only, loop=loop, epsilon=epsilon, abs_epsilon=abs_epsilon))

    def batch(self, spark: SparkSession | None = None, **streams: DataFrame) -> DataFrame:
        """Evaluates the query once over all its streams.

        The answer is computed when it is read: a UserError of what the query has no value for is raised by its actions.

        Raises: UserError when a stream is missing, or a DataFrame is none or of another type.
        """
        from mrql.runtime.spark.compiler.answers import evaluate
        from mrql.runtime.spark.io.answer_rows import rows_alone
        from mrql.runtime.spark.session.errors import translated
        from mrql.runtime.spark.session.located_errors import told
        from mrql.runtime.spark.session.session import AS_WRITTEN, STEP_SETTINGS, settings

        session = _session(spark)
        frames = {name: self._frame(name, df) for name, df in streams.items()}
        for name in stream_names(self.term):
            if name not in frames:
                raise UserError(f"the stream `{name}` is missing", hint=f"batch({name}=…)")
        needed = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone", "spark.sql.analyzer.maxIterations")
        wanted = {**{name: STEP_SETTINGS[name] for name in needed}, **AS_WRITTEN}
        with settings(session, wanted), translated(self.query.span.source):
            answer = rows_alone(evaluate(session, normal_form(self.term), frames), self.type)
            return told(answer, self.query.span.source)

    def view(
        self,
        spark: SparkSession | None = None,
        *,
        insert_only: bool = False,
        strict: bool = False,
        loop: Loop = "auto",
        epsilon: float | None = None,
        abs_epsilon: float | None = None,
        **tables: DataFrame,
    ) -> View:
        """A view of the query, empty at first. A stream that is given a DataFrame here is a static table.

        With `insert_only` nothing is ever deleted: then the rows themselves need not be kept to tell a wrong deletion,
        and of a minimum or maximum only the value. A `strict` view is refused where a batch would compute a part of the
        query again from a whole state.

        `loop` is the way in which loops over streams are kept up to date: `fixpoint` where a step only adds, `exact`
        step by step, `recompute` from the start, `auto` the best of these that there is, and `diffuse` on from the
        value that the loop had. With `diffuse`, what changes by no more than `epsilon`, relative to its size, or by no
        more than `abs_epsilon`, is left as it is (by 0.001 of its size if nothing is said); with `exact` and one of
        them, it is kept back from the next step. `View.residual` says how far off that leaves the answer.

        Raises: UserError when a table is no stream of the query or of another type, a strict view is refused, the way
            is not there for a loop, or has no threshold.
        """
        from mrql.explain import require_incremental
        from mrql.runtime.spark.session.session import advise
        from mrql.runtime.spark.view import SparkView

        term = _with_static(self.term, frozenset(tables))
        for part in subterms(self.term):
            if isinstance(part, Stream) and part.static and part.name not in tables:
                raise UserError(f"the table `{part.name}` is missing", hint=f"view({part.name}=…)")
        plan = _trace(term, self.streams, insert_only, loop, epsilon, abs_epsilon).plan
        if strict:
            require_incremental(plan)
        frames = {name: self._frame(name, df) for name, df in tables.items()}
        session = _session(spark)
        advise(session)
        view = SparkView(plan, session, frames, self.query.span.source)
        return View(self, view, frozenset(tables), insert_only)

    def _frame(self, name: str, df: DataFrame) -> Frame:
        from mrql.runtime.spark.io.schema import conformed
        from mrql.runtime.spark.relation.frame import from_dataframe
        from mrql.runtime.spark.session.session import AS_WRITTEN, settings

        if name not in self.streams:
            raise UserError(
                f"the query has no stream `{name}`", hint=f"its streams: {', '.join(self.streams) or 'none'}"
            )
        bag = self.streams[name]
        assert isinstance(bag, ty.BagType)
        _must_be_a_frame(name, df)
        with settings(df.sparkSession, AS_WRITTEN):
            return from_dataframe(conformed(df, bag.item, f"`{name}`"), bag.item)


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

        insert = None if delta.insert is None else self._query._frame(name, delta.insert)
        if delta.delete is None:
            return insert
        if self._insert_only:
            raise UserError("this view only takes insertions", hint="query.view(spark) takes deletions too")
        return changes(insert, self._query._frame(name, delta.delete), self._view.columns)

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


def _trace(
    term: Term,
    streams: dict[str, Type],
    insert_only: bool,
    loop: Loop,
    epsilon: float | None,
    abs_epsilon: float | None,
) -> Trace:
    if loop not in get_args(Loop):
        raise UserError(f"there is no way {loop!r} for loops", hint=f"one of {', '.join(get_args(Loop))}")
    for name, value in (("epsilon", epsilon), ("abs_epsilon", abs_epsilon)):
        if value is not None and not isinstance(value, int | float):
            raise UserError(f"{name} is a number, not {_kind(value)}")
    threshold = Threshold.of(epsilon, abs_epsilon)
    for name, value in (("epsilon", epsilon), ("abs_epsilon", abs_epsilon)):
        if value is not None and (not value >= 0 or LoopStrategy(loop) not in KEEPING_BACK):
            raise UserError(f"{name} is 0 or more, for loop='diffuse' or loop='exact'")
    shrinking = frozenset[str]() if insert_only else frozenset(streams)
    return plan_query(term, PlanOptions(shrinking, LoopStrategy(loop), threshold))


def _with_static(term: Term, tables: frozenset[str]) -> Term:
    """The query with some of its streams as static tables."""
    if isinstance(term, Stream):
        return attrs.evolve(term, static=True) if term.name in tables else term
    return map_children(term, lambda child: _with_static(child, tables))


def _must_be_a_frame(name: str, df: object) -> None:
    """Raises: UserError where it is no DataFrame of Spark whose rows are all there."""
    from pyspark.sql import DataFrame

    if not isinstance(df, DataFrame):
        raise UserError(f"`{name}` is a DataFrame of Spark, not {_kind(df)}", hint="spark.createDataFrame(…) makes one")
    if df.isStreaming:
        hint = "foreachBatch hands over one batch after the other"
        raise UserError(f"`{name}` is a DataFrame that is still to come", hint=hint)


def _kind(value: object) -> str:
    """What an argument is that should be something else."""
    return "None" if value is None else f"a value of the type {type(value).__module__}.{type(value).__qualname__}"


def _session(spark: SparkSession | None) -> Any:
    from pyspark.sql import SparkSession

    from mrql.runtime.spark.session.session import local_session

    if spark is not None and not isinstance(spark, SparkSession):
        hint = "DataFrames are given by the names of their streams"
        raise UserError(f"the session is a SparkSession, not {_kind(spark)}", hint=hint)
    return spark if spark is not None else local_session()
