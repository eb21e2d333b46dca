"""Whether Spark has ended by itself, and the error that says why.

Its Java process ends when it runs out of memory, and calls to it then fail with errors that say nothing.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from mrql.algebra.errors import EngineError
from mrql.runtime.engine.errors import StatesLost
from mrql.runtime.spark.session.cluster import is_cluster

OUT_OF_MEMORY = 52
"""The exit code of Spark's Java process when there was no memory left."""

ENDING_SECONDS = 60.0
"""How long to wait for a Java process that is about to end: if its memory is full, that may take a while."""

STOPPED_SECONDS = 5.0
"""How long to wait for a Java process that still answers although Spark in it has stopped: somebody may have stopped
only Spark."""

ASKED_AGAIN_SECONDS = 0.1

MORE_MEMORY = "give it more, with --memory 8g, say; a batch of fewer files takes less: --max-files N"

LESS_STACK = "a regular expression that repeats a group takes some for each time; a class, as `[a-z]*`, takes none"

_NO_MEMORY = re.compile(r"OutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|exit code 52\b|CANNOT_ACQUIRE_MEMORY")
_NO_STACK = re.compile("StackOverflowError")
_GONE = re.compile(r"Checkpoint block \S+ not found|CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND")
_LOST = re.compile("ExecutorLostFailure")


def is_running() -> bool:
    """Whether there is a Spark that answers and is not stopped."""
    context = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        return False
    try:
        return not context._jsc.sc().isStopped()
    except (Py4JError, ConnectionError):
        return False


@contextmanager
def unless_stopped() -> Iterator[None]:
    """A block that frees something. Spark's errors in it are ignored if Spark has ended: there is nothing left to
    free."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError):
        if is_running():
            raise


def text_of(error: BaseException) -> str:
    """The text of an error. One of Java's asks the Java process for it; if that has ended, the text is empty."""
    with suppress(Py4JError, ConnectionError):
        return str(error)
    return ""


def ended(text: str) -> EngineError | None:
    """The error for a failure by which Spark has ended, run out of memory or stack, or lost rows that it had kept; None
    for any other failure."""
    if _NO_MEMORY.search(text):
        return _no_memory()
    if _NO_STACK.search(text):
        return _no_stack()
    if _GONE.search(text) and not _has_executors():
        # Nothing is lost on one machine: a frame has been kept for longer than its rows.
        return EngineError("rows were read that are gone", "the changes of a batch can be read until the next batch")
    if _GONE.search(text) or _LOST.search(text):
        hint = "a stream with a --checkpoint goes back to its last commit by itself"
        return StatesLost("an executor of Spark was lost, and with it a part of the states", hint)
    if is_running():
        return None
    code = _exit_code()
    if code == OUT_OF_MEMORY:
        return _no_memory()
    if code is not None and code < 0:
        message = f"Spark's Java process was ended by signal {-code}"
        return EngineError(message, "the system does that where its memory is full" if code == -9 else None)
    if code is None:
        # A thread of Spark's own that gets no memory stops Spark, but leaves the process running.
        return EngineError("Spark has stopped", f"somebody has stopped it, or it has run out of memory: {MORE_MEMORY}")
    return EngineError("Spark has stopped", f"its Java process has ended with code {code}")


def _has_executors() -> bool:
    """Whether Spark also keeps rows in other processes, one of which may be lost."""
    context = SparkContext._active_spark_context
    return context is None or is_cluster(context.master)


def _no_memory() -> EngineError:
    return EngineError("Spark has run out of memory", MORE_MEMORY)


def _no_stack() -> EngineError:
    return EngineError("Spark has run out of stack", LESS_STACK)


def _exit_code() -> int | None:
    """The exit code of the Java process, if it was started from here and ends soon. Whether it is about to end is
    checked repeatedly, since that may begin after Spark in it has stopped."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    begun = time.monotonic()
    while time.monotonic() - begun < (ENDING_SECONDS if _is_ending() else STOPPED_SECONDS):
        with suppress(subprocess.TimeoutExpired):
            return int(process.wait(ASKED_AGAIN_SECONDS))
    return None


def _is_ending() -> bool:
    """Whether the Java process does not answer, or is shutting down."""
    gateway = SparkContext._gateway
    if gateway is None:
        return False
    try:
        return bool(gateway.jvm.org.apache.spark.util.ShutdownHookManager.inShutdown())
    except (Py4JError, ConnectionError):
        return True
