"""Statements."""

from __future__ import annotations

from typing import Any

import attrs
from lark import Token

from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.parser.builder import Builder
from mrql.syntax import nodes as s


class StatementBuilder(Builder):
    """The rules of statements."""

    def program(self, span: Span, *statements: s.Statement) -> s.Program:
        whole = Span(self._source, self._offset, len(self._source.text))
        return s.Program(statements, whole)

    def expression(self, span: Span, expr: s.Expr) -> s.Statement:
        return s.ExprStatement(expr, span)

    def definition(self, span: Span, name: Token, _: Token, expr: s.Expr) -> s.Statement:
        return s.Definition(str(name), expr, span)

    def store(self, span: Span, name: Token, expr: s.Expr) -> s.Statement:
        return s.Store(str(name), expr, span)

    def store_file(self, span: Span, path: s.Expr, expr: s.Expr) -> s.Statement:
        return s.Dump(path, expr, False, span)

    def dump_file(self, span: Span, path: s.Expr, expr: s.Expr) -> s.Statement:
        return s.Dump(path, expr, True, span)

    def type_definition(self, span: Span, name: Token, _: Token, type_: s.TypeExpr) -> s.Statement:
        return s.TypeDef(str(name), type_, span)

    def data_definition(self, span: Span, name: Token, _: Token, *constructors: s.Constructor) -> s.Statement:
        return s.DataDef(str(name), constructors, span)

    def constructor(self, span: Span, name: Token, type_: s.TypeExpr | None = None) -> s.Constructor:
        match type_:
            case None:
                args: tuple[s.TypeExpr, ...] = ()
            case s.TupleType(items):
                args = items
            case _:
                args = (type_,)
        return s.Constructor(str(name), args, span)

    def function(self, span: Span, name: Token, *rest: Any) -> s.Statement:
        *params, result, body = rest
        return s.FunctionDef(str(name), tuple(params), result, body, span)

    def parameter(self, span: Span, name: Token, type_: s.TypeExpr) -> tuple[str, s.TypeExpr]:
        return str(name), type_

    def macro(self, span: Span, name: Token, *rest: Any) -> s.Statement:
        *params, body = rest
        return s.MacroDef(str(name), tuple(map(str, params)), body, span)

    def aggregation(self, span: Span, name: Token, *rest: Any) -> s.Statement:
        *parts, type_ = rest
        if len(parts) not in (2, 3):
            raise UserError(
                f"an aggregation has a way to combine, a zero and perhaps a unit, not {_number(len(parts), 'part')}",
                span,
                "aggregation total(\\(x: int, y: int): int. x + y, 0): int;",
            )
        combine, zero, *unit = parts
        return s.AggregationDef(str(name), combine, zero, unit[0] if unit else None, type_, span)

    def include(self, span: Span, path: Token) -> s.Statement:
        return s.Include(self._string(path), span)

    def parser(self, span: Span, name: Token, _: Token, target: Token) -> s.Statement:
        return s.ParserDef(str(name), self._string(target), span)

    def import_module(self, span: Span, module: Token) -> s.Statement:
        return s.Import(self._string(module), (), span)

    def import_names(self, span: Span, *rest: Any) -> s.Statement:
        *functions, module = rest
        return s.Import(self._string(module), tuple(functions), span)

    def import_callable(self, span: Span, target: Token, function: s.ImportedFunction) -> s.Statement:
        module, colon, attribute = self._string(target).rpartition(":")
        if not colon or not module or not attribute:
            raise UserError(
                "an import under a name says which callable of which module",
                self._span(target),
                'import "module:callable" as f(int): int;',
            )
        return s.Import(module, (attrs.evolve(function, attribute=attribute),), span)

    def imported(
        self,
        span: Span,
        name: Token,
        params: tuple[s.TypeExpr, ...] | None = None,
        result: s.TypeExpr | None = None,
    ) -> s.ImportedFunction:
        text = self._string(name) if name.type == "STRING" else str(name)
        return s.ImportedFunction(text, text, params, result, span)

    def import_types(self, span: Span, *params: Any) -> tuple[s.TypeExpr, ...]:
        return tuple(p[1] if isinstance(p, tuple) else p for p in params)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
