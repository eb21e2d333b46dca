"""A batch of changes to a stream, as DataFrames of Spark or pandas, or tables of Arrow."""

from __future__ import annotations

import attrs

from mrql.algebra.errors import UserError
from mrql.api.frames import Rows, together


@attrs.frozen
class Delta:
    """A batch of changes to one stream: the rows to insert, and the rows to delete.

    Instead of these, it may have `changes`, each of which says what has happened to a row: those of a change feed of
    Delta Lake, or of Debezium.

    For a stream with a key, it has the rows to `upsert`, each of which replaces the row with the same key, and
    `delete_keys`, the keys of the rows to delete, with their versions if the stream has versions.
    """

    insert: Rows | None = None
    """The rows that come."""
    delete: Rows | None = None
    """The rows that go, each once for each time that it goes."""
    upsert: Rows | None = None
    """The rows that replace those with the same key."""
    delete_keys: Rows | None = None
    """The keys of the rows that go, and their versions."""
    changes: Rows | None = None
    """The rows of a change feed."""

    def __neg__(self) -> Delta:
        """The batch that undoes this one.

        Raises: UserError if it has rows to `upsert` or `delete_keys`, as it does not say which rows these replace or
            delete; or if it has `changes`.
        """
        if self.upsert is not None or self.delete_keys is not None:
            raise UserError("a batch that replaces rows cannot be taken back: it does not say which rows were there")
        if self.changes is not None:
            raise UserError("a batch of changes cannot be taken back", hint="mrql.Delta(insert=…, delete=…) can")
        return Delta(self.delete, self.insert)

    def __add__(self, other: Delta) -> Delta:
        """Both batches as one.

        Raises: UserError if rows of the two do not have the same columns, in the same order.
        """
        return Delta(
            together(self.insert, other.insert),
            together(self.delete, other.delete),
            together(self.upsert, other.upsert),
            together(self.delete_keys, other.delete_keys),
            together(self.changes, other.changes),
        )

    def __sub__(self, other: Delta) -> Delta:
        """This batch, and the other one undone. Raises as `-other` and `+` do."""
        return self + -other
