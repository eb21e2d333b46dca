"""Patterns in paths, compared with those of Python."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrql.runtime.sources.path_patterns import fits, is_pattern

SET = st.builds(
    "[{}{}]".format, st.sampled_from(["", "!"]), st.sampled_from(["a", "ab", "a-c", "c-a", "ab-", "-a", "^"])
)
WANTED = st.lists(st.sampled_from(["*", "?", "a", "b", "-", "[", ".", "\\", "\n"]) | SET, max_size=5).map("".join)


@given(WANTED, st.text("abc-^.[\\\n", max_size=5))
def test_stars_and_sets(wanted: str, name: str) -> None:
    """Stars, question marks and sets match as in Python's `fnmatch`."""
    assert fits(name, wanted) == fnmatchcase(name, wanted)


@pytest.mark.parametrize(
    ("wanted", "those"),
    [
        ("{a,b*}.csv", ["a.csv", "b.csv", "bc.csv"]),
        ("{a}{,b}", ["a", "ab"]),
        ("{a", ["{a"]),
        ("a}", ["a}"]),
        ("[^a]", ["b", "c"]),
        ("{[ab],c}", ["a", "b", "c"]),
    ],
)
def test_alternatives(wanted: str, those: list[str]) -> None:
    """Alternatives in braces may be patterns; braces that are not closed are characters."""
    names = ["a.csv", "b.csv", "bc.csv", "a", "ab", "b", "c", "{a", "a}", "", ".csv"]
    assert [name for name in names if fits(name, wanted)] == those
    assert is_pattern(f"d/{wanted}/e") == (those != [wanted])
