"""Loops on Spark: each step is compiled over the result of the step before it, and computed before the next one.

A loop carries a frame for each variable of its pattern: the rows of a bag, or one row with any other value. A step's
rows are kept as a local checkpoint, which cuts the plan; those of the step before are freed. The parts of a step that
do not depend on the loop are computed once. All steps use the same column names, so that they share one plan, which is
made once (`plan_cache`).

Whether a step has changed anything is found by comparing the two bags on Spark, unless their numbers of rows differ.
With a limit, this is done after the steps 1, 2, 4, 8, … only: the steps after one without a change change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

import attrs
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names, match_pattern, substitute
from mrql.algebra.evaluation.errors import endless
from mrql.algebra.terms import Lit, Nth, Pattern, PTuple, PVar, Reduce, Repeat, Stream, Term, Tup, Var, cast_to
from mrql.algebra.types import Type
from mrql.algebra.values.values import Value
from mrql.rewrite.loops.invariants import invariants
from mrql.rewrite.loops.rewrite_steps import carried
from mrql.runtime.spark.compiler.loop_checkpoints import LoopCheckpoints, loop_store, passing
from mrql.runtime.spark.compiler.protocol import TermCompiler
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.from_spark import from_spark
from mrql.runtime.spark.expressions.layout import as_columns, quote, to_sql, with_columns
from mrql.runtime.spark.relation.frame import ColumnNames, Frame, netted, numbered, signed, union
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.session.session import settings, step_settings

BROADCAST_MAX_ROWS = 10_000
"""The most rows of a step that are broadcast to joins, by a hint, since Spark does not know their size."""


@attrs.frozen
class Held:
    """A variable of a loop, and the source in its place. A list, being one value, is held as a tuple of one part."""

    variable: PVar
    source: Var

    @staticmethod
    def of(variable: PVar, names: Names) -> Held:
        t = variable.type
        return Held(variable, Var(names.fresh(variable.name), ty.TupleType((t,)) if _is_list(t) else t))

    @property
    def value(self) -> Term:
        return Nth(self.source, 0) if _is_list(self.variable.type) else self.source

    def holding(self, term: Term) -> Term:
        """The term for the source, where the variable is to have the value of `term`."""
        t = self.variable.type
        fitted = cast_to(term, t)
        return Tup((fitted,)) if _is_list(t) else fitted

    @property
    def row(self) -> Type:
        t = self.source.type
        return t.item if isinstance(t, ty.BagType) else t


@attrs.frozen
class Computed:
    """The rows of a variable's value, and their number."""

    frame: Frame
    rows: int


State = Mapping[str, Computed]


def run(term: Repeat, compiler: TermCompiler, kept: LoopCheckpoints) -> tuple[Term, dict[str, Frame]]:
    """The value of a loop, as a term over new sources; their checkpoints are added to `kept`.

    Raises: UserError when a loop without a limit does not end.
    """
    engine = LoopExecutor(compiler)
    with settings(compiler.spark, engine.settings), passing() as constant:
        loop, sources = _without_invariants(term, engine, constant)
        return _Loop(loop, engine, sources).run(kept)


class LoopExecutor:
    """Computes terms over the sources of a compiler and additional ones."""

    def __init__(self, compiler: TermCompiler) -> None:
        self.compiler = compiler
        self.spark = compiler.spark
        self.settings = step_settings(self.spark)
        self.store = loop_store(self.spark, self.settings)

    def columns(self) -> ColumnNames:
        """A supply of column names for one plan, the same for every plan."""
        return ColumnNames("s__")

    def rows(self, term: Term, sources: Mapping[str, Frame], kept: LoopCheckpoints) -> Frame:
        return self.compiler.rows(term, sources, self.columns(), kept)

    def single(self, term: Term, sources: Mapping[str, Frame]) -> Value:
        """The value of a term that is not a bag."""
        with passing() as kept:
            return single(self.spark, self.rows(term, sources, kept), term.type)

    def holds(self, condition: Term, sources: Mapping[str, Frame]) -> bool:
        with passing() as kept:
            frame = self.rows(condition, sources, kept)
            return self.store.count(frame.df.where(to_sql(frame.value))) > 0

    def computed(
        self, terms: Mapping[Held, Term], sources: Mapping[str, Frame], kept: LoopCheckpoints
    ) -> dict[str, Computed]:
        """The values of the terms, computed together; their columns are named after the sources that hold them."""
        made: dict[str, Frame] = {}
        with passing() as inner:
            for held, term in terms.items():
                made[held.source.name] = self._named(self.rows(held.holding(term), sources, inner), held.source.name)
            computed = self.store.computed([frame.df for frame in made.values()], kept)
        found = {}
        for (name, frame), (checkpointed, rows) in zip(made.items(), computed, strict=True):
            relation = Relation.kept(checkpointed)
            df = relation.broadcast() if rows <= BROADCAST_MAX_ROWS else relation
            found[name] = Computed(Frame(df, frame.value, frame.weight), rows)
        return found

    def _named(self, frame: Frame, name: str) -> Frame:
        names = numbered(f"{name}__")
        value = with_columns(frame.value, names)
        columns = as_columns(frame.value, value)
        weight = None
        if frame.weight is not None:
            weight = quote(next(names))
            columns.append(f"{frame.weight} AS {weight}")
        # A bag of () has no columns of its own, but its rows count.
        return Frame(frame.df.select(*(columns or [f"true AS {quote(next(names))}"])), value, weight)

    def differ(self, one: Frame, other: Frame, row: Type) -> bool:
        """Whether two bags differ in their elements, or in how often these occur."""
        columns = self.columns()
        sides = [signed(side, sign, Expressions()) for side, sign in ((one, 1), (other, -1))]
        return self.store.count(netted(union(sides, row, columns), columns).df) > 0


