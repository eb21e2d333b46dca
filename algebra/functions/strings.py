"""Functions of strings. Places and lengths count characters (code points), places from 0 on."""

from __future__ import annotations

import hashlib

from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions.function import Function, clamped, fails, version
from mrql.algebra.functions.regex import REGULAR
from mrql.algebra.values.values import Value

STRING_MAX_CHARACTERS = 10_000_000
"""The maximal length of a string made by repetition or padding."""
_TOO_LONG = f"a string of more than {STRING_MAX_CHARACTERS} characters"


def _size(number: str) -> str:
    return clamped(number, 0, 2**31 - 2)


def _replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def _substring(text: str, start: int, end: int | None = None) -> str:
    start = max(start, 0)
    return text[start:] if end is None else text[start : max(end, start)]


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text) or [""]


def _split_sql(text: str, separator: str, at: str) -> str:
    # Spark splits by regular expressions, so the separator is quoted, and `\E` in it, which would end that, is escaped.
    ended = r"replace({0}, '\\E', '\\E\\\\E\\Q')"
    quoted = rf"concat('\\Q', {ended.format(separator)}, '\\E')"
    return f"if({separator} = '', split({text}, ''), split({text}, {quoted}))"


def _pad(text: str, size: int, padding: str) -> str:
    if size > STRING_MAX_CHARACTERS:
        raise EvaluationError(_TOO_LONG)
    missing = size - len(text)
    return (padding * (missing // len(padding) + 1))[:missing] if missing > 0 and padding else ""


def _left_padded(text: str, size: int, padding: str) -> str:
    return (_pad(text, size, padding) + text) if len(text) < size else text[: max(size, 0)]


def _right_padded(text: str, size: int, padding: str) -> str:
    return (text + _pad(text, size, padding)) if len(text) < size else text[: max(size, 0)]


def _padded_sql(name: str) -> str:
    too_long = f"raise_error('{{at}}{_TOO_LONG}')"
    size = _size("{1}")
    enough = f"{{1}} > {STRING_MAX_CHARACTERS}L AND {{1}} > char_length({{0}}) AND {{2}} IS NOT NULL"
    return f"CASE WHEN {enough} THEN {too_long} ELSE {name}({{0}}, {size}, {{2}}) END"


def _repeated(text: str, times: int) -> str:
    if len(text) * times > STRING_MAX_CHARACTERS:
        raise EvaluationError(_TOO_LONG)
    return text * max(times, 0)


def _repeated_sql(text: str, times: str, at: str) -> str:
    long = f"char_length({text}) > 0 AND {times} > {STRING_MAX_CHARACTERS} div greatest(char_length({text}), 1)"
    return f"CASE WHEN {long} THEN {fails(at, _TOO_LONG)} ELSE repeat({text}, {_size(times)}) END"


def _reversed(value: Value) -> Value:
    return value[::-1]


def _md5(of: bytes) -> str:
    return hashlib.md5(of, usedforsecurity=False).hexdigest()


def _sha256(of: bytes) -> str:
    return hashlib.sha256(of).hexdigest()


def _in_any_locale(function: str) -> str:
    """A function of Spark's that changes case, independent of any language: otherwise it would follow the locale of the
    JVM, in which an `I` may map to a dotless `ı`, or Java's own version of Unicode."""
    return f"CAST({function}({{0}} COLLATE UNICODE) AS STRING)"


STRINGS: tuple[Function, ...] = (
    Function(
        "length",
        (version("string -> int", len, "char_length({0})"), version("binary -> int", len, "octet_length({0})")),
        "a string or bytes",
        "the number of characters, or of bytes",
        (('length("añ")', "2"), ('length("añ" as binary)', "3")),
    ),
    Function(
        "upper",
        (version("string -> string", str.upper, _in_any_locale("upper")),),
        "a string",
        "in capitals",
        (('upper("aß")', '"ASS"'),),
        ("toUpperCase",),
    ),
    Function(
        "lower",
        (version("string -> string", str.lower, _in_any_locale("lower")),),
        "a string",
        "in small letters",
        (('lower("AÄ")', '"aä"'),),
        ("toLowerCase",),
    ),
    Function(
        "trim",
        (version("string -> string", lambda s: s.strip(" "), "trim({0})"),),
        "a string",
        "without the blanks at both ends",
        (('trim(" a b ")', '"a b"'),),
    ),
    Function(
        "ltrim",
        (version("string -> string", lambda s: s.lstrip(" "), "ltrim({0})"),),
        "a string",
        "without the blanks at its beginning",
        (('ltrim(" a ")', '"a "'),),
    ),
    Function(
        "rtrim",
        (version("string -> string", lambda s: s.rstrip(" "), "rtrim({0})"),),
        "a string",
        "without the blanks at its end",
        (('rtrim(" a ")', '" a"'),),
    ),
    Function(
        "lpad",
        (version("string, long, string -> string", _left_padded, _padded_sql("lpad")),),
        "a string, a length and a padding",
        "of this length: filled at the left, or cut at the right",
        (('lpad("7", 3, "0")', '"007"'), ('lpad("1234", 3, "0")', '"123"')),
    ),
    Function(
        "rpad",
        (version("string, long, string -> string", _right_padded, _padded_sql("rpad")),),
        "a string, a length and a padding",
        "of this length: filled or cut at the right",
        (('rpad("ab", 5, ".-")', '"ab.-."'),),
    ),
    Function(
        "substring",
        (
            version(
                "string, long, long -> string",
                _substring,
                lambda s, start, end, at: f"substring(left({s}, {_size(end)}), {_size(start)} + 1)",
            ),
            version("string, long -> string", _substring, lambda s, start, at: f"substring({s}, {_size(start)} + 1)"),
        ),
        "a string, a start and an end",
        "the characters from a place up to another, which is left out; or up to the end",
        (('substring("abcd", 1, 3)', '"bc"'), ('substring("abcd", 2)', '"cd"')),
    ),
    Function(
        "left",
        (version("string, long -> string", lambda s, n: s[: max(n, 0)], lambda s, n, at: f"left({s}, {_size(n)})"),),
        "a string and a length",
        "its first characters",
        (('left("abcd", 2)', '"ab"'),),
    ),
    Function(
        "right",
        (
            version(
                "string, long -> string",
                lambda s, n: s[max(len(s) - n, 0) :] if n > 0 else "",
                lambda s, n, at: f"right({s}, {_size(n)})",
            ),
        ),
        "a string and a length",
        "its last characters",
        (('right("abcd", 2)', '"cd"'),),
    ),
    Function(
        "concat",
        (version("string, string... -> string", lambda *s: "".join(s), "concat({all})"),),
        "strings",
        "one behind the other",
        (('concat("a", "b", "c")', '"abc"'),),
    ),
    Function(
        "repeated",
        (version("string, long -> string", _repeated, _repeated_sql),),
        "a string and an integer",
        "so many times, one behind the other",
        (('repeated("ab", 3)', '"ababab"'),),
    ),
    Function(
        "reverse",
        (version("string -> string", _reversed, "reverse({0})"), version("[t] -> [t]", _reversed, "reverse({0})")),
        "a string or a list",
        "from its end to its beginning",
        (('reverse("abc")', '"cba"'), ("reverse([1, 2])", "[2, 1]")),
    ),
    Function(
        "contains",
        (version("string, string -> bool", lambda s, part: part in s, "contains({0}, {1})"),),
        "two strings",
        "whether the second is a part of the first",
        (('contains("abc", "bc")', "true"),),
    ),
    Function(
        "startswith",
        (version("string, string -> bool", str.startswith, "startswith({0}, {1})"),),
        "two strings",
        "whether the first begins with the second",
        (('startswith("abc", "ab")', "true"),),
        ("starts_with", "startsWith"),
    ),
    Function(
        "endswith",
        (version("string, string -> bool", str.endswith, "endswith({0}, {1})"),),
        "two strings",
        "whether the first ends with the second",
        (('endswith("abc", "ab")', "false"),),
        ("ends_with",),
    ),
    Function(
        "index",
        (version("string, string -> int", str.find, "(instr({0}, {1}) - 1)"),),
        "two strings",
        "the first place of the second in the first, from 0 on; -1 where it is not",
        (('index("abcb", "b")', "1"), ('index("abc", "x")', "-1")),
    ),
    Function(
        "replace",
        (version("string, string, string -> string", _replace, "replace({0}, {1}, {2})"),),
        "three strings",
        "with the third wherever the second was",
        (('replace("a.b.c", ".", "-")', '"a-b-c"'),),
    ),
    Function(
        "split",
        (version("string, string -> [string]", _split, _split_sql),),
        "a string and a separator",
        "the parts between the separators; with an empty separator, the characters",
        (('split("a,b,,c", ",")', '["a", "b", "", "c"]'),),
    ),
    *REGULAR,
    Function(
        "md5",
        (
            version("string -> string", lambda s: _md5(s.encode()), "md5({0})"),
            version("binary -> string", _md5, "md5({0})"),
        ),
        "a string or bytes",
        "the MD5 sum of its UTF-8, or of the bytes, in hexadecimal",
        (('md5("")', '"d41d8cd98f00b204e9800998ecf8427e"'),),
    ),
    Function(
        "sha256",
        (
            version("string -> string", lambda s: _sha256(s.encode()), "sha2({0}, 256)"),
            version("binary -> string", _sha256, "sha2({0}, 256)"),
        ),
        "a string or bytes",
        "the SHA-256 sum of its UTF-8, or of the bytes, in hexadecimal",
        (('left(sha256("a"), 8)', '"ca978112"'),),
    ),
)
