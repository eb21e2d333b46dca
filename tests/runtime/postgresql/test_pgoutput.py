"""The messages of the log, parsed from the bytes that the server writes."""

from __future__ import annotations

import pytest

from mrql.algebra.errors import EngineError
from mrql.runtime.postgresql.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    RelationColumns,
    Truncate,
    Update,
    lsn_text,
    parse_lsn,
    parse_message,
)

ID, T7, NULL = b"\0\0\x40\x01", b"t\0\0\0\x017", b"n"
TABLE = b"R" + ID + b"public\0t\0f\0\x02\x01id\0\0\0\0\x17\xff\xff\xff\xff\0\xc3\xa9 x\0\0\0\0\x19\xff\xff\xff\xff"
TIME = b"\0\2\xda\1\2\3\4\5"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"B" + bytes([0, 0, 0, 1, 1, 0x92, 0x55, 0x60]) + TIME + b"\0\0\2\xd8", Begin(0x1_01925560)),
        (b"C\0" + bytes(8) + bytes([0, 0, 0, 0, 1, 0x92, 0x56, 0x70]) + TIME, Commit(0x1925670)),
        (TABLE, RelationColumns(0x4001, "public", "t", ("id", "é x"))),
        (b"I" + ID + b"N\0\x02" + T7 + NULL, Insert(0x4001, ("7", None))),
        (b"I" + ID + b"N\0\x01t\0\0\0\0", Insert(0x4001, ("",))),
        (b"U" + ID + b"O\0\x02" + T7 + NULL + b"N\0\x02u" + T7, Update(0x4001, ("7", None), (UNCHANGED, "7"))),
        (b"U" + ID + b"K\0\x02" + T7 + NULL + b"N\0\x02" + T7 + T7, Update(0x4001, None, ("7", "7"))),
        (b"U" + ID + b"N\0\x01" + T7, Update(0x4001, None, ("7",))),
        (b"D" + ID + b"O\0\x01" + T7, Delete(0x4001, ("7",))),
        (b"D" + ID + b"K\0\x01" + T7, Delete(0x4001, None)),
        (b"T\0\0\0\x02\0" + ID + b"\0\0\0\x05", Truncate((0x4001, 5))),
        (b"Y" + ID + b"public\0mood\0", None),
        (b"O" + bytes(8) + b"elsewhere\0", None),
    ],
)
def test_a_message(data: bytes, expected: Message | None) -> None:
    assert parse_message(data) == expected


@pytest.mark.parametrize(
    "data",
    [b"", b"Z", b"B\0", b"I" + ID + b"O\0\x01" + T7, b"I" + ID + b"N\0\x02" + T7, TABLE[:20], b"D" + ID + b"O\0\1x"],
)
def test_what_is_no_message(data: bytes) -> None:
    """A message that is not of the protocol is an error, and not ignored."""
    with pytest.raises(EngineError, match="none of pgoutput's"):
        parse_message(data)


@pytest.mark.parametrize("place", [0, 1, 0xFFFFFFFF, 1 << 32, (7 << 32) + 0xABC])
def test_places_in_the_log(place: int) -> None:
    assert parse_lsn(lsn_text(place)) == place
