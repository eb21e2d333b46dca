"""groupBy and coGroup as relations: the function above is split into the parts that merge ([MRQL] §9), each of which is
an aggregate function of Spark; only a group that is used as a bag is collected.

A group of a frame that retracts is not a bag: a deletion may be of a row that is not in the group. With f linear in the
group, `f(xs − ys) = f(xs) − f(ys)` for bags xs, ys ([DBSP] Thm 3.3), so the insertions and the deletions of a group are
collected separately, and f is computed over each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.integer_ranges import is_narrow
from mrql.algebra.analysis.variables import bound_names, free_vars, substitute
from mrql.algebra.errors import InternalError
from mrql.algebra.monoids import Aggregate
from mrql.algebra.terms import CMap, CoGroup, GroupBy, PTuple, PVar, Single, Term, Var, pair_type
from mrql.algebra.types import Type
from mrql.rewrite.analysis.infer_merge import is_linear
from mrql.rewrite.incremental.split import Part, split
from mrql.rewrite.normalize.group_functions import function_parts
from mrql.rewrite.normalize.normalize import normalize
from mrql.runtime.spark.compiler.protocol import TermCompiler
from mrql.runtime.spark.expressions.aggregates import aggregate_sql, total_sql
from mrql.runtime.spark.expressions.casts import canonical, cast
from mrql.runtime.spark.expressions.expressions import Environment
from mrql.runtime.spark.expressions.layout import (
    Atom,
    Layout,
    Struct,
    atoms,
    bind,
    known_of,
    part,
    quote,
    sql_type,
    taken_apart,
    with_columns,
)
from mrql.runtime.spark.expressions.literals import place
from mrql.runtime.spark.expressions.sum_columns import Carrier, carrier_of
from mrql.runtime.spark.relation.frame import Frame, common_shape
from mrql.runtime.spark.relation.relation import Relation, union_all


def keyed(compiler: TermCompiler, frame: Frame, key_type: Type) -> tuple[Layout, Layout]:
    """The key and the value of a frame of pairs."""
    pair = frame.value.type
    assert isinstance(pair, ty.TupleType)
    own = part(frame.value, "_1", pair.items[0])
    key = canonical(compiler.expressions, cast(own, pair.items[0], key_type, ""))
    return key, part(frame.value, "_2", pair.items[1])


def keyed_alike(
    compiler: TermCompiler, frames: Sequence[Frame], key_type: Type, *, plain: bool = False
) -> list[tuple[Layout, Layout]]:
    """The key and the value of each of some frames, with the keys in the same parts; `plain` says that keys with a
    missing part match nothing."""
    pairs = [keyed(compiler, frame, key_type) for frame in frames]
    known = None if plain else reduce(or_, (known_of(key) for key, _ in pairs))
    return [(taken_apart(key, known), value) for key, value in pairs]


def grouped(compiler: TermCompiler, term: CMap) -> Frame:
    """`cMap(λ(k, s). e, groupBy(c))`: the parts of e that merge are aggregated by key, then e is computed from them."""
    key, group, body = function_parts(term)
    assert isinstance(term.source, GroupBy)
    assert isinstance(group, PVar)
    parts, rest = split(body, frozenset({group.name}), compiler.names)
    frame = compiler.bag(term.source.source)
    key_layout, value = keyed(compiler, frame, pair_type(term.source)[0])
    columns = with_columns(key_layout, compiler.columns.take())
    kept = [_Kept.of(compiler, p, group, value.type) for p in parts]
    measures = list[str]()
    for k in kept:
        for weight, suffix in _signs(frame, body, group, parts):
            shares = k.shares(compiler, value, weight, bind(key, key_layout))
            measures += (f"{share} AS {column}{suffix}" for share, column in zip(shares, k.columns, strict=True))
    support = compiler.fresh()
    keys = [f"{old.sql} AS {new.sql}" for old, new in zip(atoms(key_layout), atoms(columns), strict=True)]
    groups = frame.df.aggregate(keys, [*measures, f"{_counted(frame)} AS {support}"]).where(f"{support} <> 0")
    env = bind(key, columns) | {k.part.name: k.read() for k in kept}
    names = [column for k in kept for column in k.columns]
    return compiler.over(rest, _of_groups(compiler, groups, columns, names, names if frame.retracts else []), env)


GONE = "_gone"
"""The suffix of the columns for the deletions of a group."""


def _signs(frame: Frame, body: Term, group: PVar, parts: Sequence[Part]) -> list[tuple[str | None, str]]:
    """The weights with which the rows of a frame count in its groups, each with the suffix of the columns for it.

    Raises: InternalError for a frame that retracts if the body is not linear in the group, or aggregates it.
    """
    if not frame.retracts:
        return [(frame.weight, "")]
    if not is_linear(body, group.name) or any(isinstance(p.monoid, Aggregate) for p in parts if _is_of(p, group)):
        raise InternalError("groups", f"a change of `{group.name}` is used as a whole")
    return [(f"greatest({frame.weight}, 0L)", ""), (f"greatest(-{frame.weight}, 0L)", GONE)]


def _of_groups(
    compiler: TermCompiler, groups: Relation, key: Layout, names: Sequence[str], changed: Sequence[str]
) -> Frame:
    """One row for each key, with its groups. A key with deletions has a second row, of weight −1, with the deletions in
    place of the insertions."""
    if not changed:
        return Frame(groups, Struct((), ty.UNIT))
    sign = compiler.fresh()
    loses = " OR ".join(f"size({name}{GONE}) > 0" for name in changed)
    signs = f"explode(if({loses}, array(1L, -1L), array(1L))) AS {sign}"
    kept = [*(atom.sql for atom in atoms(key)), *(name for name in names if name not in changed)]
    chosen = (f"if({sign} > 0, {name}, {name}{GONE}) AS {name}" for name in changed)
    rows = groups.select("*", signs).select(*kept, *chosen, sign)
    return Frame(rows, Struct((), ty.UNIT), sign, retracts=True)


@attrs.frozen
class _Kept:
    """A part of a group, kept in columns. Where longs or decimals leave their range, the error is raised on reading."""

    part: Part
    name: str
    row: Var
    """The variable for an element of the group."""
    unit: Term
    """The share of one element."""
    carrier: Carrier | None
    """How a part of longs or decimals is kept in columns; None where one column holds the value."""

    @classmethod
    def of(cls, compiler: TermCompiler, part_: Part, group: PVar, row_type: Type) -> _Kept:
        row = Var(compiler.names.fresh("x"), row_type)
        unit = normalize(substitute(part_.term, {group.name: Single(row)}))
        t = part_.term.type
        may_leave = t == ty.LONG or isinstance(t, ty.DecimalType)
        carrier = carrier_of(part_.monoid, t, narrow=is_narrow(unit)) if may_leave else None
        return cls(part_, compiler.fresh(), row, unit, carrier)

    @property
    def columns(self) -> list[str]:
        carrier = self.carrier
        return [self.name] if carrier is None else [self.name + column.suffix for column in carrier.columns]

    @property
    def nulls(self) -> list[str]:
        """The nulls in the columns of the side without the part."""
        carrier = self.carrier
        types = [self.part.term.type] if carrier is None else [column.type for column in carrier.columns]
        return [f"CAST(NULL AS {sql_type(t)})" for t in types]

    def shares(self, compiler: TermCompiler, value: Layout, weight: str | None, env: Environment) -> list[str]:
        """The aggregate functions over the shares of the rows, one for each column."""
        scope = {**env, self.row.name: value}
        monoid, t = self.part.monoid, self.part.term.type
        if not isinstance(monoid, Aggregate):
            array = compiler.expressions.array(self.unit, scope)
            repeated = array if weight is None else f"flatten(array_repeat({array}, CAST({weight} AS INT)))"
            return [f"flatten(collect_list({repeated}))"]
        one, carrier = compiler.expressions.sql(self.unit, scope), self.carrier
        if carrier is None:
            return [total_sql(monoid, t, one, weight, narrow=is_narrow(self.unit), at=place(self.part.term.span))]
        return [carrier.merged(s, c) for s, c in zip(carrier.shares(one, weight), carrier.columns, strict=True)]

    def present(self, suffix: str) -> list[str]:
        """The aggregate functions that merge the columns of both sides."""
        t, carrier, name = self.part.term.type, self.carrier, quote(self.name + suffix)
        if carrier is not None:
            return [carrier.merged(column, c) for column, c in zip(self.columns, carrier.columns, strict=True)]
        if ty.is_collection(t):
            return [f"coalesce(first({name}, true), CAST(array() AS {sql_type(t)}))"]
        assert isinstance(self.part.monoid, Aggregate)
        return [aggregate_sql(self.part.monoid, t, name, None)]

    def read(self) -> Atom:
        """The value of the part. A collected group is never missing."""
        t, carrier = self.part.term.type, self.carrier
        if carrier is None:
            return Atom(quote(self.name), t, not ty.is_collection(t))
        return Atom(carrier.value(self.columns, place(self.part.term.span)), t)


def co_grouped(compiler: TermCompiler, term: CMap) -> Frame:
    """`cMap(λ(k, (xs, ys)). e, coGroup(c, d))` where e uses a side as a whole: groups each side by key, then both."""
    key, groups, body = function_parts(term)
    source = term.source
    assert isinstance(source, CoGroup)
    assert isinstance(groups, PTuple)
    parts, rest = split(body, bound_names(groups), compiler.names, one_group=True)
    key_type = pair_type(source)[0]
    sides = [compiler.bag(side) for side in (source.left, source.right)]
    layouts = keyed_alike(compiler, sides, key_type)
    columns = with_columns(common_shape([key for key, _ in layouts]), compiler.columns.take())
    kept, measures, changed = list[_Kept](), (list[str](), list[str]()), list[str]()
    """The parts, the aggregate functions of each side, and the columns of parts whose side retracts."""
    present = list[str]()
    for p in parts:
        own = next(i for i, group in enumerate(groups.items) if isinstance(group, PVar) and _is_of(p, group))
        group, frame, (key_layout, value) = groups.items[own], sides[own], layouts[own]
        assert isinstance(group, PVar)
        k = _Kept.of(compiler, p, group, value.type)
        for weight, suffix in _signs(frame, body, group, parts):
            shares = k.shares(compiler, value, weight, bind(key, key_layout))
            measures[own].extend(
                f"{share} AS {column}{suffix}" for share, column in zip(shares, k.columns, strict=True)
            )
            measures[1 - own].extend(
                f"first({null}) AS {column}{suffix}" for null, column in zip(k.nulls, k.columns, strict=True)
            )
            present += (f"{sql} AS {column}{suffix}" for sql, column in zip(k.present(suffix), k.columns, strict=True))
        kept.append(k)
        changed += k.columns if frame.retracts else []
    tables = []
    for frame, (key_layout, _), own_measures in zip(sides, layouts, measures, strict=True):
        keys = [f"{a.sql} AS {c.sql}" for a, c in zip(atoms(key_layout), atoms(columns), strict=True)]
        tables.append(frame.df.aggregate(keys, [*own_measures, f"{_counted(frame)} AS n"]).where("n <> 0"))
    df = union_all(tables).aggregate([atom.sql for atom in atoms(columns)], [*present, "count(1) AS n"])
    env = bind(key, columns) | {k.part.name: k.read() for k in kept}
    names = [column for k in kept for column in k.columns]
    return compiler.over(rest, _of_groups(compiler, df, columns, names, changed), env)


def _is_of(p: Part, group: PVar) -> bool:
    """Whether a part reads a group."""
    return group.name in free_vars(p.term)


def _counted(frame: Frame) -> str:
    """The number of elements in a group; of a frame that retracts, the number of rows."""
    return "count(1)" if frame.weight is None or frame.retracts else f"sum({frame.weight})"
