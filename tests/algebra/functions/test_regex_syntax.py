"""Which regular expressions are refused: those that Java and Python read differently, or that may take too long."""

from __future__ import annotations

import re
import time

import pytest

from mrql.algebra.functions.regex import wrong_pattern
from mrql.algebra.functions.regex_syntax import PATTERN_MAX_CHARACTERS
from tests.support.regular import expressions

ALIKE = (
    *(
        "",
        "a|",
        "^[a-z]+$",
        r"\d{2,}",
        "(?i)AB",
        r"\bb",
        "x*",
        "ß|漢",
        "(a)(b)?",
        "(?:b|(c))",
        "[a-]",
        "[-a]",
        "(a{2}){3}",
    ),
    *(
        "(a|b)*c",
        "(ab|cd)+",
        r"(\w+,)*\w+",
        r"([a-z]{1,64}\.)*",
        '(?:[^"\\\\]|\\\\.)*',
        "(foo|foobar)x",
        "(?=a)a",
        "a}]",
    ),
    *(
        r"(\d{1,3}\.){3}\d{1,3}",
        r"[\w.+-]+@[\w-]+\.[\w.-]+",
        r"^\s*(\w+)\s*=\s*(.*?)\s*$",
        "https?://[^/]+/.*",
        ".*a.*b",
    ),
    r"^(\S+) (\S+) (\S+) \[([^\]]+)\] \"(\S+) (\S+) (\S+)\" (\d+) (\d+)$",
)
DIFFERENT = {
    r"\v": r"\v",
    r"\123": r"\1",
    r"(a)\1": r"\1",
    "(?m)^$": "(?m",
    "(?<=a)b": "(?<=",
    "(?<n>a)": "(?<",
    "(?s).": "(?s",
    "(?P<n>a)": "(?P",
    r"\p{L}": r"\p",
    "a++": "++",
    "a{1,2}+": "{1,2}+",
    "[a&&b]": "&&",
    "[[a]]": "[[",
    "a{,3}": "{,",
    r"\Qa\E": r"\Q",
    r"\Z": r"\Z",
    r"[a-\d]": r"a-\d",
    "[]a]": "[]",
    "a{2}{3}": "{2}{",
    "^*": "^*",
    "a(?i)b": "(?i",
    r"\x4": r"\x",
    r"\ud834": r"\u",
    r"\\b": r"\\b",
    "[a--b]": "a--",
    r"[\b]": r"\b",
    "(?#c)": "(?#",
    "a**": "**",
}
WRONG = ("(", ")", "a)", "[a", "\\", "*", "a{3,2}", "a{2000}", "[z-a]", "(" * 20_000)
EXPONENTIAL = (
    *(
        "(a+)+",
        "(a|a)*",
        "(a|aa)+",
        "([a-z]+)*$",
        "(x+x+)+y",
        r"(\w|\d)+",
        "(a|b|ab)*c",
        r"(\s*\w+\s*)+",
        "(?=(a+)+b)a",
    ),
    *("((a{1,3}){1,3}){1,9}b", "(a?){30}a{30}", "(a*)*", "(|a)*", "(a*b*)*", "a?" * 30 + "a" * 30, "(a|a)" * 30 + "b"),
    *("(.*)(.*)(.*)(.*)(.*)x", "(.*a){12}", "a" * (PATTERN_MAX_CHARACTERS + 1), f"({'|'.join('abc' * 60)})*d"),
)


@pytest.mark.parametrize("pattern", ALIKE)
def test_alike(pattern: str) -> None:
    assert wrong_pattern([pattern]) is None


@pytest.mark.parametrize(("pattern", "shown"), DIFFERENT.items())
def test_what_is_different_is_named(pattern: str, shown: str) -> None:
    found = wrong_pattern([pattern])
    assert found == f"in a regular expression, `{shown}` is not the same everywhere" or "not a regular" in str(found)


@pytest.mark.parametrize("pattern", [*WRONG, *EXPONENTIAL], ids=lambda pattern: pattern[:20])
def test_what_is_wrong_or_takes_long_is_refused_at_once(pattern: str) -> None:
    began = time.process_time()
    assert wrong_pattern([pattern]) is not None
    assert time.process_time() - began < 1


def test_accepted_ones_end_soon() -> None:
    """Accepted and generated expressions do not take long over texts that almost match."""
    began = time.process_time()
    for pattern in [*ALIKE, *expressions(7, 400)]:
        compiled = re.compile(pattern, re.ASCII)
        for text in ("a" * 60 + "!", "ab" * 30 + "!", "a1" * 30, "aab1" * 15 + "\n!", "b" * 60 + " "):
            compiled.search(text)
    assert time.process_time() - began < 10
