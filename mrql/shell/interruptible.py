"""Evaluation on Spark that Ctrl-C can interrupt.

A thread that waits for Spark cannot react until Spark has answered: the connection on which it would cancel a job is
the one on which it waits. So the queries have a thread of their own, and the calling thread is free to be interrupted,
and to cancel the jobs of Spark.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from mrql.algebra.values.values import Value
from mrql.jobs.batch import SparkBatchJob
from mrql.runtime.files.quarantine import Quarantine
from mrql.translate.program import CompiledExpression, Program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


class InterruptibleBatchJob:
    """Evaluates on Spark in a thread of its own; a KeyboardInterrupt cancels the jobs that run, and is then raised."""

    def __init__(
        self, program: Program, start: Callable[[], SparkSession], quarantine: Quarantine | None = None
    ) -> None:
        self._spark: SparkSession | None = None
        self._thread = ThreadPoolExecutor(1, "queries")
        self._job = SparkBatchJob(program, lambda: self._started(start), quarantine)

    def answer(self, query: CompiledExpression) -> Value:
        return self._in_thread(lambda: self._job.answer(query))

    def write(self, query: CompiledExpression) -> None:
        self._in_thread(lambda: self._job.write(query))

    def close(self) -> None:
        """Frees the stored values, and ends the thread."""
        if self._spark is not None:
            self._in_thread(self._job.close)
        self._thread.shutdown()

    def _started(self, start: Callable[[], SparkSession]) -> SparkSession:
        self._spark = start()
        return self._spark

    def _in_thread(self, work: Callable[[], T]) -> T:
        future = self._thread.submit(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            self._end(future)
            raise

    def _end(self, future: Future[T]) -> None:
        """Waits until the work has ended, while every job of Spark is cancelled. Its result is dropped."""
        while not future.done():
            with contextlib.suppress(KeyboardInterrupt):  # it is being ended already
                if self._spark is not None:
                    self._spark.sparkContext.cancelAllJobs()
                wait([future], timeout=0.1)
