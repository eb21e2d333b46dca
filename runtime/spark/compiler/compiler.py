"""Bulk terms as relations: cMap, groupBy, coGroup, reduce, union and order over sources.

A cMap runs its function over the rows: conditions become filters, nested generators become `explode`, and what the
function returns is a layout over the columns. A groupBy or a coGroup does not build its groups when the function above
only reduces them (`group_by.py`), and one whose sides are joined element by element is a join (`join.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.analysis.integer_ranges import is_narrow
from mrql.algebra.analysis.missing import may_be_missing
from mrql.algebra.analysis.traversal import children, map_children, subterms, with_children
from mrql.algebra.analysis.variables import (
    Names,
    bound_names,
    free_vars,
    match_pattern,
    scopes,
    substitute,
    taken_names,
)
from mrql.algebra.errors import InternalError, UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.functions import RANGE, TRACE
from mrql.algebra.monoids import Aggregate, Fold
from mrql.algebra.terms import (
    Cast,
    CMap,
    CoGroup,
    Empty,
    Get,
    GroupBy,
    If,
    Lambda,
    Let,
    ListOf,
    Lit,
    Nth,
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
from mrql.rewrite.analysis.join_predicates import conjunction, conjuncts
from mrql.rewrite.incremental.lineage import joins_elements
from mrql.rewrite.normalize.drop_traces import is_trace
from mrql.rewrite.normalize.group_functions import function_parts, identity, paired
from mrql.runtime.spark.compiler.evaluation_guards import placed, with_guards_inside
from mrql.runtime.spark.compiler.group_by import co_grouped, grouped
from mrql.runtime.spark.compiler.join import joined
from mrql.runtime.spark.compiler.loop_checkpoints import LoopCheckpoints
from mrql.runtime.spark.compiler.loop_values import loop_value, opened_term
from mrql.runtime.spark.compiler.trace import trace
from mrql.runtime.spark.expressions.aggregates import total_sql
from mrql.runtime.spark.expressions.casts import canonical, cast
from mrql.runtime.spark.expressions.expressions import Environment, Expressions
from mrql.runtime.spark.expressions.layout import (
    Atom,
    Layout,
    Struct,
    atoms,
    bind,
    label,
    part,
    quote,
    sql_type,
    to_sql,
    with_columns,
)
from mrql.runtime.spark.expressions.literals import place
from mrql.runtime.spark.relation.frame import (
    ColumnNames,
    Frame,
    as_a_bag,
    common_shape,
    expanded,
    fit,
    flat,
    null_of,
    union,
)
from mrql.runtime.spark.relation.relation import Relation

PARALLEL_RANGE_MIN_ELEMENTS = 10_000
"""From so many elements on, a range is made in parts by all cores."""


class RelationCompiler:
    """Compiles bulk terms over the given sources: streams, static tables and the variables of states.

    A source whose type is a bag is a frame of its elements, any other one a frame with one row.
    """

    def __init__(
        self,
        spark: SparkSession,
        sources: Mapping[str, Frame],
        columns: ColumnNames | None = None,
        kept: LoopCheckpoints | None = None,
    ) -> None:
        self.spark = spark
        self.sources = dict(sources)
        self.columns = columns or ColumnNames()
        self.kept = kept or LoopCheckpoints()
        """What the values of loops lie in."""
        self.loops: list[tuple[Repeat, Term]] = []
        self.expressions = Expressions()
        self.names = Names({*sources})
        self.met: dict[int, Term] = {}
        """The terms whose names are taken, by their identity."""

    def fresh(self) -> str:
        return next(self.columns.take())

    def meet(self, term: Term) -> None:
        """Takes the names of a term: a variable of the query may be called as one that is made here would be."""
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
                df = Relation.range(evaluate(low), evaluate(high) + 1, name)
                return Frame(df, Atom(quote(name), ty.LONG, False))
            case Union(left, right):
                return union([self.bag(left), self.bag(right)], element_type(term), self.columns)
            case Take(n, OrderBy() as ordered):
                return self.top(n, ordered)
            case OrderBy(source, _):
                frame = self.bag(source)
                return attrs.evolve(frame, value=part(frame.value, "_2", pair_type(source)[1]))
            case Reduce(Fold(), source) if self.reads(source):
                return self.listed(term)
            case Reduce(monoid, source) if not isinstance(monoid, Aggregate | Fold):
                return self.bag(source)
            case Prim(function, (inner,)) if function == TRACE:
                trace(self, term)
                return self.bag(inner)
            case Prim() if self.reads(term):
                return self.listed(term)
            case Cast(source, _) if self.reads(source):
                frame = self.bag(source)
                return attrs.evolve(frame, value=cast(frame.value, element_type(source), element_type(term), ""))
            case _ if (opened := opened_term(self, term)) is not term:
                return self.bag(opened)
            case _:
                return self.over(term, self.one_row(), {})

    def rows(self, term: Term, more: Mapping[str, Frame], columns: ColumnNames, kept: LoopCheckpoints) -> Frame:
        """The rows of a bag, or the one row of another value, over more sources; loops in the term lie in `kept`."""
        inner = RelationCompiler(self.spark, {**self.sources, **more}, columns, kept)
        inner.names.taken |= self.names.taken
        return inner.bag(term) if isinstance(term.type, ty.BagType) else inner.one(term)

    def reads(self, term: Term) -> bool:
        """Whether a term mentions a source."""
        return any(isinstance(t, Stream | Var) and t.name in self.sources for t in subterms(term))

    def retracts(self, term: Term) -> bool:
        """Whether a term mentions a source of which rows may be taken away: it has no array of its elements."""
        found = (self.sources.get(t.name) for t in subterms(term) if isinstance(t, Stream | Var))
        return any(frame is not None and frame.retracts for frame in found)

    def one_row(self) -> Frame:
        return Frame(Relation.range(0, 1, self.fresh()), Struct((), ty.UNIT))

    def over(self, body: Term, frame: Frame, env: Environment) -> Frame:
        """The elements of a function's result, for each row of a frame."""
        match body:
            case Single(item):
                frame, env, item = self.attached(frame, env, item)
                frame, made = self.in_place(frame, item, self.expressions.value(item, env))
                return attrs.evolve(frame, value=made)
            case Empty(t):
                item_type = t.item if isinstance(t, ty.BagType | ty.ListType) else ty.NOTHING
                return attrs.evolve(frame.where("false"), value=null_of(item_type))
            case If(condition, then, Empty()):
                frame, env, condition = self.attached(frame, env, condition)
                return self.over(then, self.kept_by(condition, frame, env), env)
            case If(condition, then, otherwise):
                frame, env, condition = self.attached(frame, env, condition)
                holds = self.condition(condition, env)
                sides = [frame.where(holds), frame.where(f"NOT coalesce({holds}, false)")]
                results = [self.over(side, f, env) for side, f in zip((then, otherwise), sides, strict=True)]
                return union(results, element_type(body), self.columns)
            case Union(left, right):
                results = [self.over(side, frame, env) for side in (left, right)]
                return union(results, element_type(body), self.columns)
            case Let(pattern, value, inner) if not ty.is_collection(value.type) or not self.reads(value):
                frame, env, value = self.attached(frame, env, value)
                fails = frame.narrowed and may_fail(value)
                frame, computed = self.with_column(frame, self.expressions.value(value, env), fails=fails)
                return self.over(inner, frame, {**env, **bind(pattern, computed)})
            case Let(pattern, value, inner):
                return self.over(substitute(inner, match_pattern(pattern, value)), frame, env)
            case CMap(Lambda(param, inner), source) if self.is_closed_bag(source, env):
                frame, other = self.product(frame, self.bag(source))
                return self.over(inner, frame, {**env, **bind(param, other)})
            case CMap(Lambda(param, inner), source):
                frame, env, source = self.attached(frame, env, source)
                frame, element = self.exploded(frame, self.expressions.array(source, env), element_type(source))
                return self.over(inner, frame, {**env, **bind(param, element)})
            case _ if self.is_closed_bag(body, env) and self.retracts(body):
                frame, other = self.product(frame, self.bag(body))
                return attrs.evolve(frame, value=other)
            case _:
                frame, env, body = self.attached(frame, env, body)
                frame, element = self.exploded(frame, self.expressions.array(body, env), element_type(body))
                return attrs.evolve(frame, value=element)

    def condition(self, condition: Term, env: Environment) -> str:
        """A condition on the rows of a frame."""
        sql = self.expressions.condition(condition, env)
        return placed(sql) if may_fail(condition) else sql

    def kept_by(self, condition: Term, frame: Frame, env: Environment) -> Frame:
        """The rows for which a condition holds; what stands before its first part that may fail can be moved."""
        parts = conjuncts(condition)
        count = next((i for i, part_of in enumerate(parts) if may_fail(part_of)), len(parts))
        for some in filter(None, (parts[:count], parts[count:])):
            frame = frame.where(self.condition(conjunction(some), env))
        return frame

    def in_place(self, frame: Frame, term: Term, value: Layout) -> tuple[Frame, Layout]:
        """A value; where rows were kept out, its parts that may fail are columns of those that are there."""
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

    def compared(self, function: Lambda, earlier: Term, frame: Frame) -> Frame:
        """What a function gives for each row of a frame where it gave something else `earlier`: an element at most each
        time (`row_by_row`), of which the former is taken away."""
        self.meet(earlier)
        item = element_type(function.body)
        env: Environment = bind(function.param, frame.value)
        arrays, shapes = [], []
        for body in (function.body, earlier):
            frame, env, body, element = self.attached_one(frame, env, body)
            # What has one element is in order.
            array = Atom(self.expressions.array(body, env), ty.ListType(item), False)
            frame, kept = self.with_column(frame, canonical(self.expressions, array))
            arrays.append(to_sql(kept))
            shapes.append(self.expressions.value(element, env))
        now, before = arrays
        weight = frame.weight or "1L"
        came = f"if(size({now}) = 0, array(), array(struct(get({now}, 0) AS e, {weight} AS w)))"
        went = f"if(size({before}) = 0, array(), array(struct(get({before}, 0) AS e, -{weight} AS w)))"
        name, times = self.fresh(), self.fresh()
        differs = f"inline(if({now} <=> {before}, NULL, concat({came}, {went}))) AS ({name}, {times})"
        value = fit(Atom(quote(name), item), common_shape(shapes))
        return Frame(frame.df.select("*", differs), value, quote(times))

    def attached_one(self, frame: Frame, env: Environment, body: Term) -> tuple[Frame, Environment, Term, Term]:
        """What the element of a body and its conditions read from sources, brought into each row; and the element."""
        match body:
            case If(condition, then, _):
                frame, env, condition = self.attached(frame, env, condition)
                frame, env, then, element = self.attached_one(frame, env, then)
                return frame, env, attrs.evolve(body, condition=condition, then=then), element
            case Single(item):
                frame, env, item = self.attached(frame, env, item)
                return frame, env, Single(item), item
            case _:
                raise InternalError("bulk", f"one element that is given by {type(body).__name__}")

    def is_closed_bag(self, term: Term, env: Environment) -> bool:
        return isinstance(term.type, ty.BagType) and self.reads(term) and not free_vars(term) & set(env)

    def exploded(self, frame: Frame, array: str, item: Type) -> tuple[Frame, Layout]:
        """One row for each element of an array."""
        name = self.fresh()
        df = frame.df.select("*", f"explode({array}) AS {name}")
        return attrs.evolve(frame, df=df), Atom(quote(name), item)

    def with_column(self, frame: Frame, value: Layout, *, fails: bool = False) -> tuple[Frame, Layout]:
        """Computes a value once, in columns of its own; what fails stays where it is."""
        named = [(self.fresh(), placed(atom.sql) if fails else atom.sql) for atom in atoms(value)]
        if not named:
            return frame, value
        df = frame.df.select("*", *(f"{sql} AS {name}" for name, sql in named))
        names = iter([name for name, _ in named])
        return attrs.evolve(frame, df=df), with_columns(value, names)

    def product(self, left: Frame, right: Frame) -> tuple[Frame, Layout]:
        """Each row of one frame with each of another."""
        other = flat(right, self.columns)
        df = left.df.cross(other.df.broadcast() if right.changes else other.df)
        retracts = left.retracts or other.retracts
        return attrs.evolve(left, df=df, weight=left.times(other.weight), narrowed=True, retracts=retracts), other.value

    # --- values of bulk terms inside functions ------------------------------------------------

    def attached(self, frame: Frame, env: Environment, term: Term) -> tuple[Frame, Environment, Term]:
        """Brings what a scalar term reads from sources into each row: a total as its value, a bag as an array."""
        if not self.reads(term):
            return frame, env, term
        found: dict[str, Term] = {}
        term = self._extracted(term, frozenset(env), frozenset(), found)
        scope = dict(env)
        for name, value in found.items():
            single = flat(self.one(value), self.columns)
            frame = attrs.evolve(frame, df=frame.df.cross(single.df.broadcast()))
            scope[name] = single.value
        return frame, scope, term

    def _extracted(self, term: Term, scope: frozenset[str], local: frozenset[str], found: dict[str, Term]) -> Term:
        """The term with its largest parts that read sources, and nothing of the row, replaced by variables."""
        if not self.reads(term):
            return term
        if not free_vars(term) & (scope | local) and not _is_guarded_alone(term):
            name = next((n for n, known in found.items() if known == term), None) or self.names.fresh("t")
            found[name] = term
            return Var(name, term.type)
        match term:
            case CMap(Lambda(param, body), source):
                new_source = self._extracted(source, scope, local, found)
                return CMap(Lambda(param, self._extracted(body, scope, local | bound_names(param), found)), new_source)
            case Let(pattern, value, body):
                new_value = self._extracted(value, scope, local, found)
                return Let(pattern, new_value, self._extracted(body, scope, local | bound_names(pattern), found))
            case Repeat():
                parts = zip(children(term), scopes(term), strict=True)
                new = tuple(self._extracted(child, scope, local | bound, found) for child, bound in parts)
                return with_children(term, new)
            case _:
                return map_children(term, lambda child: self._extracted(child, scope, local, found))

    def one(self, term: Term) -> Frame:
        """The one row of a term that is no bag, or of a bag as an array."""
        self.meet(term)
        term = with_guards_inside(term, self.reads, self.sources)
        match term:
            case Var(name, t) if name in self.sources and not ty.is_collection(t):
                return self.sources[name]
            case Reduce(Aggregate() as monoid, source) if self.reads(source):
                return self.total(monoid, term.type, as_a_bag(self.bag(source)), place(term.span))
            case Reduce(Fold() as fold, source) if self.reads(source):
                return self.folded(fold, self.collected(source))
            case Prim(function, (inner,)) if function == TRACE:
                trace(self, term)
                return self.one(inner)
            case _ if (opened := opened_term(self, term)) is not term:
                return self.one(opened)
            case Nth() | Get() | Prim():
                return self.assembled(term)
            case If() | Cast() if may_be_missing(term):
                return self.assembled(term)
            case _ if ty.is_collection(term.type):
                return self.collected(term)
            case _:
                return self.assembled(term)

    def assembled(self, term: Term) -> Frame:
        """One row with a scalar over the values of several bulk terms, as in `(sum(S), sum(T))`."""
        frame = self.one_row()
        scope: dict[str, Layout] = {}
        inner, singles = self.parts_attached(term, scope)
        for single in singles:
            frame = attrs.evolve(frame, df=frame.df.cross(single.df.broadcast()))
        return attrs.evolve(frame, value=self.expressions.value(inner, scope))

    def parts_attached(self, term: Term, scope: dict[str, Layout]) -> tuple[Term, list[Frame]]:
        """A scalar term with its bulk parts as variables, and the one-row frames that hold their values."""
        frames: list[Frame] = []

        def visit(part_term: Term) -> Term:
            if is_trace(part_term) and free_vars(part_term) <= self.sources.keys():
                trace(self, part_term)
                return visit(part_term.args[0])
            if not self.reads(part_term):
                return map_children(part_term, visit) if any(map(is_trace, subterms(part_term))) else part_term
            if isinstance(part_term, Repeat) and free_vars(part_term) <= self.sources.keys():
                return visit(loop_value(self, part_term))
            if puts_together(part_term) or isinstance(part_term, Nth | Get):
                return map_children(part_term, visit)
            if ty.is_collection(part_term.type) or isinstance(part_term, Reduce | Var):
                single = flat(self.one(part_term), self.columns)
                name = self.names.fresh("t")
                scope[name] = single.value
                frames.append(single)
                return Var(name, part_term.type)
            return map_children(part_term, visit)

        return visit(term), frames

    def total(self, monoid: Aggregate, t: Type, frame: Frame, at: str) -> Frame:
        """A total aggregation: one row, also over nothing."""
        one = Single(Var("x", frame.value.type))
        share, narrow = self.expressions.reduce(monoid, t, one, {"x": frame.value}), is_narrow(Reduce(monoid, one))
        name = self.fresh()
        df = frame.df.aggregate([], [f"{total_sql(monoid, t, share, frame.weight, narrow=narrow, at=at)} AS {name}"])
        return Frame(df, Atom(quote(name), t))

    def folded(self, fold: Fold, whole: Frame) -> Frame:
        """The one row of a reduction with a monoid of the query, over all elements as one array."""
        name = self.fresh()
        df = whole.df.select(f"{self.expressions.fold(fold, to_sql(whole.value))} AS {name}")
        return Frame(df, Atom(quote(name), fold.type))

    def collected(self, term: Term) -> Frame:
        """A whole collection as one array."""
        name = self.fresh()
        if isinstance(term.type, ty.ListType):
            return self.collected_list(term, name)
        frame = expanded(as_a_bag(self.bag(term)), self.columns)
        df = frame.df.aggregate([], [f"flatten(collect_list(array({to_sql(frame.value)}))) AS {name}"])
        return Frame(df, Atom(quote(name), term.type, False))

    def collected_list(self, term: Term, name: str) -> Frame:
        """An ordered collection as one array: collected with its order key, and sorted as an array."""
        match term:
            case Take(n, inner):
                whole = self.collected_list(inner, self.fresh())
                items = self.expressions.array(Var("items", inner.type), {"items": whole.value})
                array = f"slice({items}, 1, CAST(greatest({self.expressions.sql(n, {})}, 0) AS INT))"
                return Frame(whole.df.select(f"{array} AS {name}"), Atom(quote(name), term.type, False))
            case OrderBy(source, descending):
                pairs = flat(self.collected(source), self.columns)
                bound = Var("pairs", source.type)
                array = self.expressions.array(OrderBy(bound, descending), {"pairs": pairs.value})
                return Frame(pairs.df.select(f"{array} AS {name}"), Atom(quote(name), term.type, False))
            case _ if not self.reads(term):
                df = self.one_row().df.select(f"{self.expressions.sql(term, {})} AS {name}")
                return Frame(df, Atom(quote(name), term.type))
            case Repeat() | Let() if (opened := opened_term(self, term)) is not term:
                return self.collected_list(opened, name)
            case ListOf() | Union() | If() | Cast() | Prim() | Nth() | Get() if self.reads(term):
                whole = self.assembled(term)
                made = Atom(quote(name), term.type, may_be_missing(term))
                return Frame(whole.df.select(f"{to_sql(whole.value)} AS {name}"), made)
            case _:
                raise InternalError("bulk", f"a list over sources by {type(term).__name__}")

    def listed(self, term: Term) -> Frame:
        """The elements of a list in their order, or those of a bag that is one value."""
        whole = self.one(term)
        frame, element = self.exploded(whole, to_sql(whole.value), element_type(term))
        return attrs.evolve(frame, value=element)

    # --- order --------------------------------------------------------------------------------

    def top(self, n: Term, ordered: OrderBy) -> Frame:
        """The first n elements, as Spark's top-k."""
        frame = expanded(as_a_bag(self.bag(ordered.source)), self.columns)
        if self.reads(n):
            raise UserError("a limit cannot depend on the data", n.span)
        count = max(evaluate(n) or 0, 0)
        df = frame.df.order(*self.order(frame, ordered)).limit(count)
        return attrs.evolve(frame, df=df, value=part(frame.value, "_2", pair_type(ordered.source)[1]))

    def order(self, frame: Frame, ordered: OrderBy) -> list[tuple[str, bool]]:
        """The sort columns of an ordered collection: the parts of its key, then the value itself; and which descend."""
        key_type, value_type = pair_type(ordered.source)
        key = part(frame.value, "_1", key_type)
        assert isinstance(key_type, ty.TupleType)
        sort = []
        for i, (t, down) in enumerate(zip(key_type.items, ordered.descending, strict=True)):
            # The cast keeps Spark from taking a constant for the number of a column.
            sort.append((f"CAST({to_sql(part(key, label(i), t))} AS {sql_type(t)})", down))
        value = canonical(self.expressions, part(frame.value, "_2", value_type))
        return [
            *sort,
            *((f"CAST({atom.sql} AS {sql_type(atom.type)})", False) for atom in atoms(value)),
        ]


def puts_together(term: Term) -> bool:
    """Whether a collection is made of parts, each of which may be a value of the sources."""
    match term:
        case ListOf() | Prim():
            return True
        case If() | Cast():
            return isinstance(term.type, ty.ListType) or may_be_missing(term)
        case Union():
            return isinstance(term.type, ty.ListType)
        case _:
            return False


def _is_guarded_alone(term: Term) -> bool:
    """Whether a value is to stay under the conditions on the row where it stands; what it is made from need not."""
    return isinstance(term, Prim | Cast | If | Let) and not ty.is_collection(term.type) and may_fail(term)


def is_large_range(term: Term) -> bool:
    """Whether a term is a range between constants that is better made row by row than as an array."""
    match term:
        case Prim(function, (Lit(int() as low, _), Lit(int() as high, _))) if function == RANGE:
            return high - low >= PARALLEL_RANGE_MIN_ELEMENTS
        case _:
            return False
