"""The checks of a table whose log is read: whether the log has all of its changes, and whether it is still the same
table.

The log has rows, and no statements: it does not say that a column was made anew with another default, that a partition
was attached with its rows, or that a publication left a table out for a while. So what determines which rows the log
has is noted when the stream begins, and checked again with each batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.types import Type
from mrql.runtime.postgresql.address import Address
from mrql.runtime.postgresql.columns import READ_FROM, is_read_from
from mrql.runtime.postgresql.replication import rows
from mrql.runtime.postgresql.row_files import ReadColumn, TableShape
from mrql.runtime.postgresql.table import quoted

if TYPE_CHECKING:
    from mrql.runtime.postgresql.connection import Connection

COLUMNS = """
WITH RECURSIVE base AS (
  SELECT a.attnum, a.attname, a.atttypid AS type, a.attgenerated, format_type(a.atttypid, a.atttypmod) AS shown
  FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.attnum, b.attname, t.typbasetype, b.attgenerated, b.shown
  FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd')
SELECT b.attnum, b.attname::text, b.shown, b.attgenerated::text,
  CASE t.typnamespace WHEN 'pg_catalog'::regnamespace THEN t.typname::text ELSE '' END,
  NOT EXISTS (SELECT FROM pg_cast c WHERE c.castsource = t.oid AND c.casttarget = 'text'::regtype
    AND c.castmethod <> 'b')
FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype <> 'd'
"""
"""The columns of a table, each with its type and, if that is a domain, the type that the domain is based on."""
TREE = """
WITH RECURSIVE tree AS (
  SELECT %s::oid AS oid, ''::text AS since
  UNION ALL
  SELECT i.inhrelid, i.xmin::text FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid)
SELECT t.oid::bigint, t.since, t.oid::regclass::text, c.relreplident::text, c.relkind::text, c.relispartition
FROM tree t JOIN pg_class c ON c.oid = t.oid ORDER BY t.oid
"""
"""A table, with its partitions, or the tables that inherit from it."""
PUBLICATION = """
SELECT p.oid::bigint, p.xmin::text, p.puballtables, p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate,
  p.pubviaroot, r.prrelid::bigint, r.xmin::text, to_jsonb(r) ->> 'prqual' IS NULL AND to_jsonb(r) ->> 'prattrs' IS NULL
FROM pg_publication p LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = ANY (%s::oid[])
WHERE p.pubname = %s ORDER BY r.prrelid
"""


@attrs.frozen
class Published:
    """A table as it is published: what identifies it, and how its rows are read."""

    oid: int
    columns: Mapping[str, str]
    """The number and the type in the database of each column that is read."""
    partitions: str
    publication: str
    relations: frozenset[int] = attrs.field(eq=False)
    """The table and its partitions."""
    shape: TableShape = attrs.field(eq=False)

    def noted(self) -> dict[str, Any]:
        """The part of it that a checkpoint notes."""
        columns = dict(self.columns)
        return {"oid": self.oid, "columns": columns, "partitions": self.partitions, "publication": self.publication}

    def must_be(self, noted: Mapping[str, Any], table: str, span: Span | None) -> None:
        """Raises: UserError where it is not as it was noted."""
        said = _difference(self.noted(), noted, table)
        if said is not None:
            message = f"{said} since the stream began, and what that did to the rows is not in the log"
            raise UserError(message, span, START_OVER)


START_OVER = "start with a new --checkpoint, and a new --output: all rows are read again"


def _difference(now: Mapping[str, Any], noted: Mapping[str, Any], table: str) -> str | None:
    if now["oid"] != noted["oid"]:
        return f"the table {table} was dropped and made again"
    for name, column in noted["columns"].items():
        if now["columns"].get(name) != column:
            return f"the column {name} of {table} has changed"
    if now["partitions"] != noted["partitions"]:
        return f"the partitions of {table} have changed"
    return "its publication was changed" if now["publication"] != noted["publication"] else None


@attrs.frozen
class CatalogColumn:
    """A column in the catalog of the database."""

    number: int
    name: str
    shown: str
    """Its type, with numbers of digits and the like."""
    generated: str
    """Not empty if its values are computed from others."""
    source: str
    """The name of its type, or of the type that its domain is based on; empty if that does not come with the server."""
    is_text: bool
    """Whether the cast of a value to text gives what the server prints."""


@attrs.frozen
class Looked:
    """A table that is looked up in the catalog; with a publication of None, its log is not checked."""

    connection: Connection
    address: Address
    fields: Sequence[tuple[str, Type]]
    publication: str | None
    span: Span | None = attrs.field(default=None, repr=False)

    @property
    def table(self) -> str:
        return self.address.name

    def published(self) -> Published:
        """The table as it is.

        Raises: UserError where there is none, its columns do not fit, or its log does not have all of its rows.
        """
        oid = self._oid()
        columns, shape = self._columns(oid)
        tree = self._rows(TREE, [oid])
        publication = ""
        if self.publication is not None:
            self._must_be_logged(oid, tree)
            publication = self._publication(tree)
        partitions = _digest([row[:2] for row in tree[1:]] if len(tree) > 1 else [])
        return Published(oid, columns, partitions, publication, frozenset(row[0] for row in tree), shape)

    def must_be_fit(self) -> None:
        """Raises: UserError where no publication of the table could have what is to be read."""
        oid = self._oid()
        self._columns(oid)
        self._must_be_logged(oid, self._rows(TREE, [oid]))

    def _oid(self) -> int:
        ((oid,),) = self._rows("SELECT to_regclass(%s)::oid::bigint", [in_sql(self.address)])
        if oid is None:
            raise self._error(f"there is no table {self.table}")
        return int(oid)

    def catalog(self) -> tuple[CatalogColumn, ...]:
        """The columns of the table, in their order.

        Raises: UserError where there is no table.
        """
        return self._catalog(self._oid())

    def _catalog(self, oid: int) -> tuple[CatalogColumn, ...]:
        return tuple(CatalogColumn(*row) for row in sorted(self._rows(COLUMNS, [oid])))

    def _columns(self, oid: int) -> tuple[dict[str, str], TableShape]:
        found = {column.name: column for column in self._catalog(oid)}
        noted, read = {}, []
        for name, t in self.fields:
            if name not in found:
                raise self._error(f"{self.table} has no column {name}", f"its columns: {', '.join(found)}")
            column = found[name]
            source, is_text = column.source, column.is_text
            if column.generated and self.publication is not None:
                raise self._error(f"the column {name} of {self.table} is generated, and the log does not have it")
            if not is_read_from(t, source, is_text=is_text):
                said = f"the column {name} of {self.table} is of type {column.shown}, and is not read as {t}"
                fitting = [str(other) for other in READ_FROM if is_read_from(other, source, is_text=is_text)]
                fitting += ["decimal(p, s)"] if source == "numeric" else []
                raise self._error(said, f"as {' or '.join(fitting)} it is" if fitting else None)
            noted[name] = f"{column.number} {column.shown}"
            read.append(ReadColumn(name, t, source))
        return noted, TableShape(self.table, tuple(read), self.span)

    def _must_be_logged(self, oid: int, tree: Sequence[tuple[Any, ...]]) -> None:
        """Raises: UserError where the log does not have all rows of the table, or not the old ones."""
        ((kind, persistence),) = self._rows(
            "SELECT relkind::text, relpersistence::text FROM pg_class WHERE oid = %s", [oid]
        )
        if kind not in ("r", "p") or persistence != "p":
            what = "is unlogged" if kind in ("r", "p") else "is no table"
            raise self._error(f"{self.table} {what}, and the log has none of its rows")
        for _, _, name, identity, relkind, _ in tree:
            if relkind == "f":
                raise self._error(
                    f"{name}, a partition of {self.table}, is of another server: the log has none of its rows"
                )
            if relkind == "r" and identity != "f":
                cost = "updates and deletions log the whole old row then, which makes the log longer"
                said = f"the log does not have the old rows of {name}: its REPLICA IDENTITY is not FULL"
                raise self._error(said, f"ALTER TABLE {name} REPLICA IDENTITY FULL; {cost}")

    def _publication(self, tree: Sequence[tuple[Any, ...]]) -> str:
        """A digest of the definition of the publication.

        Raises: UserError where it does not have all changes of the table.
        """
        name = self.publication
        found = self._rows(PUBLICATION, [[row[0] for row in tree], name])
        if not found:
            raise self._error(f"there is no publication {name}", self.made_by)
        has = {relation for *_, relation, _, _ in found}
        _, _, all_tables, all_kinds, via_root, *_ = found[0]
        missing = [n for oid, _, n, _, _, is_part in tree if oid not in has and not is_part and not all_tables]
        hint = f"DROP PUBLICATION {quoted(name or '')}, or name another one with &publication=…; {self.made_by}"
        if missing:
            raise self._error(f"the publication {name} has no table {missing[0]}", hint)
        if not all_kinds:
            raise self._error(f"the publication {name} leaves out some kinds of changes", hint)
        if not all_tables and not all(whole for *_, whole in found):
            raise self._error(f"the publication {name} has only some rows or columns of {self.table}", hint)
        if via_root and len(tree) > 1:
            said = f"the publication {name} publishes {self.table} as one: that a partition is truncated is not in it"
            raise self._error(said, hint)
        return _digest(found)

    @property
    def made_by(self) -> str:
        """The statement that makes the publication."""
        return f"CREATE PUBLICATION {quoted(self.publication or '')} FOR TABLE {in_sql(self.address)}"

    def _rows(self, text: str, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        return rows(self.connection, text, arguments)

    def _error(self, message: str, hint: str | None = None) -> UserError:
        return UserError(message, self.span, hint)


def in_sql(address: Address) -> str:
    """A table in SQL."""
    return quoted(address.table) if address.schema is None else f"{quoted(address.schema)}.{quoted(address.table)}"


def _digest(values: Sequence[Any]) -> str:
    return hashlib.sha256(repr([*map(tuple, values)]).encode()).hexdigest()[:16]
