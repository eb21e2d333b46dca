"""The table and the publication that a stream of changes names, and the replication slots of such a stream."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.runtime.postgresql.address import NAME_MAX_BYTES, Address, apart_from, is_address, parse_address
from mrql.runtime.postgresql.connection import connect, translated
from mrql.runtime.postgresql.replication import Slot
from mrql.runtime.postgresql.slot_notes import SlotNote, forget_slot, slot_notes

LOG = "postgresql_cdc"
"""The name of the connector of such streams."""


def published_table(spec: SourceSpec) -> tuple[Address, str]:
    """The table that a stream names, and its publication.

    Raises: UserError where it names none.
    """
    try:
        rest, publication = apart_from(spec.path, "publication")
        if not is_address(spec.path):
            raise UserError("the address names a table", spec.span, "postgresql://host/db?table=orders")
        address = parse_address(rest)
    except ValueError as error:
        raise UserError(str(error), spec.span) from None
    return address, publication or _publication(address)


def _publication(address: Address) -> str:
    """The name of the publication of a table, unless the address gives another one."""
    name = f"mrql_{address.name.replace('.', '_')}"
    return name.encode()[:NAME_MAX_BYTES].decode(errors="ignore")


def log_place(address: str) -> str:
    """The identity of the log of a table: the database, the table and its publication. The server and the user are not
    part of it: either the slot is there or it is not. What is not an address is refused when it is opened.

    >>> log_place("postgresql://ann:secret@db1:5433/sales?sslmode=require&table=orders&publication=p")
    'postgresql:///sales?table=orders&publication=p'
    """
    try:
        url = urlsplit(address)
    except ValueError:
        return address
    given = dict(parse_qsl(url.query))
    database = given.get("dbname", unquote(url.path.removeprefix("/")))
    said = [(key, given[key]) for key in ("table", "publication") if key in given]
    return f"postgresql:///{quote(database, safe='')}?{urlencode(said, quote_via=quote)}"


def is_of(note: SlotNote, spec: SourceSpec) -> bool:
    """Whether a slot is one of a stream, whichever address the server had when the slot was noted."""
    if not spec.is_log or spec.versioned or note.stream != spec.name:
        return False
    return log_place(note.place) == log_place(published_table(spec)[0].shown)


def abandoned_slots(checkpoint: Path, offsets: Mapping[str, Any], specs: Collection[SourceSpec]) -> Iterator[str]:
    """The slots of a checkpoint that are not read any more, one message each: they belong to no stream, or the last
    offset of their stream is of another slot. The server keeps its log for them.

    Raises: UserError where the note of one is damaged.
    """
    for note in slot_notes(checkpoint):
        offset = offsets.get(note.stream)
        others = isinstance(offset, dict) and offset.get("slot") != note.slot
        if others or not any(is_of(note, spec) for spec in specs):
            drop = f"SELECT pg_drop_replication_slot('{note.slot}')"
            yield f"the replication slot {note.slot} at {note.place} is not read any more: {drop} there"


def release(note: SlotNote, checkpoint: Path, address: str | None = None) -> None:
    """Drops a slot that is noted in a checkpoint, and removes the note. The address may contain more than is noted,
    such as a password.

    Raises: UserError where another process reads it, EngineError where the server cannot be reached.
    """
    connection = connect(address or parse_address(note.place).conninfo, note.place)
    try:
        with translated(note.place):
            connection.autocommit = True
            Slot(connection, note.slot, lasting=True).drop()
    finally:
        connection.close()
    forget_slot(checkpoint, note.slot)
