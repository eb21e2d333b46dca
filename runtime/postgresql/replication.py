"""A replication slot, and what is said to a server over the connection that it is read by.

A slot is a place in the server's log up to which a reader has come: the server keeps the log from there on. It is
peeked at, which leaves it where it is, and advanced when what was read is committed here. Its first place is that of a
snapshot, in which the connection that makes it reads the table: each transaction is in one of the two, and none in
both (`CREATE_REPLICATION_SLOT … USE_SNAPSHOT`; the workers of PostgreSQL's own subscriptions copy tables so).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from mrql.runtime.postgresql.pgoutput import lsn_text, parse_lsn
from mrql.runtime.postgresql.table import quoted

if TYPE_CHECKING:
    from mrql.runtime.postgresql.connection import Connection

T = TypeVar("T")

PATIENCE_SECONDS = 10.0
"""So long a slot is waited for that another connection has: that of a process that was killed lets go of it soon."""
PLUGIN = "pgoutput"
"""What writes the log as messages; it is in each server."""


@attrs.frozen
class SlotState:
    """A slot as the server has it: up to where it was read, and whether the log from there on is still there."""

    reached: int
    is_whole: bool
    plugin: str
    database: str


@attrs.frozen
class Slot:
    """A slot over a connection for replication; one that is not `lasting` goes with the connection."""

    connection: Connection
    name: str
    lasting: bool

    def state(self) -> SlotState | None:
        """None where there is no such slot."""
        rows = self._rows(
            "SELECT confirmed_flush_lsn::text, wal_status <> 'lost', plugin::text, database::text"
            " FROM pg_replication_slots WHERE slot_name = %s AND slot_type = 'logical'",
            [self.name],
        )
        for reached, is_whole, plugin, database in rows:
            return SlotState(parse_lsn(reached), is_whole is not False, plugin, database)
        return None

    @contextmanager
    def made(self) -> Iterator[int]:
        """Makes the slot; the block runs in a transaction that sees the database as it is at the slot's first place."""
        kind = "" if self.lasting else "TEMPORARY "
        self._rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            made = f"CREATE_REPLICATION_SLOT {quoted(self.name)} {kind}LOGICAL {PLUGIN} USE_SNAPSHOT"
            ((_, place, *_),) = self._rows(made)
            self._rows("SET LOCAL row_security = off")
            yield parse_lsn(place)
            self._rows("COMMIT")
        except BaseException:
            if not self.connection.closed:
                self.connection.rollback()
            raise

    def advance(self, place: int) -> None:
        """What comes before a place is not needed any more."""
        text = lsn_text(place)
        patiently(lambda: self._rows("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [self.name, text]))

    def changes(self, publication: str, upto: int, most: int | None) -> Iterator[bytes]:
        """The messages of the transactions that are committed before a place in the log, in the order of commits; so
        many messages at most, but for the rest of a transaction. The server keeps them on its disk meanwhile.
        """
        query = (
            "COPY (SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, %s,"
            " 'proto_version', '1', 'publication_names', %s)) TO STDOUT (FORMAT binary)"
        )
        arguments = [self.name, lsn_text(upto), most, quoted(publication)]
        with self.connection.cursor() as cursor, patiently_opened(cursor, query, arguments) as copy:
            copy.set_types(["bytea"])
            for (data,) in copy.rows():
                yield data

    def drop(self) -> None:
        """Drops it, where it is there."""
        if self.state() is not None:
            patiently(lambda: self._rows("SELECT pg_drop_replication_slot(%s)", [self.name]))

    def _rows(self, text: str, arguments: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        return rows(self.connection, text, arguments)


def rows(connection: Connection, text: str, arguments: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    """What the server answers."""
    cursor = connection.execute(text.encode(), arguments)
    return cursor.fetchall() if cursor.description else []


def snapshot(connection: Connection) -> str:
    """Which transactions are over, and which are not, as `pg_current_snapshot` says it."""
    ((found,),) = rows(connection, "SELECT pg_current_snapshot()::text")
    return str(found)


@attrs.frozen
class Mark:
    """A place in the log behind all that was committed until now, and the transaction that has made it."""

    place: int
    transaction: int

    @staticmethod
    def made(connection: Connection) -> Mark:
        """A place with nothing before it that is not on the disk: the end of a record that is written for it.

        What `pg_current_wal_flush_lsn` gives may be within a record, and who peeks up to there waits for the rest of
        that, which nobody writes to the disk before the next commit.
        """
        rows(connection, "SET synchronous_commit = local")
        query = "SELECT pg_logical_emit_message(true, 'mrql', '')::text, pg_current_xact_id()::text"
        ((place, transaction),) = rows(connection, query)
        return Mark(parse_lsn(place), int(transaction))

    def alone(self, before: str) -> str | None:
        """The snapshot in which nothing but the transaction of the mark has happened since one `before` it; None where
        others have had numbers in between.

        >>> Mark(0, 12).alone("12:12:"), Mark(0, 12).alone("9:12:9,10"), Mark(0, 13).alone("12:12:")
        ('13:13:', '9:13:9,10', None)
        """
        least, next_, running = before.split(":")
        if int(next_) != self.transaction:
            return None
        after = self.transaction + 1
        return f"{least if running else after}:{after}:{running}"


# --- slots that another connection has ----------------------------------------------------------


def patiently(action: Callable[[], T]) -> T:
    """Does something with a slot, again and again while another connection has it.

    Raises: psycopg.errors.ObjectInUse where that goes on.
    """
    from psycopg.errors import ObjectInUse

    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return action()
        except ObjectInUse:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


@contextmanager
def patiently_opened(cursor: Any, query: str, arguments: Sequence[Any]) -> Iterator[Any]:
    """What COPY sends. The server begins when all is ready: a slot that another connection has shows before."""

    def opened() -> tuple[Any, Any]:
        manager = cursor.copy(query, arguments)
        return manager, manager.__enter__()

    manager, copy = patiently(opened)
    try:
        yield copy
    except BaseException as error:
        manager.__exit__(type(error), error, error.__traceback__)
        raise
    manager.__exit__(None, None, None)
