"""Expressions."""

from __future__ import annotations

from typing import Any

import attrs
from lark import Token

from mrql.algebra.span import Span
from mrql.parser.builder import Builder
from mrql.parser.depth import check_depth
from mrql.parser.patterns import pattern_of, pattern_of_names, variable
from mrql.parser.precedence import Chain
from mrql.parser.xml_literals import XmlReader
from mrql.syntax import nodes as s

OPTIONS = {"header", "allowMissingColumns", "multiline"}


class ExpressionBuilder(Builder):
    """The rules of expressions."""

    def chain(self, span: Span, *items: Any) -> s.Expr:
        return Chain(self._source, self._offset).build(items)

    def conditional(self, span: Span, condition: s.Expr, then: s.Expr, otherwise: s.Expr) -> s.Expr:
        return s.IfExpr(condition, then, otherwise, span)

    def let(self, span: Span, *rest: Any) -> s.Expr:
        *bindings, body = rest
        return s.LetExpr(tuple(bindings), body, span)

    def binding(self, span: Span, pattern: s.Pattern, _: Token, expr: s.Expr) -> tuple[s.Pattern, s.Expr]:
        return pattern, expr

    def bare_lambda(self, span: Span, name: Token, body: s.Expr) -> s.Expr:
        return s.Lambda(((variable(str(name), self._span(name)), None),), None, body, span)

    def untyped_lambda(self, span: Span, params: Any, body: s.Expr) -> s.Expr:
        return s.Lambda(params, None, body, span)

    def typed_lambda(self, span: Span, params: Any, result: s.TypeExpr, body: s.Expr) -> s.Expr:
        return s.Lambda(params, result, body, span)

    def lambda_parameters(self, span: Span, *params: Any) -> Any:
        return params

    def lambda_parameter(self, span: Span, pattern: s.Pattern, type_: s.TypeExpr | None = None) -> Any:
        return pattern, type_

    def quantified(self, span: Span, word: Token, generators: Any, body: s.Expr) -> s.Expr:
        kind = s.QuantifierKind.ALL if word.lower() == "all" else s.QuantifierKind.SOME
        return s.Quantified(kind, generators, body, span)

    def repeat(
        self, span: Span, pattern: s.Pattern, _: Token, init: s.Expr, step: s.Expr, limit: s.Expr | None = None
    ) -> s.Expr:
        return s.Repeat(pattern, init, step, limit, span)

    def incr(self, span: Span, expr: s.Expr) -> s.Expr:
        return s.Incr(expr, span)

    def select(self, span: Span, first: Any, *rest: Any) -> s.Expr:
        distinct = isinstance(first, Token)
        head, generators, *clauses = rest if distinct else (first, *rest)
        by_kind = dict(clauses)
        return s.Select(
            distinct,
            head,
            generators,
            by_kind.get("where"),
            by_kind.get("group"),
            by_kind.get("order"),
            span,
        )

    def generators(self, span: Span, *generators: s.Generator) -> tuple[s.Generator, ...]:
        return generators

    def generator(self, span: Span, pattern: s.Pattern, *rest: Any) -> s.Generator:
        *equals, expr = rest
        source = s.BagExpr((expr,), expr.span) if equals else expr
        return s.Generator(pattern, source, span)

    def where(self, span: Span, condition: s.Expr) -> tuple[str, s.Expr]:
        return "where", condition

    def group(self, span: Span, *parts: Any) -> tuple[str, s.GroupBy]:
        keys = tuple(part for part in parts if isinstance(part, s.GroupKey))
        having = None if isinstance(parts[-1], s.GroupKey) else parts[-1]
        return "group", s.GroupBy(keys, having, span)

    def having(self, span: Span, condition: s.Expr) -> s.Expr:
        return condition

    def key(self, span: Span, first: s.Expr, second: s.Expr | None = None) -> s.GroupKey:
        # Until the `:` nobody knows whether this is a pattern, so the grammar reads an expression.
        check_depth(first)
        if second is None:
            return s.GroupKey(pattern_of_names(first), first, span)
        return s.GroupKey(pattern_of(first), second, span)

    def order(self, span: Span, *parts: Any) -> tuple[str, s.OrderBy]:
        keys = tuple(part for part in parts if isinstance(part, s.OrderKey))
        limit = None if isinstance(parts[-1], s.OrderKey) else parts[-1]
        return "order", s.OrderBy(keys, limit, span)

    def order_key(self, span: Span, expr: s.Expr, direction: Token | None = None) -> s.OrderKey:
        return s.OrderKey(expr, direction is not None and direction.lower() == "desc", span)

    def limit(self, span: Span, expr: s.Expr) -> s.Expr:
        return expr

    def name(self, span: Span, name: Token) -> s.Expr:
        return s.Name(str(name), span)

    def literal(self, span: Span, token: Token) -> s.Literal:
        if token.type == "INT":
            return s.IntLit(self._integer(token), span)
        if token.type == "STRING":
            return s.StringLit(self._string(token), span)
        match token.lower():
            case "null":
                return s.NullLit(span)
            case "true" | "false" as word:
                return s.BoolLit(word == "true", span)
            case _:
                return s.FloatLit(self._float(token), span)

    def tuple_expr(self, span: Span, *items: s.Expr) -> s.Expr:
        # A bracketed expression spans its brackets, so that `(a + b) * c` is underlined as a whole.
        if len(items) == 1:
            return attrs.evolve(items[0], span=span)
        return s.TupleExpr(items, span)

    def bag_expr(self, span: Span, *items: s.Expr) -> s.Expr:
        return s.BagExpr(items, span)

    def list_expr(self, span: Span, *items: s.Expr) -> s.Expr:
        return s.ListExpr(items, span)

    def record_expr(self, span: Span, *fields: tuple[str, s.Expr]) -> s.Expr:
        return s.RecordExpr(fields, span)

    def field(self, span: Span, name: Token, expr: s.Expr) -> tuple[str, s.Expr]:
        return str(name), expr

    def case_expr(self, span: Span, subject: s.Expr, *branches: tuple[s.Pattern, s.Expr]) -> s.Expr:
        return s.CaseExpr(subject, branches, span)

    def branch(self, span: Span, pattern: s.Pattern, expr: s.Expr) -> tuple[s.Pattern, s.Expr]:
        return pattern, expr

    def template(self, span: Span, token: Token) -> s.Expr:
        return XmlReader(self._source, span, self._parse_part).read()

    def projection(self, span: Span, expr: s.Expr, name: Token) -> s.Expr:
        return s.Field(expr, str(name), span)

    def children(self, span: Span, expr: s.Expr, _: Token) -> s.Expr:
        return s.Children(expr, span)

    def attribute(self, span: Span, expr: s.Expr, name: Token) -> s.Expr:
        return s.Attribute(expr, str(name), span)

    def nth(self, span: Span, expr: s.Expr, index: Token) -> s.Expr:
        return s.Nth(expr, self._integer(index), span)

    def indexing(self, span: Span, expr: s.Expr, index: s.Expr) -> s.Expr:
        return s.Index(expr, index, span)

    def slicing(self, span: Span, expr: s.Expr, low: s.Expr, high: s.Expr) -> s.Expr:
        return s.Slice(expr, low, high, span)

    def ascribe(self, span: Span, expr: s.Expr, type_: s.TypeExpr) -> s.Expr:
        return s.Ascribe(expr, type_, span)

    def call(self, span: Span, function: s.Expr, *args: s.Expr) -> s.Expr:
        if isinstance(function, s.Name):
            return s.Call(function.name, args, span)
        return s.Apply(function, args, span)

    def source(self, span: Span, word: Token, format_: Token, *args: Any) -> s.Expr:
        kind = s.SourceKind(word.lower())
        return s.SourceExpr(kind, str(format_), tuple(map(_source_argument, args)), span)

    def type_argument(self, span: Span, type_: s.TypeExpr) -> s.SourceArg:
        return s.TypeArg(type_, span)

    def deletions(self, span: Span, path: s.Expr) -> s.SourceArg:
        return s.DeletionsArg(path, span)

    def xpath(self, span: Span, token: Token) -> s.SourceArg:
        path = token[token.index("(") + 1 : -1].strip()
        quoted = len(path) > 1 and path[0] in "\"'" and path.find(path[0], 1) == len(path) - 1
        return s.XPathArg(path[1:-1] if quoted else path, span)


def _source_argument(arg: s.SourceArg) -> s.SourceArg:
    """Some arguments of a source look like expressions, and are not."""
    match arg:
        case s.Name("tagged", span=span):
            return s.TaggedArg(span)
        case s.Name(name, span=span) if name in OPTIONS:
            return s.OptionArg(name, span)
        case s.BagExpr(items, span=span) if items and all(isinstance(item, s.StringLit) for item in items):
            return s.TagsArg(tuple(item.value for item in items if isinstance(item, s.StringLit)), span)
        case _:
            return arg
