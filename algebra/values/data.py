"""Values of recursive types, such as `data Tree = Leaf: long | Node: (Tree, Tree)`, and of `XML`, which is one, too.

A type cannot contain itself, so a value of `Tree` is an atom: a document, like a value of `any`. Its text has the
constructor as the only key: `{"Node":[{"Leaf":1},{"Leaf":2}]}`, with tuples as arrays, records as objects, and null as
the payload of a constructor without parts. Equal values have equal texts.
"""

from __future__ import annotations

from typing import Self

from mrql.algebra import types as ty
from mrql.algebra.stack import deep
from mrql.algebra.types import RecordType, Type
from mrql.algebra.values.json_text import Json, quoted, write
from mrql.algebra.values.json_values import of_value
from mrql.algebra.values.values import Document, Record, Value, canonical

TAG = "is"
"""The field of a union's record that names the constructor."""


class Data(Document):
    """A value of a recursive type. Its text and its depth are computed on first use, and its record when it is opened
    (`json_typed.opened`)."""

    __slots__ = ("_depth", "_text", "_type", "record")

    def __init__(self, text: str) -> None:
        self._text: str | None = text
        self.record: Record | None = None
        self._type: RecordType | None = None
        self._depth: int | None = None

    @classmethod
    @deep
    def of_json(cls, value: Json) -> Self:
        """The value of a part of another value's JSON."""
        return cls(write(value))

    @classmethod
    def of_record(cls, record: Record, t: RecordType, depth: int) -> Self:
        """The value of a record of type `t`, with its constructor and its parts."""
        made = cls("")
        made._text, made.record, made._type, made._depth = None, record, t, depth
        return made

    @property
    def depth(self) -> int:
        """The depth of nested brackets in its text."""
        if self._depth is None:
            self._depth = text_depth(self.text)
        return self._depth

    def __reduce__(self) -> tuple[type[Data], tuple[str]]:
        return type(self), (self.text,)

    @property
    def text(self) -> str:  # type: ignore[override]
        if self._text is None:
            assert self._type is not None
            assert self.record is not None
            self._text = _record_text(self.record, self._type)
        return self._text


class Element(Data):
    """A part of an XML document, an element or a text: `data XML = Node: (string, {(string, string)}, [XML]) | CData:
    string` (`xml_elements`). It is shown as XML, and ordered by its text."""

    __slots__ = ()

    def __lt__(self, other: Element) -> bool:
        return self.text < other.text

    def __le__(self, other: Element) -> bool:
        return self.text <= other.text

    def __gt__(self, other: Element) -> bool:
        return self.text > other.text

    def __ge__(self, other: Element) -> bool:
        return self.text >= other.text


def text_depth(text: str) -> int:
    """The depth of nested brackets in a JSON text."""
    deepest = depth = 0
    inside = False
    escaped = False
    for sign in text:
        if inside:
            inside, escaped = escaped or sign != '"', sign == "\\" and not escaped
        elif sign == '"':
            inside = True
        elif sign in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in "]}":
            depth -= 1
    return deepest


def _record_text(record: Record, t: RecordType) -> str:
    tag = record[TAG]
    payload = t.field(tag)
    return f"{{{quoted(tag)}:{'null' if payload is None else _text(record[tag], payload)}}}"


def _text(value: Value, t: Type) -> str:
    match t:
        case _ if value is None:
            return "null"
        case ty.TupleType(items):
            return f"[{','.join(map(_text, value, items))}]"
        case ty.RecordType(fields):
            named = sorted(fields, key=lambda field: field[0].encode("utf-16-be"))
            parts = (f"{quoted(name)}:{_text(value[name], item)}" for name, item in named)
            return f"{{{','.join(parts)}}}"
        case ty.BagType(item):
            return f"[{','.join(_text(part, item) for part in sorted(value, key=canonical))}]"
        case ty.ListType(item):
            return f"[{','.join(_text(part, item) for part in value)}]"
        case _:
            return value.text if isinstance(value, Document) else of_value(value).text


def nesting_of(value: Value, t: Type) -> int:
    """The depth of nested brackets in the text of a part."""
    match t:
        case _ if value is None:
            return 0
        case ty.TupleType(items):
            return 1 + max(map(nesting_of, value, items), default=0)
        case ty.RecordType(fields):
            return 1 + max((nesting_of(value[name], item) for name, item in fields), default=0)
        case ty.BagType(item) | ty.ListType(item):
            return 1 + max((nesting_of(part, item) for part in value), default=0)
        case ty.Basic(ty.Kind.DATA):
            return value.depth  # type: ignore[no-any-return]
        case _:
            return text_depth(value.text) if isinstance(value, Document) else 0
