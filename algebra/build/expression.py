"""A term under construction, with Python's operators, and the terms that these need: constants, tuples and parts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias

import attrs

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.functions import Function
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.notation.printer import show
from mrql.algebra.notation.typecheck import complaints, shorten
from mrql.algebra.terms import Get, Lit, Nth, Prim, Term, Tup
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
        return prim(fn.EQ, self, other)

    def __ne__(self, other: Operand) -> Expr:  # type: ignore[override]
        return prim(fn.NE, self, other)

    def __lt__(self, other: Operand) -> Expr:
        return prim(fn.LT, self, other)

    def __le__(self, other: Operand) -> Expr:
        return prim(fn.LE, self, other)

    def __gt__(self, other: Operand) -> Expr:
        return prim(fn.GT, self, other)

    def __ge__(self, other: Operand) -> Expr:
        return prim(fn.GE, self, other)

    def __add__(self, other: Operand) -> Expr:
        return prim(fn.PLUS, self, other)

    def __radd__(self, other: Operand) -> Expr:
        return prim(fn.PLUS, other, self)

    def __sub__(self, other: Operand) -> Expr:
        return prim(fn.MINUS, self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return prim(fn.MINUS, other, self)

    def __mul__(self, other: Operand) -> Expr:
        return prim(fn.TIMES, self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return prim(fn.TIMES, other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return prim(fn.DIVIDE, self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return prim(fn.DIVIDE, other, self)

    def __mod__(self, other: Operand) -> Expr:
        return prim(fn.MODULO, self, other)

    def __rmod__(self, other: Operand) -> Expr:
        return prim(fn.MODULO, other, self)

    def __neg__(self) -> Expr:
        return prim(fn.NEGATE, self)

    def __and__(self, other: Operand) -> Expr:
        return prim(fn.AND, self, other)

    def __rand__(self, other: Operand) -> Expr:
        return prim(fn.AND, other, self)

    def __or__(self, other: Operand) -> Expr:
        return prim(fn.OR, self, other)

    def __ror__(self, other: Operand) -> Expr:
        return prim(fn.OR, other, self)

    def __invert__(self) -> Expr:
        return prim(fn.NOT, self)


Operand: TypeAlias = "Expr | Term | bool | int | float | Decimal | str | tuple[Operand, ...] | None"
"""A value that stands for a term: an expression, a term, a Python value, a Python tuple of these."""
Written: TypeAlias = Type | str
"""A type, or its text: `{<A: long>}`."""


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


def lit(value: bool | int | float | Decimal | str | date | None, type: Written | None = None) -> Expr:
    """A constant; without a type an `int` where it fits (else a `long`), a `double`, a decimal, a `bool`, a
    `string`, a `date` or a `timestamp`.

    >>> lit(1), lit(1, "long"), lit(1, "double"), lit(2**40)
    (1, 1L, 1.0, 1099511627776L)
    """
    t = _literal_type(value) if type is None else as_type(type)
    if isinstance(t, ty.DecimalType) and isinstance(value, int | Decimal) and not isinstance(value, bool):
        value = fn.convert(value, t)
    return made(Lit(float(value) if isinstance(value, int) and t in ty.FRACTIONS else value, t))


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


def as_type(t: Written) -> Type:
    """The type, parsed if it is a text."""
    return parse_type(t) if isinstance(t, str) else t


def tup(*items: Operand) -> Expr:
    return Expr(Tup(tuple(expr(item).term for item in items)))


def nth(e: Operand, index: int) -> Expr:
    return made(Nth(expr(e).term, index))


def get(e: Operand, name: str) -> Expr:
    return made(Get(expr(e).term, name))


def prim(function: Function, *args: Operand) -> Expr:
    """A scalar function over arguments."""
    return made(Prim(function, tuple(expr(arg).term for arg in args)))


def made(term: Term) -> Expr:
    """The expression of a new node over well-formed terms.

    Raises: UserError if the node is not well formed.
    """
    complaint = next(complaints(term), None)
    if complaint is not None:
        raise UserError(f"{complaint}, in: {shorten(term)}")
    return Expr(term)
