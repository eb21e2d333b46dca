"""Dates and timestamps read by a pattern (`time_patterns.py`), in Python and in SQL.

There are as many digits as letters, or one or two for `d`, `M`, `H`, `h`, `m` and `s`. Names of months, AM and PM may
be in upper or lower case. A zone gives the offset of the clock from UTC, the zone of timestamps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any

import attrs

from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions.sql_text import let_sql, text_sql
from mrql.algebra.functions.time_parsing import zoned_sql
from mrql.algebra.functions.time_patterns import MONTHS, Piece, pieces, unpaired, wrong_pattern
from mrql.algebra.types import Type
from mrql.algebra.values.atom_conversion import ZONE_HOUR_TEXT, parse_atom

_ONE_OR_TWO = ("M", "d", "H", "h", "m", "s")
_FRACTIONS = tuple("S" * digits for digits in range(1, 7))
_ZONES = ("X", "XX", "XXX", "x", "xx", "xxx")
_MINUTES = "[0-5][0-9]"
_NUMBERS = {name: f"{number:02d}" for number, name in enumerate(MONTHS, start=1)}


def _either_case(word: str) -> str:
    return "".join(f"[{c.upper()}{c.lower()}]" for c in word)


def _zone(letters: str) -> str:
    minutes = {1: f"(?:{_MINUTES})?", 2: _MINUTES, 3: f":{_MINUTES}"}[len(letters)]
    distance = f"[+-]{ZONE_HOUR_TEXT}{minutes}"
    return f"[Zz]|{distance}" if letters[0] == "X" else distance


READ: Mapping[str, str] = {
    # There is no year 0.
    "yyyy": "(?!0000)[0-9]{4}",
    "MM": "[0-9]{2}",
    "M": "[0-9]{1,2}",
    "MMM": "|".join(_either_case(name[:3]) for name in MONTHS),
    "MMMM": "|".join(map(_either_case, MONTHS)),
    "dd": "[0-9]{2}",
    "d": "[0-9]{1,2}",
    "HH": "[0-9]{2}",
    "H": "[0-9]{1,2}",
    "hh": "1[0-2]|0[1-9]",
    "h": "1[0-2]|0?[1-9]",
    "a": "[AaPp][Mm]",
    "mm": "[0-9]{2}",
    "m": "[0-9]{1,2}",
    "ss": "[0-9]{2}",
    "s": "[0-9]{1,2}",
    **{letters: f"[0-9]{{{len(letters)}}}" for letters in _FRACTIONS},
    **{letters: _zone(letters) for letters in _ZONES},
}
"""The texts that the letters match, as regular expressions for Python and Java without groups."""
_PART = {"h": "H", "x": "X"}
"""Letters that stand for the same part of a time as others."""
_PARTS = "yMdHmsS"
"""The parts of a time, the largest first; `a` and zones are not among them."""
_OF_A_DAY = _PARTS[:3]
_MONTH_NUMBERS = {name.lower(): number for name, number in _NUMBERS.items()}
_MONTH_NUMBERS |= {name[:3].lower(): number for name, number in _NUMBERS.items()}
_MONTHS_SQL = ", ".join(f"'{name}', '{number}'" for name, number in _MONTH_NUMBERS.items())


def _part(letters: str) -> str:
    return _PART.get(letters[0], letters[0])


# --- which patterns there are ---------------------------------------------------------------------


def wrong_to_read(args: Sequence[Any]) -> str | None:
    """The error message for a pattern for reading; None if it is valid."""
    found = wrong_pattern(args[0], READ)
    if found is not None:
        return found
    parts = [*pieces(args[0])]
    letters = [part.letters for part in parts if part.letters]
    return _twice(letters) or _left_out(letters) or _wrong_halves(parts) or _runs_together(parts)


def _twice(letters: Sequence[str]) -> str | None:
    """The error message for two letters of a pattern that stand for the same part of a time; None if there are none.

    >>> _twice(["MM", "MMM"]), _twice(["HH", "hh", "a"]), _twice(["hh", "a"])
    ('`MM` is there twice', '`HH` and `hh` say the same', None)
    """
    for place, one in enumerate(letters):
        for other in letters[place + 1 :]:
            if _part(one) == _part(other):
                return f"`{one}` is there twice" if one[0] == other[0] else f"`{one}` and `{other}` say the same"
    return None


def _left_out(letters: Sequence[str]) -> str | None:
    """The error message for a part of a time that is missing in a pattern between its largest and its smallest part, if
    there is one: `dd.mm.yyyy` has a day and a minute of a year.

    >>> _left_out(["dd", "mm", "yyyy"]), _left_out(["HH", "mm"]), _left_out(["yyyy", "MM"])
    ('`MM` is missing in the pattern; a month is written `MM`, and `mm` is a minute', None, None)
    """
    places = sorted(_PARTS.index(_part(each)) for each in letters if _part(each) in _PARTS)
    there = {_PARTS[place] for place in places}
    missing = [each for each in _PARTS[places[0] : places[-1]] if each not in there] if places else []
    if not missing:
        return None
    month = "; a month is written `MM`, and `mm` is a minute" if missing[0] == "M" and "m" in there else ""
    return f"`{_called(missing[0])}` is missing in the pattern{month}"


def _wrong_halves(parts: Sequence[Piece]) -> str | None:
    """The error message for an hour from 1 to 12 and AM or PM that do not occur together; None if they do."""
    hour = next((place for place, part in enumerate(parts) if part.letters in ("h", "hh")), None)
    half = next((place for place, part in enumerate(parts) if part.letters == "a"), None)
    if hour is None:
        return None if half is None else "`a` is AM or PM of an hour that is written `hh`"
    letters = parts[hour].letters
    if half is None:
        return f"`{letters}` is an hour from 1 to 12: `a`, AM or PM, is missing in the pattern"
    between = parts[min(hour, half) : max(hour, half)]
    return (
        f"`{letters}` and `a` are there together, or not: one is in a `[…]` without the other"
        if unpaired(between)
        else None
    )


def _runs_together(parts: Sequence[Piece]) -> str | None:
    """The error message for a part of variable length (one digit or two, a zone with minutes or without) that a number
    may follow immediately, if there is one: `dM` may be read in several ways."""
    for place, part in enumerate(parts):
        if part.letters not in (*_ONE_OR_TWO, "X", "x"):
            continue
        for behind in _behind(parts, place + 1):
            if behind[0] in "yMdHhmsS" and behind not in ("MMM", "MMMM"):
                what = "one digit or two" if part.letters in _ONE_OR_TWO else "a zone with minutes or without"
                return f"between `{part.letters}` and `{behind}` stands nothing, and `{part.letters}` is {what}"
    return None


def _behind(parts: Sequence[Piece], place: int) -> Iterator[str]:
    """The letters that may come next at a place, with or without the parts in brackets."""
    while place < len(parts) and parts[place].bracket:
        if parts[place].bracket == "[":
            yield from _behind(parts, place + 1)
            place = _closing(parts, place)
        place += 1
    if place < len(parts) and parts[place].letters:
        yield parts[place].letters


def _closing(parts: Sequence[Piece], place: int) -> int:
    """The place of the bracket that closes the one at a place."""
    depth = 0
    for at in range(place, len(parts)):
        depth += parts[at].nesting
        if not depth:
            return at
    raise AssertionError("brackets are paired")


def _called(letter: str) -> str:
    return next(letters for letters in READ if letters[0] == letter)


@lru_cache(maxsize=256)
def field_pattern(pattern: str, t: Type) -> TimePattern:
    """The pattern of the dates or timestamps in the fields of a file; it must have year, month and day.

    Raises: ValueError with the error message if it is not valid.
    """
    if unknown := wrong_pattern(pattern, READ):
        raise ValueError(unknown)
    letters = [part.letters for part in pieces(pattern) if part.letters]
    for each in letters:
        if t == ty.DATE and _part(each) not in _OF_A_DAY:
            month = "; a month is written `MM`" if each[0] == "m" else ""
            raise ValueError(f"a date has no `{each}`{month}")
    missing = next(
        (f"`{_called(part)}` is missing in the pattern" for part in _OF_A_DAY if part not in map(_part, letters)), None
    )
    if wrong := _twice(letters) or missing or wrong_to_read([pattern]):
        raise ValueError(wrong)
    return TimePattern(tuple(pieces(pattern)))


# --- what is read by them -------------------------------------------------------------------------


@attrs.frozen
class TimePattern:
    """A pattern by which dates or timestamps are read.

    A text that matches is brought into the form that the language reads, in Python and in SQL, and only then checked,
    so that a nonexistent day is not a date. Parts that the pattern or the text lacks are those of 1970-01-01 00:00:00.
    """

    pieces: tuple[Piece, ...]

    @property
    def letters(self) -> list[str]:
        """The letters of each group, in order."""
        return [part.letters for part in self.pieces if part.letters]

    def regex(self, encoding: str = "utf-8") -> str:
        """The regular expression of the pattern, with a group for each of the letters, for Python and Java. Characters
        outside ASCII may have been read byte by byte, as those of another `encoding`."""
        # An optional part is possessive, as in Java: once it matches, there is no backtracking.
        brackets = {"[": "(?:", "]": ")?+"}
        return "".join(
            brackets.get(part.bracket)
            or (f"({READ[part.letters]})" if part.letters else re.escape(part.text.encode().decode(encoding)))
            for part in self.pieces
        )

    def canonical(self, text: str) -> str | None:
        """A text in the form that the language reads, which may still be invalid; None if it does not match.

        >>> field_pattern("dd.MM.yyyy", ty.DATE).canonical("31.02.2024")
        '2024-02-31'
        """
        found = _for_python(self, False).fullmatch(text)
        return None if found is None else self._form(self._values(found.groups()))

    def read(self, text: str) -> datetime | None:
        """The time of a text, None if it is not one; the case of the pattern's own texts is ignored."""
        found = _for_python(self, True).fullmatch(text)
        if found is None:
            return None
        try:
            time: datetime = parse_atom(self._form(self._values(found.groups())), ty.TIMESTAMP)
        except EvaluationError:
            return None
        return time

    def _values(self, groups: Sequence[str | None]) -> dict[str, str]:
        """The parts of a time that are present in the text."""
        found = {letters: text for letters, text in zip(self.letters, groups, strict=True) if text is not None}
        values = {_part(letters): _value(letters, text) for letters, text in found.items()}
        if "a" in values:
            values["H"] = f"{int(values['H']) % 12 + (12 if values['a'].lower() == 'pm' else 0):02d}"
        return values

    def _form(self, values: Mapping[str, str]) -> str:
        """The form that the language reads, given the parts that are present."""
        day = "-".join(values.get(part, missing) for part, missing in zip("yMd", ("1970", "01", "01"), strict=True))
        if not self._has_clock:
            return day
        fraction = f".{values['S']}" if "S" in values else ""
        return f"{day} {':'.join(values.get(part, '00') for part in 'Hms')}{fraction}{values.get('X', '')}"

    @property
    def _has_clock(self) -> bool:
        return any(_part(letters) not in _OF_A_DAY for letters in self.letters)

    @property
    def _is_plain(self) -> bool:
        """Whether all parts are numbers that are always present, and need no conversion."""
        return not any(part.bracket for part in self.pieces) and not any(
            _part(letters) in ("X", "a") or letters in ("MMM", "MMMM") for letters in self.letters
        )

    def sql(self, text: str, kind: str, *, encoding: str = "utf-8", flags: str = "") -> str:
        """A text as a value of a Spark type, in SQL; missing if it does not match or is invalid. Whether Spark's own
        function accepts 30 February depends on a setting of the session at run time."""
        regex = text_sql(f"{flags}^{self.regex(encoding)}\\z")
        groups = {_part(letters): f"${number}" for number, letters in enumerate(self.letters, start=1)}
        if self._is_plain:
            written = f"regexp_replace({text}, {regex}, {text_sql(self._form(groups))})"
            value = f"try_cast({written} AS {kind})"
        else:
            apart = f"split(regexp_replace({text}, {regex}, {text_sql('|'.join(groups.values()))}), '[|]', -1)"
            value = let_sql("found", apart, self._value_sql(kind))
        return f"if({text} RLIKE {regex}, {value}, NULL)"

    def _value_sql(self, kind: str) -> str:
        """The value whose parts are in the array `found`; absent parts are empty strings."""
        found = {_part(letters): f"found[{place}]" for place, letters in enumerate(self.letters)}
        month = "MMM" in self.letters or "MMMM" in self.letters

        def part(name: str, missing: str) -> str:
            if name not in found:
                return f"'{missing}'"
            value = f"map({_MONTHS_SQL})[lower({found[name]})]" if name == "M" and month else found[name]
            return f"if({found[name]} = '', '{missing}', {value})"

        day = f"concat({part('y', '1970')}, '-', {part('M', '01')}, '-', {part('d', '01')})"
        if not self._has_clock:
            return f"try_cast({day} AS {kind})"
        hour = part("H", "00")
        if "a" in found:
            half = f"if(lower({found['a']}) = 'pm', 12, 0)"
            hour = f"if({found['H']} = '', '00', CAST(CAST({found['H']} AS INT) % 12 + {half} AS STRING))"
        clock = f"concat({hour}, ':', {part('m', '00')}, ':', {part('s', '00')}, '.', {part('S', '0')})"
        whole = f"concat({day}, ' ', {clock})"
        if "X" not in found:
            return f"try_cast({whole} AS {kind})"
        zoned = f"concat({whole}, {_zone_sql(found['X'])})"
        return f"CAST({zoned_sql(zoned)} AS {kind})"


