"""The terms that Python expressions and functions stand for: one function for each kind of term."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import date, datetime
from decimal import Decimal
from functools import reduce as fold_left
from typing import TypeAlias

import attrs

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
from mrql.algebra.errors import UserError
from mrql.algebra.functions import Function
from mrql.algebra.monoids import Monoid
from mrql.algebra.notation.parser import parse_monoid, parse_type
from mrql.algebra.notation.printer import show
from mrql.algebra.notation.typecheck import complaints, shorten
from mrql.algebra.terms import (
    LOOP_MAX_STEPS,
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
    PAny,
    Pattern,
    Prim,
    PTuple,
    PVar,
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
)
from mrql.algebra.types import Type
from mrql.algebra.values.decimals import literal_type


@attrs.frozen(eq=False, repr=False)
class Expr:
    """A term under construction, with Python's operators.

    `x.A` is a field of a record (`x["A"]` where the name is taken), `x[0]` a part of a tuple; `a, b = x` takes a tuple
    apart. `==` and the other comparisons build terms; `&`, `|`, `~` are `and`, `or`, `not`.
    """

    term: Term

    @property
    def type(self) -> Type:
        return self.term.type

    def __repr__(self) -> str:
        return show(self.term)

    def __getattr__(self, name: str) -> Expr:
        if name.startswith("_"):  # Python and its tools ask for their own protocols this way
            raise AttributeError(name)
        return get(self, name)

    def __getitem__(self, part: int | str) -> Expr:
        return nth(self, part) if isinstance(part, int) else get(self, part)

    def __iter__(self) -> Iterator[Expr]:
        if not isinstance(self.type, ty.TupleType):
            raise TypeError(f"only tuples are taken apart, not {self.type}")
        return (nth(self, i) for i in range(len(self.type.items)))

    def __bool__(self) -> bool:
        raise TypeError("a term has no truth value yet: use &, |, ~ or if_ in place of and, or, not and if")

    __hash__ = None  # type: ignore[assignment]  # equality builds a term

    def __eq__(self, other: Operand) -> Expr:  # type: ignore[override]
        return _apply(fn.EQ, self, other)

    def __ne__(self, other: Operand) -> Expr:  # type: ignore[override]
        return _apply(fn.NE, self, other)

    def __lt__(self, other: Operand) -> Expr:
        return _apply(fn.LT, self, other)

    def __le__(self, other: Operand) -> Expr:
        return _apply(fn.LE, self, other)

    def __gt__(self, other: Operand) -> Expr:
        return _apply(fn.GT, self, other)

    def __ge__(self, other: Operand) -> Expr:
        return _apply(fn.GE, self, other)

    def __add__(self, other: Operand) -> Expr:
        return _apply(fn.PLUS, self, other)

    def __radd__(self, other: Operand) -> Expr:
        return _apply(fn.PLUS, other, self)

    def __sub__(self, other: Operand) -> Expr:
        return _apply(fn.MINUS, self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return _apply(fn.MINUS, other, self)

    def __mul__(self, other: Operand) -> Expr:
        return _apply(fn.TIMES, self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return _apply(fn.TIMES, other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return _apply(fn.DIVIDE, self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return _apply(fn.DIVIDE, other, self)

    def __mod__(self, other: Operand) -> Expr:
        return _apply(fn.MODULO, self, other)

    def __rmod__(self, other: Operand) -> Expr:
        return _apply(fn.MODULO, other, self)

    def __neg__(self) -> Expr:
        return _apply(fn.NEGATE, self)

    def __and__(self, other: Operand) -> Expr:
        return _apply(fn.AND, self, other)

    def __rand__(self, other: Operand) -> Expr:
        return _apply(fn.AND, other, self)

    def __or__(self, other: Operand) -> Expr:
        return _apply(fn.OR, self, other)

    def __ror__(self, other: Operand) -> Expr:
        return _apply(fn.OR, other, self)

    def __invert__(self) -> Expr:
        return _apply(fn.NOT, self)


Operand: TypeAlias = "Expr | Term | bool | int | float | Decimal | str | tuple[Operand, ...] | None"
"""What stands for a term: an expression, a term, a Python value, a Python tuple of such."""
Written: TypeAlias = Type | str
"""A type, or its text: `{<A: long>}`."""
Body: TypeAlias = Callable[..., Operand]


def expr(value: Operand) -> Expr:
    """The expression that a Python value, a tuple of expressions or a term stands for."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, tuple):
        return tup(*value)
    if value is None or isinstance(value, bool | int | float | Decimal | str):
        return lit(value)
    if not isinstance(value, Term):
        raise UserError(f"{value!r} stands for no term")
    return Expr(value)


# --- scalars ------------------------------------------------------------------------------------


