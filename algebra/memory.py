"""How much memory values in Python may take.

The reference evaluator holds all values in memory, and a short query may ask for more of them than there is room for: a
range, the pairs of two tables, a loop that doubles a bag. The system would end the process without a word, or others
with it, so the evaluator looks at how much there is before it makes large values, and now and then while it makes many.
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
"""After so many elements the memory is looked at again; to look takes as long as to make some of them."""
LARGE_MIN_SIZE = 100_000
"""A text of so many characters, or a list of so many elements, is looked at by itself."""
LONG_BYTES = 40
"""What a number takes in a list, with its place there."""
PLACE_BYTES = 8
"""What an element takes in a list that is there already."""
MORE = "the reference engine holds all values in memory: `--memory SIZE` gives it more, and Spark spills to disk"
_LIMIT = [0]
"""The bytes that this process may take; 0 is half of the machine's. It is of the process, as its memory is."""


class OutOfMemory(EvaluationError):
    """There is no room for a value."""

    def __init__(self) -> None:
        super().__init__(f"out of memory: this takes more than {memory_limit() // 2**20:,} MB")
        self.hint = MORE


def limit_memory(size: int) -> None:
    """Lets this process take so many bytes for its values; 0 is half of the machine's memory."""
    _LIMIT[0] = size


def memory_limit() -> int:
    """How many bytes this process may take."""
    return _LIMIT[0] or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def memory_used() -> int:
    """How many bytes this process takes; where only that is known, the most that it has taken."""
    try:
        with open("/proc/self/statm", "rb") as numbers:
            return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def make_room(more: int = 0) -> None:
    """Raises: OutOfMemory where there is no room for so many bytes more."""
    if memory_used() + more > memory_limit():
        raise OutOfMemory()


def with_room(elements: Iterable[T], place: Callable[[], Span | None]) -> Iterator[T]:
    """The elements, as long as there is room for more of them.

    Raises: UserError where there is none, at the place that makes them.
    """
    for number, element in enumerate(elements, 1):
        if number % LOOKED_AT_MIN_ELEMENTS == 0:
            try:
                make_room()
            except OutOfMemory as error:
                raise UserError(str(error), place(), error.hint) from None
        yield element
