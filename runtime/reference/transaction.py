"""A batch of a view in the reference engine counts as a whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import attrs

from mrql.algebra.values.zset import ZSet
from mrql.runtime.engine.residual import Residual
from mrql.runtime.reference.stage_state import StageState
from mrql.runtime.sources.current_rows import CurrentRows


@attrs.define
class BatchActivity:
    """What one batch was. The next one has its own."""

    milliseconds: dict[str, float] = attrs.Factory(dict)
    """How long it has taken for each operator, by its id; for what a stage keeps together, under the stage's name."""
    passed_on: dict[str, int] = attrs.Factory(dict)
    """How many rows it has changed of each stream, derived ones included."""
    fed: dict[str, int] = attrs.Factory(dict)
    """How many rows its steps have fed to each bag of a loop that is carried over."""
    residual: Residual = attrs.Factory(Residual)
    """Of the loops that are carried over, and of what is withheld."""


class ViewContents(Protocol):
    """What a view keeps from batch to batch."""

    states: list[StageState]
    derived: dict[str, ZSet]
    present: dict[str, ZSet]
    starts: dict[str, ZSet]
    current: dict[str, CurrentRows]
    batch: BatchActivity


@contextmanager
def all_or_nothing(view: ViewContents) -> Iterator[None]:
    """What fails in the block leaves the view as it was."""
    states = [(state, state.snapshot()) for state in view.states]
    derived, present, starts = dict(view.derived), dict(view.present), dict(view.starts)
    current, batch = dict(view.current), view.batch
    try:
        yield
    except BaseException:
        for state, before in states:
            state.restore(before)
        view.derived, view.present, view.starts = derived, present, starts
        view.current, view.batch = current, batch
        raise
