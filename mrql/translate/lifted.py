"""Hints for a likely mistake after `group by`: a variable of the `from`, which is a bag there, is used as one value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.terms import Term
from mrql.translate.scope import Scope, Thunk

Fits: TypeAlias = Callable[[ty.Type], bool]


def any_type(element: ty.Type) -> bool:
    """Accepts elements of every type."""
    return True


def lifted_hint(expr: syntax.Expr, operands: Sequence[Term | None], scope: Scope, fits: Fits = any_type) -> str | None:
    """The hint where an operand of an expression should be one value, and is the bag of a group.

    The operands are the terms of the first parts of the expression; None for one that may well be a bag.
    """
    parts = [(part, term) for part, term in zip(syntax.children(expr), operands, strict=False) if term is not None]
    found = branch_hint([part for part, _ in parts], [term for _, term in parts], scope, fits)
    # In the body of a macro there is no group: its text does not show the arguments, and is not repeated.
    by_row = scope.group is not None and not any(_is_of_all_rows(part, term, scope) for part, term in parts)
    each = f"; the values of each row are `collect({expr.span.text})`" if by_row else ""
    return None if found is None else f"{found}{each}"


def _is_of_all_rows(part: syntax.Node, term: Term, scope: Scope) -> bool:
    """Whether an expression is one value computed from all rows of the group, and so has none for each row."""
    uses_rows = scope.group is not None and isinstance(part, syntax.Expr) and syntax.names_in(part) & scope.group.names
    return bool(uses_rows) and not ty.is_collection(term.type)


def branch_hint(parts: Sequence[syntax.Node], terms: Sequence[Term], scope: Scope, fits: Fits = any_type) -> str | None:
    """The hint where one of several expressions is the bag of a group."""
    hints = (bag_hint(part, term, scope, fits) for part, term in zip(parts, terms, strict=True))
    return next(filter(None, hints), None)


def bag_hint(part: syntax.Node, term: Term, scope: Scope, fits: Fits = any_type) -> str | None:
    """The hint where an expression is the bag of a group, and each of its elements is of a type that fits."""
    match scope.lookup(part.name) if isinstance(part, syntax.Name) else None:
        case Thunk(argument, outer):
            return bag_hint(argument, term, outer, fits)
    if scope.group is None or not isinstance(part, syntax.Expr) or not syntax.names_in(part) & scope.group.names:
        return None
    if not isinstance(term.type, ty.BagType) or not fits(term.type.item):
        return None
    found = part.span.text
    return f"after `group by`, `{found}` is a bag: aggregate it, `{_aggregation(term.type.item)}({found})`"


def _aggregation(element: ty.Type) -> str:
    """An aggregation that takes elements of a type."""
    if element == ty.BOOL:
        return "some"
    return "max" if ty.is_ordered(element) and not ty.is_document(element) else "count"
