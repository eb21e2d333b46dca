"""A stream of the changes of a table, as the server logs them: `stream(postgresql_cdc, "postgresql://…?table=t", …)`.

The first batch is the table in a snapshot; each one after it consists of whole transactions of the log, in the order of
their commits. The offset is a place in the log. docs/decisions/0036-a-database-log.md says why nothing is lost or
counted twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import EngineError, UserError
from mrql.algebra.values.values import Value
from mrql.runtime.postgresql.change_streams import published_table
from mrql.runtime.postgresql.columns import is_basic
from mrql.runtime.postgresql.connection import connect, translated
from mrql.runtime.postgresql.incoming import Incoming
from mrql.runtime.postgresql.pgoutput import lsn_text, parse_lsn
from mrql.runtime.postgresql.published import START_OVER, Looked, Published, in_sql
from mrql.runtime.postgresql.replication import PLUGIN, Mark, Slot, rows, snapshot
from mrql.runtime.postgresql.row_files import RowsWriter, write_copied
from mrql.runtime.postgresql.slot_notes import SlotNote, forget_slot, new_slot_name, note_slot, slot_notes
from mrql.runtime.postgresql.table import quoted
from mrql.runtime.postgresql.transactions import Transactions
from mrql.runtime.sources.rows_file import RowsFile, rows_of
from mrql.runtime.sources.source import Offset

if TYPE_CHECKING:
    from mrql.runtime.postgresql.connection import Connection

UNREAD_BYTES = 64 << 20
"""Once so much of the log has no changes of the table, the offset advances by a batch without rows."""


def is_offset(offset: object) -> bool:
    """Whether a value is the offset of a log."""
    return isinstance(offset, Mapping) and offset.keys() == {"slot", "lsn", "rows", "table"}


class PostgresLog:
    """The changes of a table; the offset has the slot, the place in the log, the number of rows, and the definition of
    the table when the stream began.

    A stream with a checkpoint has a lasting slot; another slot is dropped with the connection.

    Raises: UserError where the address names no table, or the type is not a record of basic types.
    """

    replays = False

    def __init__(self, spec: SourceSpec) -> None:
        basic = isinstance(spec.row, ty.RecordType) and all(is_basic(t) for _, t in spec.row.fields)
        if not isinstance(spec.row, ty.RecordType) or not basic or not spec.row.fields:
            raise UserError(f"rows of a table are records of basic types, not {spec.row}", spec.span)
        self.fields = spec.row.fields
        self.spec = spec
        self.address, self.publication = published_table(spec)
        self.connection: Connection | None = None
        self.found: tuple[RowsFile, ...] = ()
        """The rows between the last two offsets."""
        self.looked: str | None = None
        """The snapshot of the server in which there is nothing new to read."""
        self.noted: str | None = None
        """The address of the slot, once it was compared with the note in the checkpoint."""
        self.incoming = Incoming(spec)

    # --- what adapters have -------------------------------------------------------------------

    def must_be_ready(self, start: Offset) -> None:
        """Checks the server and the table before anything is read. At the beginning of a stream, this makes the
        publication.

        Raises: UserError where the log cannot be read, or not from the offset on; EngineError where the server cannot
            be reached.
        """
        with translated(self.address.shown):
            if start is None:
                self._make_ready(self._connected())
                return
            slot = self.ready(start)
            self._look(slot.connection).published().must_be(start["table"], self.address.name, self.spec.span)

    @property
    def log(self) -> str:
        return self.address.conninfo

    def latest(self, start: Offset, most: int | None) -> Offset:
        """Everything before `start` is committed, and is not needed any more.

        Raises: UserError where the log does not have what comes next; EngineError where the server cannot be reached.
        """
        return self.latest_together([(self, start)], most)[0]

    def latest_together(self, readers: Sequence[tuple[PostgresLog, Offset]], most: int | None) -> list[Offset]:
        """The same for several tables of one database: a transaction is in the same batch for all of them."""
        from psycopg import OperationalError

        begins = any(start is None for _, start in readers)
        with translated(self.address.shown):
            try:
                return _begun(readers) if begins else _next(readers, most)
            except OperationalError:
                if begins or not any(reader.is_lost for reader, _ in readers):
                    raise
                return _next(readers, most)  # the server was restarted since the last time

    @property
    def is_lost(self) -> bool:
        """Whether there was a connection, and it is closed."""
        return self.connection is not None and self.connection.closed

    def read(self, start: Offset, end: Offset) -> Iterator[tuple[Value, int]]:
        for file in self.found:
            yield from rows_of(file, self.spec.row)

    def files(self, start: Offset, end: Offset) -> tuple[RowsFile, ...]:
        return self.found

    def whole(self, directory: Path) -> tuple[RowsFile, ...]:
        connection = connect(self.address.conninfo, self.address.shown)
        try:
            with translated(self.address.shown):
                rows(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                rows(connection, "SET LOCAL row_security = off")
                published = Looked(connection, self.address, self.fields, None, self.spec.span).published()
                return self._copied(connection, published, directory / "rows.parquet")
        finally:
            connection.close()

    def end(self, start: Offset) -> str:
        """The place up to which the server has written its log: everything committed so far comes before it.

        Raises: UserError, EngineError as `latest`.
        """
        with translated(self.address.shown):
            ((place,),) = rows(self._connected(start), "SELECT pg_current_wal_insert_lsn()::text")
        return str(place)

    def is_at(self, offset: Offset, end: str) -> bool:
        return offset is not None and parse_lsn(offset["lsn"]) >= parse_lsn(end)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.remove()
        self.incoming.close()

    # --- the beginning ------------------------------------------------------------------------

    def begin(self) -> Offset:
        """Makes the slot, and reads the table in the snapshot that the slot begins at."""
        connection = self._connected()
        self._make_ready(connection)
        slot = self._new_slot(connection)
        try:
            with slot.made() as place:
                published = self._look(connection).published()
                self.found = self._copied(connection, published, self.incoming.file("whole"))
        except BaseException:
            self._drop(slot)
            raise
        return self._offset(slot, place, sum(file.count for file in self.found), published.noted())

    def give_up(self, start: Mapping[str, Any]) -> None:
        """Drops the slot of an offset from `begin` that is not used."""
        if self.connection is not None:
            self._drop(Slot(self.connection, start["slot"], lasting=self.spec.checkpoint is not None))

    def _drop(self, slot: Slot) -> None:
        """Drops a slot and its note; if the connection is closed, the note stays."""
        if not slot.connection.closed:
            slot.drop()
            self._forget(slot)

    def _make_ready(self, connection: Connection) -> None:
        """Checks all that can be checked before there is a slot, and makes the publication if there is none.

        Raises: UserError.
        """
        from psycopg.errors import InsufficientPrivilege

        ((level, standby),) = rows(connection, "SELECT current_setting('wal_level'), pg_is_in_recovery()")
        if level != "logical":
            hint = "ALTER SYSTEM SET wal_level = logical, and start the server again"
            raise self._error(f"the server writes no log of rows: its wal_level is {level}", hint)
        if standby:
            raise self._error("the server is a standby", "the log is read at the primary")
        looked = self._look(connection)
        looked.must_be_fit()
        if not rows(connection, "SELECT true FROM pg_publication WHERE pubname = %s", [self.publication]):
            try:
                rows(connection, looked.made_by)
            except InsufficientPrivilege as error:
                said = f"there is no publication {self.publication}, and this user may not make it"
                raise self._error(f"{said}: {error.diag.message_primary}", f"its owner may: {looked.made_by}") from None
        looked.published()

    def _new_slot(self, connection: Connection) -> Slot:
        """A slot that is yet to be made, under the name of one that was left over, if there is one.

        Raises: EngineError where the server has no room for another one.
        """
        name, checkpoint = new_slot_name(self.address), self.spec.checkpoint
        if checkpoint is not None:
            left = [note.slot for note in slot_notes(checkpoint) if note.matches(self.spec.name, self.address.shown)]
            name = left[0] if left else name
            Slot(connection, name, lasting=True).drop()
            self._must_have_room(connection)
            note_slot(checkpoint, SlotNote(name, self.spec.name, self.address.shown))
        self._must_have_room(connection)
        return Slot(connection, name, lasting=checkpoint is not None)

    def _forget(self, slot: Slot) -> None:
        if self.spec.checkpoint is not None:
            forget_slot(self.spec.checkpoint, slot.name)

    def _must_have_room(self, connection: Connection) -> None:
        room = "SELECT count(*), current_setting('max_replication_slots')::int FROM pg_replication_slots"
        ((used, most),) = rows(connection, room)
        if used >= most:
            hint = (
                "raise max_replication_slots there, or drop one that nobody reads: SELECT * FROM pg_replication_slots"
            )
            raise EngineError(f"{self.address.shown}: all {most} replication slots of the server are in use", hint)

    def _copied(self, connection: Connection, published: Published, path: Path) -> tuple[RowsFile, ...]:
        """Copies the rows that the current transaction sees to a file."""
        columns = ", ".join(["true", *(quoted(name) for name, _ in self.fields)])
        copy = f"COPY (SELECT {columns} FROM {in_sql(self.address)}) TO STDOUT (FORMAT csv)"
        writer = RowsWriter(published.shape, path, 1)
        with connection.cursor() as cursor, cursor.copy(copy.encode()) as copied:
            write_copied((bytes(block) for block in copied), writer)
        return writer.close()

    # --- what comes next ----------------------------------------------------------------------

    def slot(self, start: Mapping[str, Any]) -> Slot:
        """The slot of an offset, over the connection."""
        return Slot(self._connected(start), start["slot"], lasting=self.spec.checkpoint is not None)

    def ready(self, start: Mapping[str, Any]) -> Slot:
        """The slot of an offset, advanced to it."""
        slot = self.slot(start)
        self._bring(slot, parse_lsn(start["lsn"]))
        self._note_place(slot)
        return slot

    def _note_place(self, slot: Slot) -> None:
        """Corrects the note of a slot that was found at another address than the noted one."""
        checkpoint, place = self.spec.checkpoint, self.address.shown
        if checkpoint is None or place == self.noted:
            return
        if any(note.slot == slot.name and note.place != place for note in slot_notes(checkpoint)):
            note_slot(checkpoint, SlotNote(slot.name, self.spec.name, place))
        self.noted = place

    def read_upto(self, start: Mapping[str, Any], upto: int, most: int | None) -> Transactions:
        """The transactions after an offset up to a place, or fewer, which have about `most` messages.

        Raises: UserError where the table was changed in a way that is not in the log.
        """
        slot = self.slot(start)
        published = self._look(slot.connection).published()
        published.must_be(start["table"], self.address.name, self.spec.span)
        came = RowsWriter(published.shape, self.incoming.file("came"), 1)
        went = RowsWriter(published.shape, self.incoming.file("went"), -1)
        read = Transactions(came, went, published, start["rows"])
        read.read(slot.changes(self.publication, upto, most))
        # If the table was changed before the last of these messages, that is visible by now.
        self._look(slot.connection).published().must_be(start["table"], self.address.name, self.spec.span)
        return read

    def taken(self, start: Mapping[str, Any], read: Transactions, reached: int, upto: int) -> Offset:
        """The offset after the log was read up to the place `reached`. If it has nothing of the table up to `upto`,
        this is `start`, unless the server would have to keep too much of its log for that (`UNREAD_BYTES`). If only a
        first part up to there was read, the offset advances even without rows, as some may follow.
        """
        files = read.files()
        self.found += files
        if not files and reached == upto and reached - parse_lsn(start["lsn"]) < UNREAD_BYTES:
            return start
        return {**start, "lsn": lsn_text(reached), "rows": read.rows}

    def _bring(self, slot: Slot, after: int) -> None:
        """Advances a slot to the place of this stream.

        Raises: UserError where it is gone, or beyond that place, or the server has removed its log.
        """
        state, name = slot.state(), slot.name
        since = f"changes since {lsn_text(after)} are lost"
        if state is None or state.plugin != PLUGIN:
            raise self._error(f"the replication slot {name} is gone, and {since}", START_OVER)
        if not state.is_whole:
            said = f"the server has removed its log behind the replication slot {name}, and {since}"
            raise self._error(said, f"{START_OVER}; max_slot_wal_keep_size says how much a server keeps")
        if state.reached > after:
            said = f"the replication slot {name} is at {lsn_text(state.reached)}, and {since}"
            hint = f"was it read by another process, or is this an older copy of the checkpoint? {START_OVER}"
            raise self._error(said, hint)
        if state.reached < after:
            slot.advance(after)

    def _offset(self, slot: Slot, place: int, count: int, table: Mapping[str, Any]) -> Offset:
        return {"slot": slot.name, "lsn": lsn_text(place), "rows": count, "table": dict(table)}

    # --- its parts ----------------------------------------------------------------------------

    def _look(self, connection: Connection) -> Looked:
        return Looked(connection, self.address, self.fields, self.publication, self.spec.span)

    def _connected(self, start: Mapping[str, Any] | None = None) -> Connection:
        """The connection for replication; one that was lost since the last time is made anew."""
        if self.connection is None or self.connection.closed:
            if self.connection is not None and start is not None and self.spec.checkpoint is None:
                said = f"the connection to {self.address.shown} was lost, and the replication slot with it"
                raise EngineError(said, "a stream with --checkpoint has a slot that stays")
            self.connection = connect(self.address.conninfo, self.address.shown, replication=True)
            self.looked = None
        return self.connection

    def _error(self, message: str, hint: str | None = None) -> UserError:
        return UserError(message, self.spec.span, hint)

    def remove(self) -> None:
        """Removes the files of the last batch, which is committed, or of one that failed."""
        for file in self.found:
            file.path.unlink(missing_ok=True)
        self.found = ()


# --- several tables of one database -------------------------------------------------------------


def _begun(readers: Sequence[tuple[PostgresLog, Offset]]) -> list[Offset]:
    """The offsets after the first batch of some tables: new ones are read in snapshots, and then all of them up to the
    last snapshot."""
    begun: list[PostgresLog] = []
    starts: list[Any] = []
    for reader, _ in readers:
        reader.remove()
    try:
        for reader, start in readers:
            starts.append(reader.begin() if start is None else start)
            begun += [reader] if start is None else []
        last = max(parse_lsn(start["lsn"]) for start in starts)
        return [_followed(reader, start, last) for (reader, _), start in zip(readers, starts, strict=True)]
    except BaseException:
        for (reader, _), start in zip(readers, starts, strict=False):
            if reader in begun:
                reader.give_up(start)
        raise


def _followed(reader: PostgresLog, start: Mapping[str, Any], upto: int) -> Offset:
    """The offset after the log was read up to a place; `start` if nothing of the table comes before that place."""
    if parse_lsn(start["lsn"]) >= upto:
        return start
    reader.ready(start)
    return reader.taken(start, reader.read_upto(start, upto, None), upto, upto)


def _next(readers: Sequence[tuple[PostgresLog, Any]], most: int | None) -> list[Offset]:
    """The next offsets of some tables, whose logs are read up to the same place."""
    for reader, _ in readers:
        reader.remove()
    slots = [reader.ready(start) for reader, start in readers]
    starts = [start for _, start in readers]
    before = snapshot(slots[0].connection)
    if all(reader.looked == before for reader, _ in readers):
        return starts
    mark = Mark.made(slots[0].connection)
    read = [reader.read_upto(start, mark.place, most) for reader, start in readers]
    reached = min(part.reached(mark.place, most) for part in read)
    for i, (reader, start) in enumerate(readers):
        if (read[i].committed or 0) > reached:  # it was read beyond the place where another one has reached its limit
            read[i].discard()
            read[i] = reader.read_upto(start, reached, None)
    ends = [reader.taken(start, part, reached, mark.place) for (reader, start), part in zip(readers, read, strict=True)]
    for reader, _ in readers:
        reader.looked = mark.alone(before) if reached == mark.place else None
    return ends
