"""The maximal depth of a syntax tree."""

from __future__ import annotations

from mrql import syntax
from mrql.algebra.errors import UserError

# The passes after the parser recurse along the tree (`algebra.stack` makes room), and so do Spark's.
QUERY_MAX_LEVELS = 200


def check_depth(node: syntax.Node) -> None:
    """Raises: UserError for a tree that is too deep for the passes after the parser."""
    level = [node]
    for _ in range(QUERY_MAX_LEVELS):
        level = [child for parent in level for child in syntax.children(parent)]
        if not level:
            return
    raise UserError(
        f"nested too deeply: more than {QUERY_MAX_LEVELS} levels",
        level[0].span,
        "give a name to a part of it: `x = …;`",
    )
