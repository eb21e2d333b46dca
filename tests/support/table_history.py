"""A table of PostgreSQL that concurrent transactions change, and its rows after each commit."""

from __future__ import annotations

import contextlib
from random import Random

import attrs
import psycopg

from mrql.algebra.values.values import Bag, Document, Record, Value
from tests.support.postgresql import Server

ROW = "<k: long, who: int, what: string, long: string, price: decimal(10, 2), more: any>"
COLUMNS = "k int, who smallint, what varchar(20), long text, price numeric, more jsonb"
LONG = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 100) n)"
"""A text that is stored outside of its row."""
TEXTS = ("a", "", None, 'it\'s "x"\n\\.', "%s,é", "NULL", " ")
BEFORE_TRUNCATE = """
CREATE OR REPLACE FUNCTION mrql_before_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN EXECUTE format('DELETE FROM %I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME); RETURN NULL; END $$
"""


def make_table(server: Server, name: str, *, columns: str = COLUMNS, more: str = "") -> None:
    """Creates a table whose log has all deleted rows in full, even if it is truncated."""
    with server.connect() as connection:
        for statement in (
            f"CREATE TABLE {name} ({columns}) {more}",
            f"ALTER TABLE {name} REPLICA IDENTITY FULL",
            BEFORE_TRUNCATE,
            f"CREATE TRIGGER before_truncate BEFORE TRUNCATE ON {name} EXECUTE FUNCTION mrql_before_truncate()",
        ):
            connection.execute(statement.encode())
        if "long text" in columns:
            connection.execute(f"ALTER TABLE {name} ALTER long SET STORAGE EXTERNAL".encode())


@attrs.define
class TableHistory:
    """Concurrent transactions, each with rows of its own."""

    server: Server
    table: str
    random: Random
    writers: list[psycopg.Connection] = attrs.field(init=False)
    states: list[Bag] = attrs.field(init=False)
    """The rows of the table at first, and after each commit."""

    def __attrs_post_init__(self) -> None:
        self.writers = [psycopg.connect(self.server.conninfo()) for _ in range(3)]
        for writer in self.writers:
            writer.execute("SET lock_timeout = '20ms'")
            writer.execute("SET logical_decoding_work_mem = '64kB'")
            writer.commit()
        self.states = [self.rows()]

    def step(self) -> None:
        """One statement of one of the transactions."""
        who = self.random.randrange(len(self.writers))
        writer = self.writers[who]
        try:
            self._do(writer, who)
        except psycopg.errors.LockNotAvailable:
            writer.rollback()

    def _do(self, writer: psycopg.Connection, who: int) -> None:
        draw, t, third = self.random.random(), self.table, self.random.randrange(3)
        if draw < 0.3:
            count, what = self.random.choice([1, 2, 2, 40]), self.random.choice(TEXTS)
            values = f"mod(g, 4), %s, %s, CASE WHEN mod(g, 3) = 0 THEN {LONG} END, g * 1.50, to_jsonb(mod(g, 2))"
            query = f"INSERT INTO {t} SELECT {values} FROM generate_series(1, {count}) g"
            writer.execute(query.encode(), [who, what])
        elif draw < 0.45:
            writer.execute(f"UPDATE {t} SET k = k + 1 WHERE who = {who} AND k % 3 = {third}".encode())
        elif draw < 0.5:
            writer.execute(
                f"UPDATE {t} SET long = {LONG} || k, price = NULL WHERE who = {who} AND k = {third}".encode()
            )
        elif draw < 0.6:
            writer.execute(f"DELETE FROM {t} WHERE who = {who} AND k % 3 = {third}".encode())
        elif draw < 0.63:
            writer.execute(f"TRUNCATE {t}".encode())
            self._end(writer, self.random.random() < 0.7)  # the table cannot be read until then
        elif draw < 0.7:
            writer.execute(b"SAVEPOINT s")
        elif draw < 0.77:
            with contextlib.suppress(
                psycopg.errors.InvalidSavepointSpecification, psycopg.errors.NoActiveSqlTransaction
            ):
                writer.execute(b"ROLLBACK TO SAVEPOINT s")
                return
            writer.rollback()
        elif draw < 0.82:
            self._end(writer, False)
        else:
            self._end(writer, True)

    def _end(self, writer: psycopg.Connection, commits: bool) -> None:
        if commits:
            writer.commit()
            self.states.append(self.rows())
        else:
            writer.rollback()

    def settle(self) -> None:
        """Commits all open transactions."""
        for writer in self.writers:
            writer.commit()
            self.states.append(self.rows())

    def rows(self) -> Bag:
        """The committed rows, as the values of a stream."""
        with self.server.connect() as connection:
            query = f"SELECT k, who, what, long, round(price, 2), more::text FROM {self.table}"
            return Bag(_record(row) for row in connection.execute(query.encode()))

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


def _record(row: tuple[Value, ...]) -> Record:
    k, who, what, long, price, more = row
    document = None if more is None else Document(more)
    return Record({"k": k, "who": who, "what": what, "long": long, "price": price, "more": document})
