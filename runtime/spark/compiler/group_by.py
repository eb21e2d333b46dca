"""groupBy and coGroup as relations: the function above is split into the parts that merge ([MRQL] §9), each is an
aggregate function of Spark, and only a group that is used as a bag is collected.

A group of a frame that retracts is no bag: a row of it may take away one that is not among them. With f linear in the
group, `f(xs − ys) = f(xs) − f(ys)` for bags xs, ys ([DBSP] Thm 3.3), so what comes to a group and what goes of it are
collected apart, and f is computed over both.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    part,
    quote,
    sql_type,
    taken_apart,
    with_columns,
)
from mrql.runtime.spark.expressions.literals import place
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.relation.relation import Relation, union_all


def keyed(compiler: TermCompiler, frame: Frame, key_type: Type, *, joins: bool) -> tuple[Layout, Layout]:
    """Key and value of a frame of pairs; a key that two sides share is taken apart into the same parts."""
    pair = frame.value.type
    assert isinstance(pair, ty.TupleType)
    own = part(frame.value, "_1", pair.items[0])
    key = canonical(compiler.expressions, cast(own, pair.items[0], key_type, ""))
    return taken_apart(key) if joins else key, part(frame.value, "_2", pair.items[1])


def grouped(compiler: TermCompiler, term: CMap) -> Frame:
    """`cMap(λ(k, s). e, groupBy(c))`: the parts of e that merge, by key; then e over them."""
    key, group, body = function_parts(term)
    assert isinstance(term.source, GroupBy)
    assert isinstance(group, PVar)
    parts, rest = split(body, frozenset({group.name}), compiler.names)
    frame = compiler.bag(term.source.source)
    key_layout, value = keyed(compiler, frame, pair_type(term.source)[0], joins=False)
    columns = with_columns(key_layout, compiler.columns.take())
    names = [compiler.fresh() for _ in parts]
    measures = []
    for p, name in zip(parts, names, strict=True):
        for weight, suffix in _signs(frame, body, group, parts):
            share = _share(compiler, p, group.name, value, weight, bind(key, key_layout))
            measures.append(f"{share} AS {name}{suffix}")
    support = compiler.fresh()
    keys = [f"{old.sql} AS {new.sql}" for old, new in zip(atoms(key_layout), atoms(columns), strict=True)]
    groups = frame.df.aggregate(keys, [*measures, f"{_counted(frame)} AS {support}"]).where(f"{support} <> 0")
    env = bind(key, columns) | {p.name: _stored(p, name) for p, name in zip(parts, names, strict=True)}
    return compiler.over(rest, _of_groups(compiler, groups, columns, names, names if frame.retracts else []), env)


GONE = "_gone"
"""What stands behind the name of a column for what goes of a group."""


def _signs(frame: Frame, body: Term, group: PVar, parts: Sequence[Part]) -> list[tuple[str | None, str]]:
    """How often the rows of a frame count in the groups, and what stands behind the names of the columns for it.

    Raises: InternalError where what is made of the groups of a frame that retracts is not linear in them.
    """
    if not frame.retracts:
        return [(frame.weight, "")]
    if not is_linear(body, group.name) or any(isinstance(p.monoid, Aggregate) for p in parts if _is_of(p, group)):
        raise InternalError("groups", f"a change of `{group.name}` is used as a whole")
    return [(f"greatest({frame.weight}, 0L)", ""), (f"greatest(-{frame.weight}, 0L)", GONE)]


def _of_groups(
    compiler: TermCompiler, groups: Relation, key: Layout, names: Sequence[str], changed: Sequence[str]
) -> Frame:
    """Rows with a key and its groups. A row of which something goes is there once more, with what goes instead of what
    comes, to be taken away."""
    if not changed:
        return Frame(groups, Struct((), ty.UNIT))
    sign = compiler.fresh()
    loses = " OR ".join(f"size({name}{GONE}) > 0" for name in changed)
    signs = f"explode(if({loses}, array(1L, -1L), array(1L))) AS {sign}"
    kept = [*(atom.sql for atom in atoms(key)), *(name for name in names if name not in changed)]
    chosen = (f"if({sign} > 0, {name}, {name}{GONE}) AS {name}" for name in changed)
    rows = groups.select("*", signs).select(*kept, *chosen, sign)
    return Frame(rows, Struct((), ty.UNIT), sign, retracts=True)


def _share(compiler: TermCompiler, part_: Part, group: str, value: Layout, weight: str | None, env: Environment) -> str:
    """The aggregate function for one part: over the shares of the rows."""
    x = compiler.names.fresh("x")
    unit = normalize(substitute(part_.term, {group: Single(Var(x, value.type))}))
    scope = {**env, x: value}
    if isinstance(part_.monoid, Aggregate):
        one, at = compiler.expressions.sql(unit, scope), place(part_.term.span)
        return total_sql(part_.monoid, part_.term.type, one, weight, narrow=is_narrow(unit), at=at)
    array = compiler.expressions.array(unit, scope)
    repeated = array if weight is None else f"flatten(array_repeat({array}, CAST({weight} AS INT)))"
    return f"flatten(collect_list({repeated}))"


def co_grouped(compiler: TermCompiler, term: CMap) -> Frame:
    """`cMap(λ(k, (xs, ys)). e, coGroup(c, d))` where e uses a side as a whole: both sides by key, side by side."""
    key, groups, body = function_parts(term)
    source = term.source
    assert isinstance(source, CoGroup)
    assert isinstance(groups, PTuple)
    parts, rest = split(body, bound_names(groups), compiler.names, one_group=True)
    key_type = pair_type(source)[0]
    sides = [compiler.bag(side) for side in (source.left, source.right)]
    layouts = [keyed(compiler, frame, key_type, joins=True) for frame in sides]
    columns = with_columns(layouts[0][0], compiler.columns.take())
    names = [compiler.fresh() for _ in parts]
    wanted: list[tuple[Part, str, list[str]]] = []
    """The columns of the groups, beside each the shares that the sides have of it."""
    changed = []
    for p, name in zip(parts, names, strict=True):
        for group, frame, (key_layout, value) in zip(groups.items, sides, layouts, strict=True):
            assert isinstance(group, PVar)
            if _is_of(p, group):
                for weight, suffix in _signs(frame, body, group, parts):
                    share = _share(compiler, p, group.name, value, weight, bind(key, key_layout))
                    absent = f"first(CAST(NULL AS {sql_type(p.term.type)}))"
                    wanted.append((p, name + suffix, [share if side is frame else absent for side in sides]))
                changed += [name] if frame.retracts else []
    tables = []
    for i, (frame, (key_layout, _)) in enumerate(zip(sides, layouts, strict=True)):
        keys = [f"{a.sql} AS {c.sql}" for a, c in zip(atoms(key_layout), atoms(columns), strict=True)]
        measures = [f"{shares[i]} AS {name}" for _, name, shares in wanted]
        tables.append(frame.df.aggregate(keys, [*measures, f"{_counted(frame)} AS n"]).where("n <> 0"))
    present = [f"{_present(p, name)} AS {name}" for p, name, _ in wanted]
    df = union_all(tables).aggregate([atom.sql for atom in atoms(columns)], [*present, "count(1) AS n"])
    env = bind(key, columns) | {p.name: _stored(p, name) for p, name in zip(parts, names, strict=True)}
    return compiler.over(rest, _of_groups(compiler, df, columns, names, changed), env)


def _is_of(p: Part, group: PVar) -> bool:
    """Whether a part is made of a group."""
    return group.name in free_vars(p.term)


def _counted(frame: Frame) -> str:
    """How many elements a group has; of a change, how many rows."""
    return "count(1)" if frame.weight is None or frame.retracts else f"sum({frame.weight})"


def _stored(p: Part, name: str) -> Atom:
    """The column that holds a part; a group that is collected is never missing."""
    return Atom(quote(name), p.term.type, not ty.is_collection(p.term.type))


def _present(p: Part, name: str) -> str:
    """The value of the side that has one."""
    if ty.is_collection(p.term.type):
        return f"coalesce(first({quote(name)}, true), CAST(array() AS {sql_type(p.term.type)}))"
    assert isinstance(p.monoid, Aggregate)
    return aggregate_sql(p.monoid, p.term.type, quote(name), None)
