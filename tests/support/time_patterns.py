"""Generated patterns of times, and texts that match them, or nearly do."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import attrs

from mrql.algebra.functions.time_patterns import MONTHS
from mrql.algebra.functions.time_reading import wrong_to_read
from mrql.algebra.functions.time_writing import WRITTEN

TEXTS = ["-", "/", ".", " ", ", ", ":", "T", "'o''clock'", "年", "|", "$", "\\", ""]
DAYS = [["yyyy"], ["M", "MM", "MMM", "MMMM"], ["d", "dd"]]
FRACTIONS = ["S" * digits for digits in range(1, 7)]
ZONES = ["X", "XX", "XXX", "x", "xx", "xxx"]
ODD = ["٣", "\u017f", "+", "Z", "am", "0", "13", " "]


@attrs.frozen
class Part:
    """Letters of a pattern, a text between them, or an optional section with its parts."""

    letters: str = ""
    text: str = ""
    section: tuple[Part, ...] = ()

    @property
    def pattern(self) -> str:
        if self.section:
            return f"[{''.join(part.pattern for part in self.section)}]"
        return self.letters or (f"'{self.text}'" if self.text.isalpha() and self.text.isascii() else self.text)


def patterns(seed: int, count: int) -> list[tuple[Part, ...]]:
    """Different patterns that are valid for reading."""
    draw, found = random.Random(seed), dict[str, tuple[Part, ...]]()
    while len(found) < count:
        parts = tuple(_day(draw) + _clock(draw)) if draw.random() < 0.8 else tuple(_clock(draw))
        text = pattern_of(parts)
        if parts and wrong_to_read([text]) is None:
            found[text] = parts
    return [*found.values()]


def pattern_of(parts: tuple[Part, ...]) -> str:
    return "".join(part.pattern for part in parts)


def _day(draw: random.Random) -> list[Part]:
    letters = [draw.choice(kinds) for kinds in DAYS]
    letters = letters[: draw.choice([1, 2, 3, 3, 3, 3])]
    draw.shuffle(letters)
    return [part for each in letters for part in (Part(each), Part(text=draw.choice(TEXTS).replace("'", "")))][:-1]


def _clock(draw: random.Random) -> list[Part]:
    """Perhaps an hour, and smaller fields; these may be optional sections, one in the other."""
    half = draw.random() < 0.4
    depth = draw.randint(0, 4)
    smaller = [draw.choice(kinds) for kinds in (["mm", "m"], ["ss", "s"], FRACTIONS)][: max(0, depth - 1)]
    inner: list[Part] = []
    for letters in reversed(smaller):
        inner = [Part(text="." if letters[0] == "S" else ":"), Part(letters), *inner]
        if draw.random() < 0.4:
            inner = [Part(section=tuple(inner))]
    hour = (
        []
        if not depth
        else [Part(text=draw.choice([" ", "T"])), Part(draw.choice(["h", "hh"] if half else ["H", "HH"]))]
    )
    parts = [*hour, *inner]
    if half and depth:
        parts += [Part(text=draw.choice([" ", ""])), Part("a")]
    if draw.random() < 0.4:
        zone = Part(draw.choice(ZONES))
        parts.append(zone if draw.random() < 0.5 else Part(section=(zone,)))
    return [Part(section=tuple(parts))] if parts and draw.random() < 0.3 else parts


def texts(parts: tuple[Part, ...], draw: random.Random, count: int) -> list[str]:
    """Texts that match, with optional sections or without; in some, a character is replaced or left out."""
    found = []
    for _ in range(count):
        text = "".join(_text(part, _moment(draw), draw) for part in parts)
        if text and draw.random() < 0.3:
            at = draw.randrange(len(text))
            text = text[:at] + draw.choice([*ODD, ""]) + text[at + 1 :]
        found.append(text)
    return found


def _moment(draw: random.Random) -> datetime:
    if draw.random() < 0.1:
        return draw.choice([datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(2024, 2, 29, 12)])
    return datetime(1970, 1, 1) + timedelta(microseconds=draw.randint(-(10**16), 10**16))


def _text(part: Part, at: datetime, draw: random.Random) -> str:
    if part.section:
        return "".join(_text(inner, at, draw) for inner in part.section) if draw.random() < 0.6 else ""
    if not part.letters:
        return part.text
    if part.letters in ZONES:
        return _zone(part.letters, draw)
    text = WRITTEN[part.letters](at)
    if part.letters in ("M", "d", "H", "h", "m", "s") and draw.random() < 0.3:
        return text.zfill(2)
    change: Callable[[str], str] = draw.choice([str, str, str.lower, str.upper])
    return change(text) if text[:3] in {name[:3] for name in MONTHS} or part.letters == "a" else text


def _zone(letters: str, draw: random.Random) -> str:
    if letters[0] == "X" and draw.random() < 0.3:
        return draw.choice("ZZz")
    distance = timezone(timedelta(hours=draw.randint(-18, 18), minutes=draw.choice([0, 0, 30, 45])))
    text = f"{datetime(2000, 1, 1, tzinfo=UTC).astimezone(distance):%z}"
    hours, minutes = text[:3], text[3:5]
    return hours + {1: "" if draw.random() < 0.5 else minutes, 2: minutes, 3: f":{minutes}"}[len(letters)]
