"""Makes a batch of a view in the reference engine atomic."""

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
    """What one batch did, and how long it took. Each batch has its own."""

    milliseconds: dict[str, float] = attrs.Factory(dict)
    """The time spent on each operator, by its id, and on the state of each stage, by the stage's name."""
    passed_on: dict[str, int] = attrs.Factory(dict)
    """The number of rows it changed in each stream, derived streams included."""
    fed: dict[str, int] = attrs.Factory(dict)
    """The number of rows fed to each bag of the loops that are carried over."""
    residual: Residual = attrs.Factory(Residual)
    """The residual of the loops that are carried over and of the withheld changes."""


class ViewContents(Protocol):
    """The contents of a view that are restored when a batch fails."""

    states: list[StageState]
    derived: dict[str, ZSet]
    present: dict[str, ZSet]
    starts: dict[str, ZSet]
    current: dict[str, CurrentRows]
    batch: BatchActivity


@contextmanager
def all_or_nothing(view: ViewContents) -> Iterator[None]:
    """Restores the view to what it was if the block fails."""
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
