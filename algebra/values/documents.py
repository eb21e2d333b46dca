"""JSON values and XML elements: their one canonical text, and how they are taken apart.

A value of type `any` is JSON, held as its text with the keys of objects in order, without blanks, and with numbers
written in one way. An element of type `XML` is the object `{"tag": content}`; its content is null where it is empty, a
string where it is text, and otherwise an object of its attributes (`@name`), its children by their tag (several of one
tag as an array, in their order) and its own text (`#text`, several pieces as an array).

That is what Spark makes of JSON text as a VARIANT, and of XML with its own reader, written with `to_json`. As text,
values can be compared, grouped and stored, which a VARIANT cannot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError
from mrql.algebra.stack import deep
from mrql.algebra.types import Type
from mrql.algebra.values.atom_text import show_atom, to_single
from mrql.algebra.values.values import Bag, Document, Element, Record, Value, canonical

Json: TypeAlias = Any
"""What `read` makes: dict, list, str, bool, None, int, and Decimal or float for a number with a fraction."""

ATTRIBUTE = "@"
TEXT = "#text"
_LONGS = range(-(2**63), 2**63)
_PRECISION = 38
"""How many digits Spark's decimals have."""
MOST_NESTED = 999
"""How many arrays and objects may be inside each other. Spark's parser takes one more, in which a row is read."""
MOST_DIGITS = 1000
"""How many digits a number may have, which is what Spark's parser takes."""


# --- JSON text ----------------------------------------------------------------------------------


@deep
def read(text: str, most: int | None = MOST_NESTED) -> Json:
    """The value of a JSON text, in which so many arrays and objects may be inside each other.

    Raises: ValueError where it is none: also for a key that is there twice, and half of a pair of surrogates.
    """
    try:
        value = _DECODER.decode(text)
        if most is not None and nesting(value) > most:
            raise ValueError(f"nested too deeply: more than {most} levels")
        if "\\u" in text:
            write(value).encode("utf-8")
    except json.JSONDecodeError:
        raise ValueError("not JSON") from None
    except UnicodeEncodeError:
        raise ValueError("half of a pair of surrogates") from None
    except RecursionError:
        raise ValueError(f"nested too deeply: more than {MOST_NESTED} levels") from None
    return value


def nesting(value: Json) -> int:
    """How many arrays and objects of a value are inside each other."""
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
    """A number without an exponent is a decimal as long as it has no more digits than one can have."""
    if len(digits) > MOST_DIGITS and sum(map(digits.count, "0123456789")) > MOST_DIGITS:
        raise ValueError(f"a number of more than {MOST_DIGITS} digits")
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
            # Read again, what has no exponent would be a decimal.
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
    """A string in JSON."""
    return '"' + _TO_ESCAPE.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0], f"\\u{ord(found[0]):04X}")


@lru_cache(maxsize=4096)
@deep
def _known(text: str) -> Json:
    return _DECODER.decode(text)


def content(document: Document) -> Json:
    """What a document's text says. It is shared: nobody may change it."""
    return _known(document.text)


def document(value: Json) -> Value:
    """A JSON value as one of type `any`; JSON's null is a missing value."""
    return None if value is None else Document(write(value))


# --- `any` --------------------------------------------------------------------------------------


def of_value(value: Value) -> Document:
    """A value as JSON: records are objects, collections arrays.

    >>> of_value(Record({"A": 1, "B": [0.5, None]}))
    {"A":1,"B":[0.5,null]}
    """
    return Document(write(_plain(value)))


def _plain(value: Value) -> Json:
    match value:
        case Document():
            return content(value)
        case Record():
            return {name: _plain(item) for name, item in value.fields.items()}
        case Bag():
            return [_plain(item) for item in sorted(value, key=canonical)]
        case list():
            return [_plain(item) for item in value]
        case float() if value == 0 or 1e-3 <= abs(value) < 1e15:
            # Written like the number that stands in a text, so that 0.5 is equal to 0.5.
            return Decimal(repr(value))
        case date():
            return show_atom(value)
        case _:
            return value


@deep
def as_python(value: Document) -> Json:
    """A JSON value as Python's own module would read it, for whoever may change it."""
    return json.loads(value.text)


