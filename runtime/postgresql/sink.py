"""The answer kept current in a table of PostgreSQL, batch by batch, each in one transaction.

The changes of a batch are first written to files, which the commit of the checkpoint lists, and moves to its outbox.
By then the transaction that applies them has done all its work except for its commit. If the process dies between the
two commits, the next one applies the content of the outbox: the database says which batch the table has.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

from mrql.algebra.errors import MrqlError, UserError
from mrql.algebra.types import Type
from mrql.runtime.engine.answer import Answer, Output
from mrql.runtime.files.batch_names import batch_name, batch_number
from mrql.runtime.files.durable import DurableFiles, Publication
from mrql.runtime.postgresql.address import Address, parse_address
from mrql.runtime.postgresql.columns import TableColumn, columns_of, has_fractions, shown
from mrql.runtime.postgresql.connection import connect, translated
from mrql.runtime.postgresql.copy_format import COPY, parts
from mrql.runtime.postgresql.table import Found, StreamRecord, StreamTable, Unmatched
from mrql.runtime.sinks.places import Opening

WHOLE, CHANGES = "whole", "changes"


@attrs.frozen
class TablePlace:
    """A table that a command names."""

    address: Address
    is_current: bool = True

    @property
    def known_by(self) -> str:
        return self.address.shown

    def open(self, opening: Opening) -> TableSink:
        """A sink for the batches after the last one that went there.

        Raises: UserError where the table is not the stream's; EngineError where the server cannot be reached.
        """
        shown = self.address.shown
        outbox, after = opening.outbox(shown), opening.last_batch(shown)
        return TableSink(self.address, opening.type, outbox, opening.stream, opening.files, opening.suffix, after)


def table_at(text: str) -> TablePlace:
    """The table that an address names.

    Raises: ValueError where it names none.
    """
    return TablePlace(parse_address(text))


@attrs.define
class TableSink:
    """Keeps the answers of a stream in a table.

    `outbox` is the directory where changes wait. `after` is the batch that the stream continues after, if it went to
    this table until now.

    Raises: UserError where the table is not this stream's, or has other columns; EngineError where the server is gone.
    """

    address: Address
    type: Type
    outbox: Path
    stream: str
    files: DurableFiles = attrs.Factory(DurableFiles)
    suffix: str = ""
    after: int | None = None
    changes: bool = True
    columns: tuple[TableColumn, ...] = attrs.field(init=False)
    whole: bool = attrs.field(init=False)
    """Whether the next batch replaces the content of the table."""
    table: StreamTable = attrs.field(init=False)
    anew: bool = False
    """Whether the content is that of another query, even if the table does not show it."""

    def __attrs_post_init__(self) -> None:
        self.columns = columns_of(self.type)
        self.files.make_directory(self.outbox)
        self._connect()

    @property
    def place(self) -> str:
        return self.address.shown

    @property
    def due(self) -> bool:
        return self.whole

    def close(self) -> None:
        """Closes the connection; a transaction that was not committed is dropped."""
        self.table.connection.close()

    def start_anew(self) -> None:
        """Has the next batch replace the content of the table: it is of another query."""
        self.whole = self.anew = True

    # --- at the start -------------------------------------------------------------------------

    def _connect(self) -> None:
        connection = connect(self.address.conninfo, self.address.shown)
        try:
            with translated(self.place, self._stands):
                self.table = StreamTable(connection, self.address, self.columns)
                self.table.take()
                self._finish()
                found = self.table.look()
                connection.commit()
            self.whole = self._is_to_be_replaced(found) or self.anew
        except BaseException:
            connection.close()
            raise

    def _finish(self) -> None:
        """Applies to the table the batches that a process that died has committed to the checkpoint only."""
        if self.after is None:
            return
        found = ((batch_number(path.name), path) for path in self.outbox.glob("batch-*"))
        for number, waiting in sorted((number, path) for number, path in found if number is not None):
            whole = waiting.name.endswith(f"-{WHOLE}")
            if self._waits_for(self.table.look(), number, whole=whole):
                self._apply(waiting, number, whole=whole, follows=False)
                self.table.connection.commit()
            if self._has(self.table.look(), number):
                self._drop(waiting)

    def _drop(self, waiting: Path) -> None:
        """Removes changes that need not wait any more."""
        self.files.drop(waiting, self.outbox / f".{waiting.name}-gone{self.suffix}")

    def _has(self, found: Found | None, number: int) -> bool:
        """Whether the table as it was found has a batch of this stream, or a later one."""
        record = None if found is None else found.record
        return record is not None and record.stream == self.stream and record.batch >= number

    def _waits_for(self, found: Found | None, number: int, *, whole: bool) -> bool:
        """Whether a waiting batch is the next one for the table as it was found."""
        record = None if found is None else found.record
        if whole:
            ours = record is not None and record.stream == self.stream and record.batch < number
            return ours or found is None or found.is_empty or self.address.replace
        return record == StreamRecord(self.stream, number - 1)

    def _is_to_be_replaced(self, found: Found | None) -> bool:
        """Whether the next batch replaces the content of the table.

        Raises: UserError where the table does not fit, and is not to be replaced.
        """
        hint = f"name another table; or add replace=true to the address, and {self.address.name} is made anew"
        if found is not None and found.columns != self.columns:
            if not self.address.replace:
                message = f"the table {self.address.name} has the columns {shown(found.columns)}"
                raise UserError(f"{message}, and the answer has {shown(self.columns)}", hint=hint)
            return True
        if self.after is None:
            if found is not None and not found.is_empty and not self.address.replace:
                what = "is not kept by this stream" if found.record is None else "is kept by another stream"
                message = f"the table {self.address.name} is not empty, and {what}"
                raise UserError(message, hint=f"go on with the --checkpoint of the stream that keeps it; {hint}")
            return True
        if found is None or found.record != StreamRecord(self.stream, self.after):
            if not self.address.replace:
                raise UserError(f"{self._mismatch(found)}, and the checkpoint is at batch {self.after}", hint=hint)
            return True
        return False

    def _mismatch(self, found: Found | None) -> str:
        if found is None:
            return f"the table {self.address.name} is gone"
        if found.record is None or found.record.stream != self.stream:
            return f"the table {self.address.name} is kept by another stream"
        return f"the table {self.address.name} is at batch {found.record.batch}"

    def _stands(self) -> str:
        """The batch that the table has after an error, as a hint."""
        return "" if self.after is None else f"batch {self.after} is in the table"

    # --- a batch ------------------------------------------------------------------------------

    def prepare(self, number: int, answer: Answer) -> Applied:
        """Applies the changes of a batch, in a transaction that is still open when this returns.

        Raises: UserError where a row cannot be stored in the table, or one to be deleted is not in it; EngineError
            where the server is gone.
        """
        self._must_be_connected()
        whole = self.whole
        hidden = self._write(number, answer, whole=whole)
        try:
            self._applied(hidden, number, whole=whole)
        except Unmatched as error:
            self.table.connection.rollback()
            if not has_fractions(self.type):
                raise self._missing(error) from None
            # A sum that was added up in another order is not always near the old one: it may be close to zero.
            whole = True
            self.files.remove(hidden)
            hidden = self._write(number, answer, whole=True)
            self._applied(hidden, number, whole=True)
        kind = WHOLE if whole else CHANGES
        final = self.outbox / f"{batch_name(number)}-{kind}"
        return Applied(self, number, Publication(hidden, final, waits=True))

    def _must_be_connected(self) -> None:
        """Connects again if the connection was lost: a server may be restarted between two batches."""
        try:
            with translated(self.place):
                self.table.connection.execute("SELECT 1")
                self.table.connection.rollback()
        except MrqlError:
            self.close()
            self._connect()

    def _write(self, number: int, answer: Answer, *, whole: bool) -> Path:
        hidden = self.outbox / f".{batch_name(number)}{self.suffix}"
        rows = answer.snapshot() if whole else answer.changes()
        rows.write(Output(self.type, changes=not whole, format=COPY), hidden, self.files)
        return hidden

    def _applied(self, directory: Path, number: int, *, whole: bool) -> None:
        with translated(self.place, self._stands):
            self._apply(directory, number, whole=whole, follows=not self.whole)

    def _apply(self, directory: Path, number: int, *, whole: bool, follows: bool = True) -> None:
        record = StreamRecord(self.stream, number)
        if whole:
            self.table.replace(parts(directory), record, follows=follows)
        else:
            self.table.change(parts(directory), record)

    def _missing(self, error: Unmatched) -> UserError:
        message = f"the table {self.address.name} lacks a row that the stream has put into it: {error.row!r}"
        hint = "only the stream may write to it; with replace=true in the address a restart makes it anew"
        return UserError(message, hint=hint)

    def committed(self, applied: Applied) -> None:
        """Commits the transaction of a batch."""
        with translated(self.place, lambda: self._late(applied.number)):
            self.table.connection.commit()
        self.whole = self.anew = False
        self.after = applied.number

    def _late(self, number: int) -> str:
        return f"batch {number} may not be in the table yet; with a --checkpoint the same command brings it there"

    def drop_waiting(self) -> None:
        """Removes the changes that still wait: they are of the last batch, or of those before it."""
        for waiting in self.outbox.glob("batch-*"):
            self._drop(waiting)

    def hidden(self) -> Iterator[Path]:
        """The hidden directories that were not published."""
        yield from self.outbox.glob(".batch-*")


@attrs.frozen
class Applied:
    """A batch that is applied in a transaction, which is not committed yet."""

    sink: TableSink
    number: int
    changes: Publication

    @property
    def publications(self) -> tuple[Publication, ...]:
        """The changes, which wait in the outbox until they are in the table."""
        return (self.changes,)

    def publish(self, files: DurableFiles) -> None:
        """Commits the transaction; after that no changes wait."""
        self.sink.committed(self)
        self.sink.drop_waiting()
