"""Bulk terms as relations: cMap, groupBy, coGroup, reduce, union and order over sources.

A cMap runs its function over the rows: conditions become filters, nested generators become `explode`, and what the
function returns is a layout over the columns. A groupBy does not build its groups when the function above only
reduces them: the function is split into the parts that merge ([MRQL] §9), each part is an aggregate function of
Spark, and only a group that is used as a bag is collected. A coGroup whose sides are joined element by element is a
join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.binders import Names, bound_names, free_vars, match_pattern, scopes, substitute
from mrql.algebra.definitions import PythonFunction
from mrql.algebra.errors import InternalError, UserError
from mrql.algebra.evaluate import evaluate
from mrql.algebra.functions import HAS_NULL, NOT, RANGE, TRACE
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
    Pattern,
    Prim,
    PTuple,
    PVar,
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
from mrql.algebra.traversal import children, map_children, subterms, with_children
from mrql.algebra.types import Type
from mrql.rewrite.equate import conjuncts
from mrql.rewrite.grouped import function_parts, identity, paired
from mrql.rewrite.lineage import joins_elements
from mrql.rewrite.normalize import normalize
from mrql.rewrite.split import Part, split
from mrql.rewrite.untrace import is_trace
from mrql.runtime.casts import canonical, cast
from mrql.runtime.expressions import Environment, Expressions
from mrql.runtime.frames import Columns, Frame, Side, expanded, flat, null_of, union
from mrql.runtime.layout import (
    Atom,
    Layout,
    Struct,
    atoms,
    bind,
    label,
    part,
    quote,
    sql_type,
    taken_apart,
    to_sql,
    with_columns,
)
from mrql.runtime.lookups import narrowed_side
from mrql.runtime.loops import Kept
from mrql.runtime.monoids import aggregate_sql
from mrql.runtime.opened import loop_value, opened_term
from mrql.runtime.relation import Relation, union_all
from mrql.runtime.tracing import trace

LARGE = 10_000
"""From so many elements on, a range is made in parts by all cores."""


class Compiler:
    """Compiles bulk terms over the given sources: streams, static tables and the variables of states.

    A source whose type is a bag is a frame of its elements, any other one a frame with one row.
    """

    def __init__(
        self,
        spark: SparkSession,
        sources: Mapping[str, Frame],
        columns: Columns | None = None,
        kept: Kept | None = None,
    ) -> None:
        self.spark = spark
        self.sources = dict(sources)
        self.columns = columns or Columns()
        self.kept = kept or Kept()
        """What the values of loops lie in."""
        self.loops: list[tuple[Repeat, Term]] = []
        self.expressions = Expressions()
        self.names = Names({*sources})

    def fresh(self) -> str:
        return next(self.columns.take())

    # --- bags ---------------------------------------------------------------------------------

    def bag(self, term: Term, env: Environment | None = None) -> Frame:
        """The frame of a collection's elements."""
        match term:
            case Stream(name, _) | Var(name, _) if name in self.sources:
                return self.sources[name]
            case CMap(_, GroupBy()):
                return self.grouped(paired(term, self.names))
            case CMap(_, CoGroup() as source):
                term = paired(term, self.names)
                _, groups, body = function_parts(term)
                return self.joined(term) if joins_elements(body, groups) else self.co_grouped(term)
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
            case Prim(PythonFunction()) if self.reads(term):
                return self.listed(term)
            case Prim(function, (inner,)) if function == TRACE:
                trace(self, term)
                return self.bag(inner)
            case Cast(source, _) if self.reads(source):
                frame = self.bag(source)
                return attrs.evolve(frame, value=cast(frame.value, element_type(source), element_type(term), ""))
            case _ if (opened := opened_term(self, term)) is not term:
                return self.bag(opened)
            case _:
                return self.over(term, self.one_row(), {})

    def rows(self, term: Term, more: Mapping[str, Frame], columns: Columns, kept: Kept) -> Frame:
        """The rows of a bag, or the one row of another value, over more sources; loops in the term lie in `kept`."""
        inner = Compiler(self.spark, {**self.sources, **more}, columns, kept)
        inner.names.taken |= self.names.taken
        return inner.bag(term) if isinstance(term.type, ty.BagType) else inner.one(term)

    def reads(self, term: Term) -> bool:
        """Whether a term mentions a source."""
        return any(isinstance(t, Stream | Var) and t.name in self.sources for t in subterms(term))

    def one_row(self) -> Frame:
        return Frame(Relation.range(0, 1, self.fresh()), Struct((), ty.UNIT))

    def over(self, body: Term, frame: Frame, env: Environment) -> Frame:
        """The elements of a function's result, for each row of a frame."""
        match body:
            case Single(item):
                frame, env, item = self.attached(frame, env, item)
                return attrs.evolve(frame, value=self.expressions.value(item, env))
            case Empty(t):
                item_type = t.item if isinstance(t, ty.BagType | ty.ListType) else ty.NOTHING
                return attrs.evolve(frame.where("false"), value=null_of(item_type))
            case If(condition, then, Empty()):
                frame, env, condition = self.attached(frame, env, condition)
                return self.over(then, frame.where(self.expressions.condition(condition, env)), env)
            case If(condition, then, otherwise):
                frame, env, condition = self.attached(frame, env, condition)
                holds = self.expressions.condition(condition, env)
                sides = [frame.where(holds), frame.where(f"NOT coalesce({holds}, false)")]
                results = [self.over(side, f, env) for side, f in zip((then, otherwise), sides, strict=True)]
                return union(results, element_type(body), self.columns)
            case Union(left, right):
                results = [self.over(side, frame, env) for side in (left, right)]
                return union(results, element_type(body), self.columns)
            case Let(pattern, value, inner) if not ty.is_collection(value.type) or not self.reads(value):
                frame, env, value = self.attached(frame, env, value)
                frame, computed = self.with_column(frame, self.expressions.value(value, env))
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
            case _:
                frame, env, body = self.attached(frame, env, body)
                frame, element = self.exploded(frame, self.expressions.array(body, env), element_type(body))
                return attrs.evolve(frame, value=element)

    def is_closed_bag(self, term: Term, env: Environment) -> bool:
        return isinstance(term.type, ty.BagType) and self.reads(term) and not free_vars(term) & set(env)

    def exploded(self, frame: Frame, array: str, item: Type) -> tuple[Frame, Layout]:
        """One row for each element of an array."""
        name = self.fresh()
        df = frame.df.select("*", f"explode({array}) AS {name}")
        return attrs.evolve(frame, df=df), Atom(quote(name), item)

    def with_column(self, frame: Frame, value: Layout) -> tuple[Frame, Layout]:
        """Computes a value once, in columns of its own."""
        named = [(self.fresh(), atom) for atom in atoms(value)]
        if not named:
            return frame, value
        df = frame.df.select("*", *(f"{atom.sql} AS {name}" for name, atom in named))
        names = iter([name for name, _ in named])
        return attrs.evolve(frame, df=df), with_columns(value, names)

    def product(self, left: Frame, right: Frame) -> tuple[Frame, Layout]:
        """Each row of one frame with each of another."""
        other = flat(right, self.columns)
        df = left.df.cross(other.df.broadcast() if right.changes else other.df)
        return attrs.evolve(left, df=df, weight=left.times(other.weight)), other.value

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
        if not free_vars(term) & (scope | local):
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
        match term:
            case Var(name, t) if name in self.sources and not ty.is_collection(t):
                return self.sources[name]
            case Reduce(Aggregate() as monoid, source) if self.reads(source):
                return self.total(monoid, term.type, self.bag(source))
            case Reduce(Fold() as fold, source) if self.reads(source):
                return self.folded(fold, self.collected(source))
            case Prim(function, (inner,)) if function == TRACE:
                trace(self, term)
                return self.one(inner)
            case _ if (opened := opened_term(self, term)) is not term:
                return self.one(opened)
            case Nth() | Get() | Prim(PythonFunction()):
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

    def total(self, monoid: Aggregate, t: Type, frame: Frame) -> Frame:
        """A total aggregation: one row, also over nothing."""
        share = self.expressions.reduce(monoid, t, Single(Var("x", frame.value.type)), {"x": frame.value})
        name = self.fresh()
        df = frame.df.aggregate([], [f"{aggregate_sql(monoid, t, share, frame.weight)} AS {name}"])
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
        frame = expanded(self.bag(term), self.columns)
        df = frame.df.aggregate([], [f"flatten(collect_list(array({to_sql(frame.value)}))) AS {name}"])
        return Frame(df, Atom(quote(name), term.type, False))

    def collected_list(self, term: Term, name: str) -> Frame:
        """An ordered collection as one array: collected with its order key, and sorted as an array."""
        match term:
            case Take(n, inner):
                whole = self.collected_list(inner, self.fresh())
                array = f"slice({to_sql(whole.value)}, 1, CAST(greatest({self.expressions.sql(n, {})}, 0) AS INT))"
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
                return Frame(whole.df.select(f"{to_sql(whole.value)} AS {name}"), Atom(quote(name), term.type, False))
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
        frame = expanded(self.bag(ordered.source), self.columns)
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

    # --- groupBy and coGroup ------------------------------------------------------------------

    def keyed(self, frame: Frame, key_type: Type, *, joins: bool) -> tuple[Layout, Layout]:
        """Key and value of a frame of pairs; a key that two sides share is taken apart into the same parts."""
        pair = frame.value.type
        assert isinstance(pair, ty.TupleType)
        own = part(frame.value, "_1", pair.items[0])
        key = canonical(self.expressions, cast(own, pair.items[0], key_type, ""))
        return taken_apart(key) if joins else key, part(frame.value, "_2", pair.items[1])

    def grouped(self, term: CMap) -> Frame:
        """`cMap(λ(k, s). e, groupBy(c))`: the parts of e that merge, by key; then e over them."""
        key, group, body = function_parts(term)
        assert isinstance(term.source, GroupBy)
        assert isinstance(group, PVar)
        parts, rest = split(body, frozenset({group.name}), self.names)
        frame = self.bag(term.source.source)
        key_layout, value = self.keyed(frame, pair_type(term.source)[0], joins=False)
        aggregated = [self.share(p, group.name, value, frame.weight, bind(key, key_layout)) for p in parts]
        return self.by_key(frame, key, key_layout, parts, aggregated, rest)

    def share(self, part_: Part, group: str, value: Layout, weight: str | None, env: Environment) -> str:
        """The aggregate function for one part: over the shares of the rows."""
        x = self.names.fresh("x")
        unit = normalize(substitute(part_.term, {group: Single(Var(x, value.type))}))
        scope = {**env, x: value}
        if isinstance(part_.monoid, Aggregate):
            return aggregate_sql(part_.monoid, part_.term.type, self.expressions.sql(unit, scope), weight)
        array = self.expressions.array(unit, scope)
        repeated = array if weight is None else f"flatten(array_repeat({array}, CAST({weight} AS INT)))"
        return f"flatten(collect_list({repeated}))"

    def by_key(
        self, frame: Frame, key: Pattern, layout: Layout, parts: tuple[Part, ...], aggregated: list[str], rest: Term
    ) -> Frame:
        columns = with_columns(layout, self.columns.take())
        keys = [f"{old.sql} AS {new.sql}" for old, new in zip(atoms(layout), atoms(columns), strict=True)]
        named = [(self.fresh(), sql) for sql in aggregated]
        support = self.fresh()
        counted = "count(1)" if frame.weight is None else f"sum({frame.weight})"
        measures = [*(f"{sql} AS {name}" for name, sql in named), f"{counted} AS {support}"]
        grouped = frame.df.aggregate(keys, measures).where(f"{support} <> 0")
        env = bind(key, columns) | {p.name: _stored(p, name) for p, (name, _) in zip(parts, named, strict=True)}
        return self.over(rest, Frame(grouped, Struct((), ty.UNIT)), env)

    def co_grouped(self, term: CMap) -> Frame:
        """`cMap(λ(k, (xs, ys)). e, coGroup(c, d))` where e uses a side as a whole: both sides by key, side by side."""
        key, groups, body = function_parts(term)
        source = term.source
        assert isinstance(source, CoGroup)
        assert isinstance(groups, PTuple)
        parts, rest = split(body, bound_names(groups), self.names, one_group=True)
        key_type = pair_type(source)[0]
        sides = [self.bag(side) for side in (source.left, source.right)]
        layouts = [self.keyed(frame, key_type, joins=True) for frame in sides]
        columns = with_columns(layouts[0][0], self.columns.take())
        names = [self.fresh() for _ in parts]
        tables = []
        for group, frame, (key_layout, value) in zip(groups.items, sides, layouts, strict=True):
            assert isinstance(group, PVar)
            keys = [f"{a.sql} AS {c.sql}" for a, c in zip(atoms(key_layout), atoms(columns), strict=True)]
            measures = []
            for p, name in zip(parts, names, strict=True):
                absent = f"first(CAST(NULL AS {sql_type(p.term.type)}))"
                own = group.name in free_vars(p.term)
                sql = self.share(p, group.name, value, frame.weight, bind(key, key_layout)) if own else absent
                measures.append(f"{sql} AS {name}")
            counted = "count(1)" if frame.weight is None else f"sum({frame.weight})"
            tables.append(frame.df.aggregate(keys, [*measures, f"{counted} AS n"]).where("n <> 0"))
        present = [f"{_present(p, name)} AS {name}" for p, name in zip(parts, names, strict=True)]
        df = union_all(tables).aggregate([atom.sql for atom in atoms(columns)], [*present, "count(1) AS n"])
        env = bind(key, columns) | {p.name: _stored(p, name) for p, name in zip(parts, names, strict=True)}
        return self.over(rest, Frame(df, Struct((), ty.UNIT)), env)

    def side(self, frame: Frame, key_type: Type) -> Side:
        """A side of a join by the key of its pairs."""
        gathering = frame.df.gathering
        by_key = gathering is not None and is_joined_by(frame, key_type, gathering.by)
        return Side.of(frame, self.columns, opens_later=by_key)

    def narrowed_sides(self, frames: list[Frame], key_type: Type) -> list[Frame]:
        """The sides of a join that finds rows where they are: of a state only what a change may have partners in."""
        change = next((frame for frame in frames if frame.changes), None)
        if change is None:
            return frames
        keys = [self.keyed(frame, key_type, joins=True)[0] for frame in frames]
        wanted = keys[frames.index(change)]
        return [narrowed_side(frame, key, change, wanted) for frame, key in zip(frames, keys, strict=True)]

    def joined(self, term: CMap) -> Frame:
        """`cMap(λ(k, (xs, ys)). e, coGroup(c, d))` where e is linear in both sides: an inner join on the key."""
        key, groups, body = function_parts(term)
        source = term.source
        assert isinstance(source, CoGroup)
        assert isinstance(groups, PTuple)
        key_type = pair_type(source)[0]
        frames = [self.bag(side) for side in (source.left, source.right)]
        in_place = all(joined_where_it_lies(frame, key_type) for frame in frames)
        if in_place:
            frames = self.narrowed_sides(frames, key_type)
        sides = [self.side(frame, key_type) for frame in frames]
        left, right = (side.frame for side in sides)
        (left_key, left_value), (right_key, right_value) = (
            self.keyed(frame, key_type, joins=True) for frame in (left, right)
        )
        plain = drops_null_keys(source.left) or drops_null_keys(source.right)
        pairs = zip(atoms(left_key), atoms(right_key), strict=True)
        condition = " AND ".join(
            f"{a.sql} {'=' if plain or not (a.missing and b.missing) else '<=>'} {b.sql}" for a, b in pairs
        )
        df = join(left, right, condition, in_place=in_place)
        for side in sides:
            df = side.opened(df)
        x, y = self.names.fresh("x"), self.names.fresh("y")
        xs, ys = (group.name for group in groups.items if isinstance(group, PVar))
        elements: dict[str, Term] = {xs: Single(Var(x, left_value.type)), ys: Single(Var(y, right_value.type))}
        by_element = normalize(substitute(body, elements))
        env = {**bind(key, left_key), x: left_value, y: right_value}
        frame = Frame(df, Struct((), ty.UNIT), left.times(right.weight), left.changes or right.changes)
        return self.over(by_element, frame, env)


