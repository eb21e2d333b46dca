"""From text to syntax tree.

`grammar.lark` defines the language. What a context-free grammar does not express well is in the other modules of
`mrql.parser`: which `>` ends a record and which `in` a `let` (`lexer`), the precedence of operators (`precedence`), the
syntax tree (`tree_builder`), XML literals (`xml_literals`), and error messages (`errors`). Parsing does not recurse
along the text, so a text that is nested too deeply gets an error message, too.
"""

from __future__ import annotations

from typing import Any

from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from mrql import syntax
from mrql.algebra.errors import UserError
from mrql.algebra.span import Source, Span
from mrql.parser.depth import QUERY_MAX_LEVELS, check_depth
from mrql.parser.errors import explain
from mrql.parser.grammar import grammar
from mrql.parser.lexer import IN_A_FILE, RefusedToken
from mrql.parser.tree_builder import TreeBuilder

__all__ = [
    "QUERY_MAX_LEVELS",
    "parse_expression",
    "parse_expression_at",
    "parse_program",
    "parse_program_at",
    "parse_type",
]


QUERY_MAX_CHARACTERS = 1_000_000
"""The largest number of characters in a text."""


def parse_program(text: str, name: str = "<query>", *, included: bool = False) -> syntax.Script:
    """The tree of a whole text. Errors call the text by its `name`, which is that of a file if it is `included`."""
    return parse_program_at(Source(name, text, included=included), 0)


def parse_program_at(source: Source, begin: int) -> syntax.Script:
    """The tree of the program in a text from an offset on."""
    program: syntax.Script = _parse("program", source, begin, len(source.text))
    return program


def parse_expression_at(source: Source, begin: int) -> syntax.Expr:
    """The tree of the expression in a text from an offset on."""
    return _parse_expression(source, begin, len(source.text))


def parse_expression(text: str, name: str = "<query>") -> syntax.Expr:
    """The tree of a text that is one expression."""
    return _parse_expression(Source(name, text), 0, len(text))


def parse_type(text: str, name: str = "<query>") -> syntax.TypeExpr:
    """The tree of a text that is one type."""
    type_: syntax.TypeExpr = _parse("type", Source(name, text), 0, len(text))
    return type_


def _parse_expression(source: Source, begin: int, end: int) -> syntax.Expr:
    expr: syntax.Expr = _parse("expr", source, begin, end)
    return expr


def _parse(start: str, source: Source, begin: int, end: int) -> Any:
    """Parses a part of a source; all spans are relative to the whole source."""
    if end - begin > QUERY_MAX_CHARACTERS:
        message = f"a query of more than {QUERY_MAX_CHARACTERS:,} characters"
        raise UserError(message, Span(source, begin, begin + 1), IN_A_FILE)
    try:
        tree = grammar().parse(source.text[begin:end], start=start)
    except (UnexpectedToken, UnexpectedCharacters) as error:
        raise explain(error, source, begin, end) from None
    except RefusedToken as error:
        at = begin + (error.token.start_pos or 0)
        raise UserError(error.message, Span(source, at, at + 1), error.hint) from None
    node = TreeBuilder(source, begin, lambda begin, end: _parse_expression(source, begin, end)).build(tree)
    check_depth(node)
    return node
