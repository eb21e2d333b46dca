"""Texts of PostgreSQL that are converted to values and written to files."""

from __future__ import annotations

import csv
import io
import math
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.types import Type
from mrql.runtime.postgresql.columns import READ_FROM
from mrql.runtime.postgresql.row_files import ReadColumn, RowsWriter, TableShape, write_copied
from mrql.runtime.sources.rows_file import rows_of

VALUES: list[tuple[str, str, str, Any]] = [
    ("bool", "bool", "t", True),
    ("bool", "bool", "f", False),
    ("int", "int2", "-32768", -32768),
    ("long", "int8", "9223372036854775807", 9223372036854775807),
    ("float", "float4", "0.1", 0.10000000149011612),
    ("double", "float4", "0.1", 0.10000000149011612),
    ("double", "float8", "0.1", 0.1),
    ("double", "float8", "-0", 0.0),
    ("double", "float8", "-Infinity", -math.inf),
    ("double", "int8", "9007199254740993", 9007199254740992.0),
    ("double", "numeric", "123456789012345678901234567890.5", 1.2345678901234568e29),
    ("decimal(6, 2)", "numeric", "12.5000000000000000000000000000000000000000000", Decimal("12.50")),
    ("decimal(6, 2)", "numeric", "-0.5", Decimal("-0.50")),
    ("decimal(6, 2)", "numeric", "100.000", Decimal(100)),
    ("decimal(6, 2)", "int4", "100", Decimal(100)),
    ("string", "text", "", ""),
    ("string", "text", 'a"\\.\n,é', 'a"\\.\n,é'),
    ("string", "bpchar", " a  ", " a"),
    ("binary", "bytea", "\\x", b""),
    ("binary", "bytea", "\\x00ff5c", b"\x00\xff\\"),
    ("date", "date", "0001-01-01", date(1, 1, 1)),
    ("timestamp", "timestamp", "2026-01-31 10:20:30.000001", datetime(2026, 1, 31, 10, 20, 30, 1)),
    ("timestamp", "timestamptz", "9999-12-31 23:59:59+00", datetime(9999, 12, 31, 23, 59, 59)),
]


def shape(t: Type, source: str) -> TableShape:
    return TableShape("t", (ReadColumn("x", t, source),))


@pytest.mark.parametrize(("t", "source", "text", "expected"), VALUES)
def test_a_value(tmp_path: Path, t: str, source: str, text: str, expected: Any) -> None:
    """A value is the same from a change in the log and from COPY, with its weight; a missing one is null."""
    row = parse_type(f"<x: {t}>")
    logged = RowsWriter(shape(parse_type(t), source), tmp_path / "logged", -1)
    copied = RowsWriter(shape(parse_type(t), source), tmp_path / "copied", 1)
    for value in (text, None):
        logged.add((value,))
    lines = io.StringIO()
    csv.writer(lines, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").writerow([1, text])
    write_copied([b"t,\n", *(lines.getvalue()[i : i + 3].encode() for i in range(0, len(lines.getvalue()), 3))], copied)
    found = [(value["x"], weight) for file in logged.close() for value, weight in rows_of(file, row)]
    assert found == [(expected, -1), (None, -1)]
    assert math.copysign(1, found[0][0] or 1) == math.copysign(1, expected or 1) if t == "double" else True
    (file,) = copied.close()
    assert ([(v["x"], w) for v, w in rows_of(file, row)], file.count) == ([(None, 1), (expected, 1)], 2)


@pytest.mark.parametrize(
    ("t", "source", "text"),
    [
        ("decimal(6, 2)", "numeric", "NaN"),
        ("decimal(6, 2)", "numeric", "0.125"),
        ("decimal(6, 2)", "numeric", "12345"),
        ("date", "date", "infinity"),
        ("date", "date", "0044-03-15 BC"),
        ("timestamp", "timestamp", "10000-01-01 00:00:00"),
    ],
)
def test_what_is_no_value(tmp_path: Path, t: str, source: str, text: str) -> None:
    """A text that is no value of its type is an error that names its column."""
    writer = RowsWriter(shape(parse_type(t), source), tmp_path / "rows", 1)
    writer.add((None,))
    writer.add((text,))
    with pytest.raises(UserError, match="in the column x of t, is not a value of type"):
        writer.close()


def test_nothing_makes_no_file(tmp_path: Path) -> None:
    writer = RowsWriter(shape(ty.LONG, "int8"), tmp_path / "rows", 1)
    write_copied([], writer)
    assert (writer.close(), [*tmp_path.iterdir()]) == ((), [])


def test_each_type_of_the_table_is_tried() -> None:
    tried = {(parse_type(t), source) for t, source, _, _ in VALUES}
    assert {t for t, _ in tried if t in READ_FROM} == READ_FROM.keys() - {ty.ANY}