def joined_where_it_lies(side: Frame, key_type: Type) -> bool:
    """Whether a join by the key of its pairs finds a side's rows where they are, or may move them."""
    return side.lies_by is None or is_joined_by(side, key_type, side.lies_by)


def is_joined_by(side: Frame, key_type: Type, columns: Sequence[str]) -> bool:
    """Whether the key of a side's pairs is what some columns have."""
    key = part(side.value, "_1", key_type)
    return [atom.sql for atom in atoms(key)] == [quote(name) for name in columns]


def join(left: Frame, right: Frame, condition: str, *, in_place: bool = True) -> Relation:
    """An inner join; a batch's side, being small, is the one that a hash table is built from.

    Where the other side does not lie by the key of the join, the batch is brought to all of it.
    """
    a, b = left.df, right.df
    if not condition:
        return a.broadcast().cross(b) if left.changes else a.cross(b.broadcast() if right.changes else b)
    if left.changes:
        a = a.hint("shuffle_hash") if in_place else a.broadcast()
    elif right.changes:
        b = b.hint("shuffle_hash") if in_place else b.broadcast()
    return a.join(b, condition)


def puts_together(term: Term) -> bool:
    """Whether a collection is made of parts, each of which may be a value of the sources."""
    match term:
        case ListOf() | Prim(PythonFunction()):
            return True
        case Union() | If() | Cast() | Prim():
            return isinstance(term.type, ty.ListType)
        case _:
            return False


