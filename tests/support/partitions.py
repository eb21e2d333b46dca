"""In how many partitions the states of views on Spark are: in one, in several, or in several once there are rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from mrql.runtime.spark import partitions

IN_ONE, GROWING, SEVERAL = "in one", "growing", "several"

MAX_ROWS = {IN_ONE: partitions.IN_ONE_MAX_ROWS, GROWING: 8, SEVERAL: -1}
"""So many rows of states are in one partition. A handful is there after a batch or two."""

DRAWN = tuple(MAX_ROWS)
"""What tests are run with in turn."""


@contextmanager
def states(how: str) -> Iterator[None]:
    """A block in which states are so."""
    with patch.object(partitions, "IN_ONE_MAX_ROWS", MAX_ROWS[how]):
        yield
