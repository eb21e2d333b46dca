"""The precedence of operators.

The grammar gives a flat sequence of operands and operators. The table below and Dijkstra's algorithm with two stacks
make a tree of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import attrs
from lark import Token

from mrql import syntax
from mrql.algebra.errors import UserError
from mrql.algebra.span import Source, Span
from mrql.parser.sql_hints import EACH_TIME


@attrs.frozen
class Binding:
    """How tightly an operator binds (a greater `level` binds tighter), and whether `a op b op c` is allowed."""

    level: int
    chains: bool = True


BINARY: dict[str, tuple[Binding, syntax.BinaryOp]] = {
    spelling: (binding, op)
    for binding, operators in (
        (Binding(1), {"or": syntax.BinaryOp.OR}),
        (Binding(2), {"and": syntax.BinaryOp.AND}),
        # Level 3 is `not`.
        (
            Binding(4, chains=False),
            {
                "=": syntax.BinaryOp.EQUAL,
                "<>": syntax.BinaryOp.NOT_EQUAL,
                "!=": syntax.BinaryOp.NOT_EQUAL,
                "<": syntax.BinaryOp.LESS,
                "<=": syntax.BinaryOp.LESS_EQUAL,
                ">": syntax.BinaryOp.GREATER,
                ">=": syntax.BinaryOp.GREATER_EQUAL,
                "in": syntax.BinaryOp.IN,
                "not in": syntax.BinaryOp.IN,
            },
        ),
        (
            Binding(5),
            {"union": syntax.BinaryOp.UNION, "intersect": syntax.BinaryOp.INTERSECT, "except": syntax.BinaryOp.EXCEPT},
        ),
        # Level 6 are the ranges.
        (Binding(7), {"+": syntax.BinaryOp.ADD, "-": syntax.BinaryOp.SUBTRACT}),
        (
            Binding(8),
            {
                "*": syntax.BinaryOp.MULTIPLY,
                "/": syntax.BinaryOp.DIVIDE,
                "%": syntax.BinaryOp.MOD,
                "mod": syntax.BinaryOp.MOD,
            },
        ),
    )
    for spelling, op in operators.items()
}
RANGES = dict.fromkeys(("..", "..."), Binding(6, chains=False))
PREFIX = {"not": Binding(3), "-": Binding(9), "+": Binding(9), "exists": Binding(9)}


@attrs.frozen
class InfixOperator:
    """An operator that waits for its right operand."""

    token: Token
    spelling: str
    binding: Binding
    prefix: bool


class Chain:
    """Builds a tree from a flat sequence of operands and operators, by precedence."""

    def __init__(self, source: Source, offset: int) -> None:
        self._source = source
        self._offset = offset
        self._operands: list[syntax.Expr] = []
        self._operators: list[InfixOperator] = []

    def build(self, items: Iterable[Any]) -> syntax.Expr:
        operator: Token | None = None
        after_operand = False
        for item in items:
            if isinstance(item, Token):
                self._push(item, prefix=not after_operand)
                operator, after_operand = item, False
            else:
                if operator is not None and operator.type == "SET_OPERATOR":
                    _refuse_quantifier(operator.lower(), item)
                self._operands.append(item)
                after_operand = True
        while self._operators:
            self._apply(self._operators.pop())
        (result,) = self._operands
        return result

    def _push(self, token: Token, prefix: bool) -> None:
        spelling = " ".join(token.lower().split())
        if prefix:
            self._operators.append(InfixOperator(token, spelling, PREFIX[spelling], prefix=True))
            return
        binding = RANGES.get(spelling) or BINARY[spelling][0]
        while self._operators and self._operators[-1].binding.level >= binding.level:
            if self._operators[-1].binding == binding and not binding.chains:
                self._refuse_chain(token)
            self._apply(self._operators.pop())
        self._operators.append(InfixOperator(token, spelling, binding, prefix=False))

    def _refuse_chain(self, token: Token) -> NoReturn:
        if token in RANGES:
            raise UserError("ranges do not chain", self._span(token))
        raise UserError("comparisons do not chain", self._span(token), "write `a < b and b < c`, or use round brackets")

    def _apply(self, operator: InfixOperator) -> None:
        right = self._operands.pop()
        if operator.prefix:
            self._operands.append(self._prefixed(operator, right))
            return
        left = self._operands.pop()
        self._operands.append(self._joined(operator, left, right, left.span.to(right.span)))

    def _prefixed(self, operator: InfixOperator, operand: syntax.Expr) -> syntax.Expr:
        span = self._span(operator.token).to(operand.span)
        match operator.spelling:
            case "not":
                return syntax.Unary(syntax.UnaryOp.NOT, operand, span)
            case "-":
                return syntax.Unary(syntax.UnaryOp.NEGATE, operand, span)
            case "exists":
                return syntax.Call("exists", (operand,), span)
            case _:
                return operand

    def _joined(self, operator: InfixOperator, left: syntax.Expr, right: syntax.Expr, span: Span) -> syntax.Expr:
        if operator.spelling in RANGES:
            return syntax.RangeExpr(left, right, operator.spelling == "...", span)
        joined = syntax.Binary(BINARY[operator.spelling][1], left, right, span)
        return syntax.Unary(syntax.UnaryOp.NOT, joined, span) if operator.spelling == "not in" else joined

    def _span(self, token: Token) -> Span:
        return Span(self._source, self._offset + (token.start_pos or 0), self._offset + (token.end_pos or 0))


def _refuse_quantifier(operator: str, right: syntax.Expr) -> None:
    """Raises: UserError for `X union all (Y)` and `X union distinct (Y)`, in SQL part of the operator, here a function
    call."""
    called = _first_call(right)
    if called is None:
        return
    match called.span.text[: len(called.function)].lower():
        case "distinct":
            problem = f"`{operator} distinct` may be of both sides, or of the right one"
            once = f"each element once is `distinct(X {operator} Y)`"
            right_alone = "; `X union (distinct(Y))` has those of `Y` once" if operator == "union" else ""
            raise UserError(problem, called.span, once + right_alone)
        case "all" if operator == "union":
            raise UserError("`union` keeps all elements of both sides", called.span, "leave out `all`")
        case "all":
            problem = f"`{operator}` keeps or drops an element of the left side each time that it is there"
            raise UserError(problem, called.span, EACH_TIME)
        case _:
            return


def _first_call(expr: syntax.Expr) -> syntax.Call | None:
    """The call that an expression begins with, if any; the span of one in brackets begins at the bracket."""
    first: syntax.Node | None = expr
    while first is not None and not isinstance(first, syntax.Call):
        start = first.span.start
        first = next((child for child in syntax.children(first) if child.span.start == start), None)
    return first
