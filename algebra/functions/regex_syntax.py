"""The syntax of regular expressions: the part that Java and Python read alike.

The grammar:

    alternatives  sequence | sequence …
    sequence      pieces, each an atom with a quantifier or without
    atom          a character, `.`, `^`, `$`, `[…]`, `(…)`, `(?:…)`, `(?=…)`, `(?!…)`,
                  `\\d \\D \\w \\W \\s \\S \\b`, `\\t \\n \\r \\f`, `\\xHH`, `\\uHHHH`, and `\\` before a sign
    quantifier    `*`, `+`, `?`, `{n}`, `{n,}`, `{n,m}`, each also with `?` behind it

and `(?i)` at the beginning. Anything else that one of the two accepts is refused by name.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Mapping

import attrs

from mrql.algebra.functions.regex_characters import (
    ANY,
    CLASSES,
    Ranges,
    all_but,
    characters_of,
    folded,
    overlap,
    ranges,
)

REPEATED_MAX_TIMES = 1000
"""The maximal number in `{n,m}`."""
PATTERN_MAX_CHARACTERS = 400
"""The maximal number of characters and classes of an expression; those under a `{n}` count n times, but at most ten
times."""

_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class NotAlike(ValueError):
    """An expression is refused; the message gives the reason and the place."""


@attrs.define
class Automaton:
    """A part of an expression as an automaton: the number of ways in which it is empty, and the characters with which
    it begins and ends, each with its number of ways."""

    empty: int
    first: Counter[int] = attrs.Factory(Counter)
    last: Counter[int] = attrs.Factory(Counter)
    taken: Ranges = ()
    """All characters that it matches."""
    fixed: bool = False
    """Whether it matches a place in a text, as `^` does, and so cannot be repeated."""
    one: bool = False
    """Whether it is a single character or class, without a quantifier or parentheses."""


class Pattern:
    """An expression that both read alike.

    Raises: NotAlike if it is not one.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.folded = text.startswith("(?i)")
        self.characters: list[Ranges] = []
        self.follows: Counter[tuple[int, int]] = Counter()
        self.optional: list[Ranges] = []
        self.choices: dict[tuple[int, int], Ranges] = {}
        """The places of choices between single characters, with these characters."""
        if self.folded:
            self.at = 4
        self.whole = self.alternatives()
        if self.at < len(text):
            raise self.refused(")", "closes nothing")

    def refused(self, what: str, why: str, at: int | None = None) -> NotAlike:
        place = self.at if at is None else at
        return NotAlike(f"in a regular expression, `{what}` {why} (character {place + 1})")

    def not_alike(self, what: str) -> NotAlike:
        return NotAlike(f"in a regular expression, `{what}` is not the same everywhere")

    def next(self) -> str:
        return self.text[self.at : self.at + 1]

    def with_classes(self) -> str:
        """The expression with a class for each choice between single characters, as Java writes one: `[ab]` for `a|b`.

        It matches the same texts. But Java matches the repetitions of a class in a loop, and those of a choice
        recursively.
        """
        text = self.text
        for (start, end), taken in sorted(self.choices.items(), reverse=True):
            inside = "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in taken)
            text = f"{text[:start]}[{inside}]{text[end:]}"
        return text

    # --- the parts ----------------------------------------------------------------------------

    def alternatives(self) -> Automaton:
        start = self.at
        found = self.sequence()
        is_choice, single = self.next() == "|", found.one
        while self.next() == "|":
            self.at += 1
            other = self.sequence()
            single = single and other.one
            if overlap(self.begins(found), self.begins(other)):
                self.optional.append(ranges(*found.taken, *other.taken))
            found = Automaton(
                found.empty + other.empty,
                found.first + other.first,
                found.last + other.last,
                ranges(*found.taken, *other.taken),
            )
        if is_choice and single and found.taken:
            self.choices[start, self.at] = found.taken
        return found

    def begins(self, found: Automaton) -> Ranges:
        return ranges(*(pair for place in found.first for pair in self.characters[place]))

    def sequence(self) -> Automaton:
        found, pieces = Automaton(1), list[Automaton]()
        while self.next() not in ("", "|", ")"):
            pieces.append(self.piece())
            found = self.behind(found, pieces[-1])
        return attrs.evolve(found, one=len(pieces) == 1 and pieces[0].one)

    def behind(self, a: Automaton, b: Automaton) -> Automaton:
        self.connect(a.last, b.first)
        return Automaton(
            a.empty * b.empty,
            a.first + _times(b.first, a.empty),
            b.last + _times(a.last, b.empty),
            ranges(*a.taken, *b.taken),
        )

    def connect(self, last: Mapping[int, int], first: Mapping[int, int]) -> None:
        for p, ways in last.items():
            for q, more in first.items():
                self.follows[p, q] += ways * more

    def piece(self) -> Automaton:
        start = self.at
        found = self.atom()
        end = self.at
        bounds = self.quantifier()
        if bounds is None:
            return found
        least, most = bounds
        written = self.text[start : self.at]
        if found.fixed:
            raise self.not_alike(written)
        if self.next() in ("*", "+", "?", "{"):
            raise self.not_alike(self.text[end : self.at + 1])
        if (most is None or most > 1) and found.empty:
            raise self.refused(written, "repeats what may be empty", start)
        return attrs.evolve(self.repeated(found, least, most, start, end), one=False)

    def repeated(self, found: Automaton, least: int, most: int | None, start: int, end: int) -> Automaton:
        if least == most:
            behind = self.at
            for _ in range(min(least, 10) - 1):
                self.at = start
                again = self.atom()
                found = self.behind(found, again)
            self.at = behind
            return found if least else Automaton(1)
        if most is None or most > 1:
            self.connect(found.last, found.first)
        elif most == 1:
            self.optional.append(found.taken)
        return attrs.evolve(found, empty=found.empty + (least == 0)) if most != 0 else Automaton(1)

    def quantifier(self) -> tuple[int, int | None] | None:
        sign = self.next()
        start = self.at
        if sign in ("*", "+", "?") and sign:
            self.at += 1
            bounds: tuple[int, int | None] = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        elif sign == "{":
            inside, closed, _ = self.text[self.at + 1 :].partition("}")
            low, comma, high = inside.partition(",")
            if not closed or not _is_number(low) or not (high == "" or _is_number(high)):
                raise self.not_alike("{," if inside.startswith(",") else "{")
            self.at += len(inside) + 2
            most = int(low) if not comma else int(high) if high else None
            if max(int(low), most or 0) > REPEATED_MAX_TIMES or (most is not None and most < int(low)):
                raise self.refused(self.text[start : self.at], f"is no repetition of up to {REPEATED_MAX_TIMES}", start)
            bounds = (int(low), most)
        else:
            return None
        if self.next() == "?":
            self.at += 1
        elif self.next() == "+":
            raise self.not_alike(self.text[start : self.at + 1])
        return bounds

    def atom(self) -> Automaton:
        sign = self.next()
        match sign:
            case "(":
                return self.group()
            case "[":
                return self.character(self.bracketed())
            case "^" | "$":
                self.at += 1
                return Automaton(1, fixed=True)
            case ".":
                self.at += 1
                return self.character(ANY)
            case "\\":
                return self.escaped()
            case "*" | "+" | "?" | "{":
                raise self.refused(sign, "has nothing to repeat") if sign != "{" else self.not_alike(sign)
            case _:
                self.at += 1
                return self.character(characters_of(sign))

    def character(self, taken: Ranges) -> Automaton:
        if self.folded:
            taken = folded(taken)
        self.characters.append(taken)
        if len(self.characters) > PATTERN_MAX_CHARACTERS:
            raise NotAlike(f"a regular expression of more than {PATTERN_MAX_CHARACTERS} characters")
        place = len(self.characters) - 1
        return Automaton(0, Counter({place: 1}), Counter({place: 1}), taken, one=True)

    def group(self) -> Automaton:
        start = self.at
        kinds = ("(?:", "(?=", "(?!")
        kind = next((kind for kind in kinds if self.text.startswith(kind, start)), "(")
        if kind == "(" and self.text.startswith("(?", start):
            flags = self.text[start + 2 : start + 4]
            raise self.not_alike(f"(?{flags[: 2 if flags[:1] == '<' else 1]}")
        self.at += len(kind)
        found = self.alternatives()
        if self.next() != ")":
            raise self.refused(kind, "is not closed", start)
        self.at += 1
        # A lookahead consumes nothing; its own characters take part in the check of time all the same.
        return Automaton(1, fixed=True) if kind in ("(?=", "(?!") else attrs.evolve(found, one=False)

    def escaped(self) -> Automaton:
        sign = self.text[self.at + 1 : self.at + 2]
        if sign == "b":
            self.at += 2
            return Automaton(1, fixed=True)
        if sign == "\\" and self.text[self.at + 2 : self.at + 3] in ("b", "B"):
            raise self.not_alike(self.text[self.at : self.at + 3])
        found = self.escape()
        return self.character(found)

    def escape(self) -> Ranges:
        """The characters that an escape matches, also in a class."""
        sign = self.text[self.at + 1 : self.at + 2]
        width = {"x": 2, "u": 4}.get(sign, 0)
        if width:
            digits = self.text[self.at + 2 : self.at + 2 + width]
            if (
                len(digits) < width
                or not all(c in string.hexdigits for c in digits)
                or 0xD800 <= int(digits, 16) < 0xE000
            ):
                raise self.not_alike(f"\\{sign}")
            self.at += 2 + width
            return ((int(digits, 16),) * 2,)
        if sign in CLASSES and sign:
            self.at += 2
            return CLASSES[sign]
        if sign in _CONTROLS and sign:
            self.at += 2
            return characters_of(_CONTROLS[sign])
        if sign in string.punctuation and sign:
            self.at += 2
            return characters_of(sign)
        raise self.refused("\\", "is the last character") if not sign else self.not_alike(f"\\{sign}")

    def bracketed(self) -> Ranges:
        start = self.at
        self.at += 1
        negated = self.next() == "^"
        self.at += negated
        taken: list[tuple[int, int]] = []
        first = True
        while first or self.next() != "]":
            if self.next() in ("", "[") or self.text.startswith("&&", self.at) or (first and self.next() == "]"):
                shown = "&&" if self.next() == "&" else f"[{self.next()}"
                raise self.refused("[", "is not closed", start) if not self.next() else self.not_alike(shown)
            taken += self.range_in_class(first=first)
            first = False
        self.at += 1
        found = ranges(*taken)
        if self.folded:
            found = folded(found)
        return all_but(found) if negated else found

    def range_in_class(self, *, first: bool) -> Ranges:
        start = self.at
        low = self.in_class(first=first)
        behind = self.text[self.at + 1 : self.at + 2]
        if self.next() != "-" or behind in ("]", ""):
            return low
        self.at += 1
        if self.next() == "[" or self.text[start] == "-" or self.next() == "-":
            raise self.not_alike(self.text[start : self.at + 1])
        high = self.in_class(first=False)
        if len(low) > 1 or len(high) > 1 or low[0][0] != low[0][1] or high[0][0] != high[0][1] or low > high:
            raise self.not_alike(self.text[start : self.at])
        return ((low[0][0], high[0][0]),)

    def in_class(self, *, first: bool) -> Ranges:
        sign = self.next()
        if sign == "\\":
            return self.escape()
        if sign == "-" and not first and self.text[self.at + 1 : self.at + 2] != "]":
            raise self.not_alike("-")
        if sign in "~|" and self.text.startswith(sign * 2, self.at):
            raise self.not_alike(sign * 2)
        self.at += 1
        return characters_of(sign)


def _times(counted: Counter[int], ways: int) -> Counter[int]:
    return Counter({place: n * ways for place, n in counted.items()}) if ways else Counter()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6