def of_python(value: Json) -> Document:
    """A JSON value that a program has made.

    Raises: TypeError where it is none.
    """

    def plain(part: Json) -> Json:
        match part:
            case None | bool() | int() | str():
                return part
            case float():
                return _plain(part)
            case list() | tuple():
                return [plain(item) for item in part]
            case Mapping() if all(isinstance(key, str) for key in part):
                return {key: plain(item) for key, item in part.items()}
            case _:
                raise TypeError(f"{type(part).__name__} is none of JSON's types")

    return Document(write(plain(value)))


def member(value: Document, name: str) -> Value:
    """`e.A`: what an object has under a key; missing where there is no such key, and no object."""
    found = content(value)
    return document(found.get(name)) if isinstance(found, dict) else None


Convert: TypeAlias = Callable[[Value, Type], Value]


def taken_as(value: Document, t: Type, convert: Convert) -> Value:
    """`e as t` for a JSON value. A string is taken as what its text is a value of, numbers are taken as one another.

    Raises: EvaluationError where the value is none of type `t`.
    """

    def atom(found: Json, basic: Type) -> Value:
        if isinstance(found, str) or (_is_number(found) and ty.is_numeric(basic)):
            with suppress(EvaluationError):
                return convert(float(found) if _is_inexact(found, basic) else found, basic)
        raise _unfit(found, basic)

    try:
        return _fitted(content(value), t, atom)
    except _Unfit as error:
        raise EvaluationError(str(error)) from None


def _fitted(value: Json, t: Type, atom: Callable[[Json, Type], Value]) -> Value:
    """A JSON value as one of a type; `atom` takes what is of a basic type and not so already.

    Raises: ValueError where it is none.
    """
    match t:
        case _ if value is None:
            return None
        case ty.Basic(ty.Kind.ANY):
            return document(value)
        case ty.Basic(ty.Kind.XML):
            return Element(write(value))
        case ty.Basic(ty.Kind.DATA):
            from mrql.algebra.functions.recursive_data import Data  # which is read and written here

            return Data.of_json(value)
        case ty.TupleType(items) if isinstance(value, list) and len(value) == len(items):
            return tuple(_fitted(part, item, atom) for part, item in zip(value, items, strict=True))
        case ty.Basic(ty.Kind.STRING):
            return value if isinstance(value, str) else write(value)
        case ty.Basic(ty.Kind.BOOL) if isinstance(value, bool):
            return value
        case ty.Basic():
            return atom(value, t)
        case ty.RecordType(fields) if isinstance(value, dict):
            return Record({name: _fitted(value.get(name), item, atom) for name, item in fields})
        case ty.ListType(item) if isinstance(value, list):
            return [_fitted(part, item, atom) for part in value]
        case ty.BagType(item) if isinstance(value, list):
            return Bag(_fitted(part, item, atom) for part in value)
    raise _unfit(value, t)


class _Unfit(ValueError):
    """A JSON value that is none of a type."""


def _unfit(value: Json, t: Type) -> _Unfit:
    return _Unfit(f"{write(value)} is not a value of type {t}")


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_inexact(value: Json, t: Type) -> bool:
    return isinstance(value, Decimal) and not ty.is_integral(t)


NOT_FINITE = ("NaN", "Infinity", "-Infinity")
"""Numbers that JSON has no other form for."""


def held(value: Json, t: Type) -> Value:
    """A JSON value read as one of a declared type: of that very type, and not converted; any value has a text.

    Dates and timestamps are strings in JSON, and so are numbers that it has no other form for.

    Raises: ValueError where it is of another type.
    """
    return _fitted(value, t, _held_atom)


def _held_atom(value: Json, t: Type) -> Value:
    match t:
        case ty.Basic(ty.Kind.INT) if isinstance(value, int) and not isinstance(value, bool):
            if -(2**31) <= value < 2**31:
                return value
        case ty.Basic(ty.Kind.LONG) if isinstance(value, int) and not isinstance(value, bool):
            return value  # a larger one was read as a decimal
        case ty.Basic(ty.Kind.DOUBLE | ty.Kind.FLOAT) if _is_number(value):
            return to_single(float(value)) if t == ty.FLOAT else float(value)
        case ty.Basic(ty.Kind.DOUBLE | ty.Kind.FLOAT) if value in NOT_FINITE:
            return float(value)
        case ty.Basic(ty.Kind.DATE | ty.Kind.TIMESTAMP) if isinstance(value, str):
            from mrql.algebra.functions import convert  # which needs this module

            with suppress(EvaluationError):
                return convert(value, t)
    raise _unfit(value, t)


