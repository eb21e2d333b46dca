"""Offsets, by which a batch that was already applied is recognized."""

from __future__ import annotations

from typing import Any

import pytest

from mrql.algebra.errors import UserError
from mrql.runtime.checkpoint.offsets import as_json, batch_of_query, fed_by, is_behind, is_due

ONE, OTHER = "1a7d", "9ed3"
"""The identifiers of two streaming queries."""


@pytest.mark.parametrize(
    ("offset", "last", "behind"),
    [
        (0, None, False),
        (6, 5, False),
        (5, 5, True),
        (4, 5, True),
        (9, 5, False),
        (5.5, 5, False),
        (5, 5.5, True),
        ("b", "a", False),
        ("a", "a", True),
        ({"topic": [3, 4]}, {"topic": [3, 4]}, True),
        ({"topic": [3, 5]}, {"topic": [3, 4]}, False),
        (True, True, True),
        (batch_of_query(ONE, 0), None, False),
        (batch_of_query(ONE, 1), batch_of_query(ONE, 0), False),
        (batch_of_query(ONE, 1), batch_of_query(ONE, 1), True),
        (batch_of_query(ONE, 0), batch_of_query(ONE, 1), True),
    ],
)
def test_what_was_applied(offset: Any, last: Any, behind: bool) -> None:
    """Numbers are compared by size, batches of a streaming query by their number, and other offsets by equality."""
    assert is_behind(offset, last, "S") == behind


@pytest.mark.parametrize(
    ("offset", "last", "said"),
    [
        ("a", 5, "the last offset of `S` is a number, 5, and \"a\" is neither a number nor"),
        (5, "a", "the last offset of `S` is neither a number nor a batch of a streaming query, \"a\", and 5"),
        (True, 1, "the last offset of `S` is a number, 1, and true is neither"),
        (6, batch_of_query(ONE, 5), "is a batch of a streaming query, {"),
        (batch_of_query(OTHER, 0), batch_of_query(ONE, 5), "another streaming query, up to its batch 5"),
        (batch_of_query(ONE, 7), batch_of_query(ONE, 5), "is at its batch 7, and the view has had those up to 5"),
        (batch_of_query(ONE, 3), None, "is at its batch 3, and the view has had none of it"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared(offset: Any, last: Any, said: str) -> None:
    """An offset of another kind, another query, and missing batches are errors."""
    with pytest.raises(UserError) as raised:
        is_behind(offset, last, "S")
    assert said in raised.value.message
    assert raised.value.hint


def test_streams_of_one_offset() -> None:
    """Streams with one offset must all have been applied with it, or none; each has its own last offset."""
    last = {"S": 5, "T": 3}
    assert is_due(6, ["S", "T"], last)
    assert is_due(0, ["U"], last)
    assert not is_due(3, ["S", "T"], last)
    with pytest.raises(UserError, match="the batch with the offset 4 was applied of `S`, but not of `T`"):
        is_due(4, ["S", "T"], last)
    with pytest.raises(UserError, match="an offset is that of streams, and none is named"):
        is_due(6, [], last)


def test_streams_of_a_batch_of_a_query() -> None:
    """A batch of a query is one whole: a stream without an offset had no part in the batches before."""
    last = {"S": batch_of_query(ONE, 2), "T": 3}
    assert is_due(batch_of_query(ONE, 3), ["S", "U"], last)
    assert not is_due(batch_of_query(ONE, 2), ["S", "U"], last)
    with pytest.raises(UserError, match="is at its batch 4, and the view has had those up to 2"):
        is_due(batch_of_query(ONE, 4), ["S", "U"], last)
    with pytest.raises(UserError, match="the last offset of `T` is a number"):
        is_due(batch_of_query(ONE, 3), ["S", "T", "U"], last)
    assert fed_by(ONE, last) == {"S"}


def test_what_is_no_offset() -> None:
    """An offset is stored as JSON: what JSON has no form for is refused, and a tuple becomes a list."""
    assert as_json(("a", 1)) == ["a", 1]
    circle: list[Any] = []
    circle.append(circle)
    for wrong in (object(), float("nan"), b"a", {1, 2}, circle):
        with pytest.raises(UserError, match="an offset is a value of JSON"):
            as_json(wrong)
