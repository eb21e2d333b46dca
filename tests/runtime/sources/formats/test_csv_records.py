"""How records of CSV, and their fields, are separated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec, TextOptions
from mrql.runtime.sources.formats import csv_records
from mrql.runtime.sources.formats.csv import CSV
from mrql.runtime.sources.formats.csv_records import Dialect, may_end_in_blanks, records

WRITTEN = st.text("ab'\"\\/, ", max_size=6)


@given(st.lists(WRITTEN, min_size=1, max_size=4), st.sampled_from("\"'"), st.sampled_from("\\/"))
def test_what_is_escaped_is_read_back(values: list[str], quote: str, escape: str) -> None:
    """Values are read back if each quote and escape character in them is escaped, also with blanks around the
    fields."""
    dialect = Dialect(",", quote, escape)
    inside = (re.sub(f"([{re.escape(quote + escape)}])", lambda found: escape + found[0], value) for value in values)
    record = ",".join(f" {quote}{text}{quote}\t" for text in inside)
    assert dialect.split(record) == ([(value, True) for value in values], None)
    assert dialect.is_well_formed(record)


@pytest.mark.parametrize(
    "record", ['"a', '"a"b', '"a"",b', 'x,"a" b', '"a\\"', '"a\\\\\\"', '"', "a," + '"b\n'], ids=repr
)
def test_quotes_that_are_unclear(record: str) -> None:
    assert not Dialect(",", escape="\\").is_well_formed(record)


def source(file: Path, delimiter: str = ",", texts: TextOptions | None = None, multiline: bool = False) -> SourceSpec:
    return SourceSpec(
        "s", False, CSV, str(file), ty.UNIT, delimiter=delimiter, texts=texts or TextOptions(), multiline=multiline
    )


@pytest.mark.parametrize(
    ("text", "delimiter", "expected"),
    [
        ('"a", \n', ",", True),
        ('"a",\t \r\nb', ",", True),
        ('"a", ', ",", True),
        ('"a"\n\n,   \rb', ",", True),
        ("a, \n", ",", False),  # without a quote it does not matter
        ('a, \n"b",c\n', ",", False),
        ('"a",\n"b" \n', ",", False),
        ('"a"\t\n', "\t", False),
        ('"a"\t \n', "\t", True),
        ('"a"  \n', " ", False),
        ('"a"§ \n', "§", True),
        ("", ",", False),
    ],
)
@pytest.mark.parametrize("chunk", [1, 2, 3, 1 << 20])
def test_records_that_may_end_in_blanks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, delimiter: str, expected: bool, chunk: int
) -> None:
    """`may_end_in_blanks` has the same result however the file is cut into chunks. Lines before the first quote do not
    matter, but may count if they are in the same chunk as that quote."""
    monkeypatch.setattr(csv_records, "CHUNK_BYTES", chunk)
    (tmp_path / "f.csv").write_text(text, newline="")
    found = may_end_in_blanks(source(tmp_path / "f.csv", delimiter), tmp_path / "f.csv")
    assert found == expected or (found and chunk > 2 and text.startswith("a, "))


def test_a_record_of_many_lines_that_end_with_the_escape(tmp_path: Path) -> None:
    """A record of many lines that end with the escape character is read in linear time."""
    inside = "x\\\n" * 20_000
    (tmp_path / "f.csv").write_text(f'"{inside}",b\n')
    spec = source(tmp_path / "f.csv", texts=TextOptions(escape="\\"), multiline=True)
    [(number, _, fields)] = records(spec, tmp_path / "f.csv")
    assert (number, fields) == (1, [(inside, True), ("b", False)])
