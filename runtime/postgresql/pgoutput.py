"""The messages of PostgreSQL's logical replication, as the output plugin `pgoutput` writes them in version 1.

Each row of `pg_logical_slot_peek_binary_changes` is one message. A transaction is a `Begin`, its changes in their
order, and a `Commit`; the columns of a table come before its first change, and after each change of these columns.
Messages that do not concern rows (types, origins, those of `pg_logical_emit_message`) are ignored here.
Source: "Logical Replication Message Formats" in the documentation of PostgreSQL.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Final, Literal, TypeAlias

import attrs

from mrql.algebra.errors import EngineError


class Unchanged(Enum):
    """Stands in a new row for a long value that an update has not changed: it is that of the old row."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
Texts: TypeAlias = tuple[str | Literal[Unchanged.UNCHANGED] | None, ...]
"""A row: the texts that the output functions of its columns' types give, None for a missing value."""


@attrs.frozen
class Begin:
    """The beginning of a transaction, with the place of its commit in the log."""

    commit: int


@attrs.frozen
class Commit:
    """The end of a transaction; what comes next in the log comes after `end`."""

    end: int


@attrs.frozen
class RelationColumns:
    """A table, and its columns in the order that they have in the rows of these messages."""

    id: int
    schema: str
    table: str
    columns: tuple[str, ...]


@attrs.frozen
class Insert:
    """The insertion of a row."""

    relation: int
    new: Texts


@attrs.frozen
class Update:
    """The update of a row; `old` is None if the log does not have all of the old row."""

    relation: int
    old: Texts | None
    new: Texts


@attrs.frozen
class Delete:
    """The deletion of a row; `old` is None if the log does not have all of it."""

    relation: int
    old: Texts | None


@attrs.frozen
class Truncate:
    """The deletion of all rows of some tables."""

    relations: tuple[int, ...]


Message: TypeAlias = Begin | Commit | RelationColumns | Insert | Update | Delete | Truncate


def parse_message(data: bytes) -> Message | None:
    """A message; None for one that does not concern rows.

    >>> parse_message(b"D" + bytes([0, 0, 0, 7]) + b"O" + bytes([0, 2]) + b"t" + bytes([0, 0, 0, 1]) + b"5" + b"n")
    Delete(relation=7, old=('5', None))

    Raises: EngineError where it is not one of the protocol.
    """
    try:
        return _parsed(_Reader(data))
    except (struct.error, IndexError, UnicodeDecodeError, _Strange) as error:
        said = f"the log of PostgreSQL has a message that is none of pgoutput's: {data[:40]!r}"
        raise EngineError(said, f"this is read with version 1 of its protocol: {error}") from None


class _Strange(Exception):
    """Something that no message of the protocol has."""


@attrs.define
class _Reader:
    data: bytes
    at: int = 0

    def take(self, format: str) -> tuple[int, ...]:
        """Numbers, as `struct` reads them."""
        found = struct.unpack_from(format, self.data, self.at)
        self.at += struct.calcsize(format)
        return found

    def sign(self) -> str:
        self.at += 1
        return chr(self.data[self.at - 1])

    def bytes(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise _Strange("it ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def name(self) -> str:
        """A text that ends with a byte 0."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise _Strange("a name has no end")
        found, self.at = self.data[self.at : end].decode(), end + 1
        return found


def _parsed(message: _Reader) -> Message | None:
    kind = message.sign()
    match kind:
        case "B":
            return Begin(message.take("!QQI")[0])
        case "C":
            return Commit(message.take("!BQQQ")[2])
        case "R":
            return _relation(message)
        case "I":
            (relation,) = message.take("!I")
            return Insert(relation, _new(message, message.sign()))
        case "U":
            (relation,) = message.take("!I")
            old, sign = _old(message)
            return Update(relation, old, _new(message, sign))
        case "D":
            (relation,) = message.take("!I")
            return Delete(relation, _old(message)[0])
        case "T":
            count, _ = message.take("!IB")
            return Truncate(message.take(f"!{count}I"))
        case "Y" | "O" | "M":
            return None
        case _:
            raise _Strange(f"there is no message {kind!r}")


def _relation(message: _Reader) -> RelationColumns:
    (id,) = message.take("!I")
    schema, table = message.name(), message.name()
    _, count = message.take("!BH")
    columns = []
    for _ in range(count):
        message.take("!B")
        columns.append(message.name())
        message.take("!Ii")
    return RelationColumns(id, schema or "pg_catalog", table, tuple(columns))


def _old(message: _Reader) -> tuple[Texts | None, str]:
    """The old row, and the sign that comes after it; the row is None if the log has only its key, or nothing of it."""
    sign = message.sign()
    if sign not in "KO":
        return None, sign
    found = _row(message)
    rest = message.sign() if message.at < len(message.data) else ""
    return (found if sign == "O" else None), rest


def _new(message: _Reader, sign: str) -> Texts:
    if sign != "N":
        raise _Strange(f"{sign!r} stands where a new row was expected")
    return _row(message)


def _row(message: _Reader) -> Texts:
    (count,) = message.take("!H")
    return tuple(_cell(message) for _ in range(count))


def _cell(message: _Reader) -> str | Literal[Unchanged.UNCHANGED] | None:
    match message.sign():
        case "n":
            return None
        case "u":
            return UNCHANGED
        case "t":
            (length,) = message.take("!I")
            return message.bytes(length).decode()
        case sign:
            raise _Strange(f"there is no value {sign!r}")


# --- places in the log --------------------------------------------------------------------------


def lsn_text(place: int) -> str:
    """A place in the log as PostgreSQL writes it.

    >>> lsn_text(0x1_6B37_48)
    '0/16B3748'
    """
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """A place in the log, which is a number of bytes.

    >>> parse_lsn("1/A")
    4294967306
    """
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
