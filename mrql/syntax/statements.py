"""Statements and scripts."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from mrql.algebra.span import Span
from mrql.syntax.expressions import Expr
from mrql.syntax.node import Node
from mrql.syntax.types import TypeExpr


@attrs.frozen
class ExprStatement(Node):
    """`e;`: an expression whose answer is wanted."""

    expr: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class ValueDef(Node):
    """`x = e;`: a name for an expression."""

    name: str
    expr: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class StoreDef(Node):
    """`store x := e;`: a name for an expression that may be evaluated once and kept."""

    name: str
    expr: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Dump(Node):
    """`store "file" from e;`, which writes CSV, or `dump "file" from e;` (`text`), which writes JSON."""

    path: Expr
    expr: Expr
    text: bool
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class TypeDef(Node):
    """`type N = t;`."""

    name: str
    type: TypeExpr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class ConstructorDef(Node):
    """`C: t` in a `data` statement. A tuple type stands for several arguments, no type for none."""

    name: str
    args: tuple[TypeExpr, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class DataDef(Node):
    """`data N = C: t | D: t;`."""

    name: str
    constructors: tuple[ConstructorDef, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class FunctionDef(Node):
    """`function f(x: t): t { e };`."""

    name: str
    params: tuple[tuple[str, TypeExpr], ...]
    result: TypeExpr
    body: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class MacroDef(Node):
    """`macro f(x) { e };`."""

    name: str
    params: tuple[str, ...]
    body: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class AggregationDef(Node):
    """`aggregation f(combine, zero, unit, inverse): t;`."""

    name: str
    combine: Expr
    zero: Expr
    unit: Expr | None
    type: TypeExpr
    span: Span = attrs.field(eq=False, repr=False)
    inverse: Expr | None = None


@attrs.frozen
class Include(Node):
    """`include "file";`."""

    path: str
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class ImportedFunction(Node):
    """One imported callable: its name in the query, its name in the module, and its type if that is written."""

    name: str
    attribute: str
    params: tuple[TypeExpr, ...] | None
    result: TypeExpr | None
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Import(Node):
    """`import f, g from "module";`. Without functions, it imports all that the module declares."""

    module: str
    functions: tuple[ImportedFunction, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class ParserDef(Node):
    """`parser f = "module:callable";`: a format for `source`."""

    name: str
    target: str
    span: Span = attrs.field(eq=False, repr=False)


Statement: TypeAlias = (
    ExprStatement
    | ValueDef
    | StoreDef
    | Dump
    | TypeDef
    | DataDef
    | FunctionDef
    | MacroDef
    | AggregationDef
    | Include
    | Import
    | ParserDef
)


@attrs.frozen
class Script(Node):
    """A whole text: its statements in order."""

    statements: tuple[Statement, ...]
    span: Span = attrs.field(eq=False, repr=False)
