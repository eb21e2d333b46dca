"""Transactions of the log as insertions and deletions of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import attrs

from mrql.algebra.errors import UserError
from mrql.runtime.postgresql.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    RelationColumns,
    Texts,
    Truncate,
    Update,
    parse_message,
)
from mrql.runtime.postgresql.published import START_OVER, Published
from mrql.runtime.postgresql.row_files import RowsWriter
from mrql.runtime.sources.rows_file import RowsFile


@attrs.define
class Transactions:
    """A part of the log, read for a stream: the rows inserted and deleted, and how far it goes."""

    came: RowsWriter
    went: RowsWriter
    published: Published
    rows: int
    """The number of rows of the table."""
    messages: int = 0
    committed: int | None = None
    """The place after the last transaction; None if there was none."""
    places: dict[int, tuple[int, ...]] = attrs.Factory(dict)
    """For each table that the log has described, the positions of the columns that are read."""

    def read(self, messages: Iterable[bytes]) -> None:
        """Raises: UserError where rows were deleted and the log does not say which."""
        for data in messages:
            self.messages += 1
            match parse_message(data):
                case Commit(end):
                    self.committed = end
                case RelationColumns() as relation if relation.id in self.published.relations:
                    self.places[relation.id] = self._places(relation)
                case Insert(id, new) if id in self.places:
                    self._came(id, new)
                case Delete(id, old) if id in self.places:
                    self._went(id, old)
                case Update(id, old, new) if id in self.places:
                    old = self._went(id, old)
                    self._came(id, _whole(new, old))
                case Truncate(ids) if self.published.relations & {*ids} and self.rows:
                    self._fail(
                        f"was truncated, and the log does not say which rows it had, {self.rows:,} of them", TRUNCATED
                    )
                case Begin() | None | _:
                    pass

    def reached(self, upto: int, most: int | None) -> int:
        """The place that was reached, when the log was read up to the place `upto` or up to `most` messages."""
        return upto if most is None or self.messages < most else self.committed or upto

    def files(self) -> tuple[RowsFile, ...]:
        """The files with the rows, once all is read."""
        return (*self.came.close(), *self.went.close())

    def discard(self) -> None:
        """Removes these files again."""
        for file in self.files():
            file.path.unlink()

    def _places(self, relation: RelationColumns) -> tuple[int, ...]:
        found = {name: i for i, name in enumerate(relation.columns)}
        missing = [column.name for column in self.published.shape.columns if column.name not in found]
        if missing:
            self._fail(f"has lost the column {missing[0]}", START_OVER)
        return tuple(found[column.name] for column in self.published.shape.columns)

    def _came(self, id: int, row: Texts) -> None:
        self.came.add(tuple(row[place] for place in self.places[id]))
        self.rows += 1

    def _went(self, id: int, row: Texts | None) -> Texts:
        if row is None:
            self._fail("has changes without the old rows: its REPLICA IDENTITY was not FULL", START_OVER)
        self.went.add(tuple(row[place] for place in self.places[id]))
        self.rows -= 1
        return row

    def _fail(self, what: str, hint: str) -> NoReturn:
        raise UserError(f"the table {self.published.shape.table} {what}", self.published.shape.span, hint)


TRUNCATED = (
    f"{START_OVER}; a DELETE of all rows is in the log, and so is a TRUNCATE before which a trigger deletes them"
    " (docs/sources.md has it)"
)


def _whole(new: Texts, old: Texts) -> Texts:
    """A new row, with the long values that have not changed taken from the old one."""
    return tuple(before if value is UNCHANGED else value for value, before in zip(new, old, strict=True))
