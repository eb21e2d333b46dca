"""The statements of a query file, translated one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import assert_never

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import there
from mrql.algebra.analysis.variables import source_names
from mrql.algebra.catalog import Catalog, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.terms import CMap, Empty, Lambda, ListOf, Lit, PVar, Stream, Term, Var
from mrql.algebra.types import Type
from mrql.parser.includes import Includes
from mrql.translate import data_types
from mrql.translate.coercion import BASIC, coerce, resolve
from mrql.translate.expression import translate
from mrql.translate.program import CompiledExpression, Program
from mrql.translate.python_imports import imports, lines_of, must_be_allowed, parsed
from mrql.translate.recursive_functions import define as define_recursive
from mrql.translate.recursive_functions import foresee, group_of, written_within
from mrql.translate.scope import NOTHING, Closure, Globals, RowOf, Scope, unknown_row
from mrql.translate.sinks import must_not_be_read, target_of
from mrql.translate.size_limits import TermSizes
from mrql.translate.sources import declare, xpath_of
from mrql.translate.user_aggregates import define
from mrql.translate.xpath import follow


class ProgramTranslator:
    """Translates the statements of a program, one after the other."""

    def __init__(
        self,
        streams: Mapping[str, Type],
        base: Path,
        args: Sequence[str],
        max_steps: int,
        *,
        may_import: bool = True,
        row_of: RowOf = unknown_row,
        catalog: Catalog = NOTHING,
    ) -> None:
        self.base = base
        self.sources: dict[str, SourceSpec] = {}
        self.given = set(streams)
        values: dict[str, Term] = {stream: Stream(stream, t) for stream, t in streams.items()}
        if "args" not in values:
            values["args"] = _strings(args)
        self.globals = Globals(
            translate,
            self.declare,
            values=values,
            catalog=catalog,
            row_of=row_of,
            max_steps=max_steps,
            may_import=may_import,
        )
        self.globals.names.taken.update(streams)
        self.queries: list[CompiledExpression] = []
        self.stored: dict[str, Term] = {}
        self.sizes = TermSizes()
        self.includes = Includes()

    def program(self, tree: syntax.Script) -> Program:
        self.includes.begin(tree.span.source)
        self.foresee(tree.statements)
        for statement in tree.statements:
            self.statement(statement)
        return Program(tuple(self.queries), self.sources, self.stored)

    def statement(self, statement: syntax.Statement) -> None:
        known = self.globals
        known.effort.begin(statement.span)
        match statement:
            case syntax.ExprStatement(expr):
                self.queries.append(CompiledExpression(self.answered(expr), expr.span))
            case syntax.ValueDef(name, syntax.SourceExpr() as source):
                if source.format in known.catalog.handed_over and name in self.given:
                    self.given.discard(name)
                    del known.values[name]  # a stream passed by the program is declared in the query, too
                self.fresh(name, statement.span)
                known.values[name] = self.declare(source, name)
            case syntax.ValueDef(name, syntax.Lambda(params, result, body)):
                self.fresh(name, statement.span)
                if written_within(name, known):
                    hint = f"function {name}(x: long): long {{ … }}"
                    message = f"`{name}` calls itself, and says neither what it takes nor what it gives"
                    raise UserError(message, statement.span, hint)
                known.closures[name] = Closure(params, result, body, Scope(known))
            case syntax.ValueDef(name, expr):
                self.fresh(name, statement.span)
                known.values[name] = self.term(expr, name)
            case syntax.TypeDef(name, written):
                self.fresh(name, statement.span)
                if name in BASIC:
                    raise UserError(f"`{name}` is a type of its own", statement.span)
                known.types[name] = resolve(written, known)
            case syntax.FunctionDef(name):
                self.fresh(name, statement.span)
                known.functions[name] = statement
                if group := group_of(name, known):
                    define_recursive(group, known)
                else:
                    self.check_function(statement)
            case syntax.MacroDef(name):
                self.fresh(name, statement.span)
                known.macros[name] = statement
            case syntax.StoreDef(name, expr):
                # The name stands for the term: in a query that is kept up to date, its value changes.
                self.fresh(name, statement.span)
                known.values[name] = self.stored[name] = self.answered(expr, name)
            case syntax.Dump(_, expr):
                term = self.answered(expr)
                target = target_of(statement, term.type, known, self.base)
                must_not_be_read(target, (self.sources[n] for n in source_names(term) if n in self.sources))
                self.queries.append(CompiledExpression(term, expr.span, target))
            case syntax.DataDef(name, constructors):
                self.fresh(name, statement.span)
                for constructor in constructors:
                    self.fresh(constructor.name, constructor.span)
                data_types.define(statement, known)
            case syntax.AggregationDef(name):
                self.fresh(name, statement.span)
                known.aggregations[name] = define(statement, Scope(known))
            case syntax.Include():
                with self.includes.statements(statement) as included:
                    self.foresee(included)
                    for inner in included:
                        self.statement(inner)
            case syntax.Import():
                must_be_allowed("`import`", statement.span, known)
                for found in imports(statement, known):
                    self.fresh(found.name, statement.span)
                    known.imported[found.name] = found
            case syntax.ParserDef(name):
                must_be_allowed("`parser`", statement.span, known)
                self.fresh(name, statement.span)
                known.parsers[name] = statement
            case _:
                assert_never(statement)

    def term(self, expr: syntax.Expr, name: str | None = None) -> Term:
        """The term of a statement's expression, which defines `name`, if given."""
        term = Scope(self.globals).translate(expr)
        self.sizes.check_copies(term, name, expr.span)
        return term

    def answered(self, expr: syntax.Expr, name: str | None = None) -> Term:
        """The term of an expression that is answered or stored."""
        return _answered(self.term(expr, name))

    def foresee(self, statements: Sequence[syntax.Statement]) -> None:
        """Notes the functions and types that may be named before they are defined."""
        foresee(statements, self.globals)
        data_types.foresee(statements, self.globals)

    def fresh(self, name: str, span: Span) -> None:
        self.globals.hide(name)
        if any(name in defined for defined in self.globals.named):
            raise UserError(f"`{name}` is defined already", span)

    def check_function(self, function: syntax.FunctionDef) -> None:
        """Types a function where it is defined, so that an error in it is reported there."""
        params = {name: Var(self.globals.names.fresh(name), resolve(t, self.globals)) for name, t in function.params}
        body = Scope(self.globals).outermost(function.name, params).translate(function.body)
        coerce(body, resolve(function.result, self.globals), function.body.span, f"the result of `{function.name}`")

    def declare(self, source: syntax.SourceExpr, name: str | None) -> Term:
        """The rows of a source, which becomes a stream term of its own name; the same source written twice is one."""
        if source.format in self.globals.parsers:
            return parsed(
                source, self.rows(attrs.evolve(source, format="text", args=lines_of(source)), name), self.globals
            )
        rows = self.rows(source, name)
        xpath = xpath_of(source)
        if xpath is None:
            return rows
        names = self.globals.names
        row = PVar(names.fresh("x"), ty.XML)
        return CMap(Lambda(row, follow(xpath.path, Var(row.name, ty.XML), names, xpath.span)), rows, span=source.span)

    def rows(self, source: syntax.SourceExpr, name: str | None) -> Stream:
        spec = declare(source, name, self.globals, self.base)
        if spec.format.handed_over and spec.stream:
            return self.handed_over(spec)
        for known in self.sources.values():
            if attrs.evolve(known, name=spec.name) == spec and name is None:
                return Stream(known.name, known.type, static=not known.stream)
        named = attrs.evolve(spec, name=self.unused(spec.name))
        self.sources[named.name] = named
        return Stream(named.name, named.type, static=not named.stream)

    def handed_over(self, spec: SourceSpec) -> Stream:
        """A stream that a program hands over: its name there identifies it, whatever name the query gives it."""
        known = self.sources.setdefault(spec.name, spec)
        if known.format != spec.format:
            raise UserError(f"the source `{spec.name}` is something else already", spec.span, "give this another name")
        if known.type != spec.type:
            raise UserError(f"the stream `{spec.name}` is {spec.type} here, and was {known.type} before", spec.span)
        return Stream(spec.name, spec.type)

    def unused(self, name: str) -> str:
        taken = set(self.sources) | set(self.globals.values)
        n, result = 1, name
        while result in taken:
            n += 1
            result = f"{name}{n}"
        return result


def _answered(term: Term) -> Term:
    """The term of an answer: a missing collection has no rows."""
    return there(term) if ty.is_collection(term.type) else term


def _strings(values: Sequence[str]) -> Term:
    """`["…", "…"]`."""
    if not values:
        return Empty(ty.ListType(ty.STRING))
    return ListOf(tuple(Lit(value, ty.STRING) for value in values))
