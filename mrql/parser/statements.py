"""Statements."""

from __future__ import annotations

from typing import Any

import attrs
from lark import Token

from mrql import syntax
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.parser.builder import Builder
from mrql.parser.patterns import as_names


class StatementBuilder(Builder):
    """The rules of statements."""

    def program(self, span: Span, *statements: syntax.Statement) -> syntax.Script:
        whole = Span(self._source, self._offset, len(self._source.text))
        return syntax.Script(statements, whole)

    def expression(self, span: Span, expr: syntax.Expr) -> syntax.Statement:
        return syntax.ExprStatement(expr, span)

    def definition(self, span: Span, name: Token, _: Token, expr: syntax.Expr) -> syntax.Statement:
        return syntax.ValueDef(str(name), expr, span)

    def store(self, span: Span, name: Token, expr: syntax.Expr) -> syntax.Statement:
        return syntax.StoreDef(str(name), expr, span)

    def store_file(self, span: Span, path: syntax.Expr, expr: syntax.Expr) -> syntax.Statement:
        return syntax.Dump(path, expr, False, span)

    def dump_file(self, span: Span, path: syntax.Expr, expr: syntax.Expr) -> syntax.Statement:
        return syntax.Dump(path, expr, True, span)

    def type_definition(self, span: Span, name: Token, _: Token, type_: syntax.TypeExpr) -> syntax.Statement:
        return syntax.TypeDef(str(name), type_, span)

    def data_definition(
        self, span: Span, name: Token, _: Token, *constructors: syntax.ConstructorDef
    ) -> syntax.Statement:
        return syntax.DataDef(str(name), constructors, span)

    def constructor(self, span: Span, name: Token, type_: syntax.TypeExpr | None = None) -> syntax.ConstructorDef:
        match type_:
            case None:
                args: tuple[syntax.TypeExpr, ...] = ()
            case syntax.TupleType(items):
                args = items
            case _:
                args = (type_,)
        return syntax.ConstructorDef(str(name), args, span)

    def function(self, span: Span, name: Token, *rest: Any) -> syntax.Statement:
        *params, result, body = rest
        names, body = as_names([pattern for pattern, _ in params], body)
        types = (type_ for _, type_ in params)
        return syntax.FunctionDef(str(name), tuple(zip(names, types, strict=True)), result, body, span)

    def function_parameter(
        self, span: Span, pattern: syntax.Pattern, type_: syntax.TypeExpr
    ) -> tuple[syntax.Pattern, syntax.TypeExpr]:
        return pattern, type_

    def macro(self, span: Span, name: Token, *rest: Any) -> syntax.Statement:
        *params, body = rest
        names, body = as_names(params, body)
        return syntax.MacroDef(str(name), names, body, span)

    def aggregation(self, span: Span, name: Token, *rest: Any) -> syntax.Statement:
        *parts, type_ = rest
        if len(parts) not in (2, 3, 4):
            found = _number(len(parts), "part")
            raise UserError(
                f"an aggregation has a way to combine, a zero and perhaps a unit and an inverse, not {found}",
                span,
                "aggregation total(\\(x: int, y: int): int. x + y, 0): int;",
            )
        combine, zero, unit, inverse = (*parts, None, None)[:4]
        return syntax.AggregationDef(str(name), combine, zero, unit, type_, span, inverse)

    def include(self, span: Span, path: Token) -> syntax.Statement:
        return syntax.Include(self._string(path), span)

    def parser(self, span: Span, name: Token, _: Token, target: Token) -> syntax.Statement:
        return syntax.ParserDef(str(name), self._string(target), span)

    def import_module(self, span: Span, module: Token) -> syntax.Statement:
        return syntax.Import(self._string(module), (), span)

    def import_names(self, span: Span, *rest: Any) -> syntax.Statement:
        *functions, module = rest
        return syntax.Import(self._string(module), tuple(functions), span)

    def import_callable(self, span: Span, target: Token, function: syntax.ImportedFunction) -> syntax.Statement:
        module, colon, attribute = self._string(target).rpartition(":")
        if not colon or not module or not attribute:
            raise UserError(
                "an import under a name says which callable of which module",
                self._span(target),
                'import "module:callable" as f(int): int;',
            )
        return syntax.Import(module, (attrs.evolve(function, attribute=attribute),), span)

    def imported(
        self,
        span: Span,
        name: Token,
        params: tuple[syntax.TypeExpr, ...] | None = None,
        result: syntax.TypeExpr | None = None,
    ) -> syntax.ImportedFunction:
        text = self._string(name) if name.type == "STRING" else str(name)
        return syntax.ImportedFunction(text, text, params, result, span)

    def parameter(self, span: Span, name: Token, type_: syntax.TypeExpr) -> tuple[str, syntax.TypeExpr]:
        return str(name), type_

    def import_types(self, span: Span, *params: Any) -> tuple[syntax.TypeExpr, ...]:
        return tuple(p[1] if isinstance(p, tuple) else p for p in params)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
