"""The names of batches in directories: their numbers have six digits, and more from the millionth batch on."""

from __future__ import annotations

import re

NAMED = re.compile(r"batch-(\d{6,})(?:-.*)?")


def batch_name(number: int) -> str:
    """The name of a batch.

    >>> batch_name(7), batch_name(1_000_000)
    ('batch-000007', 'batch-1000000')
    """
    return f"batch-{number:06d}"


def batch_number(name: str) -> int | None:
    """The number in the name of a batch, which may have a suffix; None if it is not such a name. Batches are compared
    by number: as texts, their names have another order.

    >>> batch_number("batch-1000000"), batch_number("batch-000007-whole"), batch_number("batch-mine")
    (1000000, 7, None)
    """
    found = NAMED.fullmatch(name)
    return None if found is None else int(found[1])
