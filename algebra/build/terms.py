"""Terms from Python expressions and functions: a constructor for each kind of term that `expression` does not have."""

from __future__ import annotations

import inspect
from functools import reduce as fold_left

from mrql.algebra import functions as fn
from mrql.algebra import monoids
from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import (
    Names,
    all_names,
    bound_names,
    free_vars,
    match_pattern,
    pattern_term,
    rename_apart,
    substitute,
)
from mrql.algebra.build.expression import Expr, Operand, Written, as_type, expr, lit, made, prim, tup
from mrql.algebra.build.lambdas import Body, lambda_of
from mrql.algebra.errors import UserError
from mrql.algebra.functions import Function
from mrql.algebra.monoids import Monoid
from mrql.algebra.notation.parser import parse_monoid
from mrql.algebra.notation.typecheck import shorten
from mrql.algebra.terms import (
    LOOP_MAX_STEPS,
    Cast,
    CMap,
    CoGroup,
    Empty,
    GroupBy,
    If,
    Lambda,
    Let,
    ListOf,
    OrderBy,
    Rec,
    Reduce,
    Repeat,
    Single,
    Stream,
    Take,
    Term,
    Union,
    Var,
    element_type,
)
from mrql.algebra.types import Type

# --- scalars ------------------------------------------------------------------------------------


def null(type: Written) -> Expr:
    """A missing value of a type."""
    return lit(None, type)


def var(name: str, type: Written) -> Expr:
    """A free variable."""
    return Expr(Var(name, as_type(type)))


def pair(left: Operand, right: Operand) -> Expr:
    return tup(left, right)


def record(**fields: Operand) -> Expr:
    """`<A: a, …>`."""
    return made(Rec(tuple((name, expr(item).term) for name, item in fields.items())))


def call(function: str | Function, *args: Operand) -> Expr:
    """A scalar function, by its name."""
    if isinstance(function, Function):
        return prim(function, *args)
    if function not in fn.FUNCTIONS:
        raise UserError(f"there is no function {function}")
    return prim(fn.FUNCTIONS[function], *args)


def cast(e: Operand, type: Written) -> Expr:
    return made(Cast(expr(e).term, as_type(type)))


def if_(condition: Operand, then: Operand, otherwise: Operand) -> Expr:
    return made(If(expr(condition).term, expr(then).term, expr(otherwise).term))


def let(value: Operand, body: Body) -> Expr:
    """`let p = value in body(p)`.

    >>> let((1, 2), lambda x, y: x + y)
    let (x, y) = (1, 2) in x + y
    """
    bound = expr(value).term
    function = lambda_of(body, bound.type)
    return made(Let(function.param, bound, function.body))


def and_(*conditions: Operand) -> Expr:
    return fold_left(lambda a, b: a & b, map(expr, conditions)) if conditions else lit(True)


def or_(*conditions: Operand) -> Expr:
    return fold_left(lambda a, b: a | b, map(expr, conditions)) if conditions else lit(False)


def not_(condition: Operand) -> Expr:
    return ~expr(condition)


def is_null(e: Operand) -> Expr:
    return prim(fn.IS_NULL, e)


# --- collections --------------------------------------------------------------------------------


def stream(name: str, type: Written) -> Expr:
    return made(Stream(name, as_type(type)))


def table(name: str, type: Written) -> Expr:
    """A data source that no batch changes."""
    return made(Stream(name, as_type(type), static=True))


def empty(type: Written) -> Expr:
    """`{}` or `[]`, by its collection type."""
    return made(Empty(as_type(type)))


def single(item: Operand) -> Expr:
    return made(Single(expr(item).term))


def bag(first: Operand, *rest: Operand) -> Expr:
    """`{a} ⊎ {b} ⊎ …`"""
    return union(*map(single, (first, *rest)))


def list_(first: Operand, *rest: Operand) -> Expr:
    return made(ListOf(tuple(expr(item).term for item in (first, *rest))))


def union(first: Operand, *rest: Operand) -> Expr:
    """`⊎` on bags, `++` on lists."""
    return fold_left(lambda a, b: made(Union(a.term, expr(b).term)), rest, expr(first))


def cmap(f: Body, source: Operand) -> Expr:
    """`{z | x ∈ source, z ∈ f(x)}`: `f` returns a collection."""
    over = expr(source).term
    return made(CMap(lambda_of(f, _element(over)), over))


