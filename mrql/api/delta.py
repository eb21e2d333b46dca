"""A batch of changes to a stream, as DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@attrs.frozen
class Delta:
    """A batch of changes to one stream: the rows to insert, and the rows to delete."""

    insert: DataFrame | None = None
    delete: DataFrame | None = None

    def __neg__(self) -> Delta:
        """What takes this batch back."""
        return Delta(self.delete, self.insert)

    def __add__(self, other: Delta) -> Delta:
        """Both batches as one."""
        return Delta(_union(self.insert, other.insert), _union(self.delete, other.delete))

    def __sub__(self, other: Delta) -> Delta:
        return self + -other


def _union(left: DataFrame | None, right: DataFrame | None) -> DataFrame | None:
    if left is None or right is None:
        return right if left is None else left
    return left.union(right)
