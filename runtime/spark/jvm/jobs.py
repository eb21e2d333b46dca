"""Jobs that compute rows and return their number."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import attrs
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import Observation, SparkSession

from mrql.runtime.spark.jvm.handles import handles, name_of, nothing
from mrql.runtime.spark.jvm.rdd_graph import made_likewise
from mrql.runtime.spark.jvm.rows import beside, in_partitions, rows


def compute(rdd: Any, tasks: int) -> int:
    """Computes all rows of a local checkpoint, in at most `tasks` tasks, and returns their number."""
    return int(in_partitions(rdd, tasks).count())


def compute_all(spark: SparkSession, rdds: Sequence[Any]) -> list[int]:
    """Computes the rows of local checkpoints in one job, and returns the number of each."""
    return Job.started(spark, rdds).counts()


@contextmanager
def ending_with(spark: SparkSession) -> Iterator[None]:
    """A block whose jobs are cancelled if it is interrupted, as by Ctrl-C: otherwise they would go on writing."""
    context, tag = spark.sparkContext, f"mrql-{uuid4()}"
    context.addJobTag(tag)
    try:
        yield
    except Exception:
        raise
    except BaseException:
        _cancel(context, tag)
        raise
    finally:
        context.removeJobTag(tag)


CONNECTIONS_TO_TRY = 3
"""How often cancelling is tried: an interrupted call of the JVM closes its connection, and the next one may be closed
with it."""


def _cancel(context: SparkContext, tag: str) -> None:
    """Cancels the jobs with a tag. A failure of the connection is not raised, so that the interruption itself is
    reported."""
    for _ in range(CONNECTIONS_TO_TRY):
        with suppress(Py4JNetworkError):
            context.cancelJobsWithTag(tag)
            return


@attrs.frozen
class Job:
    """A job that computes the rows of local checkpoints, and counts them.

    A task reads the plans of everything that its stage computes, which takes longer than computing a small run. So
    checkpoints with the same number of partitions are combined: a task computes one partition of all of them.
    """

    of: int
    """The number of local checkpoints."""
    order: tuple[int, ...] = ()
    """For each count, the position of its local checkpoint."""
    rdd: Any = None
    action: Any = None
    """Spark's handles of the RDD that is computed, and of the job; None if there is nothing to do."""

    @staticmethod
    def started(spark: SparkSession, rdds: Sequence[Any]) -> Job:
        """Starts to compute local checkpoints, without waiting."""
        counted = _counting(spark)
        by_size: dict[int, list[int]] = {}
        for number, rdd in enumerate(rdds):
            by_size.setdefault(rdd.getNumPartitions(), []).append(number)
        by_size.pop(0, None)
        if not by_size:
            return Job(len(rdds))
        parts = [beside(spark, [counted(rdds[i]) for i in numbers]) for numbers in by_size.values()]
        order = tuple(number for size, numbers in by_size.items() for _ in range(size) for number in numbers)
        rdd = reduce(lambda one, other: one.union(other), parts)
        return Job(len(rdds), order, rdd, rdd.toJavaRDD().collectAsync())

    def counts(self) -> list[int]:
        """Waits until all rows are computed, and returns the number of each."""
        counts = [0] * self.of
        if self.action is not None:
            rows = self.action.get()
            # Spark does this at the end of a job that it waits for: the lineage of the rows is cut.
            self.rdd.doCheckpoint()
            # Iterating over a Java list ends with a Java exception each time.
            for i, number in enumerate(self.order):
                counts[number] += rows.get(i).getLong(0)
        return counts

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.action is None or bool(self.action.isDone())

    def cancel(self) -> None:
        """Cancels what is not computed yet."""
        if self.action is not None:
            self.action.cancel(True)


_COUNTING: WeakKeyDictionary[SparkContext, Callable[[Any], Any]] = WeakKeyDictionary()


def _counting(spark: SparkSession) -> Callable[[Any], Any]:
    """A function that makes an RDD of the number of rows in each partition of another one, by Spark's own plan for
    `count(1)`.

    This plan reads no columns, and so is the same for all rows.
    """
    context = spark.sparkContext
    if context not in _COUNTING:
        empty = rows(spark, nothing(spark), spark._jsparkSession.emptyDataFrame().schema())
        plan = empty.groupBy().count()._jdf.queryExecution().executedPlan()
        while name_of(plan) != "ShuffleExchangeExec":
            plan = plan.children().head()
        made = made_likewise(handles(spark), plan.child().execute())
        assert made is not None
        _COUNTING[context] = lambda rdd: made([rdd])
    return _COUNTING[context]


OBSERVED_WITHIN_SECONDS = 5.0
"""How long Spark may take after a job to report an observation, in seconds."""


def observed_now(observation: Observation) -> int | None:
    """The value of an observation over rows that have been computed; None if it is not reported in time, as when they
    were never read as a whole.

    PySpark would wait for it forever.
    """
    until = time.monotonic() + OBSERVED_WITHIN_SECONDS
    while not observation._jo.future().isCompleted():  # type: ignore[union-attr]
        if time.monotonic() > until:
            return None
        time.sleep(0.002)
    return int(next(iter(observation.get.values())))
