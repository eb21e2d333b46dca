"""Constants of the language as terms."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_never

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.functions import INT_RANGES
from mrql.algebra.span import Span
from mrql.algebra.terms import Lit
from mrql.algebra.values.decimals import literal_type, of_type


def literal(value: syntax.Literal) -> Lit:
    """A constant; an integer that an `int` cannot hold is a `long`."""
    match value:
        case syntax.IntLit(number):
            return integer(number, value.span)
        case syntax.FloatLit(number):
            return Lit(number, ty.DOUBLE, span=value.span)
        case syntax.DecimalLit(exact):
            return decimal(exact, value.span)
        case syntax.StringLit(text):
            return Lit(text, ty.STRING, span=value.span)
        case syntax.BoolLit(truth):
            return Lit(truth, ty.BOOL, span=value.span)
        case syntax.NullLit():
            return Lit(None, ty.NOTHING, span=value.span)
        case _:
            assert_never(value)


def decimal(number: Decimal, span: Span) -> Lit:
    """A constant with the digits that it is written with."""
    t = literal_type(number)
    if t is None:
        raise UserError(f"{number} has more digits than a decimal, which has {ty.MAX_PRECISION}", span)
    return Lit(of_type(number, t), t, span=span)


def integer(number: int, span: Span) -> Lit:
    for t, (low, high) in INT_RANGES.items():
        if low <= number <= high:
            return Lit(number, t, span=span)
    raise UserError(f"{number} is out of the range of a long", span)
