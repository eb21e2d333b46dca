"""What was verified, and a history that went wrong: as text for people, as data for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, Value, unmatched
from mrql.output.tables import SHOWN_ROWS
from mrql.runtime.engine.row_format import to_json
from mrql.verify.histories import held, keys_of
from mrql.verify.replay import Failure, FailureKind
from mrql.verify.verifier import Counterexample, Sampler, Verified

SIGNS = {1: "+", -1: "−"}


def rows_used(sampler: Sampler) -> Iterator[str]:
    """Which part of the data was verified."""
    for name, rows in sampler.data.items():
        used = sampler.wanted[name]
        yield f"  {name}: " + (f"all {used:,} rows" if used == len(rows) else f"{used:,} of {len(rows):,} rows")
    if not sampler.complete:
        yield "  each history has its own sample, of rows that share values; --rows takes larger ones, and longer"


# --- text ---------------------------------------------------------------------------------------


def render(verified: Verified, t: Type) -> Iterator[str]:
    """The lines with the result of one scenario."""
    count = f"{verified.histories:,} histories, {verified.batches:,} batches"
    found = verified.counterexample
    if found is None:
        answers = f"all answers and changes are right (answers of up to {verified.largest:,} rows)"
        if not verified.largest:
            answers = "all answers are right, and empty: a larger sample (--rows) may have some"
        yield f"  {verified.scenario.what}: {count}: {answers}"
    else:
        yield f"  {verified.scenario.what}: {count}: WRONG"
    if verified.without_value:
        ended = len(verified.without_value)
        yield f"    {ended} ended early: the query has no value for the rows there ({verified.without_value[0].reason})"
    if found is not None:
        yield from (f"    {line}" if line else "" for line in _counterexample(found, t))


def _counterexample(found: Counterexample, t: Type) -> Iterator[str]:
    data = found.data
    yield ""
    was = f"made from one of {len(found.found)} batches with {sum(map(len, found.found))} changes"
    yield f"{'A smallest history' if found.minimal else 'A history, not yet the smallest,'} that goes wrong, {was}:"
    yield ""
    streams = [name for name in data if any(move.row.stream == name for batch in found.history for move in batch)]
    width = max(map(len, streams), default=0)
    for number, batch in enumerate(found.history, start=1):
        yield f"batch {number}" + ("" if batch else ", empty")
        for move in batch:
            row = data[move.row.stream][move.row.number]
            yield f"  {move.row.stream:{width}}  {SIGNS[move.weight]} {show_value(row)}"
    if not found.history:
        yield "no data has arrived"
    yield ""
    yield "the data then"
    present = held(found.history, keys_of(found.data, found.keyed))
    rows = [(place.stream, data[place.stream][place.number]) for place in sorted(present)]
    yield from (f"  {name:{width}}    {show_value(row)}" for name, row in rows)
    if not rows:
        yield "  no rows"
    yield ""
    yield from _difference(found.failure, t)


def _difference(failure: Failure, t: Type) -> Iterator[str]:
    match failure.kind:
        case FailureKind.ERROR:
            yield from _side(f"{FailureKind.ANSWER.value}, expected", *_lines(failure.expected, t, set()))
            yield from _side("got an error", f"  {failure.got}")
        case FailureKind.ANSWER:
            left, right = _marked(failure, t)
            yield from _side(f"{failure.kind.value}, expected", *_lines(failure.expected, t, left))
            yield from _side(f"{failure.kind.value}, got", *_lines(failure.got, t, right))
        case FailureKind.CHANGES:
            yield from _side(f"{failure.kind.value}, expected", *_changes(failure.expected))
            yield from _side(f"{failure.kind.value}, got", *_changes(failure.got))


def _side(title: str, *lines: str) -> Iterator[str]:
    yield title
    yield from lines or ["  no rows"]


def _marked(failure: Failure, t: Type) -> tuple[set[str], set[str]]:
    """For each side, its rows that the other side has not, as they are shown."""
    if not ty.is_collection(t):
        return set(), set()
    left, right = unmatched(Bag(failure.expected), Bag(failure.got), failure.near)
    return set(map(show_value, left)), set(map(show_value, right))


def _lines(answer: Value, t: Type, marked: set[str]) -> Iterator[str]:
    """The rows of an answer, those that differ with a mark."""
    rows = [show_value(row) for row in answer] if ty.is_collection(t) else [show_value(answer)]
    # Rows that differ come first, so that they are not cut off from a long answer; a list keeps its order.
    shown = rows if isinstance(t, ty.ListType) else sorted(rows, key=lambda row: row not in marked)
    yield from (f"  {'!' if row in marked else ' '} {row}" for row in shown[:SHOWN_ROWS])
    if len(rows) > SHOWN_ROWS:
        yield f"    … {len(rows) - SHOWN_ROWS} more rows"


def _changes(changes: Bag) -> Iterator[str]:
    for row, weight in changes:
        often = "" if abs(weight) == 1 else f"  {abs(weight)} times"
        yield f"  {SIGNS[1 if weight > 0 else -1]} {show_value(row)}{often}"


# --- data ---------------------------------------------------------------------------------------


def document(verified: Verified) -> dict[str, Any]:
    """The result of one scenario, as data that can be written as JSON."""
    found = verified.counterexample
    return {
        "scenario": verified.scenario.what,
        "deletions": sorted(verified.scenario.deleting),
        "histories": verified.histories,
        "batches": verified.batches,
        "without_value": len(verified.without_value),
        "failure": None if found is None else _failure(found),
    }


def _failure(found: Counterexample) -> dict[str, Any]:
    failure, data = found.failure, found.data
    batches = [
        [{"stream": m.row.stream, "weight": m.weight, "row": to_json(data[m.row.stream][m.row.number])} for m in batch]
        for batch in found.history
    ]
    return {
        "kind": failure.kind.name.lower(),
        "minimal": found.minimal,
        "history": batches,
        "expected": to_json(failure.expected),
        "got": to_json(failure.got),
    }
