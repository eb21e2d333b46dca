"""Terms over sources as one value: a frame of one row, in which a whole collection is an array."""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.integer_ranges import is_narrow
from mrql.algebra.analysis.missing import may_be_missing
from mrql.algebra.analysis.traversal import map_children, subterms
from mrql.algebra.analysis.variables import free_vars
from mrql.algebra.errors import InternalError
from mrql.algebra.functions import TRACE
from mrql.algebra.monoids import Aggregate, Fold
from mrql.algebra.terms import (
    Cast,
    Get,
    If,
    Let,
    ListOf,
    Nth,
    OrderBy,
    Prim,
    Reduce,
    Repeat,
    Single,
    Take,
    Term,
    Union,
    Var,
    element_type,
)
from mrql.algebra.types import Type
from mrql.rewrite.normalize.drop_traces import is_trace
from mrql.runtime.spark.compiler.evaluation_guards import with_guards_inside
from mrql.runtime.spark.compiler.loop_values import loop_value, opened_term
from mrql.runtime.spark.compiler.protocol import TermCompiler
from mrql.runtime.spark.compiler.trace import trace
from mrql.runtime.spark.expressions.aggregates import total_sql
from mrql.runtime.spark.expressions.layout import Atom, Layout, quote, to_sql
from mrql.runtime.spark.expressions.literals import place
from mrql.runtime.spark.expressions.reductions import folded_sql, reduced_sql
from mrql.runtime.spark.expressions.sorting import taken_sql
from mrql.runtime.spark.relation.frame import Frame, as_a_bag, expanded, flat
from mrql.runtime.spark.relation.relation import Relation


def one(compiler: TermCompiler, term: Term) -> Frame:
    """One row with the value of a term, a bag as an array."""
    compiler.meet(term)
    term = with_guards_inside(term, compiler.reads, compiler.sources)
    match term:
        case Var(name, t) if name in compiler.sources and not ty.is_collection(t):
            return compiler.sources[name]
        case Reduce(Aggregate() as monoid, source) if compiler.reads(source):
            return total(compiler, monoid, term.type, as_a_bag(compiler.bag(source)), place(term.span))
        case Reduce(Fold() as fold, source) if compiler.reads(source):
            return folded(compiler, fold, collected(compiler, source))
        case Prim(function, (inner,)) if function == TRACE:
            trace(compiler, term)
            return compiler.one(inner)
        case _ if (opened := opened_term(compiler, term)) is not term:
            return compiler.one(opened)
        case Nth() | Get() | Prim():
            return assembled(compiler, term)
        case If() | Cast() if may_be_missing(term):
            return assembled(compiler, term)
        case _ if ty.is_collection(term.type):
            return collected(compiler, term)
        case _:
            return assembled(compiler, term)


def assembled(compiler: TermCompiler, term: Term) -> Frame:
    """One row with a scalar over the values of several bulk terms, as in `(sum(S), sum(T))`."""
    scope: dict[str, Layout] = {}
    inner, singles = parts_attached(compiler, term, scope)
    df, *others = (single.df for single in singles or [compiler.one_row()])
    for other in others:
        df = df.cross(other.broadcast())
    return Frame(df, compiler.expressions.value(inner, scope))


def parts_attached(compiler: TermCompiler, term: Term, scope: dict[str, Layout]) -> tuple[Term, list[Frame]]:
    """A scalar term with its bulk parts as variables, and the one-row frames that hold their values."""
    frames: list[Frame] = []

    def visit(part_term: Term) -> Term:
        if is_trace(part_term) and free_vars(part_term) <= compiler.sources.keys():
            trace(compiler, part_term)
            return visit(part_term.args[0])
        if not compiler.reads(part_term):
            return map_children(part_term, visit) if any(map(is_trace, subterms(part_term))) else part_term
        if isinstance(part_term, Repeat) and free_vars(part_term) <= compiler.sources.keys():
            return visit(loop_value(compiler, part_term))
        if puts_together(part_term) or isinstance(part_term, Nth | Get):
            return map_children(part_term, visit)
        if ty.is_collection(part_term.type) or isinstance(part_term, Reduce | Var):
            single = flat(compiler.one(part_term), compiler.columns)
            name = compiler.names.fresh("t")
            scope[name] = single.value
            frames.append(single)
            return Var(name, part_term.type)
        return map_children(part_term, visit)

    return visit(term), frames