def lit(value: bool | int | float | Decimal | str | date | None, type: Written | None = None) -> Expr:
    """A constant; without a type an `int` where it fits (else a `long`), a `double`, a decimal, a `bool`, a
    `string`, a `date` or a `timestamp`.

    >>> lit(1), lit(1, "long"), lit(1, "double"), lit(2**40)
    (1, 1L, 1.0, 1099511627776L)
    """
    t = _literal_type(value) if type is None else _type(type)
    if isinstance(t, ty.DecimalType) and isinstance(value, int | Decimal) and not isinstance(value, bool):
        value = fn.convert(value, t)
    return _made(Lit(float(value) if isinstance(value, int) and t in ty.FRACTIONS else value, t))


def null(type: Written) -> Expr:
    """A missing value of a type."""
    return lit(None, type)


def var(name: str, type: Written) -> Expr:
    """A free variable."""
    return Expr(Var(name, _type(type)))


def tup(*items: Operand) -> Expr:
    return Expr(Tup(tuple(expr(item).term for item in items)))


def pair(left: Operand, right: Operand) -> Expr:
    return tup(left, right)


def record(**fields: Operand) -> Expr:
    """`<A: a, …>`."""
    return _made(Rec(tuple((name, expr(item).term) for name, item in fields.items())))


def nth(e: Operand, index: int) -> Expr:
    return _made(Nth(expr(e).term, index))


def get(e: Operand, name: str) -> Expr:
    return _made(Get(expr(e).term, name))


def call(function: str | Function, *args: Operand) -> Expr:
    """A scalar function, by its name."""
    if isinstance(function, Function):
        return _apply(function, *args)
    if function not in fn.FUNCTIONS:
        raise UserError(f"there is no function {function}")
    return _apply(fn.FUNCTIONS[function], *args)


def cast(e: Operand, type: Written) -> Expr:
    return _made(Cast(expr(e).term, _type(type)))


def if_(condition: Operand, then: Operand, otherwise: Operand) -> Expr:
    return _made(If(expr(condition).term, expr(then).term, expr(otherwise).term))


def let(value: Operand, body: Body) -> Expr:
    """`let p = value in body(p)`.

    >>> let((1, 2), lambda x, y: x + y)
    let (x, y) = (1, 2) in x + y
    """
    bound = expr(value).term
    function = _function(body, bound.type)
    return _made(Let(function.param, bound, function.body))


def and_(*conditions: Operand) -> Expr:
    return fold_left(lambda a, b: a & b, map(expr, conditions)) if conditions else lit(True)


def or_(*conditions: Operand) -> Expr:
    return fold_left(lambda a, b: a | b, map(expr, conditions)) if conditions else lit(False)


def not_(condition: Operand) -> Expr:
    return ~expr(condition)


def is_null(e: Operand) -> Expr:
    return _apply(fn.IS_NULL, e)


# --- collections --------------------------------------------------------------------------------


def stream(name: str, type: Written) -> Expr:
    return _made(Stream(name, _type(type)))


def table(name: str, type: Written) -> Expr:
    """A data source that no batch changes."""
    return _made(Stream(name, _type(type), static=True))


def empty(type: Written) -> Expr:
    """`{}` or `[]`, by its collection type."""
    return _made(Empty(_type(type)))


def single(item: Operand) -> Expr:
    return _made(Single(expr(item).term))


def bag(first: Operand, *rest: Operand) -> Expr:
    """`{a} ⊎ {b} ⊎ …`"""
    return union(*map(single, (first, *rest)))


def list_(first: Operand, *rest: Operand) -> Expr:
    return _made(ListOf(tuple(expr(item).term for item in (first, *rest))))


def union(first: Operand, *rest: Operand) -> Expr:
    """`⊎` on bags, `++` on lists."""
    return fold_left(lambda a, b: _made(Union(a.term, expr(b).term)), rest, expr(first))


def cmap(f: Body, source: Operand) -> Expr:
    """`{z | x ∈ source, z ∈ f(x)}`: `f` returns a collection."""
    over = expr(source).term
    return _made(CMap(_function(f, _element(over)), over))


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
    return _made(GroupBy(expr(source).term))


def co_group(left: Operand, right: Operand) -> Expr:
    return _made(CoGroup(expr(left).term, expr(right).term))


def reduce(monoid: Monoid | str, source: Operand) -> Expr:
    """`reduce(⊕, source)`, with the monoid as a value or as its text: `+`, `⇑⊎`, `(+ × max)`."""
    m = parse_monoid(monoid) if isinstance(monoid, str) else monoid
    return _made(Reduce(m, expr(source).term))


def order_by(source: Operand, *directions: str) -> Expr:
    """The values of pairs in the order of their keys, which are tuples; a direction, `asc` or `desc`, for each part.

    >>> order_by(single(((1, "a"), True)), "desc", "asc")
    orderBy({((1, "a"), true)}; desc, asc)
    """
    unknown = [d for d in directions if d not in ("asc", "desc")]
    if unknown:
        raise UserError(f"{unknown[0]!r} is no direction", hint="asc or desc")
    return _made(OrderBy(expr(source).term, tuple(d == "desc" for d in directions)))