def filter(f: Body, source: Operand) -> Expr:
    """The elements for which `f` holds: `cMap(λx. if f(x) then {x} else {}, source)`."""

    def keep(*parts: Expr) -> Expr:
        return where(f(*parts), single(parts[0] if len(parts) == 1 else parts))

    keep.__signature__ = inspect.signature(f)  # type: ignore[attr-defined]  # the variables are named as f's are
    return cmap(keep, source)


def where(condition: Operand, collection: Operand) -> Expr:
    """The collection if the condition holds, else the empty one."""
    return if_(condition, collection, empty(expr(collection).type))


def group_by(source: Operand) -> Expr:
    return made(GroupBy(expr(source).term))


def co_group(left: Operand, right: Operand) -> Expr:
    return made(CoGroup(expr(left).term, expr(right).term))


def reduce(monoid: Monoid | str, source: Operand) -> Expr:
    """`reduce(⊕, source)`, with the monoid as a value or as its text: `+`, `⇑⊎`, `(+ × max)`."""
    m = parse_monoid(monoid) if isinstance(monoid, str) else monoid
    return made(Reduce(m, expr(source).term))


def order_by(source: Operand, *directions: str) -> Expr:
    """The values of pairs in the order of their keys, which are tuples; a direction, `asc` or `desc`, for each part.

    >>> order_by(single(((1, "a"), True)), "desc", "asc")
    orderBy({((1, "a"), true)}; desc, asc)
    """
    unknown = [d for d in directions if d not in ("asc", "desc")]
    if unknown:
        raise UserError(f"{unknown[0]!r} is no direction", hint="asc or desc")
    return made(OrderBy(expr(source).term, tuple(d == "desc" for d in directions)))


def take(count: Operand, source: Operand) -> Expr:
    return made(Take(expr(count).term, expr(source).term))


def repeat(
    f: Body, source: Operand, limit: Operand = None, *, while_: Body | None = None, most: int = LOOP_MAX_STEPS
) -> Expr:
    """`f(f(… source))`, `limit` times at most; without `while_` until a step changes nothing.

    >>> repeat(lambda x: x * 2, 1, 10), repeat(lambda n: n * 3, 1, while_=lambda n: n < 100)
    (repeat(λx. x * 2, 10, 1), repeat(λn. n * 3 while n < 100, within 10000, 1))
    """
    first = expr(source).term
    function, condition = lambda_of(f, first.type), None
    if while_ is not None:
        test = lambda_of(while_, first.type)
        outside = free_vars(test.body) - bound_names(test.param)
        param, body = rename_apart(function.param, function.body, outside)
        param, whole = pattern_term(param, Names({*all_names(body), *all_names(test.body), *bound_names(param)}))
        function, condition = Lambda(param, body), substitute(test.body, match_pattern(test.param, whole))
    steps = None if limit is None else expr(limit).term
    return made(Repeat(function, first, steps, condition, most))


# --- aggregations -------------------------------------------------------------------------------


def sum(source: Operand) -> Expr:
    return reduce(monoids.SUM, source)


def min(source: Operand) -> Expr:
    return reduce(monoids.MIN, source)


def max(source: Operand) -> Expr:
    return reduce(monoids.MAX, source)


def count(source: Operand) -> Expr:
    """The number of elements, missing ones included: `reduce(+, cMap(λv. {1L}, source))`."""
    return sum(cmap(lambda v: single(lit(1, ty.LONG)), source))


def avg(source: Operand) -> Expr:
    """The mean of the elements that are not missing, null where there are none.

    >>> avg(bag(1.0, 4.0))
    reduce(+, {1.0} ⊎ {4.0}) ÷ reduce(+, cMap(λv. if is_null(v) then {}:{long} else {1L}, {1.0} ⊎ {4.0}))
    """
    total = sum(source)
    present = cmap(lambda v: if_(is_null(v), empty("{long}"), single(lit(1, ty.LONG))), source)
    is_divided = total.type == ty.DOUBLE or isinstance(total.type, ty.DecimalType)
    return prim(fn.QUOTIENT, total if is_divided else cast(total, ty.DOUBLE), sum(present))


# --- inside -------------------------------------------------------------------------------------


def _element(source: Term) -> Type:
    if not ty.is_collection(source.type):
        raise UserError(f"{source.type} is not a collection, in: {shorten(source)}")
    return element_type(source)
