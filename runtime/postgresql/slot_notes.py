"""The replication slots of a stream, noted in its checkpoint before they are made.

A slot that nobody reads keeps the server from removing its log, until the disk is full. By its note a slot is known
even if the process died before its first commit: the next start drops it, and so does `mrql checkpoint release`.
"""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path

import attrs

from mrql.algebra.errors import UserError
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.postgresql.address import Address

SLOTS = "slots"
"""The directory in a checkpoint with a file for each slot, of the slot's name."""


@attrs.frozen
class SlotNote:
    """A slot, the name of its stream in the query, and where the slot is."""

    slot: str
    stream: str
    place: str
    """The address, without a password."""

    def matches(self, stream: str, place: str) -> bool:
        return (self.stream, self.place) == (stream, place)


def new_slot_name(address: Address) -> str:
    """A name that no other slot has, made from that of the table.

    >>> new_slot_name(Address("", "", "Order items"))[:-12]
    'mrql_order_items_'
    """
    readable = re.sub(r"[^a-z0-9_]", "_", address.table.lower())[:40]
    return f"mrql_{readable}_{secrets.token_hex(6)}"


def slot_notes(checkpoint: Path) -> list[SlotNote]:
    """The slots that are noted in a checkpoint.

    Raises: UserError where a note is damaged.
    """
    found = []
    for file in sorted((checkpoint / SLOTS).glob("mrql_*")):
        try:
            body = json.loads(file.read_text(encoding="utf-8"))
            found.append(SlotNote(file.name, body["stream"], body["place"]))
        except (ValueError, KeyError, TypeError):
            hint = f"the slot {file.name} is still at the server: SELECT pg_drop_replication_slot('{file.name}')"
            raise UserError(f"{file} is damaged: it is not JSON as notes of slots are", hint=hint) from None
    return found


def note_slot(checkpoint: Path, note: SlotNote) -> None:
    """Notes a slot; the note is on the disk when this returns."""
    files, directory = DurableFiles(), checkpoint / SLOTS
    files.make_directory(directory)
    body = json.dumps({"stream": note.stream, "place": note.place}, ensure_ascii=False)
    files.put(directory / note.slot, body.encode(), directory / f".{note.slot}")
    files.sync(checkpoint)


def forget_slot(checkpoint: Path, slot: str) -> None:
    """Removes the note of a slot that is dropped."""
    DurableFiles().remove(checkpoint / SLOTS / slot)
