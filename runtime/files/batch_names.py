"""What batches are called where they are put: their numbers have six digits, and more from the millionth one on."""

from __future__ import annotations

import re

NAMED = re.compile(r"batch-(\d{6,})(?:-.*)?")


def batch_name(number: int) -> str:
    """What a batch is called.

    >>> batch_name(7), batch_name(1_000_000)
    ('batch-000007', 'batch-1000000')
    """
    return f"batch-{number:06d}"


def batch_number(name: str) -> int | None:
    """The number of what is called as a batch, or with more behind it. Names are not compared: as texts they have
    another order.

    >>> batch_number("batch-1000000"), batch_number("batch-000007-whole"), batch_number("batch-mine")
    (1000000, 7, None)
    """
    found = NAMED.fullmatch(name)
    return None if found is None else int(found[1])
