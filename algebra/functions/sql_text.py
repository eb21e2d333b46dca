"""Pieces of SQL that functions are written with."""

from __future__ import annotations

import re


def let_sql(name: str, value: str, body: str) -> str:
    """An expression that names a value, which is computed once."""
    return f"transform(array({value}), {name} -> {body})[0]"


def begins_sql(array: str, place: str, part: str = "") -> str:
    """Whether another value begins at a place of an array than that of the place before, of the elements or a part."""
    return f"{place} = 0 OR NOT (get({array}, {place}){part} <=> get({array}, {place} - 1){part})"


def text_sql(text: str) -> str:
    """A string in SQL, the name of a field as `named_struct` takes it among them; what could end it, is not printable
    or begins a variable of Spark's is written as its code.

    >>> print(text_sql("it's"))
    'it\\U00000027s'
    """
    plain = (c if c.isprintable() and c not in "'\\$" else f"\\U{ord(c):08x}" for c in text)
    return f"'{''.join(plain)}'"


def text_of(sql: str) -> str:
    """The text of a string in SQL, as `text_sql` writes it.

    >>> text_of(text_sql("it's"))
    "it's"
    """
    return re.sub(r"\\U([0-9a-f]{8})", lambda code: chr(int(code[1], 16)), sql[1:-1])
