"""Patterns, and the expressions that turn out to be patterns."""

from __future__ import annotations

from lark import Token

from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.parser.builder import Builder
from mrql.syntax import nodes as s


class PatternBuilder(Builder):
    """The rules of patterns."""

    def variable_pattern(self, span: Span, name: Token) -> s.Pattern:
        return variable(str(name), span)

    def wildcard(self, span: Span, star: Token) -> s.Pattern:
        return s.WildcardPattern(span)

    def constant_pattern(self, span: Span, value: s.Literal) -> s.Pattern:
        return s.ConstPattern(value, span)

    def negative_pattern(self, span: Span, minus: Token, value: s.Literal) -> s.Pattern:
        return _negative(value, span)

    def tuple_pattern(self, span: Span, *items: s.Pattern) -> s.Pattern:
        return items[0] if len(items) == 1 else s.TuplePattern(items, span)

    def list_pattern(self, span: Span, *items: s.Pattern) -> s.Pattern:
        return s.ListPattern(items, span)

    def record_pattern(self, span: Span, *fields: tuple[str, s.Pattern]) -> s.Pattern:
        return s.RecordPattern(fields, span)

    def field_pattern(self, span: Span, name: Token, pattern: s.Pattern) -> tuple[str, s.Pattern]:
        return str(name), pattern

    def constructor_pattern(self, span: Span, name: Token, *args: s.Pattern) -> s.Pattern:
        return s.ConstructorPattern(str(name), args, span)

    def typed_pattern(self, span: Span, pattern: s.Pattern, type_: s.TypeExpr) -> s.Pattern:
        return s.TypedPattern(pattern, type_, span)


def variable(name: str, span: Span) -> s.Pattern:
    """The pattern that a name is."""
    return s.WildcardPattern(span) if name == "_" else s.VarPattern(name, span)


def _negative(value: s.Literal, span: Span) -> s.Pattern:
    match value:
        case s.IntLit(number):
            return s.ConstPattern(s.IntLit(-number, span), span)
        case s.FloatLit(number):
            return s.ConstPattern(s.FloatLit(-number, span), span)
        case _:
            raise UserError("only a number can have a sign", span)


def pattern_of_names(expr: s.Expr) -> s.Pattern | None:
    """`x` or `(x, (y, z))` as a pattern: `group by (i, j)` groups by the names, and keeps them as the key's parts."""
    match expr:
        case s.Name(name, span=span):
            return s.VarPattern(name, span)
        case s.TupleExpr(items, span=span) if items:
            patterns = [pattern_of_names(item) for item in items]
            known = tuple(pattern for pattern in patterns if pattern is not None)
            return s.TuplePattern(known, span) if len(known) == len(patterns) else None
        case _:
            return None


def pattern_of(expr: s.Expr) -> s.Pattern:
    """The pattern that looks like this expression."""
    span = expr.span
    match expr:
        case s.Name(name):
            return variable(name, span)
        case s.IntLit() | s.FloatLit() | s.StringLit() | s.BoolLit() | s.NullLit():
            return s.ConstPattern(expr, span)
        case s.Unary(s.UnaryOp.NEGATE, s.IntLit() | s.FloatLit() as number):
            return _negative(number, span)
        case s.TupleExpr(items):
            return s.TuplePattern(tuple(map(pattern_of, items)), span)
        case s.ListExpr(items):
            return s.ListPattern(tuple(map(pattern_of, items)), span)
        case s.RecordExpr(fields):
            return s.RecordPattern(tuple((name, pattern_of(field)) for name, field in fields), span)
        case s.Call(name, args):
            return s.ConstructorPattern(name, tuple(map(pattern_of, args)), span)
        case s.Ascribe(inner, type_):
            return s.TypedPattern(pattern_of(inner), type_, span)
        case _:
            raise UserError("expected a pattern before the `:`", span, "group by (k, n): (x.A, x.B)")
