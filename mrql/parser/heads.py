"""The head of a select: one expression, or several, which make a record.

    select p.a, k, m: p.b + 1, p.b * 2   =   select <a: p.a, k: k, m: p.b + 1, _4: p.b * 2>

A field or a variable keeps its own name, a name before a `:` is that of the expression after it, and any other
expression is named by its position, like the columns of a tuple.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from mrql import syntax
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span

Item: TypeAlias = syntax.Expr | tuple[str, syntax.Expr]
"""An expression, or one with a name before it."""


def head(items: Sequence[Item], span: Span) -> syntax.Expr:
    """The expression for the items of a select.

    Raises: UserError where two items have the same name.
    """
    first = items[0]
    if len(items) == 1 and not isinstance(first, tuple):
        return first
    fields = dict[str, syntax.Expr]()
    for place, item in enumerate(items, start=1):
        name, expr = item if isinstance(item, tuple) else (_own_name(item) or f"_{place}", item)
        if name in fields:
            hint = f"name one of them otherwise: `other: {expr.span.text}`"
            raise UserError(f"two items of this select are called `{name}`", expr.span, hint)
        fields[name] = expr
    return syntax.RecordExpr(tuple(fields.items()), span)


def _own_name(expr: syntax.Expr) -> str | None:
    """The name that an expression has of its own: that of a variable or a field."""
    match expr:
        case syntax.Name(name) | syntax.Field(_, name):
            return name
        case _:
            return None
