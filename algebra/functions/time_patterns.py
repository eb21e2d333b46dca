"""The patterns by which dates and timestamps are written and read: a subset of Java's.

    yyyy   year               MMMM, MMM  name of the month   HH, H   hour, 0 to 23   S to SSSSSS  fraction of the second
    MM, M  month              EEEE, EEE  day of the week     hh, h   hour, 1 to 12   a            AM or PM
    dd, d  day of the month   D          day of the year     mm, m   minute          X, XX, XXX   zone, Z for UTC
                                                             ss, s   second          x, xx, xxx   zone, +00 for UTC

Other letters stand in quotes: `dd.MM.yyyy 'at' HH:mm`. A part in `[…]` is optional when reading, and always written.
Names are English. `time_writing.py` and `time_reading.py` define which letters they support, and how.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import attrs

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
_PIECE = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|[^A-Za-z'#{}]")


@attrs.frozen
class Piece:
    """A piece of a pattern: letters with a meaning, a text that stands for itself, or the `[` or `]` around an optional
    part."""

    letters: str = ""
    text: str = ""
    bracket: str = ""

    @property
    def nesting(self) -> int:
        """The change of the nesting depth of brackets after this piece."""
        return {"[": 1, "]": -1}.get(self.bracket, 0)


def pieces(pattern: str) -> Iterator[Piece]:
    """The pieces of a pattern, in order.

    Raises: ValueError, with the character, where no piece begins.
    """
    at = 0
    while at < len(pattern):
        found = _PIECE.match(pattern, at)
        if found is None:
            raise ValueError(pattern[at])
        if found[1]:
            yield Piece(letters=found[0])
        elif found[0] in ("[", "]"):
            yield Piece(bracket=found[0])
        else:
            yield Piece(text=found[0] if found[2] is None else found[2].replace("''", "'") or "'")
        at = found.end()


def wrong_pattern(pattern: str, known: Mapping[str, object]) -> str | None:
    """The error message for a pattern; None if it is valid. `known` has the supported letters."""
    try:
        parts = [*pieces(pattern)]
        unknown = next((part.letters for part in parts if part.letters and part.letters not in known), None)
    except ValueError as error:
        parts, unknown = [], str(error)
    if unknown is None:
        return unpaired(parts)
    message = f"`{unknown}` has no meaning in a pattern: {', '.join(known)} have, and '…' is text"
    return f"{message}; {meant}" if (meant := _meant(unknown, pattern)) else message


def unpaired(parts: Sequence[Piece]) -> str | None:
    """The error message for unpaired brackets; None if they are paired."""
    depth = 0
    for part in parts:
        depth += part.nesting
        if depth < 0:
            return "`]` has no `[` before it in the pattern"
    return "`[` has no `]` behind it in the pattern" if depth else None


def _meant(unknown: str, pattern: str) -> str | None:
    """A hint at what to write instead of letters without a meaning."""
    if f"%{unknown}" in pattern:
        return "`%Y-%m-%d %H:%M:%S` is written `yyyy-MM-dd HH:mm:ss`"
    if unknown[0] == "S":
        return "a part of a second has six digits at most"
    return _ELSEWHERE.get(unknown)


_ZONE = "a zone is its distance from UTC: `XXX` is `+02:00`, `XX` is `+0200`"
_DAY_OF_WEEK = "the day of the week is written, and not read, as in Spark"
_ELSEWHERE = {
    **dict.fromkeys(("YYYY", "Y", "y", "uuuu"), "a year is written `yyyy`"),
    **dict.fromkeys(("yy", "YY"), "a year has four digits: put the century before a text with two"),
    **dict.fromkeys(("DD", "D"), "a day is written `dd`"),
    **dict.fromkeys(("E", "EE", "EEE", "EEEE"), _DAY_OF_WEEK),
    **dict.fromkeys(("Z", "ZZ", "ZZZ", "ZZZZ", "ZZZZZ", "z", "zzz", "zzzz", "O", "OOOO", "V", "VV"), _ZONE),
    **dict.fromkeys(("k", "kk", "K", "KK"), "an hour is written `HH`, or `hh` with `a` for AM or PM"),
    "T": "letters stand in quotes: `'T'`",
}
"""Letters of other notations, and some that are only written, each with a hint."""
