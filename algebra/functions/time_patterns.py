"""The patterns that dates and timestamps are written and read by: a part of those of Java.

    yyyy   year               MMMM, MMM  name of the month   HH, H   hour, 0 to 23   SSS, SSSSSS  fraction of the second
    MM, M  month              EEEE, EEE  day of the week     hh, h   hour, 1 to 12   a            AM or PM
    dd, d  day of the month   D          day of the year     mm, m   minute          ss, s        second

Other letters stand in quotes: `dd.MM.yyyy 'at' HH:mm`. Names are English. What is read has no names but those of the
months in three letters, large or small, and two digits for each number but the year; one or two for `d`, `M` and `H`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any

import attrs

from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions.sql_text import text_sql
from mrql.algebra.functions.time_parsing import moment_sql
from mrql.algebra.types import Type

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

WRITTEN: Mapping[str, Callable[[datetime], str]] = {
    "yyyy": lambda t: f"{t.year:04d}",
    "MMMM": lambda t: _MONTHS[t.month - 1],
    "MMM": lambda t: _MONTHS[t.month - 1][:3],
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
    "SSS": lambda t: f"{t.microsecond // 1000:03d}",
    "SSSSSS": lambda t: f"{t.microsecond:06d}",
}


def _digits(number: str, width: int = 0) -> str:
    """A number as text, with at least so many digits."""
    text = f"CAST({number} AS STRING)"
    return f"lpad({text}, {width}, '0')" if width else text


def _named(names: Sequence[str], place: str) -> str:
    return f"element_at(array({', '.join(map(text_sql, names))}), {place})"


_HOUR_OF_12 = "((hour({0}) + 11) % 12 + 1)"
_MICROS = f"pmod(unix_micros({moment_sql('{0}')}), 1000000)"

WRITTEN_SQL: Mapping[str, str] = {
    "yyyy": _digits("year({0})", 4),
    "MMMM": _named(_MONTHS, "month({0})"),
    "MMM": _named([name[:3] for name in _MONTHS], "month({0})"),
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
    "SSS": _digits(f"({_MICROS} DIV 1000)", 3),
    "SSSSSS": _digits(_MICROS, 6),
}
"""The same in SQL. What Spark's own `date_format` writes depends on a setting of the session, when it is computed."""
READ: Mapping[str, str] = {
    "yyyy": "year",
    **dict.fromkeys(("MM", "M", "MMM"), "month"),
    **dict.fromkeys(("dd", "d"), "day"),
    **dict.fromkeys(("HH", "H"), "hour"),
    "mm": "minute",
    "ss": "second",
}
_ONE_OR_TWO = ("M", "d", "H")
_NUMBER_OF_MONTH = {name[:3].lower(): f"{number:02d}" for number, name in enumerate(_MONTHS, start=1)}
_NAME_OF_MONTH = "|".join("".join(f"[{c.upper()}{c}]" for c in name) for name in _NUMBER_OF_MONTH)
_PIECE = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|[^A-Za-z'#{}\[\]]")


def _pieces(pattern: str) -> Iterator[tuple[str, str]]:
    """The letters of a pattern and what stands between them: `(letters, "")` or `("", text)`.

    Raises: ValueError, with what it is, where there is something else.
    """
    at = 0
    while at < len(pattern):
        found = _PIECE.match(pattern, at)
        if found is None:
            raise ValueError(pattern[at])
        if found[1]:
            yield found[0], ""
        else:
            yield "", found[0] if found[2] is None else found[2].replace("''", "'") or "'"
        at = found.end()


def wrong_pattern(pattern: str, known: Mapping[str, object]) -> str | None:
    """What is wrong with a pattern, if anything is."""
    try:
        unknown = next((letters for letters, _ in _pieces(pattern) if letters and letters not in known), None)
    except ValueError as error:
        unknown = str(error)
    if unknown is None:
        return None
    message = f"`{unknown}` has no meaning in a pattern: {', '.join(known)} have, and '…' is text"
    return f"{message}; {meant}" if (meant := _meant(unknown, pattern)) else message


def _meant(unknown: str, pattern: str) -> str | None:
    """What to write for letters that have no meaning."""
    if f"%{unknown}" in pattern:
        return "`%Y-%m-%d %H:%M:%S` is written `yyyy-MM-dd HH:mm:ss`"
    return _ELSEWHERE.get(unknown)


_ELSEWHERE = {
    **dict.fromkeys(("YYYY", "Y", "y", "uuuu"), "a year is written `yyyy`"),
    **dict.fromkeys(("yy", "YY"), "a year has four digits: put the century before a text with two"),
    **dict.fromkeys(("DD", "D"), "a day is written `dd`"),
    "MMMM": "the name of a month is read in three letters, `MMM`",
    "T": "letters stand in quotes: `'T'`",
}
"""Letters that others write, and some that are not read, with what to write here."""


def wrong_to_write(args: Sequence[Any]) -> str | None:
    """What is wrong with a pattern that something is to be written by."""
    return wrong_pattern(args[0], WRITTEN)


def wrong_to_read(args: Sequence[Any]) -> str | None:
    """What is wrong with a pattern that something is to be read by."""
    found = wrong_pattern(args[0], READ)
    if found is not None:
        return found
    pieces = [*_pieces(args[0])]
    letters = [letters[0] for letters, _ in pieces if letters]
    twice = next((one for one, _ in pieces if one and letters.count(one[0]) > 1), None)
    return f"`{twice}` is there twice" if twice else _left_out(letters) or _runs_together(pieces)


def _left_out(letters: Sequence[str]) -> str | None:
    """What is between the largest and the smallest part of a time in a pattern and is not there itself, if anything is:
    `dd.mm.yyyy` is a day and a minute of a year.

    >>> _left_out("dmy"), _left_out("Hm"), _left_out("yM")
    ('`MM` is missing in the pattern; a month is written `MM`, and `mm` is a minute', None, None)
    """
    places = sorted(map(_LETTERS.index, letters))
    missing = [each for each in _LETTERS[places[0] : places[-1]] if each not in letters] if places else []
    if not missing:
        return None
    month = "; a month is written `MM`, and `mm` is a minute" if missing[0] == "M" and "m" in letters else ""
    return f"`{_called(missing[0])}` is missing in the pattern{month}"


def _runs_together(pieces: Sequence[tuple[str, str]]) -> str | None:
    """What is wrong with a number of one or two digits that another one follows at once, if there is one: `dM` may be
    read in several ways."""
    for (letters, _), (behind, _) in pairwise(pieces):
        if letters in _ONE_OR_TWO and behind and behind != "MMM":
            return f"between `{letters}` and `{behind}` stands nothing, and `{letters}` is one digit or two"
    return None


def _group(letters: str, year: str = "") -> str:
    """What is read for some letters, as a regular expression of Python and of Java."""
    if letters == "MMM":
        return _NAME_OF_MONTH
    return "[0-9]{1,2}" if letters in _ONE_OR_TWO else f"{year if letters == 'yyyy' else ''}[0-9]{{{len(letters)}}}"


def _number(letters: str, found: str) -> str:
    """The number that stands there for some letters, of two digits where one would do; nothing for the name of no
    month."""
    if letters == "MMM":
        return _NUMBER_OF_MONTH.get(found.lower(), "")
    return found.zfill(2) if letters in _ONE_OR_TWO else found


def written(time: datetime, pattern: str) -> str:
    """A time by a pattern."""
    return "".join(WRITTEN[letters](time) if letters else text for letters, text in _pieces(pattern))


def written_sql(time: str, pattern: str) -> str:
    """The same in SQL."""
    pieces = (WRITTEN_SQL[letters].format(time) if letters else text_sql(text) for letters, text in _pieces(pattern))
    return f"concat({', '.join(pieces)})"


@lru_cache(maxsize=256)
def _expression(pattern: str) -> re.Pattern[str]:
    parts = (f"(?P<{letters}>{_group(letters)})" if letters else re.escape(text) for letters, text in _pieces(pattern))
    return re.compile("".join(parts), re.IGNORECASE)


def read(text: str, pattern: str) -> datetime:
    """The time that a text is by a pattern; what the pattern does not name is that of 1970-01-01 00:00:00.

    Raises: EvaluationError where it is none.
    """
    found = _expression(pattern).fullmatch(text)
    try:
        if found is None:
            raise ValueError(text)
        fields = {"year": 1970, "month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}
        fields |= {READ[letters]: int(_number(letters, text)) for letters, text in found.groupdict().items()}
        return datetime(*fields.values())  # type: ignore[arg-type]
    except ValueError:
        raise EvaluationError(f'"{text}" is not written as {pattern}') from None


def read_sql(text: str, pattern: str) -> str:
    """The timestamp that a text is, in SQL, missing where it is none. Whether 30 February is a day for Spark's own
    function depends on a setting of the session, when it is computed."""
    return FieldPattern(tuple(_pieces(pattern))).sql(text, "TIMESTAMP_NTZ", flags="(?iu)")


# --- files --------------------------------------------------------------------------------------

IN_FILES = (*READ, "S", "SS", "SSS", "SSSS", "SSSSS", "SSSSSS")
"""What a pattern of the fields of a file may have, the largest first; of the parts of a second there is one."""
_LETTERS = [*dict.fromkeys(field[0] for field in IN_FILES)]
_OF_A_DAY = _LETTERS[:3]


@attrs.frozen
class FieldPattern:
    """A pattern that all dates or timestamps in the fields of a file are written by.

    A field fits or it does not: there are as many digits as letters, one or two for `d`, `M` and `H`, and all else
    stands as it is. What fits is brought into the form that the language reads, in Python and in SQL, so that a day
    that no month has is no date.
    """

    pieces: tuple[tuple[str, str], ...]
    """Letters, or a text that stands for itself."""

    def regex(self, encoding: str = "utf-8") -> str:
        """What fits, with a group for each number, for Python and for Java. Signs beside ASCII may have been read byte
        by byte, as those of another `encoding`."""
        return "".join(
            f"({_group(letters, '(?!0000)')})" if letters else re.escape(text.encode().decode(encoding))
            for letters, text in self.pieces
        )

    def form(self, group: str) -> str:
        """The form that the language reads, of the groups as they are written where they are put; what is not named is
        that of 1970-01-01 00:00:00.

        >>> field_pattern("HH:mm, dd.MM.yyyy", ty.TIMESTAMP).form("${}")
        '$5-$4-$3 $1:$2:00'
        """
        return self._form([group.format(number) for number, _ in enumerate(self.letters, start=1)])

    @property
    def letters(self) -> list[str]:
        """The letters of each number, in the order of the groups."""
        return [letters for letters, _ in self.pieces if letters]

    def _form(self, numbers: Sequence[str]) -> str:
        places = {letters[0]: number for letters, number in zip(self.letters, numbers, strict=True)}
        day = f"{places.get('y', '1970')}-{places.get('M', '01')}-{places.get('d', '01')}"
        if not {*"HmsS"} & places.keys():
            return day
        clock = ":".join(places.get(letter, "00") for letter in "Hms")
        return f"{day} {clock}.{places['S']}" if "S" in places else f"{day} {clock}"

    def sql(self, text: str, kind: str, *, encoding: str = "utf-8", flags: str = "") -> str:
        """A text as a value of a type of Spark's, in SQL, missing where it does not fit or is none."""
        regex, form = text_sql(f"{flags}^{self.regex(encoding)}\\z"), text_sql(self.form("${}"))
        written = f"regexp_replace({text}, {regex}, {form})"
        if "MMM" in self.letters:
            name = f"regexp_extract({text}, {regex}, {self.letters.index('MMM') + 1})"
            written = f"replace({written}, {name}, map({_MONTHS_SQL})[lower({name})])"
        return f"if({text} RLIKE {regex}, try_cast({written} AS {kind}), NULL)"

    def canonical(self, field: str) -> str | None:
        """A field in the form that the language reads, in which it need not be a value; None where it does not fit.

        >>> field_pattern("dd.MM.yyyy", ty.DATE).canonical("31.02.2024")
        '2024-02-31'
        """
        regex, letters = _for_python(self)
        found = regex.fullmatch(field)
        return None if found is None else self._form([*map(_number, letters, found.groups())])


_MONTHS_SQL = ", ".join(f"'{name}', '{number}'" for name, number in _NUMBER_OF_MONTH.items())


@lru_cache(maxsize=256)
def _for_python(pattern: FieldPattern) -> tuple[re.Pattern[str], list[str]]:
    return re.compile(pattern.regex()), pattern.letters


@lru_cache(maxsize=256)
def field_pattern(pattern: str, t: Type) -> FieldPattern:
    """The pattern of dates or timestamps that is written so.

    Raises: ValueError, which says what is wrong with it.
    """
    if unknown := wrong_pattern(pattern, dict.fromkeys(IN_FILES)):
        raise ValueError(unknown)
    pieces = tuple(_pieces(pattern))
    letters = [letters[0] for letters, _ in pieces if letters]
    for letter in letters:
        if letters.count(letter) > 1:
            raise ValueError(f"`{_called(letter)}` is there twice")
        if t == ty.DATE and letter not in _OF_A_DAY:
            month = "; a month is written `MM`" if letter == "m" else ""
            raise ValueError(f"a date has no `{_called(letter)}`{month}")
    smallest = max(map(_LETTERS.index, letters), default=0)
    for letter in _LETTERS[: max(smallest, len(_OF_A_DAY))]:
        if letter not in letters:
            raise ValueError(f"`{_called(letter)}` is missing in the pattern")
    if together := _runs_together(pieces):
        raise ValueError(together)
    return FieldPattern(pieces)


def _called(letter: str) -> str:
    return next(field for field in IN_FILES if field[0] == letter)
