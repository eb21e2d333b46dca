"""Operators: arithmetic, comparison, logic, unions, and those that collections have."""

from __future__ import annotations

from mrql import syntax
from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.functions import Function
from mrql.algebra.terms import Term, Union
from mrql.translate.coercion import coerce
from mrql.translate.data_types import compared
from mrql.translate.json_values import met
from mrql.translate.literals import integer
from mrql.translate.quantifiers import member
from mrql.translate.scalar_functions import apply
from mrql.translate.scope import Scope
from mrql.translate.set_operations import except_or_intersect

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
    function = fn.NEGATE if expr.op is syntax.UnaryOp.NEGATE else fn.NOT
    return apply(function, [scope.translate(expr.expr)], expr.span, shown=expr.op.value)


def binary(expr: syntax.Binary, scope: Scope) -> Term:
    left, right = met(expr.op, scope.translate(expr.left), scope.translate(expr.right))
    if expr.op is syntax.BinaryOp.UNION or (expr.op is syntax.BinaryOp.ADD and ty.is_collection(left.type)):
        joined = ty.join_types(left.type, right.type)
        if joined is None or not ty.is_collection(joined):
            raise UserError(
                f"`{expr.op.value}` of {left.type} and {right.type}", expr.span, "both sides must be bags, or lists"
            )
        return Union(
            coerce(left, joined, expr.left.span, "the left side"),
            coerce(right, joined, expr.right.span, "the right side"),
        )
    if expr.op in BINARY:
        sides = [left, right]
        if BINARY[expr.op].name in COMPARISONS and ty.join_types(left.type, right.type) is not None:
            sides = [compared(side, scope.globals) for side in sides]
        return apply(BINARY[expr.op], sides, expr.span)
    if expr.op is syntax.BinaryOp.IN:
        return member(left, right, scope.globals, expr.span)
    return except_or_intersect(left, right, expr, scope.globals.names)
