"""How long parts of a batch take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

K = TypeVar("K")


@contextmanager
def timed(milliseconds: dict[K, float], part: K) -> Iterator[None]:
    """Adds the time of a block to that of a part."""
    started = time.perf_counter()
    try:
        yield
    finally:
        milliseconds[part] = milliseconds.get(part, 0.0) + (time.perf_counter() - started) * 1000
