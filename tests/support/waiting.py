"""Waiting for other threads and processes."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 30.0


def wait(until: Callable[[], bool]) -> None:
    """Waits until another thread or process makes a condition true; fails after `PATIENCE_SECONDS`."""
    patience = time.monotonic() + PATIENCE_SECONDS
    while not until():
        assert time.monotonic() < patience
        time.sleep(0.005)
