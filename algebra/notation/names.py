"""Names and strings, written so that they are read back as such."""

from __future__ import annotations

import json
import re

_OPERATORS = frozenset(("cMap", "groupBy", "coGroup", "reduce", "orderBy", "take", "repeat", "stream"))
_CONSTANTS = frozenset(("true", "false", "null", "NaN", "NaNf", "Infinity", "Infinityf"))
_WORDS = frozenset(("let", "in", "if", "then", "else", "as", "and", "or", "not", "mod", "while", "within", "_"))
RESERVED: frozenset[str] = _OPERATORS | _CONSTANTS | _WORDS
"""The words that must be between backquotes as the name of a variable, a stream or a function."""

_PLAIN = re.compile(r"(?!λ)[^\W\d]\w*")


def show_name(name: str) -> str:
    """A name, between backquotes when it could be read as something else.

    >>> show_name("k1"), show_name("let"), show_name("a b")
    ('k1', '`let`', '`a b`')
    """
    if _PLAIN.fullmatch(name) and name not in RESERVED:
        return name
    escaped = _escape(name).replace("`", "\\u0060")
    return f"`{escaped}`"


def show_string(text: str) -> str:
    """A string as in JSON, with all characters escaped that are not printable."""
    return f'"{_escape(text)}"'


def _escape(text: str) -> str:
    return "".join(c if c.isprintable() and c not in '"\\' else json.dumps(c)[1:-1] for c in text)
