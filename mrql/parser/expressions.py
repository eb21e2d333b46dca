"""Expressions."""

from __future__ import annotations

from typing import Any

import attrs
from lark import Token

from mrql import syntax
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.parser.builder import Builder
from mrql.parser.depth import check_depth
from mrql.parser.heads import Item, head
from mrql.parser.patterns import distinct, pattern_of, pattern_of_names, variable
from mrql.parser.precedence import Chain
from mrql.parser.xml_literals import XmlReader

OPTIONS = {
    **{word: word for word in ("header", "allowMissingColumns", "failOnNewColumns", "multiline", "truncateTimestamps")},
    "sample": "sample(10000)",
    "quote": """quote("'")""",
    "escape": r'escape("\\")',
    "nullValue": 'nullValue("NA", "-")',
    "comment": 'comment("#")',
    "dateFormat": 'dateFormat("dd.MM.yyyy")',
    "timestampFormat": 'timestampFormat("dd.MM.yyyy HH:mm:ss")',
    "locale": 'locale("de-DE")',
}
"""The options of sources, each with an example of how it is written."""


class ExpressionBuilder(Builder):
    """The rules of expressions."""

    def chain(self, span: Span, *items: Any) -> syntax.Expr:
        return Chain(self._source, self._offset).build(items)

    def conditional(self, span: Span, condition: syntax.Expr, then: syntax.Expr, otherwise: syntax.Expr) -> syntax.Expr:
        return syntax.IfExpr(condition, then, otherwise, span)

    def let(self, span: Span, *rest: Any) -> syntax.Expr:
        *bindings, body = rest
        return syntax.LetExpr(tuple(bindings), body, span)

    def binding(
        self, span: Span, pattern: syntax.Pattern, _: Token, expr: syntax.Expr
    ) -> tuple[syntax.Pattern, syntax.Expr]:
        return pattern, expr

    def bare_lambda(self, span: Span, name: Token, body: syntax.Expr) -> syntax.Expr:
        return syntax.Lambda(((variable(str(name), self._span(name)), None),), None, body, span)

    def constructor_lambda(self, span: Span, name: Token, *rest: Any) -> syntax.Expr:
        *args, body = rest
        distinct(args)
        pattern = syntax.ConstructorPattern(str(name), tuple(args), self._span(name))
        return syntax.Lambda(((pattern, None),), None, body, span)

    def untyped_lambda(self, span: Span, params: Any, body: syntax.Expr) -> syntax.Expr:
        return syntax.Lambda(params, None, body, span)

    def typed_lambda(self, span: Span, params: Any, result: syntax.TypeExpr, body: syntax.Expr) -> syntax.Expr:
        return syntax.Lambda(params, result, body, span)

    def lambda_parameters(self, span: Span, *params: Any) -> Any:
        distinct([pattern for pattern, _ in params])
        return params

    def lambda_parameter(self, span: Span, pattern: syntax.Pattern, type_: syntax.TypeExpr | None = None) -> Any:
        return pattern, type_

    def quantified(self, span: Span, word: Token, generators: Any, body: syntax.Expr) -> syntax.Expr:
        kind = syntax.QuantifierKind.ALL if word.lower() == "all" else syntax.QuantifierKind.SOME
        return syntax.Quantified(kind, generators, body, span)

    def repeat(
        self,
        span: Span,
        pattern: syntax.Pattern,
        _: Token,
        init: syntax.Expr,
        step: syntax.Expr,
        limit: syntax.Expr | None = None,
    ) -> syntax.Expr:
        return syntax.Repeat(pattern, init, step, limit, span)

    def incr(self, span: Span, expr: syntax.Expr) -> syntax.Expr:
        return syntax.Incr(expr, span)

    def select(self, span: Span, first: Any, *rest: Any) -> syntax.Expr:
        distinct = isinstance(first, Token)
        head, generators, *clauses = rest if distinct else (first, *rest)
        by_kind = dict(clauses)
        return syntax.Select(
            distinct,
            head,
            generators,
            by_kind.get("where"),
            by_kind.get("group"),
            by_kind.get("order"),
            span,
        )

    def head(self, span: Span, *items: Item) -> syntax.Expr:
        return head(items, span)

    def named_item(self, span: Span, name: Token, expr: syntax.Expr) -> Item:
        return str(name), expr

    def generators(self, span: Span, *generators: syntax.Generator) -> tuple[syntax.Generator, ...]:
        return generators

    def generator(self, span: Span, pattern: syntax.Pattern, *rest: Any) -> syntax.Generator:
        *sign, expr = rest
        source = syntax.BagExpr((expr,), expr.span) if sign == ["="] else expr
        return syntax.Generator(pattern, source, span)

    def where(self, span: Span, condition: syntax.Expr) -> tuple[str, syntax.Expr]:
        return "where", condition

    def group(self, span: Span, *parts: Any) -> tuple[str, syntax.GroupBy]:
        keys = tuple(part for part in parts if isinstance(part, syntax.GroupKey))
        having = None if isinstance(parts[-1], syntax.GroupKey) else parts[-1]
        return "group", syntax.GroupBy(keys, having, span)

    def having(self, span: Span, condition: syntax.Expr) -> syntax.Expr:
        return condition

    def key(self, span: Span, first: syntax.Expr, second: syntax.Expr | None = None) -> syntax.GroupKey:
        # Only a `:` after it shows that this is a pattern, so the grammar reads an expression.
        check_depth(first)
        if second is None:
            return syntax.GroupKey(pattern_of_names(first), first, span)
        return syntax.GroupKey(pattern_of(first), second, span)

    def order(self, span: Span, *parts: Any) -> tuple[str, syntax.OrderBy]:
        keys = tuple(part for part in parts if isinstance(part, syntax.OrderKey))
        limit = None if isinstance(parts[-1], syntax.OrderKey) else parts[-1]
        return "order", syntax.OrderBy(keys, limit, span)

    def order_key(self, span: Span, expr: syntax.Expr, direction: Token | None = None) -> syntax.OrderKey:
        return syntax.OrderKey(expr, direction is not None and direction.lower() == "desc", span)

    def limit(self, span: Span, expr: syntax.Expr) -> syntax.Expr:
        return expr

    def name(self, span: Span, name: Token) -> syntax.Expr:
        return syntax.Name(str(name), span)

    def literal(self, span: Span, token: Token) -> syntax.Literal:
        if token.type == "INT":
            return syntax.IntLit(self._integer(token), span)
        if token.type == "DECIMAL":
            return syntax.DecimalLit(self._decimal(token), span)
        if token.type == "STRING":
            return syntax.StringLit(self._string(token), span)
        match token.lower():
            case "null":
                return syntax.NullLit(span)
            case "true" | "false" as word:
                return syntax.BoolLit(word == "true", span)
            case _:
                return syntax.FloatLit(self._float(token), span)

    def tuple_expr(self, span: Span, *items: syntax.Expr) -> syntax.Expr:
        # A bracketed expression spans its brackets, so that `(a + b) * c` is underlined as a whole.
        if len(items) == 1:
            return attrs.evolve(items[0], span=span)
        return syntax.TupleExpr(items, span)

    def bag_expr(self, span: Span, *items: syntax.Expr) -> syntax.Expr:
        return syntax.BagExpr(items, span)

    def list_expr(self, span: Span, *items: syntax.Expr) -> syntax.Expr:
        return syntax.ListExpr(items, span)

    def record_expr(self, span: Span, *fields: tuple[str, syntax.Expr]) -> syntax.Expr:
        return syntax.RecordExpr(fields, span)

    def field(self, span: Span, name: Token, expr: syntax.Expr) -> tuple[str, syntax.Expr]:
        return str(name), expr

    def case_expr(self, span: Span, subject: syntax.Expr, *branches: tuple[syntax.Pattern, syntax.Expr]) -> syntax.Expr:
        return syntax.CaseExpr(subject, branches, span)

    def branch(self, span: Span, pattern: syntax.Pattern, expr: syntax.Expr) -> tuple[syntax.Pattern, syntax.Expr]:
        return pattern, expr

    def template(self, span: Span, token: Token) -> syntax.Expr:
        return XmlReader(self._source, span, self._parse_part).read()

    def projection(self, span: Span, expr: syntax.Expr, name: Token) -> syntax.Expr:
        return syntax.Field(expr, str(name), span)

    def children(self, span: Span, expr: syntax.Expr, _: Token) -> syntax.Expr:
        return syntax.Children(expr, span)

    def attribute(self, span: Span, expr: syntax.Expr, name: Token) -> syntax.Expr:
        return syntax.Attribute(expr, str(name), span)

    def nth(self, span: Span, expr: syntax.Expr, index: Token) -> syntax.Expr:
        return syntax.Nth(expr, self._integer(index), span)

    def indexing(self, span: Span, expr: syntax.Expr, index: syntax.Expr) -> syntax.Expr:
        return syntax.Index(expr, index, span)

    def slicing(self, span: Span, expr: syntax.Expr, low: syntax.Expr, high: syntax.Expr) -> syntax.Expr:
        return syntax.Slice(expr, low, high, span)

    def ascribe(self, span: Span, expr: syntax.Expr, type_: syntax.TypeExpr) -> syntax.Expr:
        return syntax.Ascribe(expr, type_, span)

    def call(self, span: Span, function: syntax.Expr, *args: syntax.Expr) -> syntax.Expr:
        if isinstance(function, syntax.Name):
            return syntax.Call(function.name, args, span)
        return syntax.Apply(function, args, span)

    def source(self, span: Span, word: Token, format_: Token, *args: Any) -> syntax.Expr:
        kind = syntax.SourceKind(word.lower())
        return syntax.SourceExpr(kind, str(format_), tuple(map(_source_argument, args)), span)

    def type_argument(self, span: Span, type_: syntax.TypeExpr) -> syntax.SourceArg:
        return syntax.TypeArg(type_, span)

    def deletions(self, span: Span, path: syntax.Expr) -> syntax.SourceArg:
        return syntax.DeletionsArg(path, span)

    def xpath(self, span: Span, token: Token) -> syntax.SourceArg:
        path = token[token.index("(") + 1 : -1].strip()
        quoted = len(path) > 1 and path[0] in "\"'" and path.find(path[0], 1) == len(path) - 1
        return syntax.XPathArg(path[1:-1] if quoted else path, span)


