"""`docs/glossary.md`: its places exist, and its words are in alphabetical order."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TABLES = [
    re.findall(r"^\| ([^|]+) \| ([^|]+) \| (`.+) \|$", part, re.MULTILINE)
    for part in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("\n## ")[1:]
]


def test_what_it_names_is_there() -> None:
    """Each word has a place, and each place is a file."""
    places = [path for table in TABLES for *_, where in table for path in re.findall(r"`([^`]+)`", where)]
    assert len(places) >= sum(map(len, TABLES)) > 50
    assert [path for path in places if not (ROOT / path).is_file()] == []


def test_words_are_in_their_order() -> None:
    """The words of a table are sorted, and each occurs once."""
    for table in TABLES:
        words = [word.lower() for word, *_ in table]
        assert words == sorted(set(words))


def test_each_line_of_the_tables_is_a_word() -> None:
    """Every row of the tables is read as a word here, however it is written."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| word")]
    assert len(rows) == sum(map(len, TABLES))
