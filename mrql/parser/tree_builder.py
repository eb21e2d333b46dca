"""From the parse tree, which follows the grammar, to the syntax tree."""

from __future__ import annotations

from typing import Any

from lark import Token, Tree

from mrql.algebra.span import Span
from mrql.parser.expressions import ExpressionBuilder
from mrql.parser.patterns import PatternBuilder
from mrql.parser.statements import StatementBuilder
from mrql.parser.types import TypeBuilder


class TreeBuilder(StatementBuilder, ExpressionBuilder, PatternBuilder, TypeBuilder):
    """One method for each rule of the grammar, called from the leaves up."""

    def build(self, tree: Tree[Token]) -> Any:
        """The result of the method for a tree's rule. An explicit stack allows trees of any depth."""
        waiting: list[Tree[Token] | Token] = [tree]
        order: list[Tree[Token] | Token] = []
        while waiting:
            part = waiting.pop()
            order.append(part)
            if isinstance(part, Tree):
                waiting.extend(part.children)
        # The nodes built, each with its start and end. Brackets and keywords only delimit a rule: their node is None.
        built: list[tuple[Any, int, int]] = []
        for part in reversed(order):
            if isinstance(part, Tree):
                first = len(built) - len(part.children)
                parts = built[first:]
                del built[first:]
                start, end = (parts[0][1], parts[-1][2]) if parts else (0, 0)
                span = Span(self._source, self._offset + start, self._offset + end)
                nodes = [node for node, _, _ in parts if node is not None]
                built.append((getattr(self, part.data)(span, *nodes), start, end))
            else:
                token = None if part.type.startswith("_") else part
                built.append((token, part.start_pos or 0, part.end_pos or 0))
        return built[0][0]
