"""JSON text: its canonical form, and how it is parsed.

A value of type `any` is JSON, held as its text with the keys of objects in order, without blanks, and with one notation
for each number. That is the text that Spark's `to_json` gives for a VARIANT. As text, values can be compared, grouped
and stored, which a VARIANT cannot.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

from mrql.algebra.stack import deep
from mrql.algebra.values.atom_text import show_atom
from mrql.algebra.values.values import Document, Value

Json: TypeAlias = Any
"""A result of `read`: dict, list, str, bool, None, int, and Decimal or float for any other number."""

_LONGS = range(-(2**63), 2**63)
_PRECISION = 38
"""The maximal number of digits of a decimal in Spark."""
JSON_MAX_LEVELS = 999
"""The maximal nesting of arrays and objects. Spark's parser accepts one more level, in which a row is read."""
NUMBER_MAX_DIGITS = 1000
"""The maximal number of digits of a number, as in Spark's parser."""


class NotJson(ValueError):
    """A text is not JSON; `at` is the offset of the fault, or of the element with the fault."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.at = at


@deep
def elements(text: str) -> list[tuple[int, int, Json]]:
    """The elements of an array, or an object as the only one, each with its start and end; none if the text is blank.

    Raises: NotJson if the text is none of these.
    """
    at = _behind_blanks(text, 0)
    if at == len(text):
        return []
    if text[at] not in "[{":
        raise NotJson("neither an array nor an object", at)
    if text[at] == "[":
        found, end = _of_array(text, at)
    else:
        found = [_element(text, at, JSON_MAX_LEVELS)]
        end = found[0][1]
    if (behind := _behind_blanks(text, end)) < len(text):
        raise NotJson("something behind the value", behind)
    return found


def _of_array(text: str, at: int) -> tuple[list[tuple[int, int, Json]], int]:
    """The elements of the array that begins at an offset, and the offset of its end."""
    found: list[tuple[int, int, Json]] = []
    at = _behind_blanks(text, at + 1)
    while found or not text.startswith("]", at):
        found.append(_element(text, at, JSON_MAX_LEVELS - 1))
        at = _behind_blanks(text, found[-1][1])
        if text.startswith("]", at):
            break
        if not text.startswith(",", at):
            raise NotJson("not JSON", at)
        at = _behind_blanks(text, at + 1)
    return found, at + 1


def _element(text: str, at: int, most: int) -> tuple[int, int, Json]:
    try:
        value, end = _DECODER.raw_decode(text, at)
        _must_be_held(value, text[at:end], most)
    except json.JSONDecodeError as error:
        raise NotJson("not JSON", error.pos) from None
    except RecursionError:
        raise NotJson(_TOO_DEEP, at) from None
    except ValueError as error:
        raise NotJson(str(error), at) from None
    return at, end, value


def _behind_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found is not None
    return found.end()


_BLANKS = re.compile(r"[ \t\r\n]*")
_TOO_DEEP = f"nested too deeply: more than {JSON_MAX_LEVELS} levels"


def _must_be_held(value: Json, text: str, most: int | None) -> None:
    """Raises: ValueError if a value is nested too deeply, or has half of a surrogate pair."""
    if most is not None and nesting(value) > most:
        raise ValueError(_TOO_DEEP)
    if "\\u" in text:
        try:
            write(value).encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("half of a pair of surrogates") from None


@deep
def read(text: str, most: int | None = JSON_MAX_LEVELS) -> Json:
    """The value of a JSON text, in which at most `most` arrays and objects may be nested.

    Raises: ValueError if it is not JSON, has a duplicate key, or has half of a surrogate pair.
    """
    try:
        value = _DECODER.decode(text)
        _must_be_held(value, text, most)
    except json.JSONDecodeError as error:
        raise NotJson("not JSON", error.pos) from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return value


def nesting(value: Json) -> int:
    """The depth of nested arrays and objects of a value."""
    level, levels = [value], 0
    while level := [part for part in level if isinstance(part, dict | list)]:
        levels += 1
        level = [item for part in level for item in (part.values() if isinstance(part, dict) else part)]
    return levels


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
        raise ValueError(f'the key "{twice}" is there twice')
    return found


def _integer(digits: str) -> Json:
    if len(digits) <= len(str(_LONGS.start)) and (value := int(digits)) in _LONGS:
        return value
    return _fraction(digits)


def _fraction(digits: str) -> Json:
    """The number: a decimal if it has no exponent, and no more digits than a decimal can have; otherwise a double."""
    if len(digits) > NUMBER_MAX_DIGITS and sum(map(digits.count, "0123456789")) > NUMBER_MAX_DIGITS:
        raise ValueError(f"a number of more than {NUMBER_MAX_DIGITS} digits")
    if "e" in digits or "E" in digits:
        return float(digits)
    value = Decimal(digits)
    _, given, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return value if len(given) <= _PRECISION and -exponent <= _PRECISION else float(digits)


def _constant(name: str) -> Json:
    raise ValueError(f"{name} is not a value of JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)


def write(value: Json) -> str:
    """The canonical text of a value.

    >>> write(read('{"b": 1.50, "a": [1e3, null, "x"]}'))
    '{"a":[1000,null,"x"],"b":1.5}'
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case Decimal():
            plain = format(value, "f")
            plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
            return "0" if plain == "-0" else plain
        case float():
            shown = show_atom(value)
            if not shown[-1].isdigit():
                return quoted(shown)
            # A text without an exponent would be read back as a decimal.
            return shown if "E" in shown else write(Decimal(shown))
        case dict():
            members = sorted(value.items(), key=lambda item: item[0].encode("utf-16-be"))
            return f"{{{','.join(f'{quoted(key)}:{write(item)}' for key, item in members)}}}"
        case list():
            return f"[{','.join(map(write, value))}]"
        case _:
            return str(value)


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f]')


def quoted(text: str) -> str:
    """A string as JSON text."""
    return '"' + _TO_ESCAPE.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0], f"\\u{ord(found[0]):04X}")


@lru_cache(maxsize=4096)
@deep
def _known(text: str) -> Json:
    return _DECODER.decode(text)


def content(document: Document) -> Json:
    """The parsed text of a document. It is shared, and must not be changed."""
    return _known(document.text)


def document(value: Json) -> Value:
    """A JSON value as one of type `any`; JSON's null is a missing value."""
    return None if value is None else Document(write(value))
