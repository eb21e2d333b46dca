"""Types as they are written."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from mrql.algebra.span import Span
from mrql.syntax.node import Node


@attrs.frozen
class NamedType(Node):
    """`int`, `any`, or a name that a `type` or `data` statement gives."""

    name: str
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class NumberedType(Node):
    """`decimal(p, s)`; `decimal(p)` has no digits behind the point."""

    precision: int
    scale: int
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class TupleType(Node):
    """`(t, t)`; `()` has no items, and `(t)` is just `t`."""

    items: tuple[TypeExpr, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class RecordType(Node):
    """`<A: t, B: t>`."""

    fields: tuple[tuple[str, TypeExpr], ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class BagType(Node):
    """`{t}` or `bag(t)`."""

    item: TypeExpr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class ListType(Node):
    """`[t]` or `list(t)`."""

    item: TypeExpr
    span: Span = attrs.field(eq=False, repr=False)


TypeExpr: TypeAlias = NamedType | NumberedType | TupleType | RecordType | BagType | ListType
