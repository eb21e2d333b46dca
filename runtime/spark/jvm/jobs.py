"""Jobs that compute rows and return how many there are."""

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
    """Computes the rows of a local checkpoint, all of them, and returns their number; in so many tasks at most."""
    return int(in_partitions(rdd, tasks).count())


def compute_all(spark: SparkSession, rdds: Sequence[Any]) -> list[int]:
    """Computes the rows of local checkpoints in one job, and returns the number of each."""
    return Job.started(spark, rdds).counts()


@contextmanager
def ending_with(spark: SparkSession) -> Iterator[None]:
    """A block whose jobs end with it: where it is interrupted, as by Ctrl-C, they would go on with what they write."""
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
"""A call of the JVM that is interrupted takes its connection with it, and the next one may be closed with it."""


def _cancel(context: SparkContext, tag: str) -> None:
    """Ends the jobs with a tag. What has interrupted them is to be heard of, not that they could not be ended."""
    for _ in range(CONNECTIONS_TO_TRY):
        with suppress(Py4JNetworkError):
            context.cancelJobsWithTag(tag)
            return


@attrs.frozen
class Job:
    """A job that computes the rows of local checkpoints, and counts them.

    A task reads the plans of everything that its stage computes, which takes longer than to compute a small run. So
    those with as many partitions lie beside each other: a task computes one partition of all of them.
    """

    of: int
    """How many local checkpoints there are."""
    order: tuple[int, ...] = ()
    """Which of them each count is of."""
    rdd: Any = None
    action: Any = None
    """Spark's handles of what is computed, and of the job; None where there is nothing to do."""

    @staticmethod
    def started(spark: SparkSession, rdds: Sequence[Any]) -> Job:
        """Starts to compute some local checkpoints; it is not waited for."""
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
            # Spark does this at the end of a job that it waits for: the rows forget what they were made from.
            self.rdd.doCheckpoint()
            # To iterate over Java's list would end with an error of Java's, each time.
            for i, number in enumerate(self.order):
                counts[number] += rows.get(i).getLong(0)
        return counts

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.action is None or bool(self.action.isDone())

    def cancel(self) -> None:
        """Gives up what is not computed yet."""
        if self.action is not None:
            self.action.cancel(True)


_COUNTING: WeakKeyDictionary[SparkContext, Callable[[Any], Any]] = WeakKeyDictionary()


def _counting(spark: SparkSession) -> Callable[[Any], Any]:
    """Makes of an RDD one in which Spark's own plan for `count(1)` counts the rows of each partition, each by itself.

    It looks at no columns, and so what it does is the same for all rows.
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
"""So many seconds after a job Spark may take to say what was observed in it."""


def observed_now(observation: Observation) -> int | None:
    """What was observed of rows that have been computed; None where nothing has asked for them as a whole.

    PySpark would wait for that without an end.
    """
    until = time.monotonic() + OBSERVED_WITHIN_SECONDS
    while not observation._jo.future().isCompleted():  # type: ignore[union-attr]
        if time.monotonic() > until:
            return None
        time.sleep(0.002)
    return int(next(iter(observation.get.values())))
