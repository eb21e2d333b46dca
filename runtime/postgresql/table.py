"""A table that holds an answer: its current state, and how the changes of a batch are applied to it.

`mrql_streams`, in the same schema, says for each table which stream keeps it current, and which batch it has. That row
is written by the transaction that applies the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from mrql.algebra.errors import UserError
from mrql.runtime.postgresql.address import NAME_MAX_BYTES, STREAMS, Address
from mrql.runtime.postgresql.columns import TableColumn

if TYPE_CHECKING:
    from mrql.runtime.postgresql.connection import Connection

    Arguments: TypeAlias = Sequence[Any]

BLOCK_BYTES = 1 << 20
PATIENCE = "5s"
"""The time limit for waiting for a connection that writes to the table: that of a killed process releases it soon."""


def quoted(name: str) -> str:
    """A name in SQL.

    >>> quoted('a"b')
    '"a""b"'
    """
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def among_placeholders(name: str) -> str:
    """A name for SQL with placeholders, in which a `%` begins one.

    >>> among_placeholders(quoted("50%s"))
    '"50%%s"'
    """
    return name.replace("%", "%%")


@attrs.frozen
class StreamRecord:
    """Which stream keeps a table current, and the last batch that it has."""

    stream: str
    batch: int


@attrs.frozen
class Found:
    """A table as it was found."""

    columns: tuple[TableColumn, ...]
    is_empty: bool
    record: StreamRecord | None


class Unmatched(Exception):
    """A row is to be deleted that is not in the table."""

    def __init__(self, row: Sequence[Any]) -> None:
        super().__init__(row)
        self.row = row


@attrs.define
class StreamTable:
    """A table over a connection. Nothing here commits."""

    connection: Connection
    address: Address
    columns: tuple[TableColumn, ...]
    schema: str | None = attrs.field(init=False)
    """The schema that it is in, or is to be made in: the address need not give it."""

    def __attrs_post_init__(self) -> None:
        self.schema = self.address.schema or self._found_schema()

    def _found_schema(self) -> str | None:
        """The schema in which the server finds a table by its name alone; otherwise the one that it makes tables in."""
        found = self._one(
            "SELECT n.nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.oid = to_regclass(%s)",
            [quoted(self.address.table)],
        )
        schema: str | None = found or self._one("SELECT current_schema()::text")
        return schema

    @property
    def name(self) -> str:
        """The table in SQL."""
        return self._in_schema(self.address.table)

    def _in_schema(self, name: str) -> str:
        return quoted(name) if self.schema is None else f"{quoted(self.schema)}.{quoted(name)}"

    def _execute(self, text: str, arguments: Arguments = ()) -> int:
        return self.connection.execute(text.encode(), arguments or None).rowcount

    def _one(self, text: str, arguments: Arguments = ()) -> Any:
        row = self.connection.execute(text.encode(), arguments or None).fetchone()
        return None if row is None else row[0]

    # --- what is there ------------------------------------------------------------------------

    def take(self) -> None:
        """Keeps other streams from writing to the table while the connection lasts, however their addresses name it.

        Raises: psycopg.errors.LockNotAvailable where another one does.
        """
        self._execute(f"SET lock_timeout = '{PATIENCE}'")
        self._execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [f"mrql {self.name}"])
        self._execute("RESET lock_timeout")

    def look(self) -> Found | None:
        """The table as it is; None if there is none.

        Raises: UserError where there is something else of this name.
        """
        kind = self._one("SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)", [self.name])
        if kind is None:
            return None
        if kind not in ("r", "p"):
            raise UserError(f"{self.address.name} is there already, and is not a table", hint="name another one")
        rows = self.connection.execute(
            b"SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute"
            b" WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            [self.name],
        ).fetchall()
        is_empty = self._one(f"SELECT NOT EXISTS (SELECT FROM {self.name})")
        return Found(tuple(TableColumn(*row) for row in rows), is_empty, self._record())

    def _record(self) -> StreamRecord | None:
        streams = self._in_schema(STREAMS)
        if self._one("SELECT to_regclass(%s)", [streams]) is None:
            return None
        found = self.connection.execute(
            f"SELECT stream, batch FROM {among_placeholders(streams)} WHERE table_name = %s".encode(),
            [self.address.table],
        ).fetchone()
        return None if found is None else StreamRecord(*found)

    # --- a batch ------------------------------------------------------------------------------

    def replace(self, files: Iterable[Path], record: StreamRecord, *, follows: bool = False) -> None:
        """Replaces the content of the table; makes the table if it is missing, or anew if it has other columns.

        Raises: UserError where it `follows` on a batch that the table is not at.
        """
        found = self.look()
        if found is not None and found.columns != self.columns:
            self._execute(f"DROP TABLE {self.name}")
            found = None
        if found is None:
            columns = ", ".join(f"{quoted(column.name)} {column.type}" for column in self.columns)
            self._execute(f"CREATE TABLE {self.name} ({columns})")
        self._make_index()
        self._lock()
        if follows:
            self._must_be_before(record)
        self._execute(f"DELETE FROM {self.name}")
        self._load(files)
        self._insert()
        self._note(record)

    def change(self, files: Iterable[Path], record: StreamRecord) -> None:
        """Applies changes to the table.

        Raises: UserError where it is not at the batch before; Unmatched where a row is to be deleted that is not there.
        """
        self._lock()
        self._must_be_before(record)
        self._load(files)
        self._delete()
        self._insert()
        self._note(record)

    def _lock(self) -> None:
        """Locks the table for writing: others may still read it, and see it as it was before the batch."""
        self._execute(f"LOCK TABLE {self.name} IN SHARE ROW EXCLUSIVE MODE")

    def _must_be_before(self, record: StreamRecord) -> None:
        """Checks that the table is at the batch before: the lock of the session may be lost, if a connection pool is in
        between.

        Raises: UserError where the table has another stream's batch, or another one of this stream.
        """
        found = self._record()
        if found is None or found.stream != record.stream:
            said = f"the table {self.address.name} is kept by {'nobody' if found is None else 'another stream'} now"
        elif found.batch != record.batch - 1:
            said = f"the table {self.address.name} is at batch {found.batch} now"
        else:
            return
        hint = "only the stream may write to it; with replace=true in the address a restart makes it anew"
        raise UserError(f"{said}, and batch {record.batch} of this stream does not follow on that", hint=hint)

    def _note(self, record: StreamRecord) -> None:
        streams = self._in_schema(STREAMS)
        if self._one("SELECT to_regclass(%s)", [streams]) is None:
            self._execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"mrql {STREAMS}"])
            columns = "table_name text PRIMARY KEY, stream text NOT NULL, batch bigint NOT NULL"
            self._execute(f"CREATE TABLE IF NOT EXISTS {streams} ({columns})")
        self._execute(
            f"INSERT INTO {among_placeholders(streams)} VALUES (%s, %s, %s)"
            " ON CONFLICT (table_name) DO UPDATE SET stream = excluded.stream, batch = excluded.batch",
            [self.address.table, record.stream, record.batch],
        )

    def _load(self, files: Iterable[Path]) -> None:
        """Loads the rows of a batch into temporary tables: as they are, and with the weights of equal rows added."""
        numbered = [f"c{i}" for i in range(len(self.columns))]
        typed = ", ".join(f"c{i} {column.type}" for i, column in enumerate(self.columns))
        for name in ("mrql_batch", "mrql_net"):
            self._execute(f"DROP TABLE IF EXISTS pg_temp.{name}")
        self._execute(f"CREATE TEMPORARY TABLE mrql_batch ({typed}, n bigint) ON COMMIT DROP")
        copy = b"COPY pg_temp.mrql_batch FROM STDIN (FORMAT csv, ENCODING 'UTF8')"
        with self.connection.cursor() as cursor, cursor.copy(copy) as into:
            for file in files:
                with file.open("rb") as stream:
                    while block := stream.read(BLOCK_BYTES):
                        into.write(block)
        listed = ", ".join(numbered)
        self._execute(
            f"CREATE TEMPORARY TABLE mrql_net ON COMMIT DROP AS SELECT row_number() OVER () AS id, {listed},"
            f" sum(n)::bigint AS n FROM pg_temp.mrql_batch GROUP BY {listed} HAVING sum(n) <> 0"
        )
        self._execute("ANALYZE pg_temp.mrql_net")

    def _insert(self) -> None:
        listed = ", ".join(f"c{i}" for i in range(len(self.columns)))
        self._execute(
            f"INSERT INTO {self.name} SELECT {listed} FROM pg_temp.mrql_net, generate_series(1, n) WHERE n > 0"
        )

    def _delete(self) -> None:
        """Deletes each row as often as its weight says. Rows that are equal except for rounding stand in for one
        another, as their sums may have been added up in another order. The nearest are taken first; if two rows match
        the same one, one of the two is matched again.

        Raises: Unmatched where a row is not there.
        """
        search = f"SELECT t.ctid AS place, {self._far()} AS far FROM {self.name} t WHERE {self._same()}"
        once = (
            f"WITH found AS (SELECT DISTINCT ON (r.place) r.place, d.id FROM pg_temp.mrql_net d"
            f" CROSS JOIN LATERAL ({search} ORDER BY far LIMIT -d.n) r WHERE d.n < 0 ORDER BY r.place, r.far, d.id),"
            f" gone AS (DELETE FROM {self.name} t USING found WHERE t.ctid = found.place RETURNING found.id),"
            f" counted AS (SELECT id, count(*) AS times FROM gone GROUP BY id)"
            f" UPDATE pg_temp.mrql_net d SET n = d.n + counted.times FROM counted WHERE d.id = counted.id"
        )
        while self._execute(once):
            pass
        left = self.connection.execute(b"SELECT * FROM pg_temp.mrql_net WHERE n < 0 LIMIT 1").fetchone()
        if left is not None:
            raise Unmatched(left[1:-1])

    def _make_index(self) -> None:
        """Makes an index for the condition of `_same`, so that a batch costs what it changes and not what is there."""
        names = [quoted(column.name) for column in self.columns if not column.fraction]
        if names:
            name = f"{self.address.table.encode()[: NAME_MAX_BYTES - 9].decode(errors='ignore')}_mrql_row"
            self._execute(f"CREATE INDEX IF NOT EXISTS {quoted(name)} ON {self.name} (({_hash(names)}))")

    def _same(self) -> str:
        """The condition that a row `t` of the table may stand in for the row `d`. Missing values are equal."""
        pairs = [(f"t.{quoted(column.name)}", f"d.c{i}", column) for i, column in enumerate(self.columns)]
        exact = [(mine, theirs) for mine, theirs, column in pairs if not column.fraction]
        conditions = [f"{mine} IS NOT DISTINCT FROM {theirs}" for mine, theirs in exact]
        if exact:
            conditions.append(f"{_hash([mine for mine, _ in exact])} = {_hash([theirs for _, theirs in exact])}")
        conditions += [_close(mine, theirs, column) for mine, theirs, column in pairs if column.fraction]
        return " AND ".join(conditions)

    def _far(self) -> str:
        """An expression for the number of floating-point columns in which the rows `t` and `d` differ."""
        pairs = [(f"t.{quoted(column.name)}", f"d.c{i}") for i, column in enumerate(self.columns) if column.fraction]
        return " + ".join(f"({mine} IS DISTINCT FROM {theirs})::int" for mine, theirs in pairs) or "0"


def _close(mine: str, theirs: str, column: TableColumn) -> str:
    """The condition that two numbers are the same except for rounding."""
    digits = 5 if column.type == "real" else 9
    a, b = f"{mine}::numeric", f"{theirs}::numeric"
    finite = f"abs({mine}) < 'Infinity' AND abs({theirs}) < 'Infinity'"
    return (
        f"({mine} IS NOT DISTINCT FROM {theirs}"
        f" OR ({finite} AND abs({a} - {b}) <= 1e-{digits} * greatest(abs({a}), abs({b}))))"
    )


def _hash(names: Sequence[str]) -> str:
    return f"hash_record_extended(ROW({', '.join(names)}), 0)"