def total(compiler: TermCompiler, monoid: Aggregate, t: Type, frame: Frame, at: str) -> Frame:
    """A total aggregation: one row, even over no rows."""
    element = Single(Var("x", frame.value.type))
    share, narrow = (
        reduced_sql(compiler.expressions, monoid, t, element, {"x": frame.value}),
        is_narrow(Reduce(monoid, element)),
    )
    name = compiler.fresh()
    df = frame.df.aggregate([], [f"{total_sql(monoid, t, share, frame.weight, narrow=narrow, at=at)} AS {name}"])
    return Frame(df, Atom(quote(name), t))


def folded(compiler: TermCompiler, fold: Fold, whole: Frame) -> Frame:
    """One row with a reduction by a monoid that the query defines, over all elements as one array."""
    name = compiler.fresh()
    df = whole.df.select(f"{folded_sql(compiler.expressions, fold, to_sql(whole.value))} AS {name}")
    return Frame(df, Atom(quote(name), fold.type))


def collected(compiler: TermCompiler, term: Term) -> Frame:
    """A whole collection as one array."""
    name = compiler.fresh()
    if isinstance(term.type, ty.ListType):
        return collected_list(compiler, term, name)
    frame = expanded(as_a_bag(compiler.bag(term)), compiler.columns)
    df = frame.df.aggregate([], [f"flatten(collect_list(array({to_sql(frame.value)}))) AS {name}"])
    return Frame(df, Atom(quote(name), term.type, False))


def _with_number(compiler: TermCompiler, whole: Frame, n: Term) -> tuple[Relation, str]:
    """The one row of a frame, joined with the value of `n` where this reads sources, and the SQL of `n`."""
    if not compiler.reads(n):
        return whole.df, compiler.expressions.sql(n, {})
    single = flat(compiler.one(n), compiler.columns)
    return whole.df.cross(single.df.broadcast()), to_sql(single.value)


def collected_list(compiler: TermCompiler, term: Term, name: str) -> Frame:
    """An ordered collection as one array: collected with its order key, and sorted as an array."""
    match term:
        case Take(n, inner):
            whole = collected_list(compiler, inner, compiler.fresh())
            items = compiler.expressions.array(Var("items", inner.type), {"items": whole.value})
            df, number = _with_number(compiler, whole, n)
            return Frame(df.select(f"{taken_sql(items, number)} AS {name}"), Atom(quote(name), term.type, False))
        case OrderBy(source, descending):
            pairs = flat(collected(compiler, source), compiler.columns)
            bound = Var("pairs", source.type)
            array = compiler.expressions.array(OrderBy(bound, descending), {"pairs": pairs.value})
            return Frame(pairs.df.select(f"{array} AS {name}"), Atom(quote(name), term.type, False))
        case _ if not compiler.reads(term):
            df = compiler.one_row().df.select(f"{compiler.expressions.sql(term, {})} AS {name}")
            return Frame(df, Atom(quote(name), term.type))
        case Repeat() | Let() if (opened := opened_term(compiler, term)) is not term:
            return collected_list(compiler, opened, name)
        case ListOf() | Union() | If() | Cast() | Prim() | Nth() | Get() if compiler.reads(term):
            whole = assembled(compiler, term)
            made = Atom(quote(name), term.type, may_be_missing(term))
            return Frame(whole.df.select(f"{to_sql(whole.value)} AS {name}"), made)
        case _:
            raise InternalError("bulk", f"a list over sources by {type(term).__name__}")


def listed(compiler: TermCompiler, term: Term) -> Frame:
    """One row for each element of a list, in its order, or of a bag that is one value."""
    whole = compiler.one(term)
    frame, element = compiler.exploded(whole, to_sql(whole.value), element_type(term))
    return attrs.evolve(frame, value=element)


def puts_together(term: Term) -> bool:
    """Whether a term combines its children, each of which may be a value over sources by itself."""
    match term:
        case ListOf() | Prim():
            return True
        case If() | Cast():
            return isinstance(term.type, ty.ListType) or may_be_missing(term)
        case Union():
            return isinstance(term.type, ty.ListType)
        case _:
            return False
