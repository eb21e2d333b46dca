"""When the runs of a state are merged, and how large runs are kept: the one place where the cost of a merge is weighed
against the cost of many runs.

A state is a list of runs, oldest first. Every batch adds one, and whoever reads the state reads all of them. Runs are
merged so that their number is logarithmic in the size of the state, and so that each row is merged that often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar
from uuid import uuid4

import attrs
from pyspark.sql import SparkSession

from mrql.rewrite.plan.operators import Access

T = TypeVar("T")

MERGED_WHOLE_MAX_ROWS = 200_000
"""Groups of at most this many rows are merged whole in each batch.

Looking up the touched keys of a state takes an additional query, and bringing a batch to all of it an additional job:
that costs as much as reading this many rows.
"""

LARGE_MIN_ROWS = MERGED_WHOLE_MAX_ROWS
"""A table of more rows stays in place as the side of a join: the other side is moved to it, and if the join is by
another key than its own, all rows are kept by that key, too."""

SPARSE_MERGED_WHOLE_MAX_ROWS = 50_000
"""Groups of more rows are looked up if a batch is likely to touch few of them: if that is known beforehand, or recent
batches have touched few."""

FEW_TOUCHED_MIN_RATIO = 16
"""A batch has touched few groups if the table has at least this many times as many."""

MERGED_WHOLE_MAX_BATCHES = 64
"""The number of batches merged whole after one that has touched many groups. How many these touch is not known, so the
next batch looks groups up again."""

STEPS_MERGED_WHOLE_MAX_ROWS = 10_000
"""Groups of at most this many rows are merged whole in each step of a loop, too: each number of runs has a plan of its
own, and the runs merged in a step are kept until the next batch."""

MERGED_MIN_RUNS = 3
"""Fewer runs than this are not merged: otherwise each row would be merged every batch or two."""

MERGED_MAX_RATIO = 2
"""A run is merged with those after it unless it is more than this many times larger than they are together."""

WAITED_FOR_MAX_ROWS = 400_000
"""A merge of more rows than this is not waited for: it runs in the background during the next batches."""

LOOKED_UP_MIN_ROWS = 50_000
"""If the steps of a batch look up rows repeatedly, a run of more rows than this is kept row by row."""

IN_BLOCKS_MIN_ROWS = 500_000
"""If the steps of a batch look up rows repeatedly, a run of more rows than this is kept in blocks; so is a run whose
rows contain bags, which take longer to read."""

ADDED_MAX_RUNS = 4
"""When the steps of a batch have added this many runs, they are merged into one before the next is added."""

AS_BYTES_MAX_ROWS = 50_000
"""A run of fewer rows is kept as bytes; measured for rows of four numbers."""


LOOKED_UP_IN_BLOCKS_MIN_ROWS = MERGED_WHOLE_MAX_ROWS
"""If each batch looks up the rows that it joins with or deletes, a run of more rows than this is kept in blocks:
searching blocks takes two additional plans, and hardly depends on their number. (A side of a join with fewer rows is
moved, and so read whole.)"""

LOOKED_UP_IN_OTHERS_MIN_ROWS = 500_000
"""If the first run has at least this many rows, a whole state is read by looking its rows up in the other runs: only
those found are merged. The ten greatest groups of a million were found in 248 ms instead of 356, of 250,000 in 126
instead of 107."""

NEARLY_MERGED_MIN_RATIO = 8
"""This is done only if the first run has at least this many times the rows of all others together."""

ROWS_PER_BLOCK = 16
"""The greatest average number of rows in a block: this many are opened for each key that is wanted. With fewer, more
numbers are kept beside the rows, and blocks take longer to make."""


@attrs.frozen
class Policy:
    """When the runs of a table are merged, and how large ones are kept."""

    merged_whole_max_rows: int
    """Groups of at most this many rows are merged whole if batches touch many of them."""
    looked_up_min_rows: int
    """Groups of more rows than this are looked up if batches touch few of them."""
    large_min_rows: int
    """A table of more rows is large: an additional query, or job, pays if not all rows need be read then."""
    packed_min_rows: int
    """A run of more rows is packed."""
    blocks_min_rows: int | None
    """A run of more rows is packed in blocks, if its rows are partitioned by key; None if no run is."""
    row_by_row: bool = False
    """Whether a run that is not in blocks is kept row by row, if its rows are partitioned by key; otherwise by
    columns."""


def policy(access: Access) -> Policy:
    """The policy for a table with the given access by batches."""
    if Access.STEPS in access:
        return Policy(
            STEPS_MERGED_WHOLE_MAX_ROWS,
            STEPS_MERGED_WHOLE_MAX_ROWS,
            LOOKED_UP_MIN_ROWS,
            packed_min_rows=LOOKED_UP_MIN_ROWS,
            blocks_min_rows=IN_BLOCKS_MIN_ROWS,
            row_by_row=True,
        )
    sparse = min(SPARSE_MERGED_WHOLE_MAX_ROWS, MERGED_WHOLE_MAX_ROWS)
    whole = sparse if Access.SPARSE in access else MERGED_WHOLE_MAX_ROWS
    blocks = LOOKED_UP_IN_BLOCKS_MIN_ROWS if Access.LOOKED_UP in access else None
    packed = WAITED_FOR_MAX_ROWS if blocks is None else blocks
    return Policy(whole, sparse, LARGE_MIN_ROWS, packed, blocks)


def due(sizes: Sequence[int | None]) -> int:
    """The number of last runs that should be merged into one, by their sizes; a run not computed yet is left alone.

    The steps of a batch add fewer and fewer rows, so that the last run may be too small to be merged with the one
    before it, while all runs since an older one are large enough to be merged with that.

    >>> due([1000, 40, 30, 20]), due([1000, 40, 30]), due([100, 30, 20]), due([100, 30, None])
    (3, 0, 3, 0)
    >>> due([1000, 50, 10, 0, 50, 8])
    5
    """
    found = size = 0
    for count, rows in enumerate(reversed(sizes), start=1):
        if rows is None:
            break
        if count > 1 and rows <= MERGED_MAX_RATIO * size:
            found = count
        size += rows
    return found if found >= MERGED_MIN_RUNS else 0


def is_nearly_merged(sizes: Sequence[int | None]) -> bool:
    """Whether nearly all rows of some runs, by their sizes, are in the first: looking these up in the others then takes
    less time than merging all. A run that is not computed yet is a batch's, and is taken to be small.

    >>> is_nearly_merged([1_000_000, 40, None]), is_nearly_merged([1_000_000, 400_000]), is_nearly_merged([40, None])
    (True, False, False)
    """
    first, *others = (rows or 0 for rows in sizes or [0])
    return bool(others) and first >= LOOKED_UP_IN_OTHERS_MIN_ROWS and sum(others) * NEARLY_MERGED_MIN_RATIO <= first


class BackgroundCompaction:
    """Computes large runs in the background, one after the other and on half of the cores."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._group = f"mrql-{uuid4()}"
        self._threads: ThreadPoolExecutor | None = None

    def compute(self, computed: Callable[[int], T], *, now: bool = False) -> Future[T]:
        """Starts a computation in the background, given how many tasks it may run at a time; or does it `now`, on all
        cores."""
        if now:
            return self._computed(computed)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="mrql-compaction")
        return self._threads.submit(self._compute, computed)

    def _computed(self, computed: Callable[[int], T]) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(computed(self._spark.sparkContext.defaultParallelism))
        except Exception as error:
            done.set_exception(error)
        return done

    def _compute(self, computed: Callable[[int], T]) -> T:
        context = self._spark.sparkContext
        context.setJobGroup(self._group, "merging the runs of a state", interruptOnCancel=True)
        return computed(max(1, context.defaultParallelism // 2))

    def close(self) -> None:
        """Cancels what is not finished."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            # The computation at work runs several jobs, one after the other.
            self._spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._group)
            self._threads.shutdown(wait=True)
            self._threads = None
