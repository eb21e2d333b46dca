"""Limits on the memory that values in Python may take.

The reference evaluator holds all values in memory, and a short query may ask for more of them than there is room for: a
range, the pairs of two tables, a loop that doubles a bag. The system would kill the process without a message, or
others with it, so the evaluator checks the memory before it makes a large value, and at intervals while it makes many.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from mrql.algebra.errors import EvaluationError, UserError
from mrql.algebra.span import Span

T = TypeVar("T")

LOOKED_AT_MIN_ELEMENTS = 4096
"""The number of elements after which memory is checked again; a check takes as long as making some of them."""
LARGE_MIN_SIZE = 100_000
"""The number of characters of a text, or of elements of a list, from which memory is checked for that value alone."""
LONG_BYTES = 40
"""The size of a number in a list, including its slot."""
PLACE_BYTES = 8
"""The size of the slot of an existing element in a list."""
MORE = "the reference engine holds all values in memory: `--memory SIZE` gives it more, and Spark spills to disk"
_LIMIT = [0]
"""The bytes that this process may take; 0 stands for half of the machine's memory. Global, as memory belongs to the
process."""


class OutOfMemory(EvaluationError):
    """There is no room for a value."""

    def __init__(self) -> None:
        super().__init__(f"out of memory: this takes more than {memory_limit() // 2**20:,} MB")
        self.hint = MORE


def limit_memory(size: int) -> None:
    """Limits this process to `size` bytes; 0 stands for half of the machine's memory."""
    _LIMIT[0] = size


def memory_limit() -> int:
    """The number of bytes that this process may take."""
    return _LIMIT[0] or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def memory_used() -> int:
    """The number of bytes that this process takes, or its peak where only that is known."""
    try:
        with open("/proc/self/statm", "rb") as numbers:
            return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def make_room(more: int = 0) -> None:
    """Raises: OutOfMemory if there is no room for `more` bytes."""
    if memory_used() + more > memory_limit():
        raise OutOfMemory()


def with_room(elements: Iterable[T], place: Callable[[], Span | None]) -> Iterator[T]:
    """Yields the elements as long as there is room for more of them.

    Raises: UserError, at `place()`, if there is none.
    """
    for number, element in enumerate(elements, 1):
        if number % LOOKED_AT_MIN_ELEMENTS == 0:
            try:
                make_room()
            except OutOfMemory as error:
                raise UserError(str(error), place(), error.hint) from None
        yield element
