"""Constants as they are written."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeAlias

import attrs

from mrql.algebra.span import Span
from mrql.syntax.node import Node


@attrs.frozen
class IntLit(Node):
    """`42`. Its type depends on its size, and is left to the translation; a sign is a `Unary`."""

    value: int
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class FloatLit(Node):
    """`1.5`, `1e3`."""

    value: float
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class DecimalLit(Node):
    """`1.50m`, with all its digits."""

    value: Decimal
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class StringLit(Node):
    """`"a"` or `'a'`, with its escapes resolved."""

    value: str
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class BoolLit(Node):
    """`true` or `false`."""

    value: bool
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class NullLit(Node):
    """`null`."""

    span: Span = attrs.field(eq=False, repr=False)


Literal: TypeAlias = IntLit | FloatLit | DecimalLit | StringLit | BoolLit | NullLit
