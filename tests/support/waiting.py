"""Waiting for what comes by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 30.0


def wait(until: Callable[[], bool]) -> None:
    """Waits for what another thread, or another process, does; it has some time for it."""
    patience = time.monotonic() + PATIENCE_SECONDS
    while not until():
        assert time.monotonic() < patience
        time.sleep(0.005)
