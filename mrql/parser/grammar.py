"""The parser that `grammar.lark` describes."""

from __future__ import annotations

import functools
from importlib import resources

from lark import Lark

from mrql.parser.lexer import BracketFilter
from mrql.parser.table_cache import cached_parser


@functools.cache
def grammar() -> Lark:
    """The parser of the language; it may start with a program, an expression or a type."""
    text = resources.files("mrql.parser").joinpath("grammar.lark").read_text(encoding="utf-8")
    # The tokens that only punctuate are kept, because they may begin and end the text that a rule matched.
    return cached_parser(
        "mrql",
        text,
        BracketFilter(),
        lexer="contextual",
        start=["program", "expr", "type"],
        keep_all_tokens=True,
    )
