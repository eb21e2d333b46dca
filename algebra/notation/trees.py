"""Syntax trees of the grammar `term.lark`, and their parts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import TypeAlias

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from mrql.algebra.errors import UserError
from mrql.algebra.span import Source, Span

Node: TypeAlias = Tree[Token]

_SIGNS = {"DOT": ".", "COMMA": ",", "LPAR": "(", "RPAR": ")", "LBRACE": "{", "RBRACE": "}", "LSQB": "[", "RSQB": "]"}


@cache
def _grammar(start: str) -> Lark:
    return Lark.open(
        "term.lark", rel_to=__file__, start=start, parser="lalr", propagate_positions=True, maybe_placeholders=False
    )


def tree_of(source: Source, start: str) -> Node:
    """The tree of a text by the rule `start` of the grammar.

    Raises: UserError with the place in the text.
    """
    try:
        return _grammar(start).parse(source.text)
    except UnexpectedInput as error:
        raise _syntax_error(source, error) from None


def _syntax_error(source: Source, error: UnexpectedInput) -> UserError:
    end = len(source.text)
    match error:
        case UnexpectedToken(token=Token(type="$END")) | UnexpectedEOF():
            return UserError("the text ends too early", Span(source, end, end), _hint(error))
        case UnexpectedToken(token=token):
            return UserError(f"unexpected {token}", place_of(source, token), _hint(error))
        case UnexpectedCharacters():
            at = error.pos_in_stream or 0
            return UserError(f"unexpected {source.text[at]}", Span(source, at, at + 1), _hint(error))
        case _:
            return UserError("this is no term", Span(source, 0, end))


def _hint(error: UnexpectedInput) -> str | None:
    """The tokens that are expected in that place, if there are few."""
    expected = getattr(error, "accepts", None) or getattr(error, "expected", None) or getattr(error, "allowed", None)
    names = sorted(_readable(name) for name in expected or () if name != "$END")
    return f"expected {' or '.join(names)}" if 0 < len(names) <= 4 else None


def _readable(terminal: str) -> str:
    if terminal in _SIGNS:
        return _SIGNS[terminal]
    pattern = next((t.pattern for t in _grammar("term").terminals if t.name == terminal), None)
    text = terminal.lower() if pattern is None else pattern.value.removesuffix("\\b")
    return "a name" if terminal == "NAME" else text


# --- parts of trees -----------------------------------------------------------------------------


def subtrees(tree: Node) -> list[Node]:
    """The subtrees, without tokens."""
    return [child for child in tree.children if isinstance(child, Tree)]


def subtree(tree: Node, index: int) -> Node:
    return subtrees(tree)[index]


def tokens_in(tree: Node) -> Iterable[Token]:
    return (child for child in tree.children if isinstance(child, Token))


def token_in(tree: Node) -> Token:
    """The first token of a node: its sign, its number, its direction."""
    return next(iter(tokens_in(tree)))


def place_of(source: Source, token: Token) -> Span:
    """The place of a token."""
    start = token.start_pos or 0
    return Span(source, start, start + len(token))


def name_in(tree: Node) -> str:
    """The name in a node, without backquotes."""
    token = next(token for token in tokens_in(tree) if token.type == "NAME")
    return str(json.loads(f'"{token[1:-1]}"', strict=False)) if token.startswith("`") else str(token)
