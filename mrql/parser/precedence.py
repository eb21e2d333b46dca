"""How tightly operators bind.

The grammar gives a flat row of operands and operators; the table below and Dijkstra's two stacks make a tree of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import attrs
from lark import Token

from mrql.algebra.errors import UserError
from mrql.algebra.span import Source, Span
from mrql.syntax import nodes as s


@attrs.frozen
class Binding:
    """How tightly an operator binds (a greater `level` binds tighter), and whether `a op b op c` means anything."""

    level: int
    chains: bool = True


BINARY: dict[str, tuple[Binding, s.BinaryOp]] = {
    spelling: (binding, op)
    for binding, operators in (
        (Binding(1), {"or": s.BinaryOp.OR}),
        (Binding(2), {"and": s.BinaryOp.AND}),
        # Level 3 is `not`.
        (
            Binding(4, chains=False),
            {
                "=": s.BinaryOp.EQUAL,
                "<>": s.BinaryOp.NOT_EQUAL,
                "!=": s.BinaryOp.NOT_EQUAL,
                "<": s.BinaryOp.LESS,
                "<=": s.BinaryOp.LESS_EQUAL,
                ">": s.BinaryOp.GREATER,
                ">=": s.BinaryOp.GREATER_EQUAL,
                "in": s.BinaryOp.IN,
                "not in": s.BinaryOp.IN,
            },
        ),
        (
            Binding(5),
            {"union": s.BinaryOp.UNION, "intersect": s.BinaryOp.INTERSECT, "except": s.BinaryOp.EXCEPT},
        ),
        # Level 6 are the ranges.
        (Binding(7), {"+": s.BinaryOp.ADD, "-": s.BinaryOp.SUBTRACT}),
        (
            Binding(8),
            {"*": s.BinaryOp.MULTIPLY, "/": s.BinaryOp.DIVIDE, "%": s.BinaryOp.MOD, "mod": s.BinaryOp.MOD},
        ),
    )
    for spelling, op in operators.items()
}
RANGES = dict.fromkeys(("..", "..."), Binding(6, chains=False))
PREFIX = {"not": Binding(3), "-": Binding(9), "+": Binding(9), "exists": Binding(9)}


@attrs.frozen
class Operator:
    """An operator that waits for its right operand."""

    token: Token
    spelling: str
    binding: Binding
    prefix: bool


class Chain:
    """Puts a flat row of operands and operators together, by precedence."""

    def __init__(self, source: Source, offset: int) -> None:
        self._source = source
        self._offset = offset
        self._operands: list[s.Expr] = []
        self._operators: list[Operator] = []

    def build(self, items: Iterable[Any]) -> s.Expr:
        after_operand = False
        for item in items:
            if isinstance(item, Token):
                self._push(item, prefix=not after_operand)
                after_operand = False
            else:
                self._operands.append(item)
                after_operand = True
        while self._operators:
            self._apply(self._operators.pop())
        (result,) = self._operands
        return result

    def _push(self, token: Token, prefix: bool) -> None:
        spelling = " ".join(token.lower().split())
        if prefix:
            self._operators.append(Operator(token, spelling, PREFIX[spelling], prefix=True))
            return
        binding = RANGES.get(spelling) or BINARY[spelling][0]
        while self._operators and self._operators[-1].binding.level >= binding.level:
            if self._operators[-1].binding == binding and not binding.chains:
                self._refuse_chain(token)
            self._apply(self._operators.pop())
        self._operators.append(Operator(token, spelling, binding, prefix=False))

    def _refuse_chain(self, token: Token) -> NoReturn:
        if token in RANGES:
            raise UserError("ranges do not chain", self._span(token))
        raise UserError("comparisons do not chain", self._span(token), "write `a < b and b < c`, or use round brackets")

    def _apply(self, operator: Operator) -> None:
        right = self._operands.pop()
        if operator.prefix:
            self._operands.append(self._prefixed(operator, right))
            return
        left = self._operands.pop()
        self._operands.append(self._joined(operator, left, right, left.span.to(right.span)))

    def _prefixed(self, operator: Operator, operand: s.Expr) -> s.Expr:
        span = self._span(operator.token).to(operand.span)
        match operator.spelling:
            case "not":
                return s.Unary(s.UnaryOp.NOT, operand, span)
            case "-":
                return s.Unary(s.UnaryOp.NEGATE, operand, span)
            case "exists":
                return s.Call("exists", (operand,), span)
            case _:
                return operand

    def _joined(self, operator: Operator, left: s.Expr, right: s.Expr, span: Span) -> s.Expr:
        if operator.spelling in RANGES:
            return s.RangeExpr(left, right, operator.spelling == "...", span)
        joined = s.Binary(BINARY[operator.spelling][1], left, right, span)
        return s.Unary(s.UnaryOp.NOT, joined, span) if operator.spelling == "not in" else joined

    def _span(self, token: Token) -> Span:
        return Span(self._source, self._offset + (token.start_pos or 0), self._offset + (token.end_pos or 0))
