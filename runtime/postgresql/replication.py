"""A replication slot, and the statements sent over the connection that it is read by.

A slot is the place of a reader in the server's log: the server keeps the log from there on. The log is read by peeking,
which leaves the slot where it is, and the slot is advanced when what was read is committed here. Its first place is
that of a snapshot, in which the connection that makes the slot reads the table: each transaction is in the snapshot or
after that place, and never in both (`CREATE_REPLICATION_SLOT … USE_SNAPSHOT`; the workers of PostgreSQL's own
subscriptions copy tables in this way).
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
"""The time limit for waiting for a slot that another connection has: that of a killed process releases it soon."""
PLUGIN = "pgoutput"
"""The output plugin that writes the log as messages; every server has it."""


@attrs.frozen
class SlotState:
    """The state of a slot at the server: up to where it was read, and whether the log from there on is still there."""

    reached: int
    is_whole: bool
    plugin: str
    database: str


@attrs.frozen
class Slot:
    """A slot over a connection for replication; one that is not `lasting` is dropped with the connection."""

    connection: Connection
    name: str
    lasting: bool

    def state(self) -> SlotState | None:
        """The state of the slot; None if there is no such slot."""
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
        """Advances the slot to a place: the log before it is not needed any more."""
        text = lsn_text(place)
        patiently(lambda: self._rows("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [self.name, text]))

    def changes(self, publication: str, upto: int, most: int | None) -> Iterator[bytes]:
        """The messages of the transactions that are committed before a place in the log, in the order of commits; at
        most `most` messages, except for the rest of a transaction. The server keeps them on its disk meanwhile.
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
        """Drops the slot, if it is there."""
        if self.state() is not None:
            patiently(lambda: self._rows("SELECT pg_drop_replication_slot(%s)", [self.name]))

    def _rows(self, text: str, arguments: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        return rows(self.connection, text, arguments)


def rows(connection: Connection, text: str, arguments: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    """Executes a statement, and returns its rows."""
    cursor = connection.execute(text.encode(), arguments)
    return cursor.fetchall() if cursor.description else []


def snapshot(connection: Connection) -> str:
    """The current snapshot (`pg_current_snapshot`): which transactions have ended, and which have not."""
    ((found,),) = rows(connection, "SELECT pg_current_snapshot()::text")
    return str(found)


@attrs.frozen
class Mark:
    """A place in the log after everything committed so far, and the transaction that has made it."""

    place: int
    transaction: int

    @staticmethod
    def made(connection: Connection) -> Mark:
        """A place before which all of the log is on the disk: the end of a record that is written for this.

        The place from `pg_current_wal_flush_lsn` may be within a record, and a peek up to there waits for the rest of
        that record, which nobody writes to the disk before the next commit.
        """
        rows(connection, "SET synchronous_commit = local")
        query = "SELECT pg_logical_emit_message(true, 'mrql', '')::text, pg_current_xact_id()::text"
        ((place, transaction),) = rows(connection, query)
        return Mark(parse_lsn(place), int(transaction))

    def alone(self, before: str) -> str | None:
        """The snapshot in which only the transaction of the mark has happened since the snapshot `before` it; None if
        other transactions were given numbers in between.

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
    """Does something with a slot, and retries while another connection has it.

    Raises: psycopg.errors.ObjectInUse where that lasts longer than `PATIENCE_SECONDS`.
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
    """The data that COPY sends. The server sends when all is ready, so opening already fails if another connection has
    the slot."""

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
