"""Fragments of SQL for the Catalyst forms of functions."""

from __future__ import annotations

import re


def let_sql(name: str, value: str, body: str) -> str:
    """An expression that binds a name to a value, which is computed once."""
    return f"transform(array({value}), {name} -> {body})[0]"


def begins_sql(array: str, place: str, part: str = "") -> str:
    """Whether an element of an array, or a `part` of it, differs from the one before; true for the first element."""
    return f"{place} = 0 OR NOT (get({array}, {place}){part} <=> get({array}, {place} - 1){part})"


def text_sql(text: str) -> str:
    """A string literal in SQL, also for the name of a field in `named_struct`. Characters that could end it, begin a
    variable of Spark's, or are not printable are written as their codes.

    >>> print(text_sql("it's"))
    'it\\U00000027s'
    """
    plain = (c if c.isprintable() and c not in "'\\$" else f"\\U{ord(c):08x}" for c in text)
    return f"'{''.join(plain)}'"


def text_of(sql: str) -> str:
    """The text of a string literal written by `text_sql`.

    >>> text_of(text_sql("it's"))
    "it's"
    """
    return re.sub(r"\\U([0-9a-f]{8})", lambda code: chr(int(code[1], 16)), sql[1:-1])
