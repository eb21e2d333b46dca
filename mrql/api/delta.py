"""A batch of changes to a stream, as DataFrames of Spark or of pandas, or tables of Arrow."""

from __future__ import annotations

import attrs

from mrql.api.frames import Rows, together


@attrs.frozen
class Delta:
    """A batch of changes to one stream: the rows to insert, and the rows to delete."""

    insert: Rows | None = None
    delete: Rows | None = None

    def __neg__(self) -> Delta:
        """What takes this batch back."""
        return Delta(self.delete, self.insert)

    def __add__(self, other: Delta) -> Delta:
        """Both batches as one."""
        return Delta(together(self.insert, other.insert), together(self.delete, other.delete))

    def __sub__(self, other: Delta) -> Delta:
        return self + -other
