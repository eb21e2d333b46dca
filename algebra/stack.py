"""Stack space for deep terms, and for functions that call themselves.

A text is nested at most 200 levels deep (`mrql.parser.depth`), but a level of the text becomes several levels of a
term, and each of those several calls. These are calls of Python functions, which take little room on the machine's
stack.

A function of a query that calls itself may do so `NESTED_MAX_CALLS` times in a row, whatever Python's own limits are:
after some levels the evaluation goes on in another thread, which has a stack of its own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

STACK_MAX_CALLS = 20_000
"""The maximal depth of nested calls while a term is processed."""
NESTED_MAX_CALLS = 5_000
"""The maximal depth of nested calls of a query's own functions."""
STACK_BYTES = 64 * 2**20
"""The size of a thread's stack; only the part in use takes memory."""


def deep(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with a recursion limit of at least `STACK_MAX_CALLS` while it runs."""

    @wraps(function)
    def with_room(*args: P.args, **kwargs: P.kwargs) -> R:
        before = sys.getrecursionlimit()
        if before >= STACK_MAX_CALLS:
            return function(*args, **kwargs)
        sys.setrecursionlimit(STACK_MAX_CALLS)
        try:
            return function(*args, **kwargs)
        finally:
            sys.setrecursionlimit(before)

    return with_room


_STARTING = threading.Lock()


def on_a_stack_of_its_own(function: Callable[[], R]) -> R:
    """Runs a function in a thread of its own, and returns its result or raises its error."""
    results: list[R] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    with _STARTING:
        before = threading.stack_size(STACK_BYTES)
        try:
            thread = threading.Thread(target=run, daemon=True)
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
