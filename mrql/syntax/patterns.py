"""Patterns, as they occur before `in`, in a `let`, and in a branch of a `case`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import attrs

from mrql.algebra.span import Span
from mrql.syntax.literals import Literal
from mrql.syntax.node import Node, nodes
from mrql.syntax.types import TypeExpr


@attrs.frozen
class VarPattern(Node):
    """A name. It may turn out to be a constructor without arguments."""

    name: str
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class WildcardPattern(Node):
    """`*` or `_`: matches anything, binds no name."""

    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class ConstPattern(Node):
    """A constant, with its sign: `10`, `-1`, `"CSE"`."""

    value: Literal
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class TuplePattern(Node):
    """`(p, p)`; `()` has no items, and `(p)` is just `p`."""

    items: tuple[Pattern, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class RecordPattern(Node):
    """`<A: p, B: p>`; fields that are not named may hold anything."""

    fields: tuple[tuple[str, Pattern], ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class ListPattern(Node):
    """`[p, p]`: a list of exactly as many elements."""

    items: tuple[Pattern, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class ConstructorPattern(Node):
    """`C(p, p)`."""

    name: str
    args: tuple[Pattern, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class TypedPattern(Node):
    """`p as t`."""

    pattern: Pattern
    type: TypeExpr
    span: Span = attrs.field(eq=False, repr=False)


Pattern: TypeAlias = (
    VarPattern
    | WildcardPattern
    | ConstPattern
    | TuplePattern
    | RecordPattern
    | ListPattern
    | ConstructorPattern
    | TypedPattern
)


def variables(node: Node) -> Iterator[VarPattern]:
    """The variables of a pattern, one for each occurrence."""
    return (each for each in nodes(node) if isinstance(each, VarPattern))
