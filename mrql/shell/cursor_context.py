"""What the parser knows of a place in a text that is still being written.

A marker is put at the place as a name, and the parser goes as far as it can. That shows which terminals it would accept
at the place, what stands before it, and what binds names around it, whether or not the rest is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, TypeAlias

import attrs
from lark import Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from mrql.algebra.errors import UserError
from mrql.algebra.span import Source
from mrql.parser.errors import accepted_by
from mrql.parser.grammar import grammar
from mrql.parser.lexer import RefusedToken
from mrql.parser.tree_builder import TreeBuilder

_MARK = "completed_here"
_WORD = re.compile(r"[^\W\d]\w*\Z")

BINDERS = {"generator", "binding", "key", "function_parameter", "lambda_parameter"}
"""The rules that bind names."""
SCOPES = {"select", "quantified", "let", "function", "untyped_lambda", "typed_lambda"}
"""The rules that end the scope of what is bound inside them."""

Part: TypeAlias = Tree[Token] | Token
Level: TypeAlias = list[tuple[str, Any]]
"""Rules that bind names, each with the syntax that it was built to; the keys of a group-by are the last."""


@attrs.frozen
class CursorContext:
    """A place in a text."""

    start: int
    """Where the word at the place begins."""
    word: str
    """The part of the word before the cursor."""
    accepted: frozenset[str]
    """The terminals of the grammar that could stand there."""
    before: tuple[Part, ...]
    """The stack of the parser before the place: what has been read, as far as it has been reduced."""
    around: tuple[Part, ...]
    """The stack of the parser at its end."""
    builder: TreeBuilder

    @property
    def signs(self) -> tuple[str, ...]:
        """The types of the two tokens before the place, the nearest last; empty for what is no token."""
        return tuple(part.type if isinstance(part, Token) else "" for part in self.before[-2:])

    @property
    def names_a_field(self) -> bool:
        """Whether the place follows the dot of a projection; after that of a function, an expression is accepted."""
        return self.signs[-1:] == ("_DOT",) and "_SELECT" not in self.accepted

    def projected(self) -> Any:
        """The expression before the dot of the projection that the place follows, or None."""
        term = self.before[-2] if self.names_a_field and len(self.before) > 1 else None
        return self._built(term) if isinstance(term, Tree) else None

    def levels(self) -> Iterator[Level]:
        """The binders of the names that are known at the place, the outermost level first."""
        inner: Sequence[Part] | None = self.around
        while inner is not None:
            trees, inner = self._level(inner)
            found = {rule: [tree for tree in trees if tree.data == rule] for rule in BINDERS}
            # The keys of a group-by are known before the `from` and after the keys, and not between them.
            begin = min(map(_start, found["generator"]), default=0)
            grouped = [key for key in found["key"] if not begin <= self.start < _end(key)]
            kept = [tree for tree in trees if tree.data != "key"] + (grouped if grouped == found["key"] else [])
            yield [(str(tree.data), node) for tree in kept if (node := self._built(tree)) is not None]

    def _level(self, level: Sequence[Part]) -> tuple[list[Tree[Token]], Sequence[Part] | None]:
        """The binders of a level of scopes, and the parts of the inner scope that holds the place."""
        binders: list[Tree[Token]] = []
        inner: Sequence[Part] | None = None
        waiting = list(reversed(level))
        while waiting:
            part = waiting.pop()
            if isinstance(part, Token):
                continue
            if part.data in SCOPES:
                inner = part.children if self._holds(part) else inner
                continue
            if part.data in BINDERS:
                binders.append(part)
            waiting.extend(reversed(part.children))
        return binders, inner

    def _holds(self, tree: Tree[Token]) -> bool:
        return any(isinstance(part, Token) and part == _MARK for part in tree.scan_values(lambda _: True))

    def _built(self, tree: Tree[Token]) -> Any:
        try:
            return self.builder.build(tree)
        except UserError:  # for example, an XML literal that is not complete yet
            return None


def place_at(text: str, cursor: int, start: str = "program") -> CursorContext | None:
    """The place of the cursor in a text that begins like `start`; None inside a string or comment, and where the text
    before it is wrong."""
    word = _WORD.search(text[:cursor])
    at = word.start() if word else cursor
    rest = text[cursor:]
    marked = text[:at] + _MARK + (re.sub(r"\A\w*", "", rest) if word else rest)
    reader = grammar().parse_interactive(marked, start=start)
    state: Any = reader.parser_state
    found: tuple[frozenset[str], tuple[Part, ...]] | None = None
    try:
        for token in reader.iter_parse():
            if token.start_pos == at:
                found = _known(state)
        if "$END" in accepted_by(state):
            state.value_stack[:] = [reader.feed_token(Token("$END", ""))]
    except UnexpectedToken as error:
        if found is None and error.token.start_pos == at:
            found = _known(state)
    except RefusedToken:
        return None
    except UnexpectedCharacters as error:
        if found is None and error.pos_in_stream == at:
            found = _known(state)
    if found is None:
        return None
    accepted, before = found
    builder = TreeBuilder(Source("<completed>", marked), 0, _no_part)
    return CursorContext(at, word[0] if word else "", accepted, before, tuple(state.value_stack), builder)


def _start(tree: Tree[Token]) -> int:
    return min((token.start_pos or 0 for token in tree.scan_values(lambda _: True)), default=0)


def _end(tree: Tree[Token]) -> int:
    return max((token.end_pos or 0 for token in tree.scan_values(lambda _: True)), default=0)


def _known(state: Any) -> tuple[frozenset[str], tuple[Part, ...]]:
    return frozenset(accepted_by(state)), tuple(state.value_stack)


def _no_part(begin: int, end: int) -> NoReturn:
    """Raises: UserError, always: nothing is completed inside XML literals."""
    raise UserError("an expression in an XML literal")
