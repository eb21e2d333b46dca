"""Types."""

from __future__ import annotations

from lark import Token

from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.parser.builder import Builder
from mrql.syntax import nodes as s


class TypeBuilder(Builder):
    """The rules of types."""

    def named_type(self, span: Span, name: Token) -> s.TypeExpr:
        return s.NamedType(str(name), span)

    def applied_type(self, span: Span, name: Token, *items: s.TypeExpr) -> s.TypeExpr:
        if name.lower() not in ("bag", "list"):
            raise UserError(f"`{name}` does not make a type of others", span, "write bag(t) or list(t)")
        if len(items) != 1:
            raise UserError(f"`{name}` has one type in its brackets, not {len(items)}", span)
        return s.BagType(items[0], span) if name.lower() == "bag" else s.ListType(items[0], span)

    def tuple_type(self, span: Span, *items: s.TypeExpr) -> s.TypeExpr:
        return items[0] if len(items) == 1 else s.TupleType(items, span)

    def record_type(self, span: Span, *fields: tuple[str, s.TypeExpr]) -> s.TypeExpr:
        return s.RecordType(fields, span)

    def field_type(self, span: Span, name: Token, type_: s.TypeExpr) -> tuple[str, s.TypeExpr]:
        return str(name), type_

    def bag_type(self, span: Span, item: s.TypeExpr) -> s.TypeExpr:
        return s.BagType(item, span)

    def list_type(self, span: Span, item: s.TypeExpr) -> s.TypeExpr:
        return s.ListType(item, span)

    def stored_type(self, span: Span, type_: s.TypeExpr) -> s.TypeExpr:
        return type_
