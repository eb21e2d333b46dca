"""Which table, and by which publication, a stream of changes names; and which replication slots are such a stream's."""

from __future__ import annotations

from pathlib import Path

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.runtime.postgresql.address import NAME_MAX_BYTES, Address, apart_from, is_address, parse_address
from mrql.runtime.postgresql.connection import connect, translated
from mrql.runtime.postgresql.replication import Slot
from mrql.runtime.postgresql.slot_notes import SlotNote, forget_slot


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
    """What the publication of a table is called unless said otherwise."""
    name = f"mrql_{address.name.replace('.', '_')}"
    return name.encode()[:NAME_MAX_BYTES].decode(errors="ignore")


def is_of(note: SlotNote, spec: SourceSpec) -> bool:
    """Whether a slot is one of a stream."""
    return spec.is_log and not spec.versioned and note.matches(spec.name, published_table(spec)[0].shown)


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
