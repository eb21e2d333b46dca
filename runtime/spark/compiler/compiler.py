"""Bulk terms as relations: cMap, groupBy, coGroup, reduce, union and order over sources.

A cMap runs its function over the rows: conditions become filters, nested generators become `explode`, and the
function's result is a layout over the columns. A groupBy or a coGroup does not build its groups when the function above
only reduces them (`group_by.py`), and a coGroup whose sides are joined element by element is a join (`join.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import children, subterms
from mrql.algebra.analysis.variables import Names, free_vars, match_pattern, substitute, taken_names
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.functions import INT_RANGES, RANGE, TRACE
from mrql.algebra.monoids import Aggregate, Fold
from mrql.algebra.terms import (
    Cast,
    CMap,
    CoGroup,
    Empty,
    GroupBy,
    If,
    Lambda,
    Let,
    Lit,
    OrderBy,
    Prim,
    Rec,
    Reduce,
    Repeat,
    Single,
    Stream,
    Take,
    Term,
    Tup,
    Union,
    Var,
    element_type,
    pair_type,
)
from mrql.algebra.types import Type
from mrql.rewrite.analysis.infer_merge import joins_elements
from mrql.rewrite.analysis.join_predicates import conjunction, conjuncts
from mrql.rewrite.normalize.group_functions import function_parts, identity, paired
from mrql.runtime.spark.compiler import single_values
from mrql.runtime.spark.compiler.evaluation_guards import placed, with_guards_inside
from mrql.runtime.spark.compiler.group_by import co_grouped, grouped
from mrql.runtime.spark.compiler.join import joined
from mrql.runtime.spark.compiler.loop_checkpoints import LoopCheckpoints
from mrql.runtime.spark.compiler.loop_values import opened_term
from mrql.runtime.spark.compiler.order import top
from mrql.runtime.spark.compiler.protocol import Keep
from mrql.runtime.spark.compiler.row_values import attached
from mrql.runtime.spark.compiler.single_values import listed
from mrql.runtime.spark.compiler.trace import trace
from mrql.runtime.spark.compiler.windows import is_over_rows, over_rows
from mrql.runtime.spark.expressions.casts import cast
from mrql.runtime.spark.expressions.conditions import condition_sql
from mrql.runtime.spark.expressions.expressions import Environment, Expressions
from mrql.runtime.spark.expressions.layout import Atom, Layout, Struct, atoms, bind, part, quote, with_columns
from mrql.runtime.spark.relation.frame import ColumnNames, Frame, flat, null_of, union
from mrql.runtime.spark.relation.relation import Relation

PARALLEL_RANGE_MIN_ELEMENTS = 10_000
"""From this number of elements on, a range is generated as rows by all cores, not as an array."""


class RelationCompiler:
    """Compiles bulk terms over the given sources: streams, static tables and the variables of states.

    A source whose type is a bag is a frame of its elements, any other a frame with one row.
    """

    def __init__(
        self,
        spark: SparkSession,
        sources: Mapping[str, Frame],
        columns: ColumnNames | None = None,
        kept: LoopCheckpoints | None = None,
        keep: Keep | None = None,
    ) -> None:
        self.spark = spark
        self.sources = dict(sources)
        self.columns = columns or ColumnNames()
        self.kept = kept or LoopCheckpoints()
        """The checkpoints that hold the values of loops."""
        self.keep = keep
        self.loops: list[tuple[Repeat, Term]] = []
        self.expressions = Expressions()
        self.names = Names({*sources})
        self.met: dict[int, Term] = {}
        """The terms whose names are reserved, by identity."""

    def fresh(self) -> str:
        return next(self.columns.take())

    def meet(self, term: Term) -> None:
        """Reserves the names in a term, so that no generated name collides with a variable of the query."""
        if id(term) not in self.met:
            self.met |= {id(part_of): part_of for part_of in subterms(term)}
            self.names.taken |= taken_names(term)

    # --- bags ---------------------------------------------------------------------------------

    def bag(self, term: Term, env: Environment | None = None) -> Frame:
        """The frame of a collection's elements."""
        self.meet(term)
        term = with_guards_inside(term, self.reads, self.sources)
        match term:
            case Stream(name, _) | Var(name, _) if name in self.sources:
                return self.sources[name]
            case CMap(_, GroupBy()):
                return grouped(self, paired(term, self.names))
            case CMap(_, CoGroup() as source):
                term = paired(term, self.names)
                _, groups, body = function_parts(term)
                return joined(self, term) if joins_elements(body, groups) else co_grouped(self, term)
            case GroupBy() | CoGroup():
                return self.bag(identity(term, self.names))
            case CMap(Lambda(param, body), source) if self.reads(source) or is_large_range(source):
                frame = self.bag(source)
                return self.over(body, frame, bind(param, frame.value))
            case Prim(function, (low, high)) if function == RANGE and is_large_range(term):
                name = self.fresh()
                # The end of Spark's range is exclusive, and there is no long after the last one.
                start, end = evaluate(low), evaluate(high)
                beyond = int(end == INT_RANGES[ty.LONG][1])
                df = Relation.range(start - beyond, end + 1 - beyond, name)
                return Frame(df, Atom(f"({quote(name)} + {beyond}L)" if beyond else quote(name), ty.LONG, False))
            case Union(left, right):
                return union([self.bag(left), self.bag(right)], element_type(term), self.columns)
            case Take(n, OrderBy() as ordered):
                return top(self, n, ordered)
            case OrderBy(source, _):
                frame = self.bag(source)
                return attrs.evolve(frame, value=part(frame.value, "_2", pair_type(source)[1]))
            case Reduce(Fold(), source) if self.reads(source):
                return listed(self, term)
            case Reduce(monoid, source) if not isinstance(monoid, Aggregate | Fold):
                return self.bag(source)
            case Prim(function, (inner,)) if function == TRACE:
                trace(self, term)
                return self.bag(inner)
            case Prim() if self.reads(term):
                return over_rows(self, term) if is_over_rows(term) else listed(self, term)
            case Cast(source, _) if self.reads(source):
                frame = self.bag(source)
                return attrs.evolve(frame, value=cast(frame.value, element_type(source), element_type(term), ""))
            case _ if (opened := opened_term(self, term)) is not term:
                return self.bag(opened)
            case _:
                return self.over(term, self.one_row(), {})

    def rows(self, term: Term, more: Mapping[str, Frame], columns: ColumnNames, kept: LoopCheckpoints) -> Frame:
        """The rows of a bag, or the one row of another value, with `more` sources; loops checkpoint into `kept`."""
        inner = RelationCompiler(self.spark, {**self.sources, **more}, columns, kept, self.keep)
        inner.names.taken |= self.names.taken
        return inner.bag(term) if isinstance(term.type, ty.BagType) else inner.one(term)

    def reads(self, term: Term) -> bool:
        """Whether a term mentions a source."""
        return any(isinstance(t, Stream | Var) and t.name in self.sources for t in subterms(term))

    def retracts(self, term: Term) -> bool:
        """Whether a term mentions a source with negative weights: its elements cannot be one array."""
        found = (self.sources.get(t.name) for t in subterms(term) if isinstance(t, Stream | Var))
        return any(frame is not None and frame.retracts for frame in found)

    def one_row(self) -> Frame:
        return Frame(Relation.range(0, 1, self.fresh()), Struct((), ty.UNIT))

    def over(self, body: Term, frame: Frame, env: Environment) -> Frame:
        """The elements of a function's result, for each row of a frame."""
        match body:
            case Single(item):
                frame, env, item = attached(self, frame, env, item)
                frame, made = self.in_place(frame, item, self.expressions.value(item, env))
                return attrs.evolve(frame, value=made)
            case Empty(t):
                item_type = t.item if isinstance(t, ty.BagType | ty.ListType) else ty.NOTHING
                return attrs.evolve(frame.where("false"), value=null_of(item_type))
            case If(condition, then, Empty()):
                frame, env, condition = attached(self, frame, env, condition)
                return self.over(then, self.kept_by(condition, frame, env), env)
            case If(condition, then, otherwise):
                frame, env, condition = attached(self, frame, env, condition)
                holds = self.condition(condition, env)
                sides = [frame.where(holds), frame.where(f"NOT coalesce({holds}, false)")]
                results = [self.over(side, f, env) for side, f in zip((then, otherwise), sides, strict=True)]
                return union(results, element_type(body), self.columns)
            case Union(left, right):
                results = [self.over(side, frame, env) for side in (left, right)]
                return union(results, element_type(body), self.columns)
            case Let(pattern, value, inner) if not ty.is_collection(value.type) or not self.reads(value):
                frame, env, value = attached(self, frame, env, value)
                fails = frame.narrowed and may_fail(value)
                frame, computed = self.with_column(frame, self.expressions.value(value, env), fails=fails)
                return self.over(inner, frame, {**env, **bind(pattern, computed)})
            case Let(pattern, value, inner):
                return self.over(substitute(inner, match_pattern(pattern, value)), frame, env)
            case CMap(Lambda(param, inner), source) if self.is_closed_bag(source, env):
                frame, other = self.product(frame, self.bag(source))
                return self.over(inner, frame, {**env, **bind(param, other)})
            case CMap(Lambda(param, inner), source):
                frame, env, source = attached(self, frame, env, source)
                frame, element = self.exploded(frame, self.expressions.array(source, env), element_type(source))
                return self.over(inner, frame, {**env, **bind(param, element)})
            case _ if self.is_closed_bag(body, env) and self.retracts(body):
                frame, other = self.product(frame, self.bag(body))
                return attrs.evolve(frame, value=other)
            case _:
                frame, env, body = attached(self, frame, env, body)
                frame, element = self.exploded(frame, self.expressions.array(body, env), element_type(body))
                return attrs.evolve(frame, value=element)

    def condition(self, condition: Term, env: Environment) -> str:
        """A condition on the rows of a frame."""
        sql = condition_sql(self.expressions, condition, env)
        return placed(sql) if may_fail(condition) else sql

    def kept_by(self, condition: Term, frame: Frame, env: Environment) -> Frame:
        """The rows for which a condition holds. Spark may move only the conjuncts before the first that may fail."""
        parts = conjuncts(condition)
        count = next((i for i, part_of in enumerate(parts) if may_fail(part_of)), len(parts))
        for some in filter(None, (parts[:count], parts[count:])):
            frame = frame.where(self.condition(conjunction(some), env))
        return frame

    def in_place(self, frame: Frame, term: Term, value: Layout) -> tuple[Frame, Layout]:
        """A value; in a narrowed frame, its parts that may fail become columns, computed for the rows that are left."""
        if not frame.narrowed or not may_fail(term):
            return frame, value
        match term, value:
            case Tup() | Rec(), Struct(fields):
                parts = []
                for child, (name, old) in zip(children(term), fields, strict=True):
                    frame, new = self.in_place(frame, child, old)
                    parts.append((name, new))
                return frame, attrs.evolve(value, fields=tuple(parts))
            case _:
                return self.with_column(frame, value, fails=True)

    def is_closed_bag(self, term: Term, env: Environment) -> bool:
        return isinstance(term.type, ty.BagType) and self.reads(term) and not free_vars(term) & set(env)

    def exploded(self, frame: Frame, array: str, item: Type) -> tuple[Frame, Layout]:
        """One row for each element of an array."""
        name = self.fresh()
        df = frame.df.select("*", f"explode({array}) AS {name}")
        return attrs.evolve(frame, df=df), Atom(quote(name), item)

    def with_column(self, frame: Frame, value: Layout, *, fails: bool = False) -> tuple[Frame, Layout]:
        """Computes a value once, in columns of its own; with `fails`, Spark may not move its expressions (`placed`)."""
        named = [(self.fresh(), placed(atom.sql) if fails else atom.sql) for atom in atoms(value)]
        if not named:
            return frame, value
        df = frame.df.select("*", *(f"{sql} AS {name}" for name, sql in named))
        names = iter([name for name, _ in named])
        return attrs.evolve(frame, df=df), with_columns(value, names)

    def product(self, left: Frame, right: Frame) -> tuple[Frame, Layout]:
        """The cross product of two frames, and the value of the right one in it."""
        other = flat(right, self.columns)
        df = left.df.cross(other.df.broadcast() if right.changes else other.df)
        retracts = left.retracts or other.retracts
        return attrs.evolve(left, df=df, weight=left.times(other.weight), narrowed=True, retracts=retracts), other.value

    def one(self, term: Term) -> Frame:
        """One row with the value of a term, a bag as an array."""
        return single_values.one(self, term)


def is_large_range(term: Term) -> bool:
    """Whether a term is a range between constants that is better generated as rows than as an array."""
    match term:
        case Prim(function, (Lit(int() as low, _), Lit(int() as high, _))) if function == RANGE:
            return high - low >= PARALLEL_RANGE_MIN_ELEMENTS
        case _:
            return False
