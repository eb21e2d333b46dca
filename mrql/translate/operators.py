"""Operators: arithmetic, comparison, logic, unions, and those that collections have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from mrql import syntax
from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.functions import Function
from mrql.algebra.terms import Lit, Term, Union
from mrql.translate.coercion import coerce
from mrql.translate.data_types import compared
from mrql.translate.json_values import met
from mrql.translate.lifted import branch_hint, lifted_hint
from mrql.translate.literals import decimal, integer
from mrql.translate.quantifiers import member
from mrql.translate.scalar_functions import apply
from mrql.translate.scope import Scope
from mrql.translate.set_operations import except_or_intersect
from mrql.translate.time_constants import met_by_times

BINARY: dict[syntax.BinaryOp, Function] = {
    syntax.BinaryOp.ADD: fn.PLUS,
    syntax.BinaryOp.SUBTRACT: fn.MINUS,
    syntax.BinaryOp.MULTIPLY: fn.TIMES,
    syntax.BinaryOp.DIVIDE: fn.DIVIDE,
    syntax.BinaryOp.MOD: fn.MODULO,
    syntax.BinaryOp.EQUAL: fn.EQ,
    syntax.BinaryOp.NOT_EQUAL: fn.NE,
    syntax.BinaryOp.LESS: fn.LT,
    syntax.BinaryOp.LESS_EQUAL: fn.LE,
    syntax.BinaryOp.GREATER: fn.GT,
    syntax.BinaryOp.GREATER_EQUAL: fn.GE,
    syntax.BinaryOp.AND: fn.AND,
    syntax.BinaryOp.OR: fn.OR,
}
COMPARISONS = {"=", "<>", "<", "<=", ">", ">="}


def unary(expr: syntax.Unary, scope: Scope) -> Term:
    if expr.op is syntax.UnaryOp.NEGATE and isinstance(expr.expr, syntax.IntLit):
        return integer(-expr.expr.value, expr.span)
    if expr.op is syntax.UnaryOp.NEGATE and isinstance(expr.expr, syntax.DecimalLit):
        return decimal(expr.expr.value.copy_negate(), expr.span)
    function = fn.NEGATE if expr.op is syntax.UnaryOp.NEGATE else fn.NOT
    term = scope.translate(expr.expr)
    return apply(function, [term], expr.span, shown=expr.op.value, hint=lifted_hint(expr, [term], scope))


def binary(expr: syntax.Binary, scope: Scope) -> Term:
    _no_null_beside(expr)
    left, right = met(expr.op, scope.translate(expr.left), scope.translate(expr.right))
    left, right = met_by_times(expr.op, left, right)
    if expr.op is syntax.BinaryOp.UNION or (expr.op is syntax.BinaryOp.ADD and ty.is_collection(left.type)):
        joined = ty.join_types(left.type, right.type)
        if joined is None or not ty.is_collection(joined):
            alike = "both sides must be bags, or lists"
            if isinstance(left.type, ty.BagType | ty.ListType) and type(left.type) is type(right.type):
                alike = "no type has the elements of both: bring them into one, as by `x as string`"
            found = branch_hint((expr.left, expr.right), (left, right), scope)
            if expr.op is syntax.BinaryOp.ADD:  # which also adds numbers and strings
                found = lifted_hint(expr, [left, right], scope)
            hint = found or alike
            raise UserError(f"`{expr.op.value}` of {left.type} and {right.type}", expr.span, hint)
        return Union(
            coerce(left, joined, expr.left.span, "the left side"),
            coerce(right, joined, expr.right.span, "the right side"),
        )
    if expr.op in BINARY:
        sides = [left, right]
        if BINARY[expr.op].name in COMPARISONS and ty.join_types(left.type, right.type) is not None:
            sides = [compared(side, scope.globals) for side in sides]
        sides = [_digits_of_its_own(side, other) for side, other in zip(sides, reversed(sides), strict=True)]
        hints = (_text_hint(expr, sides), _time_hint(expr, sides), _comparison_hint(expr, sides))
        mistake = lifted_hint(expr, sides, scope) or next(filter(None, hints), None)
        return apply(BINARY[expr.op], sides, expr.span, hint=mistake)
    if expr.op is syntax.BinaryOp.IN:
        if isinstance(expr.right, syntax.TupleExpr):
            written = expr.right.span.text[1:-1]
            message = f"`in` takes a collection on its right, not {right.type}"
            raise UserError(message, expr.span, f"write `{{{written}}}`")
        sought = lifted_hint(expr, [left], scope) or _within_hint(expr, [left, right])
        return member(left, right, scope.globals, expr.span, sought)
    return except_or_intersect(left, right, expr, scope.globals.names)


def _no_null_beside(expr: syntax.Binary) -> None:
    """Raises: UserError for a comparison with `null`, which is never true; `is_null` is what is meant."""
    if expr.op not in BINARY or BINARY[expr.op].name not in COMPARISONS:
        return
    for null, other in ((expr.left, expr.right), (expr.right, expr.left)):
        if isinstance(null, syntax.NullLit):
            asked = other.span.text if isinstance(other, syntax.Name | syntax.Field | syntax.Nth) else "e"
            hint = f"`is_null({asked})` is true where a value is missing, and `not is_null({asked})` where it is not"
            raise UserError(f"`{expr.op.value} null` holds of no value, not even of `null`", expr.span, hint)


def _digits_of_its_own(side: Term, other: Term) -> Term:
    """An integer constant beside a decimal as a decimal of the digits that it is written with, not of those of any
    `int`; any other side as it is."""
    if isinstance(other.type, ty.DecimalType) and isinstance(side, Lit) and isinstance(side.value, int):
        return decimal(Decimal(side.value), side.span) if side.type in (ty.INT, ty.LONG) and side.span else side
    return side


def _within_hint(expr: syntax.Binary, sides: Sequence[Term]) -> str | None:
    """The hint for `in` between two strings."""
    if [side.type for side in sides] != [ty.STRING, ty.STRING]:
        return None
    return f"of texts it is `contains({expr.right.span.text}, {expr.left.span.text})`"


def _text_hint(expr: syntax.Binary, sides: Sequence[Term]) -> str | None:
    """The hint for a string that is added to another type, or multiplied by an integer."""
    types = [side.type for side in sides]
    if expr.op is syntax.BinaryOp.MULTIPLY and ty.STRING in types and any(map(ty.is_integral, types)):
        text, times = (expr.left, expr.right) if types[0] == ty.STRING else (expr.right, expr.left)
        return f"`repeated({text.span.text}, {times.span.text})` is the text so many times"
    if expr.op is not syntax.BinaryOp.ADD or [side.type for side in sides].count(ty.STRING) != 1:
        return None
    other = expr.left if sides[1].type == ty.STRING else expr.right
    return f"`({other.span.text} as string)` is a text"


def _comparison_hint(expr: syntax.Binary, sides: Sequence[Term]) -> str | None:
    """The hint for a number, a date or a timestamp that is compared with a text."""
    types = [side.type for side in sides]
    others = [t for t in types if t in (ty.DATE, ty.TIMESTAMP) or ty.is_numeric(t)]
    if BINARY[expr.op].name not in COMPARISONS or ty.STRING not in types or not others:
        return None
    text = expr.left if types[0] == ty.STRING else expr.right
    if isinstance(text, syntax.StringLit) and ty.is_numeric(others[0]):
        return "a number has no quotes" if re.fullmatch(r"\s*[-+]?[\d.,]+\s*", text.value) else None
    return f"`{text.span.text} as {others[0]}` takes a text as one"


def _time_hint(expr: syntax.Binary, sides: Sequence[Term]) -> str | None:
    """The hint for dates and timestamps that are added, subtracted or compared like numbers."""
    types = [side.type for side in sides]
    times = [t for t in types if t in (ty.DATE, ty.TIMESTAMP)]
    a, b = expr.left.span.text, expr.right.span.text
    if not times:
        return None
    if BINARY[expr.op].name in COMPARISONS and any(map(ty.is_numeric, types)):
        time = a if types[0] in times else b
        return f'`year({time})` is a number, and `date("2026-01-31")` a day'
    if expr.op in (syntax.BinaryOp.ADD, syntax.BinaryOp.SUBTRACT):
        if len(times) == 1:
            return "`add_days(d, n)` is n days later, `add_hours(t, n)` n hours; a negative n is earlier"
        days, seconds = f"`date_diff({a}, {b})` is days", f"`seconds_between({a}, {b})` is seconds"
        return days if times == [ty.DATE, ty.DATE] else seconds
    return None
