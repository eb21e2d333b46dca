"""Room for deep terms.

A text is nested at most 200 levels deep (`parsing.depth`), but a level of the text becomes several of a term, and each
of those several calls. They are calls of Python functions, which take no room on the machine's stack.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

CALLS = 20_000
"""How deep calls may be nested in each other while a term is worked on."""


def deep(function: Callable[P, R]) -> Callable[P, R]:
    """The function with room for `CALLS` nested calls, as long as it runs."""

    @wraps(function)
    def with_room(*args: P.args, **kwargs: P.kwargs) -> R:
        before = sys.getrecursionlimit()
        if before >= CALLS:
            return function(*args, **kwargs)
        sys.setrecursionlimit(CALLS)
        try:
            return function(*args, **kwargs)
        finally:
            sys.setrecursionlimit(before)

    return with_room