def is_large_range(term: Term) -> bool:
    """Whether a term is a range between constants that is better made row by row than as an array."""
    match term:
        case Prim(function, (Lit(int() as low, _), Lit(int() as high, _))) if function == RANGE:
            return high - low >= LARGE
        case _:
            return False


def drops_null_keys(term: Term) -> bool:
    """Whether the pairs of a bag have no missing keys: their key is tested, or cannot be missing."""
    match term:
        case CMap(Lambda(_, body), _):
            return drops_null_keys(body)
        case If(condition, Single(Tup((key, _))), Empty()):
            return any(c == Prim(NOT, (Prim(HAS_NULL, (key,)),)) for c in conjuncts(condition))
        case Single(Tup((Lit(value, _), _))):
            return value is not None
        case Single(Tup((Tup(()), _))):
            return True
        case _:
            return False


def _stored(p: Part, name: str) -> Atom:
    """The column that holds a part; a group that is collected is never missing."""
    return Atom(quote(name), p.term.type, not ty.is_collection(p.term.type))


def _present(p: Part, name: str) -> str:
    """The value of the side that has one."""
    if ty.is_collection(p.term.type):
        return f"coalesce(first({quote(name)}, true), CAST(array() AS {sql_type(p.term.type)}))"
    assert isinstance(p.monoid, Aggregate)
    return aggregate_sql(p.monoid, p.term.type, quote(name), None)
