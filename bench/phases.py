"""Where the time of a batch goes: planning it, waiting for the states, and the CPU time of Spark's tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

import mrql
from mrql.runtime.spark import jvm
from mrql.runtime.spark.jvm.handles import items

WAITING = "waiting for the states"


class Phases:
    """Milliseconds by phase, one list entry for each batch."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, list[float]] = {}
        self._batch: dict[str, float] = {}

    @contextmanager
    def batch(self) -> Iterator[None]:
        """A block with a batch. Its time outside of phases is planning, during which Spark may compute the states."""
        self._batch = {}
        start = time.perf_counter()

        def timed(job: jvm.Job) -> list[int]:
            with self.phase(WAITING):
                return plain(job)

        plain = jvm.Job.counts
        with patch.object(jvm.Job, "counts", timed):
            yield
        whole = (time.perf_counter() - start) * 1000
        self._batch["planning"] = whole - sum(self._batch.values())
        self._batch["all"] = whole
        for name, value in self._batch.items():
            self.milliseconds.setdefault(name, []).append(value)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A block with a phase of a batch. The time of phases inside it, such as waiting, is not part of it."""
        start, waited = time.perf_counter(), sum(self._batch.values())
        yield
        others = sum(self._batch.values()) - waited
        self._batch[name] = self._batch.get(name, 0.0) + (time.perf_counter() - start) * 1000 - others

    def last(self, count: int) -> dict[str, float]:
        """The medians over the last `count` batches, by phase."""
        return {name: median(values[-count:]) for name, values in self.milliseconds.items()}


@dataclass(frozen=True)
class Work:
    """The work that Spark has done: the number of stages that ran, and the CPU milliseconds of their tasks."""

    stages: int
    milliseconds: float


class WorkLog:
    """The work that Spark does after the creation of this log, from its own records."""

    def __init__(self, spark: SparkSession) -> None:
        self._context: Any = spark.sparkContext._jsc.sc()
        self._before = {job.jobId() for job in self._jobs()}

    def work(self) -> Work:
        """All work since then. Spark forgets all but the last thousand stages."""
        stages = {stage for job in self._jobs() if job.jobId() not in self._before for stage in items(job.stageIds())}
        ran = [data for data in map(self._context.statusStore().lastStageAttempt, stages) if _has_run(data)]
        return Work(len(ran), sum(data.executorCpuTime() for data in ran) / 1e6)

    def _jobs(self) -> Iterator[Any]:
        self._context.listenerBus().waitUntilEmpty()
        return items(self._context.statusStore().jobsList(None))


def _has_run(stage: Any) -> bool:
    """Whether a stage ran. It is skipped if its rows are there already."""
    return str(stage.status()) == "COMPLETE"


def states(view: mrql.View) -> dict[str, int]:
    """The number of rows in a view's states: its groups, and what its joins keep of each input."""
    found = {}
    for state in view._view.states.stages:
        if state.groups is not None:
            found["groups"] = sum(run.rows or 0 for run in state.groups.runs)
        for (_, label), kept in state.inputs.items():
            if kept.table is not None:
                found[label.split("·")[0]] = sum(run.rows or 0 for run in kept.table.runs)
    return found
