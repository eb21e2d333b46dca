"""Deep texts make hundreds of thousands of objects, and the collector looks at all others each time."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """What is there before the first test (the test runner, the modules) is never garbage."""
    gc.collect()
    gc.freeze()