def take(count: Operand, source: Operand) -> Expr:
    return _made(Take(expr(count).term, expr(source).term))


def repeat(
    f: Body, source: Operand, limit: Operand = None, *, while_: Body | None = None, most: int = LOOP_MAX_STEPS
) -> Expr:
    """`f(f(… source))`, `limit` times at most; without `while_` until a step changes nothing.

    >>> repeat(lambda x: x * 2, 1, 10), repeat(lambda n: n * 3, 1, while_=lambda n: n < 100)
    (repeat(λx. x * 2, 10, 1), repeat(λn. n * 3 while n < 100, within 10000, 1))
    """
    first = expr(source).term
    function, condition = _function(f, first.type), None
    if while_ is not None:
        test = _function(while_, first.type)
        outside = free_vars(test.body) - bound_names(test.param)
        param, body = rename_apart(function.param, function.body, outside)
        param, whole = pattern_term(param, Names({*all_names(body), *all_names(test.body), *bound_names(param)}))
        function, condition = Lambda(param, body), substitute(test.body, match_pattern(test.param, whole))
    steps = None if limit is None else expr(limit).term
    return _made(Repeat(function, first, steps, condition, most))


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
    return _apply(fn.QUOTIENT, total if is_divided else cast(total, ty.DOUBLE), sum(present))


# --- inside -------------------------------------------------------------------------------------

# How many functions are being called at the moment: makes the stand-ins of their variables distinct.
_depth: ContextVar[int] = ContextVar("_depth", default=0)


def _function(f: Body, argument: Type) -> Lambda:
    """The `λ` that a Python function stands for.

    It is called with stand-ins, which nothing else is named like; then these get the names of the parameters, and
    `substitute` sees to it that no binder inside captures them, nor they a free variable.
    """
    names = tuple(inspect.signature(f).parameters)
    depth = _depth.get()
    stand_ins = [Var(f"λ{depth}.{i}", t) for i, t in enumerate(_argument_types(names, argument))]
    token = _depth.set(depth + 1)
    try:
        body = expr(f(*map(Expr, stand_ins))).term
    finally:
        _depth.reset(token)
    used = free_vars(body)
    supply = Names(set(used))
    parts: list[Pattern] = []
    for name, stand_in in zip(names, stand_ins, strict=True):
        dropped = name.startswith("_") and stand_in.name not in used
        parts.append(PAny(stand_in.type) if dropped else PVar(supply.fresh(name.lstrip("_") or "x"), stand_in.type))
    renaming = {v.name: Var(p.name, p.type) for v, p in zip(stand_ins, parts, strict=True) if isinstance(p, PVar)}
    return Lambda(parts[0] if len(parts) == 1 else PTuple(tuple(parts)), substitute(body, renaming))


def _argument_types(names: tuple[str, ...], argument: Type) -> tuple[Type, ...]:
    """The types of a function's parameters: one takes the whole argument, several take it apart."""
    if len(names) == 1:
        return (argument,)
    match argument:
        case ty.TupleType(items) if len(items) == len(names):
            return items
        case ty.Nothing():
            return (argument,) * len(names)
        case _:
            raise UserError(f"a function of {len(names)} parameters is applied to a value of type {argument}")


def _apply(function: Function, *args: Operand) -> Expr:
    return _made(Prim(function, tuple(expr(arg).term for arg in args)))


def _made(term: Term) -> Expr:
    """The expression of a new node over good ones."""
    complaint = next(complaints(term), None)
    if complaint is not None:
        raise UserError(f"{complaint}, in: {shorten(term)}")
    return Expr(term)


def _element(source: Term) -> Type:
    if not ty.is_collection(source.type):
        raise UserError(f"{source.type} is not a collection, in: {shorten(source)}")
    return element_type(source)


def _type(t: Written) -> Type:
    return parse_type(t) if isinstance(t, str) else t


def _literal_type(value: bool | int | float | Decimal | str | date | bytes | None) -> Type:
    if isinstance(value, bool):
        return ty.BOOL
    if isinstance(value, int):
        low, high = fn.INT_RANGES[ty.INT]
        return ty.INT if low <= value <= high else ty.LONG
    if isinstance(value, float):
        return ty.DOUBLE
    if isinstance(value, Decimal):
        found = literal_type(value)
        if found is None:
            raise UserError(f"{value} has more digits than a decimal")
        return found
    if isinstance(value, date):
        return ty.TIMESTAMP if isinstance(value, datetime) else ty.DATE
    if isinstance(value, bytes):
        return ty.BYTES
    return ty.NOTHING if value is None else ty.STRING