def _source_argument(arg: syntax.SourceArg) -> syntax.SourceArg:
    """An argument of a source; some that look like expressions become arguments of their own kinds."""
    match arg:
        case syntax.Name("tagged", span=span):
            return syntax.TaggedArg(span)
        case syntax.Call("key", (_, *_) as fields, span=span):
            return syntax.KeyArg(fields, span)
        case syntax.Call("version", (which,), span=span):
            return syntax.VersionArg(which, span)
        case syntax.Call("changes", (syntax.Name(name),), span=span):
            return syntax.ChangesArg(name, span)
        case syntax.Call("changes", _, span=span):
            raise UserError("what changes are written as has a name", span, "changes(debezium)")
        case syntax.Call("key" | "version" as word, fields, span=span):
            what = "a key has at least one field" if word == "key" else "there is one version"
            raise UserError(what, span, "key(id, region)" if word == "key" else "version(changed)")
        case syntax.Name(name, span=span) if name in OPTIONS:
            return syntax.OptionArg(name, (), span)
        case syntax.Call(name, values, span=span) if name in OPTIONS:
            return syntax.OptionArg(name, values, span)
        case syntax.BagExpr(items, span=span) if items and all(isinstance(item, syntax.StringLit) for item in items):
            return syntax.TagsArg(tuple(item.value for item in items if isinstance(item, syntax.StringLit)), span)
        case _:
            return arg
