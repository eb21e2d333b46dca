"""A stream of the changes of a table, as the server logs them: `stream(postgresql_cdc, "postgresql://…?table=t", …)`.

The first batch is the table in a snapshot, each one after it some transactions of the log, whole and in the order of
their commits. The offset is a place in the log. docs/decisions/0036-a-database-log.md says why nothing is lost or
counted twice.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import EngineError, UserError
from mrql.algebra.values.values import Value
from mrql.runtime.postgresql.address import LONGEST, Address, is_address, must_be_one, parse_address
from mrql.runtime.postgresql.columns import is_basic
from mrql.runtime.postgresql.connection import connect, translated
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
    lsn_text,
    parse_lsn,
    parse_message,
)
from mrql.runtime.postgresql.published import START_OVER, Looked, Published, in_sql
from mrql.runtime.postgresql.replication import PLUGIN, Mark, Slot, rows, snapshot
from mrql.runtime.postgresql.row_files import RowsWriter, write_copied
from mrql.runtime.postgresql.slot_notes import SlotNote, forget_slot, new_slot_name, note_slot, slot_notes
from mrql.runtime.postgresql.table import quoted
from mrql.runtime.sources.rows_file import INCOMING, RowsFile, rows_of
from mrql.runtime.sources.source import Offset

if TYPE_CHECKING:
    from mrql.runtime.postgresql.connection import Connection

UNREAD_BYTES = 64 << 20
"""So much of the log that has nothing of the table is passed over before a batch without rows says so."""


@attrs.define
class Transactions:
    """What a part of the log is for the stream: rows that came and went, and how far it goes."""

    came: RowsWriter
    went: RowsWriter
    published: Published
    rows: int
    """How many rows the table has."""
    messages: int = 0
    committed: int | None = None
    """Behind the last transaction."""
    places: dict[int, tuple[int, ...]] = attrs.Factory(dict)
    """Of each table that was described, where the columns are that are read."""

    def read(self, messages: Iterable[bytes]) -> None:
        """Raises: UserError where rows went of which the log does not say which they were."""
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
    """A new row with the long values that are as they were."""
    return tuple(before if value is UNCHANGED else value for value, before in zip(new, old, strict=True))


class PostgresLog:
    """The changes of a table; the offset has the slot, the place in the log, and what the table was when it began.

    A stream with a checkpoint has a slot that lasts. Otherwise it goes with the connection.

    Raises: UserError where the address names no table, or the type is not a record of basic types.
    """

    replays = False

    def __init__(self, spec: SourceSpec) -> None:
        basic = isinstance(spec.row, ty.RecordType) and all(is_basic(t) for _, t in spec.row.fields)
        if not isinstance(spec.row, ty.RecordType) or not basic or not spec.row.fields:
            raise UserError(f"rows of a table are records of basic types, not {spec.row}", spec.span)
        self.fields = spec.row.fields
        self.spec = spec
        self.address, publication = _address(spec)
        self.publication = publication or _publication(self.address)
        self.connection: Connection | None = None
        self.found: tuple[RowsFile, ...] = ()
        """What is between the last two offsets."""
        self.looked: str | None = None
        """The transactions of which nothing is new."""
        self.number = 0
        self.temporary: tempfile.TemporaryDirectory[str] | None = None

    # --- what adapters have -------------------------------------------------------------------

    def latest(self, start: Offset, most: int | None) -> Offset:
        """What comes before `start` is committed, and is not needed any more.

        Raises: UserError where the log does not have what comes next; EngineError where the server is not reached.
        """
        self._remove()
        with translated(self.address.shown):
            return self._begun() if start is None else self._next(start, most)

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

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self._remove()
        if self.temporary is not None:
            self.temporary.cleanup()

    # --- the beginning ------------------------------------------------------------------------

    def _begun(self) -> Offset:
        """The table as it is in a snapshot, and the slot from there on."""
        connection = self._connected()
        self._make_ready(connection)
        slot = self._new_slot(connection)
        try:
            with slot.made() as place:
                published = self._look(connection).published()
                self.found = self._copied(connection, published, self._file("whole"))
        except BaseException:
            if not connection.closed:
                slot.drop()
                self._forget(slot)
            raise
        return self._offset(slot, place, sum(file.count for file in self.found), published.noted())

    def _make_ready(self, connection: Connection) -> None:
        """Looks at all that may be wrong before there is a slot, and makes the publication.

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
        """A slot that is to be made, under the name of one that was left over, if there is one.

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
        """The rows that a transaction sees."""
        columns = ", ".join(["true", *(quoted(name) for name, _ in self.fields)])
        copy = f"COPY (SELECT {columns} FROM {in_sql(self.address)}) TO STDOUT (FORMAT csv)"
        writer = RowsWriter(published.shape, path, 1)
        with connection.cursor() as cursor, cursor.copy(copy.encode()) as copied:
            write_copied((bytes(block) for block in copied), writer)
        return writer.close()

    # --- what comes next ----------------------------------------------------------------------

    def _next(self, start: Mapping[str, Any], most: int | None) -> Offset:
        """The transactions after a place; where there are none of the table, `start`, or, so that the server need not
        keep its log, a place far behind it.
        """
        slot = Slot(self._connected(start), start["slot"], lasting=self.spec.checkpoint is not None)
        after = parse_lsn(start["lsn"])
        self._bring(slot, after)
        before = snapshot(slot.connection)
        if before == self.looked:
            return start
        mark = Mark.made(slot.connection)
        upto = mark.place
        published = self._look(slot.connection).published()
        published.must_be(start["table"], self.address.name, self.spec.span)
        read = self._read(slot, published, start["rows"], upto, most)
        # What has changed before the last of these messages shows now.
        self._look(slot.connection).published().must_be(start["table"], self.address.name, self.spec.span)
        reached = upto if most is None or read.messages < most else read.committed or upto
        reached = max(reached, read.committed or 0)
        self.found = (*read.came.close(), *read.went.close())
        if not self.found and reached == upto and reached - after < UNREAD_BYTES:
            self.looked = mark.alone(before)
            return start
        return self._offset(slot, reached, read.rows, start["table"])

    def _bring(self, slot: Slot, after: int) -> None:
        """Brings a slot to where this stream is.

        Raises: UserError where it is not there any more, or elsewhere.
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

    def _read(self, slot: Slot, published: Published, count: int, upto: int, most: int | None) -> Transactions:
        came = RowsWriter(published.shape, self._file("came"), 1)
        went = RowsWriter(published.shape, self._file("went"), -1)
        read = Transactions(came, went, published, count)
        read.read(slot.changes(self.publication, upto, most))
        return read

    def _offset(self, slot: Slot, place: int, count: int, table: Mapping[str, Any]) -> Offset:
        return {"slot": slot.name, "lsn": lsn_text(place), "rows": count, "table": dict(table)}

    # --- its parts ----------------------------------------------------------------------------

    def _look(self, connection: Connection) -> Looked:
        return Looked(connection, self.address, self.fields, self.publication, self.spec.span)

    def _connected(self, start: Mapping[str, Any] | None = None) -> Connection:
        """A connection for replication; one that was lost since the last time is made anew."""
        if self.connection is None or self.connection.closed:
            if self.connection is not None and start is not None and self.spec.checkpoint is None:
                said = f"the connection to {self.address.shown} was lost, and the replication slot with it"
                raise EngineError(said, "a stream with --checkpoint has a slot that stays")
            self.connection = connect(self.address.conninfo, self.address.shown, replication=True)
            self.looked = None
        return self.connection

    def _error(self, message: str, hint: str | None = None) -> UserError:
        return UserError(message, self.spec.span, hint)

    def _file(self, what: str) -> Path:
        """A file that is not there yet, in a directory that is empty at first."""
        directory = self._directory()
        self.number += 1
        return directory / f"{what}-{self.number:06d}.parquet"

    def _directory(self) -> Path:
        checkpoint = self.spec.checkpoint
        if checkpoint is None:
            self.temporary = self.temporary or tempfile.TemporaryDirectory(prefix="mrql-")
            return Path(self.temporary.name)
        directory = checkpoint / INCOMING / quote(self.spec.name, safe="")
        if self.number == 0:
            shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def _remove(self) -> None:
        """Removes the files of the last batch, which is committed."""
        for file in self.found:
            file.path.unlink(missing_ok=True)
        self.found = ()


