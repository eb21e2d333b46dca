"""Where the time of a batch goes: what Spark is asked to compute, and all that is planned before it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any
from unittest.mock import patch

import mrql
from mrql.runtime.spark import jvm


class Phases:
    """Milliseconds by phase, one list entry for each batch."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, list[float]] = {}
        self._batch: dict[str, float] = {}

    @contextmanager
    def batch(self) -> Iterator[None]:
        """A batch: whatever is none of the phases in it is planning."""
        self._batch = {}
        start = time.perf_counter()

        def timed(*arguments: Any) -> list[int]:
            with self.phase("computing the states"):
                return plain(*arguments)

        plain = jvm.compute_all
        with patch.object(jvm, "compute_all", timed):
            yield
        whole = (time.perf_counter() - start) * 1000
        self._batch["planning"] = whole - sum(self._batch.values())
        self._batch["all"] = whole
        for name, value in self._batch.items():
            self.milliseconds.setdefault(name, []).append(value)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A part of a batch."""
        start = time.perf_counter()
        yield
        self._batch[name] = self._batch.get(name, 0.0) + (time.perf_counter() - start) * 1000

    def last(self, count: int) -> dict[str, float]:
        """The medians over the last batches."""
        return {name: median(values[-count:]) for name, values in self.milliseconds.items()}


def states(view: mrql.View) -> dict[str, int]:
    """The rows of a view's states: its groups, and what its joins keep of each input."""
    found = {}
    for state in view._view.states.stages:
        if state.groups is not None:
            found["groups"] = sum(run.rows or 0 for run in state.groups.runs)
        for (_, label), kept in state.inputs.items():
            if kept.table is not None:
                found[label.split("·")[0]] = sum(run.rows or 0 for run in kept.table.runs)
    return found
