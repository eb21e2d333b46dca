"""Recursive data: `data Tree = Leaf: long | Node: (Tree, Tree)`.

A value of `Tree` (`values/data.py`) is `made` from a record with its constructor and its parts, and `opened` to get
that record back:

    made : <is: string, Leaf: long, Node: (Tree, Tree)> → Tree        opened(made(r)) = r
"""

from __future__ import annotations

from functools import partial

import attrs

from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions.function import Function, Version
from mrql.algebra.functions.signatures import Exact
from mrql.algebra.types import XML, Basic, RecordType
from mrql.algebra.values import json_typed
from mrql.algebra.values.data import TAG, Data, Element, nesting_of
from mrql.algebra.values.values import Record

DATA_MAX_LEVELS = 1_000
"""The maximal depth of nested brackets in the text of a value; readers of JSON accept no more."""


@attrs.frozen
class Folding(Function):
    """`made` or `opened`, for one recursive type."""

    data: Basic = attrs.field(kw_only=True)
    record: RecordType = attrs.field(kw_only=True)
    makes: bool = attrs.field(kw_only=True)


def made(data: Basic, record: RecordType) -> Folding:
    """The function from a record to the value of a recursive type."""
    version = Version(Exact((record,), data), partial(_made, record, data), None)
    return Folding(f"made {data}", (version,), "what a constructor takes", data=data, record=record, makes=True)


def opened(data: Basic, record: RecordType) -> Folding:
    """The function from a value of a recursive type to the record it was made from."""
    version = Version(Exact((data,), record), partial(_opened, record), None)
    return Folding(f"opened {data}", (version,), f"a {data}", data=data, record=record, makes=False)


def too_deep(data: Basic) -> str:
    """The error message for a value that is nested too deeply."""
    return f"a value of type {data} is nested more than {DATA_MAX_LEVELS:,} levels deep"


def _made(t: RecordType, data: Basic, record: Record) -> Data:
    payload = t.field(record[TAG])
    depth = 1 + (0 if payload is None else nesting_of(record[record[TAG]], payload))
    if depth > DATA_MAX_LEVELS:
        raise EvaluationError(too_deep(data))
    return (Element if data == XML else Data).of_record(record, t, depth)


def _opened(t: RecordType, value: Data) -> Record:
    return json_typed.opened(value, t)