def _address(spec: SourceSpec) -> tuple[Address, str | None]:
    """The table that a stream names, and its publication.

    Raises: UserError where it names none.
    """
    try:
        must_be_one(spec.path)
        url = urlsplit(spec.path)
        query = dict(parse_qsl(url.query))
        if not is_address(spec.path):
            raise UserError("the address names a table", spec.span, "postgresql://host/db?table=orders")
        publication = query.pop("publication", None)
        address = parse_address(urlunsplit(url._replace(query=urlencode(query, quote_via=quote))))
    except ValueError as error:
        raise UserError(str(error), spec.span) from None
    return address, publication


def _publication(address: Address) -> str:
    """What the publication of a table is called unless said otherwise."""
    name = f"mrql_{address.name.replace('.', '_')}"
    return name.encode()[:LONGEST].decode(errors="ignore")


def is_of(note: SlotNote, spec: SourceSpec) -> bool:
    """Whether a slot is one of a stream."""
    return spec.is_log and note.matches(spec.name, _address(spec)[0].shown)


def release(note: SlotNote, checkpoint: Path, address: str | None = None) -> None:
    """Drops a slot that is noted in a checkpoint, and forgets it. The address may say more than is noted of it, such as
    a password.

    Raises: UserError where another process reads it, EngineError where the server is not reached.
    """
    connection = connect(address or parse_address(note.place).conninfo, note.place)
    try:
        with translated(note.place):
            connection.autocommit = True
            Slot(connection, note.slot, lasting=True).drop()
    finally:
        connection.close()
    forget_slot(checkpoint, note.slot)
