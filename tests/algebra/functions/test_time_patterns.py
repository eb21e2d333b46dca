"""Patterns of dates and timestamps in files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions.time_reading import READ, field_pattern, read

AT = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSSSSS": "%f"}
SIGN = st.sampled_from([".", "-", "/", " ", "''", "'T'", "'it''s'", "年", "\\", "*", "$", ""])


@given(st.permutations(list(AT)), st.lists(SIGN, min_size=7, max_size=7), st.datetimes(min_value=datetime(1000, 1, 1)))
def test_what_is_written_by_a_pattern_is_read_by_it(fields: list[str], signs: list[str], at: datetime) -> None:
    """A text written by a pattern is read by it, with fields in any order and anything between them."""
    written = "".join(
        at.strftime(AT[field]) + {"''": "'", "'T'": "T", "'it''s'": "it's"}.get(sign, sign)
        for field, sign in zip(fields, signs, strict=True)
    )
    pattern = field_pattern("".join(map("".join, zip(fields, signs, strict=True))), ty.TIMESTAMP)
    assert pattern.canonical(written) == at.strftime("%Y-%m-%d %H:%M:%S.%f")
    assert pattern.canonical(f"{written} ") is None


MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


@given(st.datetimes(min_value=datetime(1000, 1, 1)), st.booleans(), st.sampled_from([str.lower, str.upper, str.title]))
def test_one_digit_or_two_and_names_of_months(at: datetime, zeros: bool, letters: Callable[[str], str]) -> None:
    """A number of one digit may have two, and names of months may have lower- and upper-case letters."""
    day, month, hour = (f"{n:02d}" if zeros else str(n) for n in (at.day, at.month, at.hour))
    expected = at.strftime("%Y-%m-%d %H:%M:00")
    numbers = field_pattern("d.M.yyyy H:mm", ty.TIMESTAMP)
    assert numbers.canonical(f"{day}.{month}.{at.year} {hour}:{at:%M}") == expected
    named = field_pattern("d-MMM-yyyy H:mm", ty.TIMESTAMP)
    name = letters(MONTHS[at.month - 1])
    assert named.canonical(f"{day}-{name}-{at.year} {hour}:{at:%M}") == expected
    assert read(f"{day}-{name}-{at.year} {hour}:{at:%M}", "d-MMM-yyyy H:mm") == at.replace(second=0, microsecond=0)


@pytest.mark.parametrize("text", ["Mai", "September", "Sept", "1", "", "J\u0430n", "\u017fep"])
def test_what_is_no_name_of_a_month(text: str) -> None:
    """Only English names of three letters are read as months."""
    assert field_pattern("d MMM yyyy", ty.DATE).canonical(f"1 {text} 2024") is None
    with pytest.raises(EvaluationError):
        read(f"1 {text} 2024", "d MMM yyyy")


@given(st.lists(st.sampled_from(["'", "y", "d", "[", ".", "]", "é", *READ]), max_size=12).map("".join))
def test_any_text_is_a_pattern_or_not(text: str) -> None:
    """A text that is no pattern is refused with a ValueError, and no other error is raised."""
    with suppress(ValueError):
        assert field_pattern(text, ty.TIMESTAMP).canonical(text) is None


@pytest.mark.parametrize("text", ["2024-01-31", "31.1.2024", "٣1.01.2024", "31.01.0000", "31.01.2024\n", "31x01.2024"])
def test_what_does_not_fit(text: str) -> None:
    """Texts with other signs or numbers of digits, digits of other scripts, or the year 0 are not read."""
    assert field_pattern("dd.MM.yyyy", ty.DATE).canonical(text) is None
