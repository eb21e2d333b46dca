"""In how many partitions the states of views on Spark are: in one, in several, or in several as soon as there are rows.
In the last case, `GROWING`, the limits for small states are lowered as well: batches merge groups whole or look them up
in turn, whole tables are read by looking one run up in the others, states that are looked up are in blocks, by each key
that is used, and the first elements of an order are maintained apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from mrql.runtime.spark import partitions
from mrql.runtime.spark.maintenance import prefixes
from mrql.runtime.spark.state import block_index, compaction, packing

IN_ONE, GROWING, SEVERAL = "in one", "growing", "several"

MAX_ROWS = {IN_ONE: partitions.IN_ONE_MAX_ROWS, GROWING: 8, SEVERAL: -1}
"""States with at most so many rows are in one partition. A batch or two have more than 8."""

DRAWN = tuple(MAX_ROWS)
"""The values that tests are run with in turn."""


MERGED = {"SPARSE_MERGED_WHOLE_MAX_ROWS": 0, "FEW_TOUCHED_MIN_RATIO": 2, "MERGED_WHOLE_MAX_BATCHES": 1}
"""With these, a batch after one that has touched half of the groups merges them whole, and the next one does not."""

SHORT_PREFIXES = {"STATE_MIN_ROWS": 0, "MORE_ELEMENTS": 1, "GROWN_MAX_RATIO": 1}
"""With these, the first elements of an order are maintained apart, in prefixes that are too short, or are cut, every
few batches."""

READ_APART = {"LOOKED_UP_IN_OTHERS_MIN_ROWS": 0, "NEARLY_MERGED_MIN_RATIO": 0}
"""With these, the rows of the first run of any table are looked up in the others when all of it is read."""


IN_SMALL_BLOCKS = {"LOOKED_UP_IN_BLOCKS_MIN_ROWS": 4, "ROWS_PER_BLOCK": 2, "LARGE_MIN_ROWS": 4}
SHORT_SHELVES = {"SLOTS_PER_SHELF": 2}
GATHERED = {"GATHERED_MIN_ROWS_PER_KEY": 2}
"""With these, a handful of rows is in blocks, on several shelves, or gathered, and is stored by all keys by which it is
looked up."""


@contextmanager
def states(how: str) -> Iterator[None]:
    """A block in which states are partitioned in one of these ways."""
    with ExitStack() as patched:
        patched.enter_context(patch.object(partitions, "IN_ONE_MAX_ROWS", MAX_ROWS[how]))
        for name, limit in (MERGED | READ_APART | IN_SMALL_BLOCKS).items() if how == GROWING else ():
            patched.enter_context(patch.object(compaction, name, limit))
        if how == GROWING:
            patched.enter_context(patch.multiple(prefixes, **SHORT_PREFIXES))
            patched.enter_context(patch.multiple(block_index, **SHORT_SHELVES))
            patched.enter_context(patch.multiple(packing, **GATHERED))
        yield