def _value(letters: str, text: str) -> str:
    """The text of a part, in the form that the language reads."""
    if letters in ("MMM", "MMMM"):
        # A character that only case folding maps to one of a name, such as `ſ`, does not count.
        return _MONTH_NUMBERS.get(text.lower(), "")
    if letters in _ZONES:
        hours, minutes = text[:3].upper(), text[3:].removeprefix(":")
        return hours if hours == "Z" else f"{hours}:{minutes or '00'}"
    return text.zfill(2) if letters in _ONE_OR_TWO else text


def _zone_sql(zone: str) -> str:
    """The same for a zone, in SQL; UTC if it is absent."""
    minutes = f"if(length({zone}) = 3, '00', right({zone}, 2))"
    return f"if({zone} = '' OR {zone} IN ('Z', 'z'), 'Z', concat(left({zone}, 3), ':', {minutes}))"


@lru_cache(maxsize=256)
def _for_python(pattern: TimePattern, any_case: bool) -> re.Pattern[str]:
    return re.compile(pattern.regex(), re.IGNORECASE if any_case else 0)


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> TimePattern:
    return TimePattern(tuple(pieces(pattern)))


def read(text: str, pattern: str) -> datetime:
    """The time of a text by a pattern.

    Raises: EvaluationError if it is not one.
    """
    found = _pattern(pattern).read(text)
    if found is None:
        raise EvaluationError(f'"{text}" is not written as {pattern}')
    return found


def read_date(text: str, pattern: str) -> date:
    """The date of a text by a pattern.

    Raises: EvaluationError if it is not one.
    """
    return read(text, pattern).date()


def read_sql(text: str, pattern: str) -> str:
    """The timestamp of a text by a pattern, in SQL; missing if it is not one."""
    return _pattern(pattern).sql(text, "TIMESTAMP_NTZ", flags="(?iu)")
