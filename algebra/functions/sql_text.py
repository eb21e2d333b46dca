"""Pieces of SQL that functions over arrays are written with."""

from __future__ import annotations


def let_sql(name: str, value: str, body: str) -> str:
    """An expression that names a value, which is computed once."""
    return f"transform(array({value}), {name} -> {body})[0]"


def begins_sql(array: str, place: str, part: str = "") -> str:
    """Whether another value begins at a place of an array than that of the place before, of the elements or a part."""
    return f"{place} = 0 OR NOT (get({array}, {place}){part} <=> get({array}, {place} - 1){part})"