# --- XML ----------------------------------------------------------------------------------------


def _inside(element: Document) -> tuple[str | None, Json]:
    """The tag of an element and its content; a text by itself has no tag."""
    found = content(element)
    return next(iter(found.items())) if isinstance(found, dict) else (None, found)


def _parts(element: Document) -> Mapping[str, Json]:
    _, inside = _inside(element)
    return inside if isinstance(inside, dict) else {}


def _each(tag: str, found: Json) -> list[Value]:
    return [Element(write({tag: item})) for item in (found if isinstance(found, list) else [found])]


def children(element: Document, tag: str) -> list[Value]:
    """`e.tag`: the children with this tag, in their order."""
    parts = _parts(element)
    return _each(tag, parts[tag]) if tag in parts else []


def all_children(element: Document) -> list[Value]:
    """`e.*`: the children by their tags, and those of one tag in their order."""
    return [child for tag, found in _parts(element).items() if tag[0] not in "@#" for child in _each(tag, found)]


def attribute(element: Document, name: str) -> Value:
    """`e.@a`: missing where there is none."""
    return _parts(element).get(ATTRIBUTE + name)


def attributes(element: Document) -> list[Value]:
    """`e.@*`: the values of all attributes, in the order of their names."""
    return [value for key, value in _parts(element).items() if key.startswith(ATTRIBUTE)]


def text(element: Document) -> str:
    """`text(e)`: the element's own text, its pieces with a blank between them."""
    _, inside = _inside(element)
    found = inside.get(TEXT) if isinstance(inside, dict) else inside
    return " ".join(found) if isinstance(found, list) else found or ""


def tag(element: Document) -> Value:
    """`tag(e)`: the name of an element."""
    return _inside(element)[0]


def text_node(value: str) -> Element:
    """A piece of text as a part of an element."""
    return Element(quoted(value))


def element(name: str, names: Sequence[str], values: Sequence[Value], parts: Iterable[Value]) -> Element:
    """`[xml| <name …>…</name> |]`; attributes and parts that are missing are left out."""
    given = {ATTRIBUTE + key: value for key, value in zip(names, values, strict=True) if value is not None}
    inside = [content(part) for part in parts if part is not None]
    return Element(write({name: made(given, [p if isinstance(p, str) else next(iter(p.items())) for p in inside])}))


def made(attributes: Mapping[str, str], parts: Iterable[str | tuple[str, Json]]) -> Json:
    """The content of an element with these attributes, children and pieces of text, which are trimmed."""
    found: dict[str, list[Json]] = {}
    for part in parts:
        if isinstance(part, str):
            if trimmed := part.strip(BLANKS):
                found.setdefault(TEXT, []).append(trimmed)
        else:
            found.setdefault(part[0], []).append(part[1])
    whole = {**attributes, **{key: items[0] if len(items) == 1 else items for key, items in found.items()}}
    if not whole:
        return None
    return whole[TEXT] if list(whole) == [TEXT] and isinstance(whole[TEXT], str) else whole


BLANKS = "".join(map(chr, range(33)))
"""What Java's `trim` takes away."""


def to_xml(element: Document) -> str:
    """An element as XML, for people to read; children stand in the order of their tags."""
    name, inside = _inside(element)
    return _escaped(inside or "") if name is None else _written(name, inside)


def _written(name: str, inside: Json) -> str:
    parts = inside if isinstance(inside, dict) else {TEXT: inside} if inside is not None else {}
    shown = "".join(f' {key[1:]}="{_escaped(value)}"' for key, value in parts.items() if key.startswith(ATTRIBUTE))
    body = []
    for key, found in parts.items():
        items = found if isinstance(found, list) else [found]
        if key == TEXT:
            body.append(" ".join(map(_escaped, items)))
        elif not key.startswith(ATTRIBUTE):
            body += [_written(key, item) for item in items]
    return f"<{name}{shown}>{''.join(body)}</{name}>" if body else f"<{name}{shown}/>"


def _escaped(value: str) -> str:
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
