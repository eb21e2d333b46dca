"""Patterns, and expressions that are read as patterns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, repeat
from operator import add

from lark import Token

from mrql import syntax
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.parser.builder import Builder


class PatternBuilder(Builder):
    """The rules of patterns."""

    def variable_pattern(self, span: Span, name: Token) -> syntax.Pattern:
        return variable(str(name), span)

    def wildcard(self, span: Span, star: Token) -> syntax.Pattern:
        return syntax.WildcardPattern(span)

    def constant_pattern(self, span: Span, value: syntax.Literal) -> syntax.Pattern:
        return syntax.ConstPattern(value, span)

    def negative_pattern(self, span: Span, minus: Token, value: syntax.Literal) -> syntax.Pattern:
        return _negative(value, span)

    def tuple_pattern(self, span: Span, *items: syntax.Pattern) -> syntax.Pattern:
        return items[0] if len(items) == 1 else syntax.TuplePattern(items, span)

    def list_pattern(self, span: Span, *items: syntax.Pattern) -> syntax.Pattern:
        return syntax.ListPattern(items, span)

    def record_pattern(self, span: Span, *fields: tuple[str, syntax.Pattern]) -> syntax.Pattern:
        return syntax.RecordPattern(fields, span)

    def field_pattern(self, span: Span, name: Token, pattern: syntax.Pattern) -> tuple[str, syntax.Pattern]:
        return str(name), pattern

    def constructor_pattern(self, span: Span, name: Token, *args: syntax.Pattern) -> syntax.Pattern:
        return syntax.ConstructorPattern(str(name), args, span)

    def typed_pattern(self, span: Span, pattern: syntax.Pattern, type_: syntax.TypeExpr) -> syntax.Pattern:
        return syntax.TypedPattern(pattern, type_, span)


def variable(name: str, span: Span) -> syntax.Pattern:
    """The pattern of a name: a wildcard for `_`, else a variable."""
    return syntax.WildcardPattern(span) if name == "_" else syntax.VarPattern(name, span)


def distinct(patterns: Sequence[syntax.Pattern]) -> None:
    """Raises: UserError at the second occurrence of a name in the patterns of parameters."""
    seen: set[str] = set()
    for variable in chain.from_iterable(map(syntax.variables, patterns)):
        if variable.name in seen:
            raise UserError(f"the parameter `{variable.name}` is there twice", variable.span)
        seen.add(variable.name)


def as_names(patterns: Sequence[syntax.Pattern], body: syntax.Expr) -> tuple[tuple[str, ...], syntax.Expr]:
    """Parameters as names, and the body with a `let` that takes apart those that are patterns.

    function f((a, b): (int, int)): int { a + b }  =  function f(p: (int, int)): int { let (a, b) = p in a + b }
    """
    distinct(patterns)
    names: list[str] = []
    taken_apart = []
    for place, pattern in enumerate(patterns, 1):
        if isinstance(pattern, syntax.VarPattern):
            names.append(pattern.name)
        else:
            names.append(_unused(f"parameter{place}", patterns, body))
            taken_apart.append((pattern, syntax.Name(names[-1], pattern.span)))
    return tuple(names), syntax.LetExpr(tuple(taken_apart), body, body.span) if taken_apart else body


def _unused(name: str, patterns: Sequence[syntax.Pattern], body: syntax.Expr) -> str:
    """The name, with underscores appended until it occurs neither in the parameters nor in the body."""
    used = {each.name for pattern in patterns for each in syntax.variables(pattern)} | syntax.names_in(body)
    return next(each for each in accumulate(repeat("_"), add, initial=name) if each not in used)


def _negative(value: syntax.Literal, span: Span) -> syntax.Pattern:
    match value:
        case syntax.IntLit(number):
            return syntax.ConstPattern(syntax.IntLit(-number, span), span)
        case syntax.FloatLit(number):
            return syntax.ConstPattern(syntax.FloatLit(-number, span), span)
        case syntax.DecimalLit(exact):
            return syntax.ConstPattern(syntax.DecimalLit(exact.copy_negate(), span), span)
        case _:
            raise UserError("only a number can have a sign", span)


def pattern_of_names(expr: syntax.Expr) -> syntax.Pattern | None:
    """`x` or `(x, (y, z))` as a pattern: `group by (i, j)` groups by the names, and keeps them as the key's parts."""
    match expr:
        case syntax.Name(name, span=span):
            return syntax.VarPattern(name, span)
        case syntax.TupleExpr(items, span=span) if items:
            patterns = [pattern_of_names(item) for item in items]
            known = tuple(pattern for pattern in patterns if pattern is not None)
            return syntax.TuplePattern(known, span) if len(known) == len(patterns) else None
        case _:
            return None


def pattern_of(expr: syntax.Expr) -> syntax.Pattern:
    """The pattern that is written like this expression."""
    span = expr.span
    match expr:
        case syntax.Name(name):
            return variable(name, span)
        case (
            syntax.IntLit()
            | syntax.FloatLit()
            | syntax.DecimalLit()
            | syntax.StringLit()
            | syntax.BoolLit()
            | syntax.NullLit()
        ):
            return syntax.ConstPattern(expr, span)
        case syntax.Unary(syntax.UnaryOp.NEGATE, syntax.IntLit() | syntax.FloatLit() | syntax.DecimalLit() as number):
            return _negative(number, span)
        case syntax.TupleExpr(items):
            return syntax.TuplePattern(tuple(map(pattern_of, items)), span)
        case syntax.ListExpr(items):
            return syntax.ListPattern(tuple(map(pattern_of, items)), span)
        case syntax.RecordExpr(fields):
            return syntax.RecordPattern(tuple((name, pattern_of(field)) for name, field in fields), span)
        case syntax.Call(name, args):
            return syntax.ConstructorPattern(name, tuple(map(pattern_of, args)), span)
        case syntax.Ascribe(inner, type_):
            return syntax.TypedPattern(pattern_of(inner), type_, span)
        case _:
            raise UserError("expected a pattern before the `:`", span, "group by (k, n): (x.A, x.B)")
