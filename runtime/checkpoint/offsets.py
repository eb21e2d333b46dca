"""How far a view has been fed: an offset for each stream, given by the program that feeds it.

An offset is any value of JSON. It identifies a batch that is given again, as `foreachBatch` does after a crash:

- a *number*, such as that of a batch, when it is no larger than the last one of its stream;
- the *batch of a streaming query*, `{"queryId": …, "batchId": …}`, when its number is no larger than the last one of
  the same query. The batches of a query have consecutive numbers from 0 on: one that is missing is an error;
- any *other* value when it equals the last one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

from mrql.algebra.errors import UserError
from mrql.runtime.checkpoint.manifest import Json


class OffsetKind(Enum):
    """How an offset is compared with the last one."""

    NUMBER = "a number"
    BATCH = "a batch of a streaming query"
    OTHER = "neither a number nor a batch of a streaming query"


QUERY_ID, BATCH_ID = "queryId", "batchId"
"""The names of the parts of the offset of a streaming query, as in Spark's progress."""


def batch_of_query(query: str, batch: int) -> Json:
    """The offset of a batch of a streaming query."""
    return {QUERY_ID: query, BATCH_ID: batch}


def fed_by(query: str, last: Mapping[str, Json]) -> set[str]:
    """The streams that were fed by a streaming query, according to the `last` offset of each."""
    return {name for name, offset in last.items() if isinstance(offset, dict) and offset.get(QUERY_ID) == query}


def kind_of_offset(offset: Json) -> OffsetKind:
    """How an offset is compared.

    >>> kind_of_offset(7), kind_of_offset({"queryId": "a1", "batchId": 7}), kind_of_offset({"topic": [3, 4]})
    (<OffsetKind.NUMBER: 'a number'>, <OffsetKind.BATCH: 'a batch of a streaming query'>, \
<OffsetKind.OTHER: 'neither a number nor a batch of a streaming query'>)
    """
    match offset:
        case bool():
            return OffsetKind.OTHER
        case int() | float():
            return OffsetKind.NUMBER
        case {"queryId": str(), "batchId": int(), **rest} if not rest:
            return OffsetKind.BATCH
        case _:
            return OffsetKind.OTHER


def as_json(offset: Any) -> Json:
    """An offset as it is read back: a tuple becomes a list.

    Raises: UserError where it is no value of JSON.
    """
    try:
        return json.loads(json.dumps(offset, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"an offset is a value of JSON: {error}", hint="the number of the batch, say") from None


def is_due(offset: Json, streams: Collection[str], last: Mapping[str, Json]) -> bool:
    """Whether a batch of some streams is still to be applied, according to the `last` offset of each.

    Raises: UserError where it was applied for some of them only, or its offset is of another kind than the last one.
    """
    if not streams:
        raise UserError("an offset is that of streams, and none is named", hint="name those that have no rows, too")
    asked = sorted(streams)
    if kind_of_offset(offset) is OffsetKind.BATCH:
        # A batch of a query is one whole: a stream without an offset had no part in the batches before.
        asked = [name for name in asked if name in last] or asked
    known = {name: is_behind(offset, last.get(name), name) for name in asked}
    if len({*known.values()}) > 1:
        old, new = (next(name for name, found in known.items() if found is wanted) for wanted in (True, False))
        message = f"the batch with the offset {json.dumps(offset)} was applied of `{old}`, but not of `{new}`"
        raise UserError(message, hint="give streams of one offset always together, or offsets of their own")
    return not any(known.values())


def is_behind(offset: Json, last: Json | None, stream: str) -> bool:
    """Whether the batch of an offset was applied already, according to the last offset of its stream, if any.

    Raises: UserError where they cannot be compared, or batches of a streaming query are missing between them.
    """
    kind = kind_of_offset(offset)
    if last is not None and kind is not kind_of_offset(last):
        said = f"the last offset of `{stream}` is {kind_of_offset(last).value}, {json.dumps(last)}"
        hint = "give offsets of one kind, or start with a new checkpoint"
        raise UserError(f"{said}, and {json.dumps(offset)} is {kind.value}", hint=hint)
    match kind:
        case OffsetKind.NUMBER:
            return last is not None and bool(offset <= last)
        case OffsetKind.BATCH:
            return _is_behind_in_query(offset, last, stream)
        case OffsetKind.OTHER:
            return bool(offset == last)


def _is_behind_in_query(offset: Json, last: Json | None, stream: str) -> bool:
    before = -1 if last is None else last[BATCH_ID]
    if last is not None and offset[QUERY_ID] != last[QUERY_ID]:
        message = f"`{stream}` was fed by another streaming query, up to its batch {before}"
        hint = "start that one with its checkpointLocation; without it, start the view with a new checkpoint"
        raise UserError(message, hint=hint)
    if offset[BATCH_ID] > before + 1:
        had = "has had none of it" if last is None else f"has had those up to {before}"
        message = f"the streaming query for `{stream}` is at its batch {offset[BATCH_ID]}, and the view {had}"
        hint = "start the query with a new checkpointLocation, and the view with a new checkpoint"
        raise UserError(message, hint=hint)
    return bool(offset[BATCH_ID] <= before)
