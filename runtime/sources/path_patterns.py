"""Paths that name several files: `*`, `?`, `[a-z]` and `{csv,tsv}` in their components, as for Spark's readers.

An incomplete pattern stands for itself: `[` without `]`, and `{` without `}`.
"""

from __future__ import annotations

import re
from functools import lru_cache

_PIECE = re.compile(r"(?P<any>\*+)|(?P<one>\?)|\[(?P<but>[!^]?)(?P<of>[^]]+)\]|\{(?P<either>[^{}]*)\}|.", re.DOTALL)


def fits(name: str, wanted: str) -> bool:
    """Whether a component of a path matches a pattern.

    >>> [fits("a1.csv", wanted) for wanted in ("a*", "a?.csv", "a[0-9].*", "{a,b}[!2].csv", "a[1.csv")]
    [True, True, True, True, False]
    """
    return name == wanted or _compiled(wanted).fullmatch(name) is not None


def is_pattern(path: str) -> bool:
    """Whether a path, or a component of one, contains a pattern.

    >>> [is_pattern(path) for path in ("a/*.csv", "a?/b", "a/[0-9]", "{a,b}/c", "a[1/b{c", "a/b")]
    [True, True, True, True, False, False]
    """
    return any(found.lastgroup is not None for part in path.split("/") for found in _PIECE.finditer(part))


@lru_cache(maxsize=256)
def _compiled(wanted: str) -> re.Pattern[str]:
    return re.compile(_regex(wanted), re.DOTALL)


def _regex(wanted: str) -> str:
    return "".join(map(_piece, _PIECE.finditer(wanted)))


def _piece(found: re.Match[str]) -> str:
    if found["any"]:
        return ".*"
    if found["one"]:
        return "."
    if found["of"]:
        return _class(found["of"], is_not=bool(found["but"]))
    if found["either"] is not None:
        return f"(?:{'|'.join(map(_regex, found['either'].split(',')))})"
    return re.escape(found[0])


def _class(signs: str, *, is_not: bool) -> str:
    """The regular expression of a class of characters and ranges; a descending range is empty."""
    ranges = re.findall(r"(.)-(.)|(.)", signs, re.DOTALL)
    parts = [re.escape(one) if one else f"{re.escape(a)}-{re.escape(b)}" for a, b, one in ranges if one or a <= b]
    if not parts:
        return "." if is_not else "(?!)"
    return f"[{'^' if is_not else ''}{''.join(parts)}]"
