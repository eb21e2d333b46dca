"""Dates and timestamps written by a pattern (`time_patterns.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from mrql.algebra.functions.sql_text import text_sql
from mrql.algebra.functions.time_parsing import moment_sql
from mrql.algebra.functions.time_patterns import MONTHS, pieces, wrong_pattern

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FRACTIONS = tuple(range(1, 7))
_UTC = {"X": "Z", "XX": "Z", "XXX": "Z", "x": "+00", "xx": "+0000", "xxx": "+00:00"}
"""The zone of all timestamps."""


def _fraction(digits: int) -> Callable[[datetime], str]:
    return lambda t: f"{t.microsecond:06d}"[:digits]


def _constant(text: str) -> Callable[[datetime], str]:
    return lambda t: text


WRITTEN: Mapping[str, Callable[[datetime], str]] = {
    "yyyy": lambda t: f"{t.year:04d}",
    "MMMM": lambda t: MONTHS[t.month - 1],
    "MMM": lambda t: MONTHS[t.month - 1][:3],
    "MM": lambda t: f"{t.month:02d}",
    "M": lambda t: str(t.month),
    "dd": lambda t: f"{t.day:02d}",
    "d": lambda t: str(t.day),
    "D": lambda t: str(t.timetuple().tm_yday),
    "EEEE": lambda t: _DAYS[t.weekday()],
    "EEE": lambda t: _DAYS[t.weekday()][:3],
    "HH": lambda t: f"{t.hour:02d}",
    "H": lambda t: str(t.hour),
    "hh": lambda t: f"{(t.hour + 11) % 12 + 1:02d}",
    "h": lambda t: str((t.hour + 11) % 12 + 1),
    "a": lambda t: "AM" if t.hour < 12 else "PM",
    "mm": lambda t: f"{t.minute:02d}",
    "m": lambda t: str(t.minute),
    "ss": lambda t: f"{t.second:02d}",
    "s": lambda t: str(t.second),
    **{"S" * digits: _fraction(digits) for digits in _FRACTIONS},
    **{letters: _constant(text) for letters, text in _UTC.items()},
}


def _digits(number: str, width: int = 0) -> str:
    """A number as text, with leading zeros to `width` digits if that is given."""
    text = f"CAST({number} AS STRING)"
    return f"lpad({text}, {width}, '0')" if width else text


def _named(names: Sequence[str], place: str) -> str:
    return f"element_at(array({', '.join(map(text_sql, names))}), {place})"


_HOUR_OF_12 = "((hour({0}) + 11) % 12 + 1)"
_MICROS = f"pmod(unix_micros({moment_sql('{0}')}), 1000000)"

WRITTEN_SQL: Mapping[str, str] = {
    "yyyy": _digits("year({0})", 4),
    "MMMM": _named(MONTHS, "month({0})"),
    "MMM": _named([name[:3] for name in MONTHS], "month({0})"),
    "MM": _digits("month({0})", 2),
    "M": _digits("month({0})"),
    "dd": _digits("day({0})", 2),
    "d": _digits("day({0})"),
    "D": _digits("dayofyear({0})"),
    "EEEE": _named(_DAYS, "weekday({0}) + 1"),
    "EEE": _named([name[:3] for name in _DAYS], "weekday({0}) + 1"),
    "HH": _digits("hour({0})", 2),
    "H": _digits("hour({0})"),
    "hh": _digits(_HOUR_OF_12, 2),
    "h": _digits(_HOUR_OF_12),
    "a": "if(hour({0}) < 12, 'AM', 'PM')",
    "mm": _digits("minute({0})", 2),
    "m": _digits("minute({0})"),
    "ss": _digits("second({0})", 2),
    "s": _digits("second({0})"),
    **{"S" * digits: _digits(f"({_MICROS} DIV {10 ** (6 - digits)})", digits) for digits in _FRACTIONS},
    **{letters: text_sql(text) for letters, text in _UTC.items()},
}
"""The same in SQL. The output of Spark's own `date_format` depends on a setting of the session at run time."""


def wrong_to_write(args: Sequence[Any]) -> str | None:
    """The error message for a pattern for writing; None if it is valid."""
    return wrong_pattern(args[0], WRITTEN)


def written(time: datetime, pattern: str) -> str:
    """A time written by a pattern."""
    return "".join(WRITTEN[part.letters](time) if part.letters else part.text for part in pieces(pattern))


def written_sql(time: str, pattern: str) -> str:
    """The same in SQL."""
    texts = (
        WRITTEN_SQL[part.letters].format(time) if part.letters else text_sql(part.text) for part in pieces(pattern)
    )
    # For a missing time, a zone would not be missing, nor would, on Spark, the name of a month.
    return f"if({time} IS NULL, NULL, concat({', '.join(texts)}))"
