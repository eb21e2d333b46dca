"""From the parse tree, which follows the grammar, to the syntax tree."""

from __future__ import annotations

from typing import Any

from lark import Token, Tree

from mrql.algebra.span import Span
from mrql.parsing.expressions import ExpressionBuilder
from mrql.parsing.patterns import PatternBuilder
from mrql.parsing.statements import StatementBuilder
from mrql.parsing.types import TypeBuilder


class TreeBuilder(StatementBuilder, ExpressionBuilder, PatternBuilder, TypeBuilder):
    """One method for each rule of the grammar, called from the leaves up."""

    def build(self, tree: Tree[Token]) -> Any:
        """What the method of a tree's rule makes of it. A stack of its own takes a tree of any depth."""
        waiting: list[Tree[Token] | Token] = [tree]
        order: list[Tree[Token] | Token] = []
        while waiting:
            part = waiting.pop()
            order.append(part)
            if isinstance(part, Tree):
                waiting.extend(part.children)
        # What is built, with where it starts and ends.
        built: list[tuple[Any, int, int]] = []
        for part in reversed(order):
            if isinstance(part, Tree):
                first = len(built) - len(part.children)
                parts = built[first:]
                del built[first:]
                start, end = (parts[0][1], parts[-1][2]) if parts else (0, 0)
                built.append((self._node(part.data, start, end, parts), start, end))
            else:
                built.append((part, part.start_pos or 0, part.end_pos or 0))
        return built[0][0]

    def _node(self, rule: str, start: int, end: int, parts: list[tuple[Any, int, int]]) -> Any:
        span = Span(self._source, self._offset + start, self._offset + end)
        # Brackets and keywords say where a rule begins and ends, and no more.
        wanted = [part for part, _, _ in parts if not (isinstance(part, Token) and part.type.startswith("_"))]
        return getattr(self, rule)(span, *wanted)
