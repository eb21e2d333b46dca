"""The base class of the nodes of a syntax tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import attrs

from mrql.algebra.span import Span


class Node:
    """The base class of all nodes: each has a place in the text."""

    __slots__ = ()
    __attrs_attrs__: ClassVar[Any]  # every node is an attrs class, though this one is not

    span: Span


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below a node, in the order of its fields."""
    for field in attrs.fields(type(node)):
        if field.name != "span":
            yield from _nodes_in(getattr(node, field.name))


def nodes(node: Node) -> Iterator[Node]:
    """A node and all nodes below it, in the order of the text's structure: each before those below it.

    It does not recurse: a tree may be deeper than the stack until `parser/depth.py` has refused it.
    """
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed([*children(current)]))


def _nodes_in(value: object) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _nodes_in(item)