def computed_once(name: str, term: Term, compiler: TermCompiler, kept: LoopCheckpoints) -> Lit | Frame:
    """The value of a term: an atomic one as a constant, any other as a frame, whose rows are added to `kept`."""
    engine = LoopExecutor(compiler)
    with settings(compiler.spark, engine.settings):
        if isinstance(term.type, ty.Basic):
            return Lit(engine.single(term, {}), term.type)
        held = Held.of(PVar(name, term.type), compiler.names)
        return engine.computed({held: term}, {}, kept)[held.source.name].frame


def _without_invariants(term: Repeat, engine: LoopExecutor, kept: LoopCheckpoints) -> tuple[Repeat, dict[str, Frame]]:
    """The loop with the parts that all steps share computed: atomic values as constants, all others as sources."""
    compiler = engine.compiler

    def worthwhile(part: Term) -> bool:
        bulk = ty.is_collection(part.type) or isinstance(part, Reduce)
        return isinstance(part, Stream) or (bulk and compiler.reads(part) and not isinstance(part, Var))

    loop, parts = invariants(term, compiler.names, worthwhile)
    values: dict[str, Term] = {}
    terms: dict[Held, Term] = {}
    for name, part in parts.items():
        if isinstance(part.type, ty.Basic):
            values[name] = Lit(engine.single(part, {}), part.type)
        else:
            held = Held.of(PVar(name, part.type), compiler.names)
            terms[held] = part
            values[name] = held.value
    found = engine.computed(terms, {}, kept) if terms else {}
    replaced = substitute(loop, values)
    assert isinstance(replaced, Repeat)
    return replaced, {name: variable.frame for name, variable in found.items()}


class _Loop:
    """A loop, and the sources for the parts of its step that are computed already."""

    def __init__(self, term: Repeat, engine: LoopExecutor, sources: dict[str, Frame]) -> None:
        self.term = term
        self.engine = engine
        self.sources = sources
        names = engine.compiler.names
        variables, self.pattern = carried(term.function.param, names)
        self.held = [Held.of(variable, names) for variable in variables]
        inside: dict[str, Term] = {held.variable.name: held.value for held in self.held}
        self.step = substitute(term.function.body, inside)
        self.condition = None if term.condition is None else substitute(term.condition, inside)

    def run(self, kept: LoopCheckpoints) -> tuple[Term, dict[str, Frame]]:
        """Runs the loop; returns its value as a term, and the frames of the sources that the term reads."""
        limit = None if self.term.limit is None else max(self.engine.single(self.term.limit, self.sources) or 0, 0)
        with passing() as current:
            state = self.computed(self.term.source, {}, current)
            for n in count():
                if n == limit:
                    break
                if limit is None and n == self.term.most:
                    raise endless(self.term)
                with passing() as following:
                    after = self.computed(self.step, state, following)
                    ended = self.has_ended(state, after, n + 1, limit)
                    state = after
                    current.free()
                    current.take(following)
                if ended:
                    break
            kept.take(current)
        return _value(self.pattern, iter(self.held)), _frames(state)

    def computed(self, term: Term, state: State, kept: LoopCheckpoints) -> dict[str, Computed]:
        """The variables of the loop where it carries the value of a term, computed over a state."""
        parts = match_pattern(self.pattern, term)
        terms = {held: parts[held.variable.name] for held in self.held}
        return self.engine.computed(terms, {**self.sources, **_frames(state)}, kept)

    def has_ended(self, before: State, after: State, steps: int, limit: int | None) -> bool:
        if self.condition is not None:
            return not self.engine.holds(self.condition, {**self.sources, **_frames(after)})
        if limit is not None and steps & (steps - 1):
            return False
        return not any(self.differs(held, before, after) for held in self.held)

    def differs(self, held: Held, before: State, after: State) -> bool:
        one, other = (state[held.source.name] for state in (after, before))
        if one.frame.weight is None and other.frame.weight is None and one.rows != other.rows:
            return True
        return self.engine.differ(one.frame, other.frame, held.row)


def _frames(state: State) -> dict[str, Frame]:
    return {name: variable.frame for name, variable in state.items()}


def single(spark: SparkSession, frame: Frame, t: Type) -> Value:
    """The value in the only row of a frame."""
    (row,) = frame.df.select(f"{to_sql(frame.value)} AS value").dataframe(spark).collect()
    return from_spark(row[0], t)


def _value(pattern: Pattern, held: Iterator[Held]) -> Term:
    """The term over the sources for the value that a loop carries."""
    match pattern:
        case PTuple(items):
            return Tup(tuple(_value(item, held) for item in items))
        case _:
            return next(held).value


def _is_list(t: Type) -> bool:
    return isinstance(t, ty.ListType)
