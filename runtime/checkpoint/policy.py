"""What a commit writes of a table, and what is kept of earlier commits: the one place where that is decided.

Writing a change costs its own rows, and a restore has to merge it; a snapshot costs all rows, and replaces all runs
before it. A table whose changes are together as large as its snapshot is written whole: so each row is written a
constant number of times, and a restore reads at most twice the state.
"""

from __future__ import annotations

from collections.abc import Sequence

REWRITTEN_WHOLE_MAX_ROWS = 1_000
"""A table of at most this many rows is written whole in each batch that changes it: opening a file costs more."""

SAVED_MAX_RUNS = 32
"""The largest number of runs of a table: a restore opens the files of each."""

NAMED_MAX_FILES = 1_000
"""A manifest itself names at most this many files that were read of a directory; the others are in lists."""

KEPT_MANIFESTS = 2
"""The number of manifests that are kept, with the runs that they name: the last one, and those before it."""


def is_small(rows: int) -> bool:
    """Whether a table of `rows` rows is written whole, so that its next change need not be kept by itself."""
    return rows <= REWRITTEN_WHOLE_MAX_ROWS


def writes_whole(saved: Sequence[int], rows: int) -> bool:
    """Whether a changed table of `rows` rows is written whole; `saved` has the rows of its runs, oldest first.

    >>> writes_whole([], 5000), writes_whole([5000], 900)
    (True, True)
    >>> writes_whole([5000, 40], 5040), writes_whole([50, 40, 10], 5000)
    (False, True)
    """
    return not saved or is_small(rows) or len(saved) >= SAVED_MAX_RUNS or sum(saved[1:]) >= saved[0]
