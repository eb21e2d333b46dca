"""The likely mistake after `group by`: a variable of the `from` is a bag there, and no longer one value."""

from __future__ import annotations

from collections.abc import Sequence

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.terms import Term
from mrql.translate.scope import Scope, names_in


def lifted_hint(expr: syntax.Expr, operands: Sequence[Term], scope: Scope) -> str | None:
    """The hint where one of the operands of an expression is the bag of a group, and so none fits."""
    if scope.group is None:
        return None
    for part, term in zip(syntax.children(expr), operands, strict=False):
        if isinstance(term.type, ty.BagType) and isinstance(part, syntax.Expr) and names_in(part) & scope.group.names:
            found, whole = part.span.text, expr.span.text
            return (
                f"after `group by`, `{found}` is a bag: aggregate it, `max({found})`; "
                f"the values of each row are `collect({whole})`"
            )
    return None
