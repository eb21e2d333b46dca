"""When the runs of a state are merged, and how large ones are kept: the one place where what a merge costs is weighed
against what many runs cost.

A state is a list of runs, oldest first. Every batch adds one; whoever reads the state reads all of them. So runs are
merged such that their number stays the logarithm of the state's size, and so that each row is merged as often.
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
"""Groups of at most so many rows are merged whole in each batch.

To look up the touched keys of a state is a query more, and to bring a batch to all of it a job: that is what reading so
many rows costs.
"""

LARGE_MIN_ROWS = MERGED_WHOLE_MAX_ROWS
"""As the side of a join a table of more rows stays where it is: what meets it goes there, and where that is by another
key than its own, all rows are kept by that key, too."""

SPARSE_MERGED_WHOLE_MAX_ROWS = 50_000
"""Groups of more rows are looked up where a batch is likely to touch few of them: where it is known beforehand, or the
last ones have."""

FEW_TOUCHED_MIN_RATIO = 16
"""A batch has touched few groups if there are at least so many times as many."""

MERGED_WHOLE_MAX_BATCHES = 64
"""After a batch that has touched many, so many are merged whole. What these touch is not known, so the next one is
looked up again."""

STEPS_MERGED_WHOLE_MAX_ROWS = 10_000
"""Groups of at most so many rows are merged whole in each step of a loop too: each number of runs is a plan of its own,
and what was merged in a step is kept until the next batch.
"""

MERGED_MIN_RUNS = 3
"""Fewer runs than this are not merged: each row would be merged with each batch or two."""

MERGED_MAX_RATIO = 2
"""A run is merged with those after it unless it is more than so many times larger than they are together."""

WAITED_FOR_MAX_ROWS = 400_000
"""A merge of more rows than this is not waited for: it is done beside the batches that follow."""

LOOKED_UP_MIN_ROWS = 50_000
"""Where steps of a batch look up something again and again, a run of more rows than this is kept row by row."""

IN_BLOCKS_MIN_ROWS = 500_000
"""One of more rows than this is kept in blocks then; so is one of rows with bags in them, which take longer to read."""

ADDED_MAX_RUNS = 4
"""Of the runs that one batch adds in the steps of a loop so many are merged into one."""

AS_BYTES_MAX_ROWS = 50_000
"""A run of fewer rows is kept as bytes; measured for rows of four numbers."""


LOOKED_UP_IN_BLOCKS_MIN_ROWS = MERGED_WHOLE_MAX_ROWS
"""Where each batch looks up what it meets, or takes away, a run of more rows than this is kept in blocks: to search
these costs two plans more, and hardly depends on how many there are. (A side of a join with fewer rows is moved, and so
read whole.)"""

LOOKED_UP_IN_OTHERS_MIN_ROWS = 500_000
"""Where the first run has at least so many rows, a whole state is read by looking them up in the other runs: only those
that are found are merged. The ten greatest groups of a million were found in 248 ms for 356, of 250,000 in 126 for
107."""

NEARLY_MERGED_MIN_RATIO = 8
"""That is done where the first run has at least so many times the rows of all others."""

ROWS_PER_BLOCK = 16
"""At most so many rows a block has on average: so many are opened for each that is wanted. With fewer, more numbers are
kept beside the rows, and blocks take longer to make."""


@attrs.frozen
class Policy:
    """When the runs of a table are merged, and how large ones are kept."""

    merged_whole_max_rows: int
    """Groups of at most so many rows are merged whole when they change much."""
    looked_up_min_rows: int
    """Groups of more rows than this are looked up where batches touch few of them."""
    large_min_rows: int
    """A table of more rows is large: it is worth a query more, or a job, not to touch all of them."""
    packed_min_rows: int
    """A run of more rows is packed."""
    blocks_min_rows: int | None
    """A run of more rows is packed in blocks, where its rows lie by their key; None where none is."""
    row_by_row: bool = False
    """Whether what is not in blocks is kept row by row, where its rows lie by their key, and else by columns."""


def policy(access: Access) -> Policy:
    """How a table is kept that batches read and change in some way."""
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
    """How many of the last runs should be merged into one, by their rows; a run that is not computed yet is left alone.

    The steps of a batch leave less and less, so that a last run may be too small for the one before it, but all that
    came since an older one are enough for that.

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
    """Whether the rows of some runs, by how many there are of each, are nearly all in the first: to look these up in
    the others takes less than to merge all. A run that is not computed yet is a batch that is taken to be small.

    >>> is_nearly_merged([1_000_000, 40, None]), is_nearly_merged([1_000_000, 400_000]), is_nearly_merged([40, None])
    (True, False, False)
    """
    first, *others = (rows or 0 for rows in sizes or [0])
    return bool(others) and first >= LOOKED_UP_IN_OTHERS_MIN_ROWS and sum(others) * NEARLY_MERGED_MIN_RATIO <= first


class BackgroundCompaction:
    """Computes large runs beside the batches, one after the other and on half of the cores."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._group = f"mrql-{uuid4()}"
        self._threads: ThreadPoolExecutor | None = None

    def compute(self, computed: Callable[[int], T], *, now: bool = False) -> Future[T]:
        """Starts to compute something, in as many tasks at a time as it is given; or does so `now`, on all cores."""
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
        """Gives up what is not finished."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            # What is at work has several jobs, one after the other.
            self._spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._group)
            self._threads.shutdown(wait=True)
            self._threads = None
