"""JSON as a value of a declared type: read without conversion (`held`), or converted (`taken_as`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import TypeAlias

from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError
from mrql.algebra.showable import written_name
from mrql.algebra.types import RecordType, Type
from mrql.algebra.values.atom_conversion import convert_atom, parse_atom
from mrql.algebra.values.atom_text import show_atom, to_single
from mrql.algebra.values.data import TAG, Data, Element
from mrql.algebra.values.decimals import exactly
from mrql.algebra.values.json_text import Json, content, document, read, write
from mrql.algebra.values.values import Bag, Document, Record, Value


def taken_as(value: Document, t: Type) -> Value:
    """`e as t` for a JSON value. A string is parsed as a value of an atomic type, for bytes as base64; numbers are
    converted to other numeric types.

    Raises: EvaluationError if the value has no counterpart of type `t`.
    """

    def atom(found: Json, basic: ty.Basic) -> Value:
        if isinstance(found, str) or (_is_number(found) and ty.is_numeric(basic)):
            with suppress(EvaluationError):
                return _held_atom(found, basic) if basic == ty.BYTES else convert_atom(found, basic)
        raise _Unfit(found, basic)

    try:
        return _fitted(content(value), t, atom)
    except _Unfit as error:
        raise EvaluationError(str(error)) from None


def _fitted(value: Json, t: Type, atom: Callable[[Json, ty.Basic], Value]) -> Value:
    """A JSON value as a value of type `t`; `atom` converts it to a basic type other than a document or a string, unless
    it is a boolean already.

    Raises: ValueError if it is not one.
    """
    match t:
        case _ if value is None:
            return None
        case ty.Basic(ty.Kind.ANY):
            return document(value)
        case ty.Basic(ty.Kind.XML):
            return Element.of_json(value)
        case ty.Basic(ty.Kind.DATA):
            return Data.of_json(value)
        case ty.TupleType(items) if isinstance(value, list) and len(value) == len(items):
            return tuple(_fitted(part, item, atom) for part, item in zip(value, items, strict=True))
        case ty.Basic(ty.Kind.STRING):
            return value if isinstance(value, str) else _as_string(value)
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
    raise _Unfit(value, t)


def _as_string(value: Json) -> str:
    """The text of a value that is not a string. A number too large for a finite double is written as a quoted
    `Infinity`; its text is without the quotes."""
    return show_atom(value) if isinstance(value, float) and math.isinf(value) else write(value)


class NotHeld(ValueError):
    """A JSON value, or its part at `place`, cannot be read as a value of its declared type; `how` describes how values
    of the type are written, if that is specified."""

    def __init__(self, value: Json, t: Type, place: str, how: str | None = None) -> None:
        written = f", written as {how}" if how is not None else ""
        at = f" (at {place.removeprefix('.')})" if place else ""
        super().__init__(f"{_as_written(value)} is not a value of type {t}{written}{at}")
        self.value, self.type, self.place, self.how = value, t, place, how


class _Unfit(ValueError):
    """A JSON value is not of a type."""

    def __init__(self, value: Json, t: Type) -> None:
        super().__init__(f"{write(value)} is not a value of type {t}")
        self.value, self.type = value, t


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


NOT_FINITE = ("NaN", "Infinity", "-Infinity")
"""Numbers that JSON can represent only as strings."""


TextReader: TypeAlias = Callable[[str, ty.Basic], Value]
"""Parses a text as a value of a type; raises EvaluationError if it is not one."""


def held(value: Json, t: Type, read_text: TextReader = parse_atom) -> Value:
    """A JSON value read as a value of a declared type, without conversion; any value can be read as a string.

    Dates, timestamps and bytes are strings in JSON, which `read_text` parses; NaN and infinities are strings, too. A
    decimal is a number without an exponent, or a string for `read_text`, with no more digits than the type has.

    Raises: NotHeld if it is of another type.
    """
    atom = partial(_held_atom, read_text=read_text)
    try:
        return _fitted(value, t, atom)
    except _Unfit as error:
        raise NotHeld(error.value, error.type, _place_of_unfit(value, t, atom)) from None


def _as_written(value: Json) -> str:
    """A value as text; a number with a fraction of 0 keeps it, which an `int` does not have."""
    match value:
        case float():
            return show_atom(value)
        case Decimal():
            return format(value, "f")
        case _:
            return write(value)


def _place_of_unfit(value: Json, t: Type, atom: Callable[[Json, ty.Basic], Value]) -> str:
    """The path of the first part that is not of its type, such as `.a.b[2]`; empty for the value itself."""
    for step, part, item in _parts(value, t):
        try:
            _fitted(part, item, atom)
        except _Unfit:
            return step + _place_of_unfit(part, item, atom)
    return ""


def _parts(value: Json, t: Type) -> Iterator[tuple[str, Json, Type]]:
    """The parts of a value, each with its step in a path and its type; none if the value does not have the parts of the
    type."""
    match t:
        case ty.RecordType(fields) if isinstance(value, dict):
            yield from ((f".{written_name(name)}", value.get(name), item) for name, item in fields)
        case ty.TupleType(items) if isinstance(value, list) and len(value) == len(items):
            yield from ((f"#{i}", part, item) for i, (part, item) in enumerate(zip(value, items, strict=True)))
        case ty.ListType(item) | ty.BagType(item) if isinstance(value, list):
            yield from ((f"[{i}]", part, item) for i, part in enumerate(value))


def _held_atom(value: Json, t: ty.Basic, read_text: TextReader = parse_atom) -> Value:
    match t:
        case ty.Basic(ty.Kind.INT) if isinstance(value, int) and not isinstance(value, bool):
            if -(2**31) <= value < 2**31:
                return value
        case ty.Basic(ty.Kind.LONG) if isinstance(value, int) and not isinstance(value, bool):
            return value  # a larger one was read as a decimal
        case ty.Basic(ty.Kind.DOUBLE | ty.Kind.FLOAT) if _is_number(value):
            return to_single(value) if t == ty.FLOAT else float(value)
        case ty.Basic(ty.Kind.DOUBLE | ty.Kind.FLOAT) if value in NOT_FINITE:
            return float(value)
        case ty.DecimalType() if isinstance(value, int | Decimal) and not isinstance(value, bool):
            if (exact := exactly(value, t)) is not None:
                return exact
        case ty.Basic(ty.Kind.DATE | ty.Kind.TIMESTAMP | ty.Kind.DECIMAL | ty.Kind.BINARY) if isinstance(value, str):
            with suppress(EvaluationError):
                return read_text(value, t)
    raise _Unfit(value, t)


def opened(value: Data, t: RecordType) -> Record:
    """The record of a value of a recursive type, with its constructor and its parts; it is read from the text once."""
    if value.record is None:
        ((tag, payload),) = read(value.text, None).items()
        fields = {name: held(payload, item) if name == tag else None for name, item in t.fields}
        value.record = Record({**fields, TAG: tag})
    return value.record
