"""Tests for the authors of adapters: `check_adapter`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mrql.algebra.notation.typecheck import conforms
from mrql.algebra.types import Type
from mrql.algebra.values.zset import ZSet
from mrql.runtime.sources.source import Adapter, Offset

__all__ = ["check_adapter"]

ROUNDS = 3


def check_adapter(open_one: Callable[[], Adapter], grow: Callable[[], None], row: Type) -> None:
    """Checks that an adapter keeps the contract of `Adapter`.

    `open_one` opens an adapter over a source that is empty at first, `grow` adds rows to it (three or more, different
    each time), and `row` is the type of the rows. While the source grows a few times, the adapter has to meet these
    conditions:

    - offsets are JSON values, and stay the same while nothing is new;
    - the rows between two offsets are the rows of the parts between them, each once, whatever `most` is;
    - rows are of the given type, and weights are integers other than 0;
    - an adapter that `replays` reads the same rows again, and so does another one that is opened later.

    Raises: AssertionError, which names the condition that is violated.
    """
    with _opened(open_one) as adapter:
        nothing = adapter.latest(None, None)
        _is_json(nothing)
        assert not len(_rows(adapter, None, nothing, row)), "an empty source has rows"
        at: Offset = nothing
        whole = ZSet()
        marks = [nothing]
        for _ in range(ROUNDS):
            grow()
            parts = ZSet()
            while (after := adapter.latest(at, 2)) != at:
                _is_json(after)
                found = _rows(adapter, at, after, row)
                if adapter.replays:
                    assert _same(found, _rows(adapter, at, after, row)), (
                        f"from {at} to {after} there are other rows again"
                    )
                parts += found
                at = after
                assert len(marks) < 10_000, "the offset goes on, though nothing is new"
                marks.append(at)
            assert len(parts), "rows that were added are not found"
            assert adapter.latest(at, None) == at, "another offset, though nothing is new"
            whole += parts
        if not adapter.replays:
            return
        assert _same(_rows(adapter, None, at, row), whole), "read at once, there are other rows than in parts"
    with _opened(open_one) as later:
        assert _same(_rows(later, None, at, row), whole), "opened again, it has other rows"
        middle = marks[len(marks) // 2]
        halves = _rows(later, None, middle, row) + _rows(later, middle, at, row)
        assert _same(halves, whole), f"cut at {middle}, there are other rows than as a whole"
        assert later.latest(at, None) == at, "opened again, it has another offset, though nothing is new"
        grow()
        assert later.latest(at, None) != at, "opened again, it does not find rows that are added"


@contextmanager
def _opened(open_one: Callable[[], Adapter]) -> Iterator[Adapter]:
    adapter = open_one()
    try:
        yield adapter
    finally:
        adapter.close()


def _rows(adapter: Adapter, start: Offset, end: Offset, row: Type) -> ZSet:
    """The rows between two offsets, which are converted to JSON and back first, as a checkpoint does."""
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    found = list(adapter.read(start, end))
    for value, weight in found:
        assert type(weight) is int, f"a row has the weight {weight!r}"
        assert weight != 0, f"a row has the weight {weight!r}"
        assert conforms(value, row), f"{value!r} is not of type {row}"
    return ZSet.weighted(found)


def _is_json(offset: Offset) -> None:
    assert json.loads(json.dumps(offset)) == offset, f"the offset {offset!r} is not the same from JSON"


def _same(a: ZSet, b: ZSet) -> bool:
    return not len(a - b)
