"""Types."""

from __future__ import annotations

from lark import Token

from mrql import syntax
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.parser.builder import Builder
from mrql.parser.sql_hints import NESTED_TYPES, brackets_hint

DECIMALS = ("decimal", "numeric", "dec")


class TypeBuilder(Builder):
    """The rules of types."""

    def named_type(self, span: Span, name: Token) -> syntax.TypeExpr:
        return syntax.NamedType(str(name), span)

    def applied_type(self, span: Span, name: Token, *items: syntax.TypeExpr) -> syntax.TypeExpr:
        if name.lower() not in ("bag", "list"):
            written = NESTED_TYPES.get(name.lower(), "bag(t) or list(t)")
            raise UserError(f"`{name}` does not make a type of others", span, f"write {written}")
        if len(items) != 1:
            raise UserError(f"`{name}` has one type in its brackets, not {len(items)}", span)
        return syntax.BagType(items[0], span) if name.lower() == "bag" else syntax.ListType(items[0], span)

    def numbered_type(self, span: Span, name: Token, precision: Token, scale: Token | None = None) -> syntax.TypeExpr:
        if name.lower() not in DECIMALS:
            raise UserError(f"`{name}` has no digits in brackets", span, brackets_hint(name))
        digits = [int(token) if len(token) < 4 else 1000 for token in (precision, scale or "0")]
        if not (1 <= digits[0] <= 38 and digits[1] <= digits[0]):
            raise UserError(
                "a decimal has 1 to 38 digits, and no more of them behind the point", span, "write decimal(12, 2)"
            )
        return syntax.NumberedType(digits[0], digits[1], span)

    def tuple_type(self, span: Span, *items: syntax.TypeExpr) -> syntax.TypeExpr:
        return items[0] if len(items) == 1 else syntax.TupleType(items, span)

    def record_type(self, span: Span, *fields: tuple[str, syntax.TypeExpr]) -> syntax.TypeExpr:
        return syntax.RecordType(fields, span)

    def field_type(self, span: Span, name: Token, type_: syntax.TypeExpr) -> tuple[str, syntax.TypeExpr]:
        return str(name), type_

    def bag_type(self, span: Span, item: syntax.TypeExpr) -> syntax.TypeExpr:
        return syntax.BagType(item, span)

    def list_type(self, span: Span, item: syntax.TypeExpr) -> syntax.TypeExpr:
        return syntax.ListType(item, span)

    def stored_type(self, span: Span, type_: syntax.TypeExpr) -> syntax.TypeExpr:
        return type_
