"""Recursive data: `data Tree = Leaf: long | Node: (Tree, Tree)`.

A type cannot have itself as a part, so a value of `Tree` is an atom: a document, as one of `any` is. It is `made` of
the record that says which constructor made it of what, and `opened` to that record again:

    made : <is: string, Leaf: long, Node: (Tree, Tree)> → Tree        opened(made(r)) = r

Its text has the constructor as the only key: `{"Node":[{"Leaf":1},{"Leaf":2}]}`, with tuples as arrays, records as
objects, and null for what a constructor without parts is made of. Equal values have equal texts.
"""

from __future__ import annotations

from functools import partial

import attrs

from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions.function import Function, Version
from mrql.algebra.functions.signatures import Exact
from mrql.algebra.types import Basic, RecordType, Type
from mrql.algebra.values import documents
from mrql.algebra.values.values import Document, Record, Value, canonical

TAG = "is"
"""The field of a union's record that names the constructor."""
DEEPEST = 1_000
"""How deep brackets are nested in the text of a value; what reads JSON reads no more."""


class Data(Document):
    """A value of a recursive type. Its text is made when it is asked for, its record when it is opened."""

    __slots__ = ("_record", "_text", "_type", "depth")

    def __init__(self, text: str) -> None:
        self._text: str | None = text
        self._record: Value = None
        self._type: RecordType | None = None
        self.depth = _depth(text)

    @staticmethod
    def of_json(value: documents.Json) -> Data:
        """A value as it stands in the text of another one."""
        return Data(documents.write(value))

    @staticmethod
    def of_record(record: Record, t: RecordType, depth: int) -> Data:
        """A value of what it was made of."""
        made = Data("")
        made._text, made._record, made._type, made.depth = None, record, t, depth
        return made

    def __reduce__(self) -> tuple[type[Data], tuple[str]]:
        return Data, (self.text,)

    @property
    def text(self) -> str:  # type: ignore[override]
        if self._text is None:
            assert self._type is not None
            self._text = _record_text(self._record, self._type)
        return self._text

    def opened(self, t: RecordType) -> Record:
        """What it was made of."""
        if self._record is None:
            ((tag, payload),) = documents.read(self.text, None).items()
            fields = {name: documents.held(payload, item) if name == tag else None for name, item in t.fields}
            self._record = Record({**fields, TAG: tag})
        assert isinstance(self._record, Record)
        return self._record


def _depth(text: str) -> int:
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


# --- text ---------------------------------------------------------------------------------------


def _record_text(record: Record, t: RecordType) -> str:
    tag = record[TAG]
    payload = t.field(tag)
    return f"{{{documents.quoted(tag)}:{'null' if payload is None else _text(record[tag], payload)}}}"


def _text(value: Value, t: Type) -> str:
    match t:
        case _ if value is None:
            return "null"
        case ty.TupleType(items):
            return f"[{','.join(map(_text, value, items))}]"
        case ty.RecordType(fields):
            named = sorted(fields, key=lambda field: field[0].encode("utf-16-be"))
            parts = (f"{documents.quoted(name)}:{_text(value[name], item)}" for name, item in named)
            return f"{{{','.join(parts)}}}"
        case ty.BagType(item):
            return f"[{','.join(_text(part, item) for part in sorted(value, key=canonical))}]"
        case ty.ListType(item):
            return f"[{','.join(_text(part, item) for part in value)}]"
        case _:
            return value.text if isinstance(value, Document) else documents.of_value(value).text


def _nested(value: Value, t: Type) -> int:
    """How deep brackets are nested in the text of a part."""
    match t:
        case _ if value is None:
            return 0
        case ty.TupleType(items):
            return 1 + max(map(_nested, value, items), default=0)
        case ty.RecordType(fields):
            return 1 + max((_nested(value[name], item) for name, item in fields), default=0)
        case ty.BagType(item) | ty.ListType(item):
            return 1 + max((_nested(part, item) for part in value), default=0)
        case ty.Basic(ty.Kind.DATA):
            return value.depth  # type: ignore[no-any-return]
        case _:
            return _depth(value.text) if isinstance(value, Document) else 0


# --- the functions ------------------------------------------------------------------------------


@attrs.frozen
class Folding(Function):
    """`made` or `opened` of a recursive type."""

    data: Basic = attrs.field(kw_only=True)
    record: RecordType = attrs.field(kw_only=True)
    makes: bool = attrs.field(kw_only=True)


def made(data: Basic, record: RecordType) -> Folding:
    """The function from a union's record to a value."""
    version = Version(Exact((record,), data), partial(_made, record, data), None)
    return Folding(f"made {data}", (version,), "what a constructor takes", data=data, record=record, makes=True)


def opened(data: Basic, record: RecordType) -> Folding:
    """The function from a value to the record that it was made of."""
    version = Version(Exact((data,), record), partial(_opened, record), None)
    return Folding(f"opened {data}", (version,), f"a {data}", data=data, record=record, makes=False)


def too_deep(data: Basic) -> str:
    """The error for a value that no text is made of."""
    return f"a value of type {data} is nested more than {DEEPEST:,} levels deep"


def _made(t: RecordType, data: Basic, record: Record) -> Data:
    payload = t.field(record[TAG])
    depth = 1 + (0 if payload is None else _nested(record[record[TAG]], payload))
    if depth > DEEPEST:
        raise EvaluationError(too_deep(data))
    return Data.of_record(record, t, depth)


def _opened(t: RecordType, value: Data) -> Record:
    return value.opened(t)
